//! A run's results depend only on its settings and are plausible.

use super::*;
use crate::training::events::Trained;
use std::num::NonZeroUsize;

#[test]
fn the_same_settings_give_the_same_bytes() {
    for spec in kinds() {
        for optimizer in [Optimizer::Adam, Optimizer::Sgd] {
            let spec = Spec { optimizer, learning_rate: 0.01, ..spec.clone() };
            assert_eq!(unbroken(&spec), unbroken(&spec), "{spec:?}");
        }
    }
}

#[test]
fn threads_change_no_byte() {
    // Wide enough for our kernels to use several threads: 64·512 numbers are twice the minimum per thread.
    let wide = |arch, norm| Spec { batch_size: 64, steps: 4, ..small(arch, norm) };
    let recurrent = |norm| wide(Arch::lstm(64, Reads::Rows), norm);
    let mlp = |norm| wide(Arch::mlp(&[512]), norm);
    for spec in [mlp(Norm::Layer), mlp(Norm::Batch), recurrent(Norm::Layer), recurrent(Norm::Batch)] {
        let by = |threads| {
            layernorm_burn::set_threads(NonZeroUsize::new(threads));
            unbroken(&spec)
        };
        let alone = by(1);
        assert_eq!(by(2), alone, "{spec:?}");
        assert_eq!(by(0), alone, "{spec:?}");
    }
}

#[test]
fn each_setting_counts() {
    let usual = Spec { steps: 3, evaluations: 1, ..mlp(Norm::Layer) };
    let mut start = usual.start.clone();
    start.seed += 1;
    let others = [
        Spec { norm: Norm::Rms, ..usual.clone() },
        Spec { start, ..usual.clone() },
        Spec { optimizer: Optimizer::Sgd, ..usual.clone() },
        Spec { learning_rate: 2e-3, ..usual.clone() },
        Spec { final_rate: 0.5, ..usual.clone() },
        Spec { batch_size: 31, ..usual.clone() },
        Spec { train: 199, ..usual.clone() },
        Spec { validation: 49, ..usual.clone() },
        Spec { input_scale: 0.5, ..usual.clone() },
    ];
    let last = |spec: &Spec| Trained::read(&record_of(spec)).unwrap().last().unwrap().loss;
    let expected = last(&usual);
    for other in &others {
        assert_ne!(last(other), expected, "{other:?}");
    }
}

#[test]
fn the_loss_falls_and_digits_are_classified() {
    let spec = Spec { steps: 100, evaluations: 4, learning_rate: 3e-3, test: 100, ..mlp(Norm::Layer) };
    let trained = Trained::read(&record_of(&spec)).unwrap();
    let steps: Vec<usize> = trained.evaluations.iter().map(|evaluation| evaluation.step).collect();
    assert_eq!(steps, [0, 25, 50, 75, 100]);
    let (first, last) = (&trained.evaluations[0], &trained.evaluations[4]);
    // Guessing among ten classes: log 10 = 2.30, up to the differences of the first logits.
    assert!((first.loss.unwrap() - 10f64.ln()).abs() < 0.7, "{first:?}");
    assert_eq!((first.train_loss, first.train_accuracy), (None, None));
    assert!(last.loss < first.loss && last.train_loss < trained.evaluations[1].train_loss, "{trained:?}");
    // 200 images are enough for an accuracy of three in four; guessing gives one in ten.
    assert!(last.accuracy > Some(0.6) && last.train_accuracy > Some(0.9), "{last:?}");
    assert!(trained.test.as_ref().unwrap().accuracy > Some(0.6), "{:?}", trained.test);
    assert_eq!(trained.error(), Some(1.0 - last.accuracy.unwrap()));
}

#[test]
fn every_kind_of_network_learns() {
    for spec in kinds() {
        let steps = if matches!(spec.arch, Arch::Mlp { .. }) { 40 } else { 80 };
        let spec = Spec { steps, evaluations: 2, learning_rate: 1e-2, ..spec };
        let trained = Trained::read(&record_of(&spec)).unwrap();
        let [first, .., last] = &trained.evaluations[..] else { panic!("{trained:?}") };
        // Guessing gives a loss of 2.3 and an accuracy of 0.1.
        assert!(last.train_loss < Some(0.8 * first.loss.unwrap()), "{spec:?}: {first:?} {last:?}");
        assert!(last.train_accuracy > Some(0.3), "{spec:?}: {last:?}");
    }
}

#[test]
fn a_non_finite_loss_ends_the_run() {
    let spec = Spec { optimizer: Optimizer::Sgd, learning_rate: 1e12, steps: 50, ..mlp(Norm::None) };
    let place = Place::new(&spec);
    let outcome = place.finish();
    let (record, trained) = (place.record(), Trained::read(&place.record()).unwrap());
    assert!(record.finished);
    let step = trained.diverged.unwrap_or_else(|| panic!("{trained:?}"));
    assert!(step > 0 && outcome.steps == step + 1, "{step} {}", outcome.steps);
    assert_eq!(record.events.last().unwrap().name, "diverged");
    assert_eq!((trained.test.as_ref(), trained.error()), (None, Some(1.0)));
    assert!(row(&record).unwrap().diverged);
    assert_eq!(files(place.folder.path()), ["run.jsonl"]);
    for calls in 1..=step + 1 {
        let broken = Place::new(&spec);
        broken.stop_after(calls);
        broken.finish();
        assert_eq!(broken.bytes(), place.bytes(), "stopped after {calls}");
    }
}

#[test]
fn progress_rises_and_says_how_it_goes() {
    let place = Place::new(&mlp(Norm::Layer));
    let mut observer = StopsAfter { calls: usize::MAX, told: Vec::new() };
    let outcome = run(&place.spec, data(), &mut place.open(), &mut observer).unwrap();
    let done: Vec<f64> = observer.told.iter().map(|(done, _)| *done).collect();
    assert_eq!(done, (0..7).map(|step| f64::from(step) / 7.0).collect::<Vec<_>>());
    assert!(
        observer.told.iter().all(|(_, words)| words.contains("loss") && words.contains('%')),
        "{:?}",
        observer.told
    );
    assert_eq!(outcome.steps, 7);
    assert!(outcome.training_time.as_nanos() > 0);
}

#[test]
fn a_run_without_steps_is_evaluated_and_tested() {
    let record = record_of(&Spec { steps: 0, ..mlp(Norm::Layer) });
    let names: Vec<&str> = record.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names, record.finished), (vec!["evaluate", "test"], true));
}

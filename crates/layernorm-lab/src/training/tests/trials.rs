//! Trials: evaluations on modified test images.

use super::*;
use crate::data::Scaling;
use crate::training::evaluate::Preprocessor;
use crate::training::events::{Test, Trained};
use burn::tensor::Device;

fn trial(name: &str) -> Trial {
    Trial::plain(name)
}

fn tried(spec: &Spec) -> (Test, Vec<Test>) {
    let trained = Trained::read(&record_of(spec)).unwrap();
    let names: Vec<&String> = spec.trials.iter().map(|trial| &trial.name).collect();
    assert_eq!(trained.trials.iter().map(|test| &test.name).collect::<Vec<_>>(), names);
    (trained.test.unwrap(), trained.trials)
}

fn numbers(test: &Test) -> (Option<f64>, Option<f64>) {
    (test.loss, test.accuracy)
}

#[test]
fn a_plain_trial_is_the_test() {
    for spec in kinds() {
        // The one in between runs in training mode on a copy, so running statistics are unchanged.
        let between = Trial { as_in_training: true, batch: 20, ..trial("between") };
        let (test, trials) = tried(&Spec { trials: vec![trial("before"), between, trial("after")], ..spec.clone() });
        assert_eq!(test.name, "");
        assert_eq!(numbers(&trials[0]), numbers(&test), "{spec:?}");
        assert_eq!(numbers(&trials[2]), numbers(&test), "{spec:?}");
    }
}

#[test]
fn in_training_mode_with_single_images_batch_norm_fails_and_layer_norm_does_not() {
    let long = |spec: Spec| Spec { steps: 100, evaluations: 1, learning_rate: 3e-3, test: 100, ..spec };
    let one = Trial { as_in_training: true, batch: 1, ..trial("one") };
    for norm in [Norm::Batch, Norm::Layer] {
        let (test, trials) = tried(&Spec { trials: vec![one.clone()], ..long(mlp(norm)) });
        let (inference, training) = (test.accuracy.unwrap(), trials[0].accuracy.unwrap());
        assert!(inference > 0.6, "{norm}: {inference}");
        if norm == Norm::Batch {
            // Every image gives β and the same class; the most frequent one of the first 100 has 15 images.
            assert!(training <= 0.15, "{training}");
        } else {
            assert_eq!(training, inference);
            // Other batch sizes change the loss by rounding: a single row's product sums 196 terms in another order,
            // and losses are below 10.
            let apart = (test.loss.unwrap() - trials[0].loss.unwrap()).abs();
            assert!(apart < 10.0 * 250.0 / f64::from(1 << 24), "{apart}");
        }
    }
}

#[test]
fn layer_norm_is_robust_to_scale_and_no_norm_is_not() {
    let larger = Trial { scale: 8.0, ..trial("larger") };
    let without_bias = |norm| {
        let mut spec =
            Spec { steps: 60, evaluations: 1, learning_rate: 3e-3, trials: vec![larger.clone()], ..mlp(norm) };
        spec.start.epsilon = 0.0;
        tried(&spec)
    };
    let apart = |norm| {
        let (test, trials) = without_bias(norm);
        (test.loss.unwrap() - trials[0].loss.unwrap()).abs() / test.loss.unwrap()
    };
    // Layer norm removes the scale, except for the biases before it, which are small relative to the products.
    let (layer, none) = (apart(Norm::Layer), apart(Norm::None));
    assert!(layer < 0.2 && none > 0.5, "{layer} {none}");
}

#[test]
fn longer_images_work_with_recurrent_networks_and_are_rejected_by_others() {
    let longer = |rows| Trial { blank_rows: rows, ..trial("longer") };
    for norm in [Norm::Layer, Norm::Batch] {
        let (test, trials) = tried(&Spec { trials: vec![longer(0), longer(3)], ..lstm(norm) });
        assert_eq!(numbers(&trials[0]), numbers(&test), "{norm}");
        assert!(trials[1].loss.is_some() && trials[1].loss != test.loss, "{norm}: {:?}", trials[1]);
    }
    let twice = Trial { repeats: 1, ..trial("twice") };
    for spec in kinds().into_iter().filter(|spec| spec.arch.as_recurrent().is_none()) {
        let error = Place::new(&Spec { trials: vec![twice.clone()], ..spec.clone() }).go(1).unwrap_err();
        assert!(matches!(&error, Error::Run(what) if what.contains("expected no repeats")), "{error}");
        let error = Place::new(&Spec { trials: vec![longer(3)], ..spec.clone() }).go(1).unwrap_err();
        let expected = ["longer", "expected no blank rows", spec.arch.name(), "found 3"];
        assert!(matches!(&error, Error::Run(what) if expected.iter().all(|part| what.contains(part))), "{error}");
    }
}

#[test]
fn pixels_are_scaled_shifted_and_preceded_by_background() {
    let (digits, scaling) = (&data().test, Scaling::standard(&data().train));
    let preprocessor = Preprocessor { scaling: scaling.clone(), scale: 3.0, shift: -0.5, blank_rows: 2, repeats: 0 };
    let cases = preprocessor.gather(digits, &[7, 4], &Device::flex());
    assert_eq!((cases.images.dims(), &cases.classes[..]), ([2, 16, 14], &[digits.labels()[7], digits.labels()[4]][..]));
    let found: Vec<f32> = cases.images.into_data().try_to_vec().unwrap();
    let blank = vec![0; 2 * 14];
    let pixels = [&blank, digits.image(7), &blank, digits.image(4)].concat();
    let expected: Vec<f32> = pixels.iter().map(|&pixel| scaling.of(pixel) * 3.0 - 0.5).collect();
    assert_eq!(found, expected);
}

#[test]
fn images_are_read_again_after_their_blank_rows() {
    let (digits, scaling) = (&data().test, Scaling::standard(&data().train));
    let preprocessor = Preprocessor { scaling: scaling.clone(), scale: 1.0, shift: 0.0, blank_rows: 1, repeats: 1 };
    let cases = preprocessor.gather(digits, &[7, 4], &Device::flex());
    assert_eq!(cases.images.dims(), [2, 30, 14]);
    let found: Vec<f32> = cases.images.into_data().try_to_vec().unwrap();
    let blank = vec![0; 14];
    let [first, second] = [7, 4].map(|index| [&blank, digits.image(index)].concat().repeat(2));
    let expected: Vec<f32> = [first, second].concat().iter().map(|&pixel| scaling.of(pixel)).collect();
    assert_eq!(found, expected);
}

#[test]
fn shared_statistics_change_the_result_of_batch_norm_only() {
    let trials = vec![Trial { shared_statistics: true, ..trial("shared") }, Trial { repeats: 1, ..trial("twice") }];
    for (norm, differs) in [(Norm::Batch, true), (Norm::Layer, false)] {
        let (test, found) = tried(&Spec { trials: trials.clone(), ..lstm(norm) });
        assert_eq!(numbers(&found[0]) != numbers(&test), differs, "{norm}");
        assert!(found[1].loss.is_some() && found[1].loss != test.loss, "{norm}");
    }
}

#[test]
fn trials_scale_what_the_run_scales() {
    // Twice half is one: powers of two are exact.
    let half = |trial: Trial| Spec { input_scale: 0.5, steps: 0, trials: vec![trial], ..mlp(Norm::None) };
    let whole = Spec { steps: 0, ..mlp(Norm::None) };
    let (_, found) = tried(&half(Trial { scale: 2.0, ..trial("twice") }));
    let (expected, _) = tried(&whole);
    assert_eq!(numbers(&found[0]), numbers(&expected));
    let (_, shifted) = tried(&half(Trial { shift: 1.0, ..trial("shifted") }));
    assert_ne!(shifted[0].loss, expected.loss);
}

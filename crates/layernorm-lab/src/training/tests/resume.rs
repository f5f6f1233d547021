//! Runs that were stopped or killed end like uninterrupted ones.

use super::*;

/// State that must survive: Adam's moments, running statistics, the order of the images, sums since the last
/// evaluation.
fn specs() -> Vec<Spec> {
    let plain = [mlp(Norm::Batch), lstm(Norm::Batch), lstm(Norm::Layer)];
    let by = |spec: &Spec| {
        [Optimizer::Adam, Optimizer::Sgd].map(|optimizer| Spec { optimizer, learning_rate: 0.02, ..spec.clone() })
    };
    let probes = Probes {
        activations: 5,
        affine: true,
        correlation: 3,
        dynamics: true,
        geometry: 5,
        gradients: true,
        moments: true,
        shift: true,
        statistics: true,
        time: true,
        weights: true,
    };
    let probed =
        [mlp(Norm::Batch), lstm(Norm::Batch)].map(|spec| Spec { probes, trials: vec![Trial::plain("again")], ..spec });
    let falling = Spec { final_rate: 0.1, ..mlp(Norm::Layer) };
    plain.iter().flat_map(by).chain(probed).chain([falling]).collect()
}

#[test]
fn stopped_at_any_step_a_run_ends_as_an_unbroken_one() {
    for spec in specs() {
        let expected = unbroken(&spec);
        for calls in 1..=spec.steps {
            let place = Place::new(&spec);
            place.stop_after(calls);
            assert_eq!(files(place.folder.path()), ["run.checkpoint", "run.jsonl"]);
            // The first progress report comes before the first step.
            assert_eq!(place.finish().steps, spec.steps - (calls - 1), "it did not go on from there: {spec:?}");
            assert_eq!(place.bytes(), expected, "stopped after {calls}: {spec:?}");
            assert_eq!(files(place.folder.path()), ["run.jsonl"]);
        }
    }
}

#[test]
fn stopped_again_and_again_a_run_ends_as_an_unbroken_one() {
    for spec in specs() {
        let (expected, place) = (unbroken(&spec), Place::new(&spec));
        // A run that is stopped before its first step makes no progress and loses nothing.
        place.stop_after(1);
        place.stop_after(1);
        for calls in [2, 1, 3, 2, 2, 1] {
            place.stop_after(calls);
        }
        place.finish();
        assert_eq!(place.bytes(), expected, "{spec:?}");
    }
}

#[test]
fn over_many_epochs_too() {
    // Three steps per epoch, a little more than eight epochs.
    let spec = Spec { train: 100, steps: 25, evaluations: 4, ..mlp(Norm::Batch) };
    let expected = unbroken(&spec);
    for calls in [2, 4, 9] {
        let place = Place::new(&spec);
        while let Err(error) = place.go(calls) {
            assert!(matches!(error, Error::Stopped), "{error}");
        }
        assert_eq!(place.bytes(), expected, "stopped after every {calls}");
    }
}

#[test]
fn a_run_killed_after_its_last_checkpoint_takes_back_what_came_later() {
    let spec = mlp(Norm::Batch);
    let expected = unbroken(&spec);
    let place = Place::new(&spec);
    place.stop_after(2);
    let early = std::fs::read(place.checkpoint()).unwrap();
    place.stop_after(5);
    assert!(place.record().events.len() > 2);
    std::fs::write(place.checkpoint(), early).unwrap();
    assert_eq!(place.finish().steps, spec.steps - 1);
    assert_eq!(place.bytes(), expected);
}

#[test]
fn a_run_whose_records_are_shorter_than_its_checkpoint_says_starts_over() {
    let spec = mlp(Norm::Batch);
    let expected = unbroken(&spec);
    for share in [0.0, 0.3, 0.99] {
        let place = Place::new(&spec);
        place.stop_after(6);
        let bytes = place.bytes();
        let kept = (share * bytes.len() as f64) as usize;
        std::fs::write(place.records(), &bytes[..kept]).unwrap();
        assert_eq!(place.finish().steps, spec.steps);
        assert_eq!(place.bytes(), expected, "{kept} bytes kept");
    }
}

#[test]
fn a_run_killed_between_its_trials_and_its_test_ends_the_same() {
    let trials = ["one", "two"].map(Trial::plain).to_vec();
    let spec = Spec { trials, ..mlp(Norm::Batch) };
    let place = Place::new(&spec);
    place.stop_after(spec.steps);
    let (records, checkpoint) = (place.bytes(), std::fs::read(place.checkpoint()).unwrap());
    place.finish();
    let expected = place.bytes();
    for kept in records.len()..expected.len() {
        std::fs::write(place.records(), &expected[..kept]).unwrap();
        std::fs::write(place.checkpoint(), &checkpoint).unwrap();
        place.finish();
        assert_eq!(place.bytes(), expected, "killed at byte {kept}");
    }
}

#[test]
fn settings_of_any_number_are_known_again() {
    // Numbers with seventeen digits, as results of a computation.
    for rate in [0.0017406566388286637, 0.030566872532507974, 0.1 + 0.2, 1e-3 / 3.0] {
        let spec = Spec { learning_rate: rate, input_scale: rate.sqrt(), steps: 2, ..mlp(Norm::Layer) };
        let expected = unbroken(&spec);
        let place = Place::new(&spec);
        place.stop_after(2);
        assert_eq!(place.finish().steps, 1, "it did not go on: {rate}");
        assert_eq!(place.bytes(), expected, "{rate}");
        assert_eq!(serde_json::from_value::<Spec>(place.record().header.settings["spec"].clone()).unwrap(), spec);
    }
}

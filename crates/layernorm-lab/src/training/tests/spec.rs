//! Settings: which are valid, and when evaluations happen.

use super::*;

#[test]
fn settings_that_do_not_fit_say_what_was_expected_and_what_was_found() {
    let usual = mlp(Norm::Layer);
    let mut epsilon = usual.clone();
    epsilon.start.epsilon = -1.0;
    let no_batch = Trial { batch: 0, ..Trial::plain("none at a time") };
    let cases = [
        (Spec { learning_rate: f64::NAN, ..usual.clone() }, "learning rate: expected a number above 0, found NaN"),
        (Spec { learning_rate: 0.0, ..usual.clone() }, "learning rate: expected a number above 0, found 0"),
        (Spec { learning_rate: f64::INFINITY, ..usual.clone() }, "learning rate: expected a number above 0, found inf"),
        (Spec { final_rate: 1.5, ..usual.clone() }, "final rate: expected a fraction from 0 to 1, found 1.5"),
        (Spec { final_rate: f64::NAN, ..usual.clone() }, "final rate: expected a fraction from 0 to 1, found NaN"),
        (Spec { input_scale: f64::NAN, ..usual.clone() }, "input scale: expected a finite number, found NaN"),
        (Spec { batch_size: 0, ..usual.clone() }, "batch size: expected 1 to 200, found 0"),
        (Spec { batch_size: 201, ..usual.clone() }, "batch size: expected 1 to 200, found 201"),
        (Spec { train: 251, ..usual.clone() }, "at most 300 together, found 251 and 50"),
        (Spec { train: 0, ..usual.clone() }, "expected at least one of each and at most 300 together, found 0 and 50"),
        (
            Spec { validation: 0, ..usual.clone() },
            "expected at least one of each and at most 300 together, found 200 and 0",
        ),
        (Spec { train: usize::MAX, ..usual.clone() }, "at most 300 together, found 18446744073709551615 and 50"),
        (Spec { test: 101, ..usual.clone() }, "test images: expected at most 100, found 101"),
        (Spec { data: "mnist".into(), ..usual.clone() }, "data: expected mnist, found data-000000000000"),
        (
            Spec { trials: vec![no_batch], ..usual.clone() },
            "trial none at a time: expected batches of 1 or more, found 0",
        ),
        (
            Spec { norm: Norm::Instance, ..usual.clone() },
            "MLP with instance norm: instance norm needs several positions",
        ),
        (Spec { arch: Arch::mlp(&[0]), ..usual.clone() }, "hidden units: expected 1 or more, found 0"),
        (epsilon, "ε: expected a finite number, 0 or more, found -1"),
    ];
    for (spec, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        // A header cannot contain NaN, so the spec itself is tested here.
        let mut file = RunFile::open(folder.path(), Header::new("test", "run", json!({}))).unwrap();
        let error = run(&spec, data(), &mut file, &mut StopsAfter { calls: 1, told: Vec::new() }).unwrap_err();
        assert!(matches!(&error, Error::Run(what) if what.contains(expected)), "expected {expected:?}, found {error}");
        assert!(file.record().events.is_empty() && !file.record().finished);
    }
}

#[test]
fn as_many_images_as_there_are_can_be_used() {
    let spec = Spec { train: 250, validation: 50, test: 100, batch_size: 250, steps: 2, ..mlp(Norm::Layer) };
    assert_eq!(spec.steps_of_epoch(), 1);
    assert!(record_of(&spec).finished);
}

#[test]
fn without_test_images_there_is_no_test() {
    let record = record_of(&Spec { test: 0, steps: 1, ..mlp(Norm::Layer) });
    assert_eq!((record.named("test").count(), record.finished), (0, true));
}

#[test]
fn evaluations_happen_at_even_intervals_from_start_to_end() {
    let steps = |steps, evaluations| Spec { steps, evaluations, ..mlp(Norm::Layer) }.evaluation_steps();
    assert_eq!(steps(100, 10), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert_eq!(steps(7, 3), [0, 2, 4, 7]);
    assert_eq!(steps(3, 10), [0, 1, 2, 3]);
    assert_eq!(steps(5, 0), [0, 5]);
    assert_eq!(steps(0, 3), [0]);
    for (number, evaluations) in (0..40).flat_map(|number| (0..40).map(move |evaluations| (number, evaluations))) {
        let found = steps(number, evaluations);
        assert!(found.is_sorted() && found[0] == 0 && found[found.len() - 1] == number, "{found:?}");
    }
}

#[test]
fn the_learning_rate_is_constant_or_decays_linearly() {
    let rates = |final_rate| {
        let spec = Spec { learning_rate: 0.5, final_rate, steps: 4, ..mlp(Norm::Layer) };
        (0..=4).map(|step| spec.rate(step)).collect::<Vec<f64>>()
    };
    assert_eq!(rates(1.0), [0.5; 5]);
    assert_eq!(rates(0.0), [0.5, 0.375, 0.25, 0.125, 0.0]);
    assert_eq!(rates(0.5), [0.5, 0.4375, 0.375, 0.3125, 0.25]);
    let spec = Spec { learning_rate: 0.5, warm_up: 2, steps: 4, ..mlp(Norm::Layer) };
    assert_eq!([0, 1, 2, 3].map(|step| spec.rate(step)), [0.25, 0.5, 0.5, 0.5]);
}

#[test]
fn settings_are_read_as_they_were_written() {
    let new = Probes { dynamics: true, statistics: true, shift: true, ..Probes::default() };
    let probes = Probes { gradients: true, time: false, moments: true, correlation: 3, activations: 9, ..new };
    let trials = vec![Trial { scale: 0.1 + 0.2, shift: -1e-300, blank_rows: 3, repeats: 2, ..Trial::plain("a") }];
    for spec in kinds() {
        let stream = Some(Stream { phases: vec![vec![1, 2], vec![3]] });
        let spec = Spec { probes, trials: trials.clone(), learning_rate: 1.0 / 3.0, warm_up: 3, stream, ..spec };
        let words = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&words).unwrap(), spec);
    }
}

//! Streams and trials on the training images.

use super::*;
use crate::training::events::Trained;

fn read(spec: &Spec) -> Trained {
    Trained::read(&record_of(spec)).unwrap()
}

fn on_training(name: &str, as_in_training: bool) -> Trial {
    Trial { on_training_images: true, as_in_training, batch: 200, ..Trial::plain(name) }
}

#[test]
fn a_stream_is_predicted_in_inference_mode_before_it_is_learned() {
    let all = Stream { phases: vec![(0..10).collect()] };
    for norm in [Norm::Layer, Norm::Batch] {
        let untrained = Spec { steps: 0, trials: vec![on_training("a", false), on_training("b", true)], ..mlp(norm) };
        let [inference, training] = [0, 1].map(|trial| read(&untrained).trials[trial].loss.unwrap());
        let online = Spec { steps: 1, batch_size: 200, stream: Some(all.clone()), ..mlp(norm) };
        let evaluation = read(&online).evaluations[1].clone();
        // The same 200 images in another order: losses below 10 in f32.
        assert!((evaluation.train_loss.unwrap() - inference).abs() < 1e-5, "{norm}: {evaluation:?}, {inference}");
        assert_eq!((inference - training).abs() > 1e-3, norm == Norm::Batch, "{inference} {training}");
    }
}

#[test]
fn a_network_on_a_stream_sees_only_the_classes_of_the_phase() {
    let phases = Stream { phases: vec![vec![3], vec![8]] };
    let spec = Spec {
        steps: 40,
        evaluations: 8,
        batch_size: 1,
        stream: Some(phases),
        learning_rate: 0.01,
        ..mlp(Norm::Layer)
    };
    let seen: Vec<f64> = read(&spec).evaluations[1..].iter().map(|e| e.train_accuracy.unwrap()).collect();
    // One class is learned at once, and the change is a surprise.
    assert_eq!((seen[3], seen[7]), (1.0, 1.0), "{seen:?}");
    assert!(seen[4] < 0.9, "{seen:?}");
}

#[test]
fn a_stream_without_images_is_refused() {
    let spec = Spec { stream: Some(Stream { phases: vec![vec![1], vec![]] }), ..mlp(Norm::Layer) };
    let error = spec.check(data()).unwrap_err().to_string();
    assert_eq!(error, "phase 2: expected training images of the classes [], found none");
}

#[test]
fn trials_use_the_training_images_if_asked() {
    let spec =
        Spec { trials: vec![on_training("training", false), Trial::plain("test")], steps: 60, ..mlp(Norm::Layer) };
    let trained = read(&spec);
    let (training, test) = (trained.trials[0].loss.unwrap(), trained.trials[1].loss.unwrap());
    assert!(training < test, "{training} {test}");
    assert_eq!(trained.test.unwrap().loss, Some(test));
}

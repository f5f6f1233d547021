//! Records are read as they were written.

use super::*;
use crate::training::events::{Evaluate, Test, Trained, finite};

#[test]
fn a_row_is_what_the_record_says() {
    let spec = Spec { learning_rate: 2e-3, steps: 13, ..lstm(Norm::Rms) };
    let record = record_of(&spec);
    let last = record.named("evaluate").last().unwrap().clone();
    let row = row(&record).unwrap();
    assert_eq!((row.study.as_str(), row.model.as_str(), row.norm.as_str()), ("test", "LSTM", "rms"));
    assert_eq!((row.seed, row.lr, row.batch), (Some(5), Some(2e-3), Some(32)));
    // 200 images are six complete batches of 32.
    assert_eq!((row.epochs, row.diverged, row.file.as_str()), (Some(2), false, "runs/run.jsonl"));
    let found = [row.train_loss, row.val_loss, row.val_accuracy];
    let expected = ["train_loss", "loss", "accuracy"].map(|name| last[name].as_f64());
    assert!(found == expected && found.iter().all(Option::is_some), "{found:?} {expected:?}");
}

#[test]
fn a_record_of_something_else_has_no_row() {
    let header = Header::new("test", "run", json!({"rows": 3}));
    let record = Record { header, events: Vec::new(), finished: true };
    assert!(row(&record).is_none() && Trained::read(&record).is_none());
}

#[test]
fn an_unfinished_record_is_read_as_far_as_it_goes() {
    let place = Place::new(&mlp(Norm::Layer));
    place.stop_after(1);
    let trained = Trained::read(&place.record()).unwrap();
    assert_eq!((trained.spec, trained.evaluations.len()), (place.spec.clone(), 1));
    assert_eq!((trained.test, trained.diverged), (None, None));
    let header = place.record().header;
    let empty = Trained::read(&Record { header, events: Vec::new(), finished: false }).unwrap();
    assert_eq!((empty.last(), empty.error()), (None, None));
}

#[test]
fn the_training_loss_is_the_mean_of_the_batches_since_the_last_evaluation() {
    // With one evaluation per step, each loss is recorded separately; with one for all steps, their mean is.
    let spec = mlp(Norm::Batch);
    let losses = |evaluations| -> Vec<Evaluate> {
        Trained::read(&record_of(&Spec { evaluations, ..spec.clone() })).unwrap().evaluations
    };
    let (each, all) = (losses(7), losses(1));
    assert_eq!((each.len(), all.len()), (8, 2));
    let mean = |of: fn(&Evaluate) -> Option<f64>| each[1..].iter().map(|e| of(e).unwrap()).sum::<f64>() / 7.0;
    // Sums of seven numbers in f64.
    assert!((all[1].train_loss.unwrap() - mean(|e| e.train_loss)).abs() < 1e-14);
    assert!((all[1].train_accuracy.unwrap() - mean(|e| e.train_accuracy)).abs() < 1e-14);
    assert_eq!((all[1].loss, all[1].accuracy), (each[7].loss, each[7].accuracy));
}

#[test]
fn what_is_not_finite_is_written_as_null() {
    let test = Test { name: String::new(), loss: finite(f64::NAN), accuracy: finite(f64::INFINITY) };
    let written = serde_json::to_value(&test).unwrap();
    assert_eq!(written, json!({"name": "", "loss": null, "accuracy": null}));
    assert_eq!(serde_json::from_value::<Test>(written).unwrap(), test);
}

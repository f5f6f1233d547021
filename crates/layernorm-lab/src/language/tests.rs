use super::batches::batch;
use super::clip::clip;
use super::evaluate::{bits, loss, positions};
use super::*;
use crate::data::{Part, Text};
use crate::models::{CharacterNet, Norm};
use crate::records::{Header, RunFile};
use crate::studies::Error;
use crate::studies::tools::testing::Patience;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use events::{Positions, Trained};
use serde_json::json;
use std::path::Path;

/// A short text of few words.
fn text() -> Text {
    Text::new(&"the cat sat on the mat.\nthe rat ran.\n".repeat(100)).unwrap()
}

/// A small run.
fn small(cell: Cell, norm: Norm) -> Spec {
    let mut spec = Spec::new(cell, norm, 12, 3, &text().label());
    (spec.batch_size, spec.steps, spec.evaluations, spec.learning_rate) = (4, 9, 3, 0.02);
    (spec.sampling, spec.validation, spec.test) = (Sampling::Streams { segment: 20 }, 150, 160);
    (spec.positions, spec.sample) = (40, 30);
    spec
}

fn pieces() -> Spec {
    Spec { sampling: Sampling::Pieces { shortest: 5, longest: 20 }, ..small(Cell::Gru, Norm::Layer) }
}

/// Runs to the end, stopping after every `steps` steps; returns the records' bytes and the saved model's.
fn trained(spec: &Spec, folder: &Path, steps: usize) -> (Trained, [Vec<u8>; 2]) {
    let open = || RunFile::open(folder, Header::new("test", "run", json!({ "spec": spec }))).unwrap();
    let outcome = loop {
        match run(spec, &text(), &mut open(), &mut Patience(steps)) {
            Ok(outcome) => break outcome,
            Err(Error::Stopped) => assert!(open().path().with_extension("checkpoint").exists()),
            Err(error) => panic!("{error}"),
        }
    };
    let model = folder.join("model");
    LanguageModel::new(outcome, spec, text().vocabulary()).save(&model).unwrap();
    let bytes = [open().path(), &model].map(|path| std::fs::read(path).unwrap());
    (Trained::read(open().record()).unwrap(), bytes)
}

#[test]
fn an_interrupted_run_gives_the_same_bytes() {
    let two = Spec { layers: 2, ..small(Cell::Lstm, Norm::None) };
    for spec in [small(Cell::Lstm, Norm::Layer), two, small(Cell::Rnn, Norm::None), pieces()] {
        let of = |spec: &Spec, steps| trained(spec, tempfile::tempdir().unwrap().path(), steps);
        let (whole, again) = (of(&spec, usize::MAX), of(&spec, 2));
        let other = of(&Spec { clip: 0.01, ..spec.clone() }, usize::MAX);
        assert!(whole == again, "{spec:?}");
        assert!(whole.1 != other.1);
        let Trained { evaluations, test, sample, positions, diverged, .. } = whole.0;
        assert_eq!(evaluations.iter().map(|e| e.step).collect::<Vec<_>>(), [0, 3, 6, 9]);
        assert!(evaluations[0].train_bits.is_none() && evaluations[3].train_bits.unwrap() > 0.0);
        assert!(evaluations[3].bits.unwrap() < evaluations[0].bits.unwrap(), "{evaluations:?}");
        assert!(test.unwrap().bits.unwrap() < 4.0 && diverged.is_none());
        assert_eq!(sample.unwrap().text.chars().count(), 30);
        assert_eq!(positions.unwrap().ends, [8, 16, 32, 40]);
    }
}

#[test]
fn a_saved_model_writes_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let spec = small(Cell::Lstm, Norm::Layer);
    let (trained, _) = trained(&spec, folder.path(), usize::MAX);
    let model = LanguageModel::load(&folder.path().join("model")).unwrap();
    assert_eq!(model.spec(), &spec);
    let sample = trained.sample.unwrap();
    let again: String = model.write(&sample.prompt, 0.8, spec.start.seed).unwrap().take(30).collect();
    assert_eq!(again, sample.text);
    assert!(model.write("the Z", 0.8, 1).err().unwrap().contains("found 'Z'"));
    assert!(model.write("", f64::NAN, 1).is_err());
}

#[test]
fn streams_are_contiguous_and_pieces_have_their_lengths() {
    let (spec, text) = (small(Cell::Lstm, Norm::None), text());
    let train = text.part(Part::Train);
    let segments = spec.steps_of_epoch(train.len());
    let mut restarts = 0;
    for step in 0..2 * segments {
        let [now, next] = [step, step + 1].map(|step| batch(&spec, train, step));
        assert_eq!((now.shape, now.targets[..19].to_vec()), ([4, 20], now.inputs[1..20].to_vec()));
        if next.continues {
            let ends = |stream: usize| now.targets[20 * stream + 19];
            assert!((0..4).all(|stream| next.inputs[20 * stream] == ends(stream)));
        }
        restarts += usize::from(!next.continues);
    }
    assert_eq!(restarts, 2);
    let batch = batch(&pieces(), train, 7);
    let lengths = batch.lengths.clone().unwrap();
    assert!(lengths.iter().all(|length| (5..=20).contains(length)) && batch.count() == lengths.iter().sum::<usize>());
}

#[test]
fn padding_does_not_count() {
    let (spec, text, device) = (pieces(), text(), Device::flex());
    let net = CharacterNet::new(spec.size(text.vocabulary().len()), spec.norm, &spec.start, &device).unwrap();
    let of = |batch: &super::batches::Batch| {
        let forward = net.forward(&batch.inputs, batch.shape, [None, None], batch.lengths.as_deref(), &device);
        loss(forward.0, batch).into_scalar::<f32>()
    };
    let mut batch = batch(&spec, text.part(Part::Train), 0);
    let whole = of(&batch);
    for (sequence, &length) in batch.lengths.clone().unwrap().iter().enumerate() {
        let padding = 20 * sequence + length..20 * (sequence + 1);
        batch.inputs[padding.clone()].fill(0);
        batch.targets[padding].fill(1);
    }
    assert_eq!(of(&batch), whole);
}

#[test]
fn the_gradient_is_clipped_as_a_whole() {
    let (spec, text, device) = (small(Cell::Gru, Norm::None), text(), Device::flex().autodiff());
    let net = CharacterNet::new(spec.size(text.vocabulary().len()), spec.norm, &spec.start, &device).unwrap();
    let batch = batch(&spec, text.part(Part::Train), 0);
    let (logits, _) = net.forward(&batch.inputs, batch.shape, [None, None], None, &device);
    let mut gradients = GradientsParams::from_grads(loss(logits, &batch).backward(), &net);
    let norm = clip(&net, &mut gradients, f64::INFINITY);
    assert_eq!(clip(&net, &mut gradients, norm * 0.25), norm);
    // The norm of about 10³ scaled f32 numbers.
    assert!((clip(&net, &mut gradients, norm) - norm * 0.25).abs() < 1e-5 * norm);
}

#[test]
fn bits_of_a_network_without_knowledge_are_those_of_guessing() {
    let (spec, text, device) = (small(Cell::Lstm, Norm::None), text(), Device::flex());
    let size = spec.size(text.vocabulary().len());
    let start = crate::models::Start { weight_scale: 0.0, ..spec.start };
    let net = CharacterNet::new(size, spec.norm, &start, &device).unwrap().valid();
    let guessing = (text.vocabulary().len() as f64).log2();
    let test = text.part(Part::Test);
    // The biases of the logits are not 0.
    assert!((bits(&net, test, &device).unwrap() - guessing).abs() < 0.2);
    let found = positions(&net, test, 40, &device);
    assert!((found.of_length(40).unwrap() - guessing).abs() < 0.2, "{found:?}");
}

#[test]
fn ranges_of_positions_are_weighted_by_their_lengths() {
    let found = Positions { ends: vec![8, 16, 32], bits: vec![Some(4.0), Some(2.0), Some(1.0)], sequences: 1 };
    assert_eq!((found.of_length(8), found.of_length(16), found.of_length(32)), (Some(4.0), Some(3.0), Some(2.0)));
    assert_eq!((found.between(8, 32), found.between(16, 32)), (Some(4.0 / 3.0), Some(1.0)));
    assert_eq!((found.between(0, 20), found.between(9, 32), found.between(16, 16)), (None, None, None));
}

#[test]
fn divergence_ends_a_run_and_bad_settings_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let wild = Spec { learning_rate: 1e38, clip: 1e30, ..small(Cell::Rnn, Norm::None) };
    let (found, _) = trained(&wild, folder.path(), usize::MAX);
    assert!(found.diverged.is_some() && found.test.is_none(), "{found:?}");
    let good = small(Cell::Lstm, Norm::Layer);
    for (spec, words) in [
        (Spec { norm: Norm::Batch, ..good.clone() }, "norm: expected none or layer for a language model, found batch"),
        (Spec { hidden: 0, ..good.clone() }, "hidden units: expected 1 or more"),
        (Spec { layers: 0, ..good.clone() }, "layers: expected 1 to"),
        (Spec { clip: 0.0, ..good.clone() }, "clip: expected a number above 0"),
        (Spec { learning_rate: f64::NAN, ..good.clone() }, "learning rate: expected a number above 0"),
        (Spec { batch_size: 10_000, ..good.clone() }, "batch size: expected 1 to"),
        (Spec { validation: 10_000, ..good.clone() }, "validation characters: expected 2 to"),
        (Spec { positions: 5_000, ..good.clone() }, "test characters: expected 2 to"),
        (Spec { text: "other".to_owned(), ..good.clone() }, "text: expected other, found text-"),
        (Spec { sampling: Sampling::Streams { segment: 0 }, ..good.clone() }, "segment: expected 1 to"),
        (
            Spec { sampling: Sampling::Pieces { shortest: 9, longest: 4 }, ..good.clone() },
            "shortest piece: expected 1 to 4",
        ),
    ] {
        let Err(Error::Run(error)) = spec.check(&text()) else { panic!("{spec:?}") };
        assert!(error.starts_with(words), "{error}");
    }
}

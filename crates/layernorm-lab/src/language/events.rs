//! Events of a run, and how they are read. Non-finite numbers are written as `null`.

use super::Spec;
use crate::records::Record;
use crate::report::RunRow;
use crate::training::events::Diverged;
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;

/// `evaluate`: bits per character at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluate {
    /// Number of completed steps.
    pub step: usize,
    /// Mean over the training steps since the last evaluation; `None` before the first step.
    pub train_bits: Option<f64>,
    /// In the validation text.
    pub bits: Option<f64>,
}

/// `test`: bits per character in the test text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Bits per character.
    pub bits: Option<f64>,
}

/// `positions`: bits per character by position in sequences that start from a state of zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Positions {
    /// The last position of each range, counted from 1; the first range starts at 1.
    pub ends: Vec<usize>,
    /// Bits per character in each range.
    pub bits: Vec<Option<f64>>,
    /// Number of sequences.
    pub sequences: usize,
}

impl Positions {
    /// Bits per character of whole sequences with this length, which must be one of the ends.
    pub fn of_length(&self, length: usize) -> Option<f64> {
        self.between(0, length)
    }

    /// Bits per character at the positions after `from` up to `to`, both among the ends or 0.
    pub fn between(&self, from: usize, to: usize) -> Option<f64> {
        if to <= from || !self.ends.contains(&to) || (from > 0 && !self.ends.contains(&from)) {
            return None;
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).zip(&self.bits).filter(|((start, end), _)| *start >= from && **end <= to);
        let sum: Option<f64> = ranges.map(|((start, end), bits)| Some((end - start) as f64 * (*bits)?)).sum();
        Some(sum? / (to - from) as f64)
    }
}

/// `sample`: generated text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The text that the network read first.
    pub prompt: String,
    /// What it generated.
    pub text: String,
}

/// A run read from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The specification.
    pub spec: Spec,
    /// Its evaluations, in order.
    pub evaluations: Vec<Evaluate>,
    /// Bits per character by position, if asked for.
    pub positions: Option<Positions>,
    /// The test result, if the run got that far.
    pub test: Option<Test>,
    /// Generated text.
    pub sample: Option<Sample>,
    /// The step at which it diverged, if it did.
    pub diverged: Option<usize>,
}

impl Trained {
    /// Reads a record; `None` if it is not that of a language model.
    pub fn read(record: &Record) -> Option<Trained> {
        let spec = Spec::deserialize(&record.header.settings["spec"]).ok()?;
        Some(Trained {
            spec,
            evaluations: record.named("evaluate").filter_map(|data| Evaluate::deserialize(data).ok()).collect(),
            positions: last(record, "positions"),
            test: last(record, "test"),
            sample: last(record, "sample"),
            diverged: last(record, "diverged").map(|diverged: Diverged| diverged.step),
        })
    }

    /// The last evaluation.
    pub fn last(&self) -> Option<&Evaluate> {
        self.evaluations.last()
    }
}

/// The last event with this name.
fn last<T: for<'a> Deserialize<'a>>(record: &Record, name: &str) -> Option<T> {
    record.named(name).filter_map(|data| T::deserialize(data).ok()).last()
}

/// A run's row in the report's table; `None` for other runs. Losses there are in nats.
pub fn row(record: &Record) -> Option<RunRow> {
    let trained = Trained::read(record)?;
    let (spec, last) = (&trained.spec, trained.last());
    let nats = |bits: Option<f64>| bits.map(|bits| bits * LN_2);
    Some(RunRow {
        study: record.header.study.clone(),
        model: format!("{} language model", spec.cell.name()),
        norm: spec.norm.name().to_owned(),
        seed: Some(spec.start.seed),
        lr: Some(spec.learning_rate),
        batch: Some(spec.batch_size),
        epochs: None,
        train_loss: last.and_then(|last| nats(last.train_bits)),
        val_loss: last.and_then(|last| nats(last.bits)),
        val_accuracy: None,
        diverged: trained.diverged.is_some(),
        file: format!("runs/{}.jsonl", record.header.run),
    })
}

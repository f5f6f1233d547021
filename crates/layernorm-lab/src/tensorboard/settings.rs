//! The settings of a run: its row in the HParams table, and all of them as text.

use super::protobuf::Message;
use super::values::Values;
use crate::models::{Arch, Start};
use crate::records::Header;
use crate::training::Optimizer;
use crate::{draw, language, training};
use serde_json::Value;

/// A column of the HParams table.
enum Column {
    Number(f64),
    Text(String),
}

impl From<usize> for Column {
    fn from(number: usize) -> Column {
        Column::Number(number as f64)
    }
}

impl From<f64> for Column {
    fn from(number: f64) -> Column {
        Column::Number(number)
    }
}

impl From<&str> for Column {
    fn from(text: &str) -> Column {
        Column::Text(text.to_owned())
    }
}

impl From<String> for Column {
    fn from(text: String) -> Column {
        Column::Text(text)
    }
}

/// The columns of a run, by name.
pub(super) struct Columns(Vec<(&'static str, Column)>);

impl Columns {
    fn add(&mut self, name: &'static str, value: impl Into<Column>) {
        self.0.push((name, value.into()));
    }

    /// What all runs have in common.
    fn new(network: impl Into<Column>, units: impl Into<Column>, norm: &str, seed: u64) -> Columns {
        let mut columns = Columns(Vec::new());
        columns.add("network", network);
        columns.add("units", units);
        columns.add("norm", norm);
        columns.add("seed", seed as f64);
        columns
    }

    fn training(&mut self, learning_rate: f64, batch_size: usize, steps: usize) {
        self.add("learning_rate", learning_rate);
        self.add("batch_size", batch_size);
        self.add("steps", steps);
    }

    fn start(&mut self, start: &Start) {
        self.add("weight_scale", start.weight_scale);
        self.add("epsilon", start.epsilon);
    }

    pub(super) fn of_training(spec: &training::Spec) -> Columns {
        let mut columns = Columns::new(spec.arch.name(), units(&spec.arch), spec.norm.name(), spec.start.seed);
        columns.training(spec.learning_rate, spec.batch_size, spec.steps);
        columns.add("optimizer", if spec.optimizer == Optimizer::Adam { "Adam" } else { "SGD" });
        columns.start(&spec.start);
        columns
    }

    pub(super) fn of_language(spec: &language::Spec) -> Columns {
        let (network, units) = (format!("{} language model", spec.cell.name()), layers(spec.hidden, spec.layers));
        let mut columns = Columns::new(network, units, spec.norm.name(), spec.start.seed);
        columns.training(spec.learning_rate, spec.batch_size, spec.steps);
        columns.start(&spec.start);
        columns
    }

    pub(super) fn of_draw(spec: &draw::Spec) -> Columns {
        let norm = if spec.norms == draw::Norms::None { "none" } else { "layer" };
        let mut columns = Columns::new("DRAW", layers(spec.hidden, 1), norm, spec.seed);
        columns.training(spec.learning_rate, spec.batch_size, spec.steps);
        columns.add("normalized", spec.norms.name());
        columns.add("glimpses", spec.glimpses);
        columns
    }

    /// `SessionStartInfo`, the row without results.
    fn message(&self) -> Message {
        let entry = |map: Message, (name, column): &(&str, Column)| {
            let value = match column {
                Column::Number(number) => Message::default().double(2, *number),
                Column::Text(text) => Message::default().bytes(3, text),
            };
            map.bytes(1, Message::default().bytes(1, name).bytes(2, value))
        };
        Message::default().bytes(3, self.0.iter().fold(Message::default(), entry))
    }
}

/// Numbers of units of equal layers.
fn layers(units: usize, layers: usize) -> String {
    vec![units.to_string(); layers.clamp(1, 16)].join("-")
}

fn units(arch: &Arch) -> String {
    let join = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    match arch {
        Arch::Mlp { hidden, .. } => join(hidden),
        Arch::Rnn(size) | Arch::Gru(size) | Arch::Lstm(size) => layers(size.hidden, size.layers),
        Arch::Cnn { channels } => join(channels),
        Arch::Transformer { width, blocks, .. } => layers(*width, *blocks),
    }
}

/// The first values of a run.
pub(super) fn settings(header: &Header, mut columns: Columns) -> Values {
    columns.add("study", &*header.study);
    if let Some(Value::String(case)) = header.settings.get("case") {
        columns.add("case", &**case);
    }
    let mut values = Values::default();
    // What TensorBoard cannot show is not worth an error.
    values.text("settings", &serde_json::to_string_pretty(&header.settings).unwrap_or_default());
    values.hparams("_hparams_/session_start_info", &columns.message());
    values
}

/// The last values of a run: whether it ended without diverging.
pub(super) fn end(diverged: bool) -> Values {
    const SUCCESS: u64 = 1;
    const FAILURE: u64 = 2;
    let mut values = Values::default();
    let status = Message::default().int(1, if diverged { FAILURE } else { SUCCESS });
    values.hparams("_hparams_/session_end_info", &Message::default().bytes(4, status));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What TensorBoard 2.21 and protobuf 7.36 write for the same row, the order of the columns aside.
    #[test]
    fn rows_are_those_of_tensorboard() {
        let columns = Columns(vec![("n", "a".into()), ("lr", 0.5.into())]);
        let mut values = Values::default();
        values.hparams("_hparams_/session_start_info", &columns.message());
        let expected =
            b"\nR\n\x1c_hparams_/session_start_infoB\x06\x08\x01\x12\x02\x12\x00J*\n(\n\x07hparams\x12\x1d\x1a\
            \x1b\n\x08\n\x01n\x12\x03\x1a\x01a\n\x0f\n\x02lr\x12\t\x11\x00\x00\x00\x00\x00\x00\xe0?";
        assert_eq!(values.summary().unwrap(), expected);
        let ending = end(false).summary().unwrap();
        assert!(ending.ends_with(b"\n\x0f\n\x07hparams\x12\x04\"\x02\x08\x01"), "{}", ending.escape_ascii());
    }
}

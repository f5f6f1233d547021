//! The formats, one table each. Every name, order and orientation is that of the library's own tensors.

mod exchange;
mod own;
mod tensorflow;
mod torch;

use super::table::{Cell, Coupling, Mark, Naming, Rule, Spec};
use crate::variant::Gate::{Candidate as G, Forget as F, Input as I, Output as O, Reset as R, Update as Z};
use crate::variant::{Gate, Kind, Reset};

pub(super) use exchange::{ONNX, PAPER};
pub(super) use own::NATIVE;
pub(super) use tensorflow::{CONTRIB, DREAMER, KERAS, TFLITE, THEANO};
pub(super) use torch::{DRAW, DREAMER_TORCH, FASTRNNS, HASTE, TORCH, TORCHAUDIO};

const IFGO: &[Gate] = &[I, F, G, O];
const IGFO: &[Gate] = &[I, G, F, O];
const IFOG: &[Gate] = &[I, F, O, G];
const RZN: &[Gate] = &[R, Z, G];
const ZRN: &[Gate] = &[Z, R, G];
const DREAMER_GATES: &[Gate] = &[R, G, Z];
const ONE: &[Gate] = &[G];
const AFTER: &[Reset] = &[Reset::Product];
const ANY: &[Reset] = &[Reset::Product, Reset::State];

/// A single cell, without further names.
const BARE: Naming =
    Naming { behind: false, separators: "./", one: "", many: None, both: None, directions: ["", ""], inner: "" };

const fn lstm(like: &'static str, gates: &'static [Gate], rules: &'static [Rule]) -> Cell {
    Cell { kind: Kind::Lstm, like, resets: &[], gates, rules }
}

const fn gru(like: &'static str, gates: &'static [Gate], resets: &'static [Reset], rules: &'static [Rule]) -> Cell {
    Cell { kind: Kind::Gru, like, resets, gates, rules }
}

const fn rnn(like: &'static str, rules: &'static [Rule]) -> Cell {
    Cell { kind: Kind::Rnn, like, resets: &[], gates: ONE, rules }
}

const fn spec(name: &'static str, naming: Naming, marks: &'static [&'static [Mark]], cells: &'static [Cell]) -> Spec {
    Spec { name, naming, stacked: false, coupling: Coupling::Never, clips: false, ignored: &[], marks, cells }
}

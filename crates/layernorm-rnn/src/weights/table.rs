//! Formats of other libraries as data: the vocabulary in which `formats` describes each of them.
//!
//! A tensor is a matrix (or its transpose) of blocks. Its rows are those of gates, in the library's order.
//! Concatenations on `[x, h]`, or stacks such as `[2, G·H]`, are parts side by side:
//!
//! ```text
//! weight_ih [4H, I]      rows of i, f, g, o          one part, W
//! kernel    [I + H, 4H]  the transpose of that       two parts side by side, W and U
//! gamma     [2, 4H]      also transposed             two parts side by side, γ of LNx and γ of LNh
//! B         [D, 8H]      for each direction          two parts stacked vertically, bx and bh
//! ```

use crate::params::Slot;
use crate::variant::{Gate, Kind, Reset};

/// A format: how cells are named, and the tensors of a cell of each kind.
pub(super) struct Spec {
    pub name: &'static str,
    pub naming: Naming,
    /// Whether directions are an axis of the tensors, `[D, …]`, instead of separate tensors.
    pub stacked: bool,
    pub coupling: Coupling,
    /// Whether the library can clip the cell and the projection. A file does not say at which value.
    pub clips: bool,
    /// Tensors that may be present but are not read.
    pub ignored: &'static [&'static str],
    /// A file has this format if it has all the names of one of these.
    pub marks: &'static [&'static [Mark]],
    pub cells: &'static [Cell],
}

/// How the tensors of a cell are named: by its place (`layers.0.cell.`) and the parameter's name, in this order
/// unless `behind`. In a file, places are found by the name of a cell's first tensor; the ones here are used for
/// writing. `{l}` stands for the layer, `{d}` for the direction, `{kind}` for the kind of cell, `{class}` for its
/// class in Keras.
pub(super) struct Naming {
    pub behind: bool,
    /// Characters that a place can end with.
    pub separators: &'static str,
    /// Place in a network of one layer.
    pub one: &'static str,
    /// Place in a network of several layers.
    pub many: Option<&'static str>,
    /// Place in a bidirectional network; of several layers if it contains `{l}`.
    pub both: Option<&'static str>,
    /// What distinguishes the directions.
    pub directions: [&'static str; 2],
    /// A place that ends with this is not that of a cell.
    pub inner: &'static str,
}

/// How a format represents cells whose input gate is coupled to the forget gate.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Coupling {
    /// Not at all.
    Never,
    /// As here: there is no input gate.
    Own,
    /// There is no input gate, and therefore no tensor of this name.
    Without(&'static str),
    /// f = 1 − i: its input gate is our forget gate with the sign flipped, and its tensors for f are not read.
    ByInput,
}

/// A name that identifies a format: its ending, and the tensor's rank, or 0 for any.
pub(super) struct Mark(pub &'static str, pub usize);

/// The tensors of a cell. Places are found by the first one, which holds W.
pub(super) struct Cell {
    pub kind: Kind,
    /// Named variant that the library computes.
    pub like: &'static str,
    /// What the reset gate may multiply.
    pub resets: &'static [Reset],
    /// Order of gates in the library.
    pub gates: &'static [Gate],
    pub rules: &'static [Rule],
}

/// A tensor of a cell.
pub(super) struct Rule {
    pub name: &'static str,
    pub parts: &'static [Part],
    pub gates: Gates,
    pub transposed: bool,
    /// Whether parts are stacked vertically; otherwise side by side.
    pub below: bool,
    pub when: When,
}

/// Gates for which a tensor has rows.
#[derive(Clone, Copy)]
pub(super) enum Gates {
    /// All that the parameter has.
    All,
    /// These.
    Only(&'static [Gate]),
    /// The parameter is used as it is, whatever its rows are.
    Whole,
}

/// Which cells have a tensor, in addition to having its parameters.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    Always,
    /// GRUs whose reset gate multiplies the recurrent product.
    ResetProduct,
    /// Other cells.
    ResetElse,
}

/// What a part of a tensor is here: the first of these parameters that the network has, if it means the same; or the
/// sum of all of them.
pub(super) struct Part {
    pub slots: &'static [Slot],
    pub sum: bool,
}

pub(super) const fn rule(name: &'static str, parts: &'static [Part]) -> Rule {
    Rule { name, parts, gates: Gates::All, transposed: false, below: false, when: When::Always }
}

impl Rule {
    pub const fn only(self, gates: &'static [Gate]) -> Rule {
        Rule { gates: Gates::Only(gates), ..self }
    }
    pub const fn whole(self) -> Rule {
        Rule { gates: Gates::Whole, ..self }
    }
    pub const fn transposed(self) -> Rule {
        Rule { transposed: true, ..self }
    }
    pub const fn below(self) -> Rule {
        Rule { below: true, ..self }
    }
    pub const fn when(self, when: When) -> Rule {
        Rule { when, ..self }
    }

    /// Returns whether it concerns only these parameters.
    pub fn is_of(&self, slots: &[Slot]) -> bool {
        self.parts.iter().all(|part| part.slots.iter().all(|slot| slots.contains(slot)))
    }
}

const fn part(slots: &'static [Slot]) -> Part {
    Part { slots, sum: false }
}

pub(super) const W: Part = part(&[Slot::InputWeight]);
pub(super) const U: Part = part(&[Slot::RecurrentWeight]);
/// The bias of the input's product.
pub(super) const BX: Part = part(&[Slot::InputBias, Slot::Bias]);
/// The bias of the recurrent product.
pub(super) const BH: Part = part(&[Slot::RecurrentBias, Slot::Bias, Slot::InputBias]);
/// The only bias.
pub(super) const B: Part = Part { slots: &[Slot::Bias, Slot::InputBias, Slot::RecurrentBias], sum: true };
pub(super) const INPUT_BIAS: Part = part(&[Slot::InputBias]);
pub(super) const INPUT_GAIN: Part = part(&[Slot::InputNormGain]);
pub(super) const INPUT_SHIFT: Part = part(&[Slot::InputNormBias]);
pub(super) const RECURRENT_GAIN: Part = part(&[Slot::RecurrentNormGain]);
pub(super) const RECURRENT_SHIFT: Part = part(&[Slot::RecurrentNormBias]);
pub(super) const SUM_GAIN: Part = part(&[Slot::SumNormGain]);
pub(super) const SUM_SHIFT: Part = part(&[Slot::SumNormBias]);
pub(super) const CELL_GAIN: Part = part(&[Slot::CellNormGain]);
pub(super) const CELL_SHIFT: Part = part(&[Slot::CellNormBias]);
pub(super) const PEEPHOLE: Part = part(&[Slot::Peephole]);
pub(super) const PROJECTION: Part = part(&[Slot::Projection]);
pub(super) const PROJECTION_BIAS: Part = part(&[Slot::ProjectionBias]);
pub(super) const RAW_RECURRENT_BIAS: Part = part(&[Slot::RecurrentBias]);
pub(super) const RAW_BIAS: Part = part(&[Slot::Bias]);

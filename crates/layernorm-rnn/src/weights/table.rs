//! What a file of another library looks like, as data: the words in which `formats.rs` describes each of them.
//!
//! A tensor there is a matrix (or its transpose) of blocks. Its rows are those of gates, in the library's order; what is
//! concatenated on `[x, h]`, or stacked as `[2, G·H]`, are parts side by side:
//!
//! ```text
//! weight_ih [4H, I]      rows of i, f, g, o          one part, W
//! kernel    [I + H, 4H]  the transpose of that       two parts beside each other, W and U
//! gamma     [2, 4H]      the transpose too           two parts beside each other, γ of LNx and γ of LNh
//! B         [D, 8H]      for each direction          two parts below each other, bx and bh
//! ```

use crate::params::Slot;
use crate::variant::{Gate, Kind, Reset};

/// A format: how cells are called, and the tensors of a cell of each kind.
pub(super) struct Spec {
    pub name: &'static str,
    pub naming: Naming,
    /// Whether directions are an axis of the tensors, `[D, …]`, and not tensors of their own.
    pub stacked: bool,
    pub coupling: Coupling,
    /// Whether the library can clip the cell and the projection. A file does not say at what.
    pub clips: bool,
    /// Tensors that may be there and are not read.
    pub ignored: &'static [&'static str],
    /// A file is of this format if it has all the names of one of these.
    pub marks: &'static [&'static [Mark]],
    pub cells: &'static [Cell],
}

/// How the tensors of a cell are called: its place (`layers.0.cell.`) and the parameter's name, in this order unless
/// `behind`. In a file, places are found by the name of a cell's first tensor; these are the ones that are written.
/// `{l}` stands for the layer, `{d}` for the direction, `{kind}` for the kind of cell, `{class}` for its class in Keras.
pub(super) struct Naming {
    pub behind: bool,
    /// What a place ends with.
    pub separators: &'static str,
    /// One layer.
    pub one: &'static str,
    /// Several layers.
    pub many: Option<&'static str>,
    /// Both directions; several layers if it says `{l}`.
    pub both: Option<&'static str>,
    /// What tells the directions apart.
    pub directions: [&'static str; 2],
    /// A place that ends with this is not that of a cell.
    pub inner: &'static str,
}

/// How a format has cells whose input gate is coupled to the forget gate.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Coupling {
    /// Not at all.
    Never,
    /// As here: there is no input gate.
    Own,
    /// There is no input gate, and so not this tensor.
    Without(&'static str),
    /// f = 1 − i: its input gate is our forget gate with the sign turned, and what is there for f is not read.
    ByInput,
}

/// A name that tells a format: how it ends, and the tensor's rank, or 0 for any.
pub(super) struct Mark(pub &'static str, pub usize);

/// The tensors of a cell. The first is the one that places are found by; it holds W.
pub(super) struct Cell {
    pub kind: Kind,
    /// The named variant that the library computes.
    pub like: &'static str,
    /// What the reset gate may do there.
    pub resets: &'static [Reset],
    /// The library's order.
    pub gates: &'static [Gate],
    pub rules: &'static [Rule],
}

/// A tensor of a cell.
pub(super) struct Rule {
    pub name: &'static str,
    pub parts: &'static [Part],
    pub gates: Gates,
    pub transposed: bool,
    /// Parts stand below each other, else beside each other.
    pub below: bool,
    pub when: When,
}

/// Which gates a tensor has rows of.
#[derive(Clone, Copy)]
pub(super) enum Gates {
    /// All that the parameter has.
    All,
    /// These.
    Only(&'static [Gate]),
    /// The parameter is taken as it lies here, whatever its rows are.
    Whole,
}

/// Which cells have a tensor, beside those that have its parameters.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    Always,
    /// GRUs whose reset gate multiplies the recurrent product.
    ResetProduct,
    /// Other cells.
    ResetElse,
}

/// What a part of a tensor is here: the first of these parameters that the network has, if it stands for the same; or the
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

    /// Whether it is about these parameters only.
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

//! A cell of `layernorm_rnn` as the set of constants by which the kernels are specialized.

use crate::error::Error;
use layernorm::Float;
use layernorm_rnn::{EpsPlace, Kind, NormSpec, Over, Reset, Update, Variant};

/// Number type in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// IEEE single precision, 32 bits.
    F32,
    /// IEEE half precision, 16 bits.
    F16,
    /// bfloat16: the upper half of an f32.
    Bf16,
}

impl Number {
    /// All number types.
    pub const ALL: [Number; 3] = [Number::F32, Number::F16, Number::Bf16];

    /// The value of `TYPE` in the kernels.
    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    /// Bytes per number.
    pub fn bytes(self) -> usize {
        if self == Number::F32 { 4 } else { 2 }
    }
}

/// A cell as the kernels see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) lstm: bool,
    /// G, the number of gates.
    pub(crate) gates: usize,
    pub(crate) input_norm: Option<NormSpec>,
    pub(crate) recurrent_norm: Option<NormSpec>,
    pub(crate) sum_norm: Option<NormSpec>,
    pub(crate) cell_norm: Option<NormSpec>,
    pub(crate) carried: bool,
    pub(crate) keeps: bool,
    pub(crate) offset: f32,
}

fn groups(norm: Option<NormSpec>, gates: usize) -> usize {
    match norm.map(|norm| norm.over) {
        None | Some(Over::AllGates) => 1,
        Some(Over::GatesAndCandidate) => 2,
        Some(Over::EachGate) => gates,
    }
}

/// Whether rows can be small in the sense of rule 6, which the kernels do not implement.
fn squares_may_vanish(norm: NormSpec) -> bool {
    let limit = match norm.eps_place {
        EpsPlace::Deviation => f64::from(f32::MOST_RSTD).recip(),
        EpsPlace::Variance => f64::from(f32::LEAST_VARIANCE),
    };
    norm.eps < limit
}

impl Cell {
    /// Converts a variant, or says why the kernels do not support it.
    pub(crate) fn of(variant: &Variant) -> Result<Cell, Error> {
        let refuse =
            |why: &str| Err(Error::Unsupported { why: format!("the recurrent cell `{}` {why}", variant.name) });
        if let Err(error) = variant.check() {
            return Err(Error::Shape { why: error.to_string() });
        }
        if variant.kind == Kind::Rnn {
            return refuse("is a simple RNN; only LSTMs and GRUs run on the GPU");
        }
        if variant.peephole || variant.coupled || variant.cell_clip.is_some() {
            return refuse("has peepholes, coupled gates or a clip");
        }
        let lstm = variant.kind == Kind::Lstm;
        if !lstm && variant.reset == Reset::State {
            return refuse("multiplies the state by its reset gate, which takes two products per step");
        }
        // With LNs, the kernels do not keep the parts of the sum apart. Without it, a GRU's candidate needs both parts.
        if variant.sum_norm.is_some() && (variant.input_norm.is_some() || variant.recurrent_norm.is_some()) {
            return refuse("has a norm of the sum and norms of its parts");
        }
        if !lstm && variant.reset == Reset::Sum && variant.sum_norm.is_none() {
            return refuse("multiplies a sum without a norm by its reset gate");
        }
        let inside = (variant.input_bias && (variant.input_norm.is_some() || variant.sum_norm.is_some()))
            || (variant.recurrent_bias && (variant.recurrent_norm.is_some() || variant.sum_norm.is_some()))
            || variant.tied_bias;
        if inside {
            return refuse("has a bias inside a norm");
        }
        let cell_norm = variant.cell_norm.map(|cell| cell.norm);
        let norms = [variant.input_norm, variant.recurrent_norm, variant.sum_norm, cell_norm];
        if norms.into_iter().flatten().any(squares_may_vanish) {
            return refuse("has a norm with ε so small that squares may underflow (rule 6 of the contract)");
        }
        Ok(Cell {
            lstm,
            gates: variant.gates().len(),
            input_norm: variant.input_norm,
            recurrent_norm: variant.recurrent_norm,
            sum_norm: variant.sum_norm,
            cell_norm,
            carried: variant.cell_norm.is_some_and(|cell| cell.carried),
            keeps: variant.update == Update::KeepsOld,
            offset: variant.offset as f32,
        })
    }

    /// The norm of the gates that the time loop computes.
    pub(crate) fn loop_norm(&self) -> Option<NormSpec> {
        self.recurrent_norm.or(self.sum_norm)
    }

    /// Number of rows that the time loop normalizes per step.
    pub(crate) fn groups(&self) -> usize {
        groups(self.loop_norm(), self.gates)
    }

    /// Number of rows per step of the input's norm.
    pub(crate) fn input_groups(&self) -> usize {
        groups(self.input_norm, self.gates)
    }

    /// Preprocessor definitions (kernels/recurrent/cell.cuh).
    pub(crate) fn defines(&self) -> Vec<(&'static str, String)> {
        let flag = |is: bool| String::from(if is { "1" } else { "0" });
        let eps = |norm: Option<NormSpec>| format!("{:e}f", norm.map_or(0.0, |norm| norm.eps + 0.0) as f32);
        let deviation = |norm: Option<NormSpec>| flag(norm.is_some_and(|norm| norm.eps_place == EpsPlace::Deviation));
        vec![
            ("G", self.gates.to_string()),
            ("LSTM", flag(self.lstm)),
            ("RNORM", flag(self.recurrent_norm.is_some())),
            ("SNORM", flag(self.sum_norm.is_some())),
            ("XNORM", flag(self.input_norm.is_some())),
            ("CNORM", flag(self.cell_norm.is_some())),
            ("NGRP", self.groups().to_string()),
            ("XGRP", self.input_groups().to_string()),
            ("CARRIED", flag(self.carried)),
            ("KEEPS", flag(self.keeps)),
            ("EPS_R", eps(self.loop_norm())),
            ("EPS_C", eps(self.cell_norm)),
            ("DEV_R", deviation(self.loop_norm())),
            ("DEV_C", deviation(self.cell_norm)),
        ]
    }
}

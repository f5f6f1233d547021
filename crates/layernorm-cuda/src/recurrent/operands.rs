//! The operands of a recurrent layer: the layer, the shape of a batch, and device addresses.

use super::cell::Number;
use super::kernels::{Address, Vectors};
use layernorm_rnn::{Slot, Variant};

/// One layer in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The cell.
    pub variant: Variant,
    /// I, the input size.
    pub input: usize,
    /// H, the number of hidden units.
    pub hidden: usize,
    /// The type of x, y and their gradients, and of the operands of the products.
    pub number: Number,
    /// The type of the parameters and their gradients: `number` or f32.
    pub params: Number,
    /// Whether f32 products may round their operands to 11 bits (tf32), as cuDNN's do: one product instead of three.
    pub tf32: bool,
    /// Whether the layer runs from each sequence's last step to its first.
    pub reverse: bool,
}

/// Memory order of a batch of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `[T, B, …]`.
    TimeFirst,
    /// `[B, T, …]`.
    BatchFirst,
}

/// The shape of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T, the number of steps.
    pub steps: usize,
    /// B, the number of sequences.
    pub batch: usize,
    /// Memory order of x, y and their gradients.
    pub order: Order,
    /// Whether the sequences have individual lengths.
    pub lengths: bool,
}

/// Device addresses of a layer's parameters or of their gradients, each in the shape of its [`Slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters([Address; Slot::ALL.len()]);

impl Parameters {
    /// Sets the address of one parameter.
    pub fn with(mut self, slot: Slot, address: u64) -> Self {
        self.0[slot as usize] = address;
        self
    }

    /// The address of one parameter, or 0.
    pub fn get(&self, slot: Slot) -> u64 {
        self.0[slot as usize]
    }

    pub(super) fn vectors(&self) -> Vectors {
        let either = |a: Slot, b: Slot| if self.get(a) != 0 { self.get(a) } else { self.get(b) };
        Vectors {
            gx: self.get(Slot::InputNormGain),
            bx_norm: self.get(Slot::InputNormBias),
            gh: either(Slot::RecurrentNormGain, Slot::SumNormGain),
            bh_norm: either(Slot::RecurrentNormBias, Slot::SumNormBias),
            bias: self.get(Slot::Bias),
            bx: self.get(Slot::InputBias),
            bh: self.get(Slot::RecurrentBias),
            gc: self.get(Slot::CellNormGain),
            bc: self.get(Slot::CellNormBias),
        }
    }
}

/// Device addresses of a state or its gradient, f32 `[B, H]` each. 0: an input is zeros, an output is not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// h.
    pub h: u64,
    /// c; only for an LSTM.
    pub c: u64,
}

/// Operands of a forward pass, as device addresses.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The parameters.
    pub params: Parameters,
    /// Input `[T, B, I]`, aligned to 16 bytes.
    pub x: u64,
    /// Output `[T, B, H]`, with rows `y_pitch` elements apart. Steps past the end of a sequence are not written.
    pub y: u64,
    /// Elements from row to row of y; at least H.
    pub y_pitch: usize,
    /// The state before the first step.
    pub first: State,
    /// Where the state after the last step is written.
    pub last: State,
    /// i32 `[B]`, each from 1 to T, if the plan's shape has lengths; else 0.
    pub lengths: u64,
    /// [`Plan::tape_bytes`](super::Plan::tape_bytes) bytes; only for training.
    pub tape: u64,
    /// [`Plan::workspace_bytes`](super::Plan::workspace_bytes) bytes.
    pub workspace: u64,
}

/// Gradients of parameters and input. They are overwritten, not accumulated (except with `add_x`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Gradients {
    /// Gradients of the parameters; those with address 0 are not computed.
    pub params: Parameters,
    /// Gradient of x, `[T, B, I]`; 0 if not wanted.
    pub x: u64,
    /// Whether the gradient of x is added to the existing values, as for the second direction.
    pub add_x: bool,
    /// Gradient of the state before the first step.
    pub first: State,
}

/// Operands of a backward pass, as device addresses.
#[derive(Clone, Copy, Debug)]
pub struct RunBack {
    /// As in the forward pass.
    pub params: Parameters,
    /// As in the forward pass.
    pub x: u64,
    /// Gradient of y, `[T, B, H]`, with rows `dy_pitch` elements apart.
    pub dy: u64,
    /// Elements from row to row of dy; at least H.
    pub dy_pitch: usize,
    /// Gradient of the state after the last step.
    pub dlast: State,
    /// As in the forward pass.
    pub lengths: u64,
    /// As the forward pass left it. It is not modified.
    pub tape: u64,
    /// [`Plan::workspace_bytes`](super::Plan::workspace_bytes) bytes.
    pub workspace: u64,
    /// Where the gradients are written.
    pub gradients: Gradients,
}

//! Recurrent layers over whole sequences: layer-normalized LSTMs and GRUs, forward and backward, on a caller's stream.
//!
//! ```text
//! zx = W x            one product for all steps, then LNx of its rows
//! time loop           one launch: U stays on the chip, blocks exchange h and the statistics of their norms
//! dzx, dzh            the time loop backward, then dx = Wᵀ dzx, dW = Σ dzx xᵀ, dU = Σ dzh hᵀ
//! ```
//!
//! The cells are those of `layernorm_rnn::Variant`, with parameters in the layout of `layernorm_rnn::Slot`. A [`Plan`] is one
//! layer in one direction for one shape of batch; layers and directions are composed by calling several. A [`Route`] is a plan, or
//! the CPU engine with copies to and fro for what the kernels do not have.
//!
//! Numbers: products of 16-bit types take 16-bit h and dz and add in f32; products of f32 are three of tf32 (each number in
//! two parts of 11 bits). Statistics, gates, c, and h as a state, are f32. Every sum has an order that depends on the sizes
//! of the layer and the type alone: runs give the same bits, and so does a sequence whatever batch is around it (gradients
//! of parameters are sums over the batch). 16-bit layers of 33 to 512 units have an order of their own where the device has
//! clusters of that many blocks of 32 units, for every batch: their time loops run in those clusters (`cluster.rs`).

mod backward;
mod cell;
mod cluster;
mod forward;
mod geometry;
mod host;
mod kernels;
mod memory;
mod plan;
mod rounds;
mod route;

pub use cell::Number;
pub use host::HostPlan;
pub use kernels::all_variants;
pub use plan::{Gradients, Layer, Order, Parameters, Plan, Run, RunBack, Shape, State};
pub use route::Route;

/// Whether the kernels have this cell; else an error that says what they lack. Needs no GPU.
pub fn supports(variant: &layernorm_rnn::Variant) -> Result<(), crate::Error> {
    cell::Cell::of(variant).map(|_| ())
}

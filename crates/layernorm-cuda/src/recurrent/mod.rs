//! Recurrent layers over whole sequences: layer-normalized LSTMs and GRUs, forward and backward, on a caller's stream.
//!
//! ```text
//! zx = W x            one product for all steps, then LNx of its rows
//! time loop           one launch: U stays on chip, blocks exchange h and the statistics of their norms
//! dzx, dzh            the backward time loop, then dx = Wᵀ dzx, dW = Σ dzx xᵀ, dU = Σ dzh hᵀ
//! ```
//!
//! The cells are those of `layernorm_rnn::Variant`, with parameters in the layout of `layernorm_rnn::Slot`. A [`Plan`]
//! is one layer in one direction for one batch shape; several of them make up layers and directions. A [`Route`] is a
//! plan, or, for cells and sizes that the kernels do not support, the CPU engine with copies to and from the device.
//!
//! Precision: products of 16-bit types take 16-bit h and dz and accumulate in f32. Products of f32 are three tf32
//! products (each number is split into two parts of 11 bits). Statistics, gates, c, and h as a state are f32. The order
//! of every sum depends only on the sizes of the layer and on the type. So repeated runs give the same bits, and a
//! sequence gives the same bits in any batch (gradients of parameters are sums over the batch). 16-bit layers of 33 to
//! 512 units have a different order on devices with clusters large enough for one block per 32 units, whatever the
//! batch: their time loops run in those clusters (`cluster.rs`).

mod backward;
mod cell;
mod cluster;
mod forward;
mod geometry;
mod host;
mod kernels;
mod memory;
mod operands;
mod plan;
mod rounds;
mod route;

pub use cell::Number;
pub use host::HostPlan;
pub use kernels::all_variants;
pub use operands::{Gradients, Layer, Order, Parameters, Run, RunBack, Shape, State};
pub use plan::Plan;
pub use route::Route;

/// Checks whether the kernels support this cell; the error says what is missing. Needs no GPU.
pub fn supports(variant: &layernorm_rnn::Variant) -> Result<(), crate::Error> {
    cell::Cell::of(variant).map(|_| ())
}

//! The time loop: runs one cell over its sequences, forward and backward. It checks nothing: the runner has checked
//! shapes, lengths and settings.
//!
//! A call, from the outside in:
//!
//! 1. [`crate::Runner`] checks the arguments, sets the [`Schedule`](crate::schedule::Schedule) (which sequence is at
//!    which step) and reserves all memory: a `CellMemory` for each cell, that is, each direction of a layer.
//! 2. For each cell, `CallSettings` (what all cells of a call share) prepares its [`CellParams`](cell_params::CellParams)
//!    (packed weights, norms) and chooses a [`TeamPlan`](team::TeamPlan): how many threads, and how they share the work.
//! 3. Each thread is a [`Member`](team::Member). All members run a [`ForwardPass`](forward::ForwardPass), segment by
//!    segment: one product for all inputs, then `step_forward` for each step. What backward needs goes to the
//!    [`Tape`](tape::Tape); inputs and outputs go through [`ForwardIo`](forward::ForwardIo).
//! 4. A [`BackwardPass`](backward::BackwardPass) runs the segments from the last to the first: `step_backward` fills
//!    [`SegmentGradients`](backward::SegmentGradients), and `gradients` turns them into those of parameters and inputs.
//! 5. Below are products (`matmul`) and element-wise kernels (`pointwise`), vectorized. Nothing there knows of threads.

pub(crate) mod backward;
pub(crate) mod cell_params;
pub(crate) mod forward;
pub(crate) mod gradients;
pub(crate) mod norms;
mod product;
mod step_backward;
mod step_forward;
pub(crate) mod tape;
pub(crate) mod team;
pub(crate) mod tune;

/// A cell of a network: one direction of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellId {
    pub(crate) layer: usize,
    pub(crate) direction: usize,
}

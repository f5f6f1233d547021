#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`LayerNorm`], [`RmsNorm`], [`GroupNorm`], [`InstanceNorm`], [`BatchNorm`], [`WeightNormLinear`]: modules.
//! - [`Lstm`], [`Gru`], [`Rnn`], and [`Recurrent`], which they share.
//! - [`functional`][]: the norms as functions. [`fallback`]: the same composed of Burn's own operations, with error
//!   bounds.
//! - [`set_threads`][]: limits the threads of operations called from the current thread.
#![forbid(unsafe_code)]

mod batch_norm;
mod checks;
pub mod fallback;
pub mod functional;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod ops;
mod recurrent;
mod rms_norm;
mod weight_norm;

pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use group_norm::{GroupNorm, GroupNormConfig};
pub use instance_norm::{InstanceNorm, InstanceNormConfig};
pub use layer_norm::{LayerNorm, LayerNormConfig};
pub use ops::set_threads;
pub use recurrent::{Cell, Gru, GruConfig, Lstm, LstmConfig, Recurrent, Rnn, RnnConfig};
pub use rms_norm::{RmsNorm, RmsNormConfig};
pub use weight_norm::{WeightNormLinear, WeightNormLinearConfig};

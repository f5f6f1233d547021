#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`layer_norm()`], [`rms_norm()`], [`group_norm()`], [`instance_norm()`]: norms from a `VarBuilder`.
//! - [`lstm()`], [`gru()`], [`rnn()`], and [`Recurrent`], which they share.
//! - [`ops`][]: the norms as functions on tensors.
#![forbid(unsafe_code)]

mod checks;
mod group_norm;
mod instance_norm;
mod layer_norm;
pub mod ops;
mod recurrent;
mod rms_norm;

pub use group_norm::{GroupNorm, group_norm};
pub use instance_norm::{InstanceNorm, InstanceNormConfig, instance_norm};
pub use layer_norm::{LayerNorm, layer_norm, layer_norm_no_bias};
pub use recurrent::{Gru, Lstm, Recurrent, RecurrentConfig, Rnn, gru, lstm, rnn};
pub use rms_norm::{RmsNorm, rms_norm};

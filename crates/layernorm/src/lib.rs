#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`LayerNorm`], [`RmsNorm`], [`GroupNorm`], [`BatchNorm`]: layers that hold their parameters.
//! - [`layer_norm`], [`rms_norm`], [`group_norm`], [`instance_norm`], [`batch_norm`], [`weight_norm`]: the operations
//!   as functions on views, each with its formulas.
//! - [`View`] and [`ViewMut`]: your memory with a shape and strides. [`NormConfig`]: axes, ε, γ and β.
//! - [`Context`][]: threads, instruction set and scratch memory for calls.
//! - [`guide`][]: examples.

mod arch;
mod axes;
pub mod baseline;
pub mod batch_norm;
mod channels;
mod context;
mod dims;
mod element;
mod error;
pub mod group_norm;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}
pub mod instance_norm;
mod kernels;
pub mod layer_norm;
mod layers;
mod memory;
mod operand;
mod pages;
mod params;
#[doc(hidden)]
pub mod parts;
mod random;
pub mod rms_norm;
mod row_norm;
mod rows;
mod sum;
mod threads;
mod tune;
mod view;
pub mod weight_norm;

pub use arch::{ISA_VARIABLE, Isa};
pub use axes::Axes;
pub use context::Context;
pub use element::{Element, Float};
pub use error::Error;
pub use half::{bf16, f16};
pub use layers::{BatchNorm, GroupNorm, LayerGradients, LayerNorm, RmsNorm};
pub use params::{Affine, Gradients, Param, ParamMut, Saved, StatsMut, StatsRef};
pub use row_norm::NormConfig;
pub use view::{MAX_RANK, View, ViewMut};

// Also test the examples of the repository's README. The file is not part of the published crate.
#[cfg(doctest)]
#[doc = include_str!("../docs/repository.md")]
mod front_page {}

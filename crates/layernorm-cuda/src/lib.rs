#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`Device`], [`Stream`], and [`memory`] for callers without a framework.
//! - [`RowNorm`], [`GroupNorm`], [`BatchNorm`]: the norms.
//! - [`recurrent`][]: LSTMs and GRUs.
//! - [`config`]: how a pass over rows is mapped onto the GPU.
//! - [`nvrtc`], [`Cache`]: how kernels are compiled and cached.

mod cache;
mod catalog;
mod channels;
mod columns;
pub mod config;
mod device;
mod driver;
mod environment;
mod error;
mod kernels;
mod launch;
#[doc(hidden)]
pub mod layout;
pub mod memory;
mod module;
pub mod nvrtc;
pub mod recurrent;
mod report;
mod rows;
mod types;

pub use cache::{Cache, Key};
pub use catalog::variants;
pub use channels::{BatchBackward, BatchForward, BatchNorm, GroupBackward, GroupNorm, Running};
pub use columns::Gradients;
pub use device::{Device, Properties};
pub use environment::FOLDER_VARIABLE;
pub use error::Error;
pub use launch::{Launch, Stream};
pub use module::{Function, Variant};
pub use nvrtc::{Arch, Source};
pub use rows::{Backward, Forward, RowNorm};
pub use types::{Affine, Param, Rows, Stats, Type, Workspace};

/// A kernel that does nothing, for measuring launch overhead.
pub static NOOP: Source =
    Source { name: "noop.cu", text: include_str!("../kernels/noop.cu"), headers: &[], layout: Source::NO_LAYOUT };

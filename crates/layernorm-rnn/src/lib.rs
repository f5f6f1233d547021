#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`Variant`][]: what a cell computes, by name or your own. [`Config`] and [`Init`]: sizes and initial weights.
//! - [`Network`][]: the parameters. [`Runner`]: runs a network on [`Sequences`], for inference, for training and step
//!   by step.
//! - [`weights`][]: safetensors files of this and other libraries.
//! - [`functions`][]: exp, sigmoid and tanh with the same bits everywhere.

mod buffer;
mod catalog;
mod config;
mod error;
pub mod functions;
mod init;
mod math;
mod matmul;
mod network;
mod noise;
mod params;
mod pointwise;
mod real;
mod runner;
#[doc(hidden)]
pub mod runner_pool;
mod schedule;
mod time_loop;
mod variant;
pub mod weights;

pub use config::{Config, Direction, MAX_LAYERS, Noise};
pub use error::Error;
pub use init::{Init, Scheme};
pub use network::{Gradients, Layout, Network, Output, Sequences, State};
pub use noise::Mask;
pub use params::{Entry, Params, Slot};
pub use real::Real;
pub use runner::{Keep, Runner, Training};
pub use variant::{Activation, CellNorm, EpsPlace, Gate, Kind, NormSpec, Over, Reset, Update, Variant};

#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! Data flows one way: [`data`] → [`models`] → [`training`] or [`language`] → [`records`] on disk → [`report`]. [`studies`] defines the
//! questions and [`session`] runs them in a folder. [`tensorboard`] shows records in TensorBoard, also while they are written. [`memory`] estimates a run's memory before it starts.
//! [`mod@reference`] holds slow and precise norms and cells to check results against.
#![forbid(unsafe_code)]

pub mod data;
pub mod draw;
pub mod language;
pub mod memory;
pub mod models;
pub mod records;
pub mod reference;
pub mod report;
pub mod session;
pub mod studies;
pub mod tensorboard;
pub mod training;

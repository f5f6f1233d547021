#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! Data flows one way: [`data`] → [`models`] → [`training`] → [`records`] on disk → [`report`]. [`studies`] defines the
//! questions and [`session`] runs them in a folder. [`memory`] estimates a run's memory before it starts.
#![forbid(unsafe_code)]

pub mod data;
pub mod memory;
pub mod models;
pub mod records;
pub mod report;
pub mod session;
pub mod studies;
pub mod training;

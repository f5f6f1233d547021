#![doc = include_str!("../README.md")]
//!
//! ## Where to look
//!
//! Data flows one way: [`data`] → [`models`] → [`training`] → [`records`] on disk → [`report`]. [`studies`] has the questions and
//! [`session`] runs them in one folder. [`memory`] estimates what a run needs before it starts.
#![forbid(unsafe_code)]

pub mod data;
pub mod memory;
pub mod models;
pub mod records;
pub mod report;
pub mod session;
pub mod studies;
pub mod training;

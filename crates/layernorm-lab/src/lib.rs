//! The laboratory: data → models → training → records on disk → report. The report reads records and nothing else.
#![forbid(unsafe_code)]

pub mod data;
pub mod models;
pub mod records;
pub mod report;
pub mod session;
pub mod studies;
pub mod training;

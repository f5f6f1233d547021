//! The laboratory: data → models → training → records on disk → report. The report is made of the records, and of times that
//! were measured and lie beside them, and of nothing else: it can be made again without a run.
#![forbid(unsafe_code)]

pub mod data;
pub mod memory;
pub mod models;
pub mod records;
pub mod report;
pub mod session;
pub mod studies;
pub mod training;

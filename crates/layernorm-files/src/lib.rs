#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`replace`], [`replace_own`]: one file. [`Replacement`], [`commit_all`]: several together.
//! - [`remove_unfinished`][]: cleanup for signal handlers.
//! - [`open_regular`], [`publish`]: files that stay open. [`read`][]: input that may be a device or a pipe.
#![forbid(unsafe_code)]

mod error;
mod open;
mod replacement;
mod show;
mod target;
mod unfinished;

pub use error::Error;
pub use open::{open_regular, publish, read};
pub use replacement::{Replacement, commit_all, replace, replace_own};
pub use show::{Escaped, Shown, escaped, shown};
pub use unfinished::{Halted, remove_unfinished};

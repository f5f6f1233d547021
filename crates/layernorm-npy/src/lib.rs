#![doc = include_str!("../README.md")]
//!
//! ## Overview
//!
//! - [`read()`], [`write()`], [`to_writer`]: files and streams.
//! - [`Array`][]: shape, [`Order`] and elements; [`Array::from_bytes`] and [`Array::from_reader`] read without a path.
//! - [`DType`][]: the element types. [`Error`]: the errors.

#![forbid(unsafe_code)]

mod array;
mod dtype;
mod error;
mod header;
mod literal;
mod read;
mod write;

pub use array::{Array, MAX_DIMENSIONS, Order};
pub use dtype::{DType, Data, Scalar};
pub use error::{Error, Part};
pub use half;
pub use header::MAX_HEADER_LEN;
pub use read::read;
pub use write::{to_writer, write};

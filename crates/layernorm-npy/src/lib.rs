//! Reads and writes NumPy's `.npy` files.
//!
//! - Element types: [`float16`, `float32`, `float64`, `int32`, `int64` and `uint8`](DType), in either byte order.
//!   Format versions 1.0, 2.0 and 3.0. Everything else is refused with an [`Error`] that says what came and what is
//!   supported.
//! - An [`Array`] keeps the [`Order`] its file has, so that a Fortran-ordered file becomes a strided view
//!   ([`Array::strides`]) without a copy.
//! - Any bytes may be read: nothing panics, and memory is taken only for bytes that are really there, whatever the
//!   header says.
//! - [`write()`] replaces the target in one step, so that a reader sees the old file or the new one and never half of
//!   one; what it writes is byte for byte what `numpy.save` of NumPy 2.4 writes for the same array.
//!
//! ```
//! use layernorm_npy::{Array, Order, half::f16};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("x.npy");
//! // A [2, 3] array from a slice of f16, f32, f64, i32, i64 or u8.
//! layernorm_npy::write(&path, &[2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
//!
//! let x = layernorm_npy::read(&path)?;
//! assert_eq!((x.shape(), x.order(), x.strides()), (&[2, 3][..], Order::C, vec![3, 1]));
//! assert_eq!(x.as_slice::<f32>()?[4], 4.0);
//!
//! // The wrong type is an error that names both.
//! let error = x.as_slice::<f16>().unwrap_err();
//! assert_eq!(error.to_string(), "expected an array of float16, found float32");
//!
//! // The same without a file.
//! let mut bytes = Vec::new();
//! Array::new([2, 3], vec![0_i64, 1, 2, 3, 4, 5])?.to_writer(&mut bytes)?;
//! assert_eq!(Array::from_bytes(&bytes)?.into_vec::<i64>()?, [0, 1, 2, 3, 4, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

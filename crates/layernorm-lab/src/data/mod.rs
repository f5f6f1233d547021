//! Images of digits: embedded, from a folder, or downloaded. Text: embedded or from a file.
//!
//! ```text
//! file or embedded bytes → idx (checked) → Digits (checked) → Dataset → split → batches of indices → f32
//! file or embedded bytes → UTF-8 (checked) → Text: numbers of characters → training, validation and test parts
//! ```
//!
//! Files are validated when they are read and when [`Digits`] is created; later code does not check again. Every error
//! names the file. All random orders are derived from a seed and are the same on every machine.
//!
//! ```
//! use layernorm_lab::data::{Dataset, Scaling, Split, batches};
//! use std::num::NonZeroUsize;
//!
//! let data = Dataset::embedded()?;
//! let (train, validation) = data.train.split(1_000, Split::Last)?;
//! assert_eq!((train.len(), validation.len(), data.test.len()), (9_000, 1_000, 2_000));
//!
//! let scaling = Scaling::standard(&train);
//! let mut pixels = Vec::new();
//! for batch in batches(train.len(), NonZeroUsize::new(128).unwrap(), 42, 0).iter() {
//!     train.gather(batch, &scaling, &mut pixels); // [B, 784]
//!     assert_eq!(pixels.len(), batch.len() * train.pixels());
//! }
//! # Ok::<(), layernorm_lab::data::Error>(())
//! ```

mod address;
pub mod catalog;
mod dataset;
mod digits;
mod error;
pub mod get;
pub mod idx;
mod part;
mod random;
mod scaling;
mod text;

pub use dataset::Dataset;
pub use digits::{CLASSES, Digits, Split};
pub use error::{Attempt, Error, Fault, Problem};
pub use random::{Batches, SplitMix64, batches};
pub use scaling::Scaling;
pub use text::{Part, Text};

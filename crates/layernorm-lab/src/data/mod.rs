//! Images of digits: embedded, from a folder, or fetched.
//!
//! ```text
//! file or embedded bytes → idx (checked) → Digits (checked) → Dataset → split → batches of indices → f32
//! ```
//!
//! What a file claims is checked where it is read and where [`Digits`] is made; nothing after that checks again. Every
//! error names the file. All orders come from a seed and are the same on every machine.
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

pub use dataset::Dataset;
pub use digits::{CLASSES, Digits, Split};
pub use error::{Attempt, Error, Fault, Problem};
pub use random::{Batches, SplitMix64, batches};
pub use scaling::Scaling;

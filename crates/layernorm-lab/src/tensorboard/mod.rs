//! Event files for [TensorBoard](https://www.tensorflow.org/tensorboard): runs as scalars, histograms, images and text.
//!
//! ```text
//! record → Translation (values at a step) → Writer (what the folder lacks) → protobuf → TFRecord → DIR/<run>/events.out.tfevents.…
//! ```
//!
//! A run has a folder of its own: `study/case/seed`. Its event files are a function of its record, except for the times:
//! events have the time when they are written or, if they are made from an existing record, the time when that was last
//! changed, because records hold no times.
//!
//! A [`Writer`] compares the record's events with what the folder already holds, and writes only what is missing. A
//! resumed run therefore continues its curves, and repeated steps, which have the same results, are written once.
//!
//! | event | in TensorBoard |
//! |---|---|
//! | settings | text `settings`, and the HParams table |
//! | `evaluate`, `test`, `trial` | scalars: `loss/…`, `error/…`, `bits per character/…`, `bound/…`, `learning rate` |
//! | `gradients`, `weights`, `shift`, `moments` | scalars for each layer |
//! | `time`, `dynamics` | scalars for some time steps and each gate |
//! | `affine`, `geometry`, `activations` | histograms |
//! | `correlation` | images, and the mean as a scalar |
//! | `digits` | images |
//! | `sample` | text |
//! | `diverged` | NaN as the training loss, which TensorBoard marks with a triangle |
//!
//! Batch norm's `statistics` and a language model's `positions` have no series over training steps and are left out, as are
//! runs that train no network.

mod crc32c;
mod digits;
mod error;
mod folder;
mod frame;
mod histogram;
mod image;
mod language;
mod protobuf;
mod read;
mod settings;
#[cfg(test)]
mod tests;
mod training;
mod translation;
mod values;
mod writer;

pub use error::Error;
pub use folder::{Folder, name, name_of_folder};
pub use writer::Writer;

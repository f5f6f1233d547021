//! Checkpoints: the state of a run, stored beside its records. A checkpoint includes the number of events so far; later
//! events are removed on resuming and recomputed with the same results.

use super::container;
use super::evaluate::copy;
use super::run::Model;
use super::tensors::{self, Entry, Named};
use crate::records::{Header, RunFile};
use burn::module::Module;
use burn::tensor::Bytes;
use layernorm_files::open_regular;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

const FORMAT: &str = "layernorm checkpoint";

/// State of a run besides the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Number of completed steps.
    pub(super) step: usize,
    /// Number of events written.
    pub(super) events: usize,
    /// Sum of the losses since the last evaluation, as bits.
    pub(super) loss: u64,
    /// Correct predictions since then.
    pub(super) right: usize,
    /// Number of images since then.
    pub(super) images: usize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    run: Header,
    place: Place,
    net: Vec<Entry>,
}

fn path(file: &RunFile) -> PathBuf {
    file.path().with_extension("checkpoint")
}

/// Saves the state of the run.
pub(super) fn save(file: &RunFile, place: &Place, model: &Model) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path(file).display());
    // Running statistics are part of the parameters only after they have been read once.
    drop(model.net.valid());
    let (list, net) = tensors::join(&model.net.numbers().map_err(|error| words(&error))?);
    let optimizer = model.optimizer.into_bytes().map_err(|error| words(&error))?;
    let head = Head { run: file.record().header.clone(), place: place.clone(), net: list };
    container::write(&path(file), FORMAT, &head, &[&net, &optimizer]).map_err(|error| error.to_string())
}

/// Restores the model and the state from the checkpoint; without a usable one, returns the given model at step 0.
pub(super) fn load(file: &RunFile, fresh: Model) -> (Model, Place) {
    let Some((place, net, optimizer)) = read(file) else { return (fresh, Place::default()) };
    // A copy with separate running statistics, because a failed load may leave it partly changed.
    let optimizer = || fresh.optimizer.clone().from_bytes(optimizer);
    // Burn's reader asserts that a tensor's shape and bytes agree, so a file in which they do not is rejected here,
    // even if its checksum is correct.
    match (copy(&fresh.net).with_numbers(net), catch_unwind(AssertUnwindSafe(optimizer))) {
        (Ok(net), Ok(Ok(optimizer))) => (Model { net, optimizer }, place),
        _ => (fresh, Place::default()),
    }
}

fn read(file: &RunFile) -> Option<(Place, Vec<Named>, Bytes)> {
    let mut bytes = Vec::new();
    open_regular(path(file), OpenOptions::new().read(true)).ok()?.read_to_end(&mut bytes).ok()?;
    let (head, blobs) = container::parse(&bytes, FORMAT).ok()?;
    let head = Head::deserialize(&head).ok()?;
    let [net, optimizer] = <[&[u8]; 2]>::try_from(blobs).ok()?;
    if head.run != file.record().header || head.place.events > file.record().events.len() {
        return None;
    }
    Some((head.place, tensors::split(head.net, net).ok()?, Bytes::from_bytes_vec(optimizer.to_vec())))
}

/// Removes the checkpoint of a finished run.
pub(super) fn remove(file: &RunFile) {
    // If it remains it is never read, because the record says that the run is finished.
    let _ = std::fs::remove_file(path(file));
}

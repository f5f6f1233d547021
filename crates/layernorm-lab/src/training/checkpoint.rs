//! Checkpoints: where a run was, beside its records. The run's events up to then are counted; later ones are taken back when
//! the run goes on, and come again with the same numbers.

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

/// Where a run is, beside the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Steps done.
    pub(super) step: usize,
    /// Events written.
    pub(super) events: usize,
    /// Sum of the losses since the last evaluation, as bits.
    pub(super) loss: u64,
    /// Right answers since then.
    pub(super) right: usize,
    /// Images since then.
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

/// Saves where the run is.
pub(super) fn save(file: &RunFile, place: &Place, model: &Model) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path(file).display());
    // Running statistics are only among the numbers once they were asked for.
    drop(model.net.valid());
    let (list, net) = tensors::join(&model.net.numbers().map_err(|error| words(&error))?);
    let optimizer = model.optimizer.into_bytes().map_err(|error| words(&error))?;
    let head = Head { run: file.record().header.clone(), place: place.clone(), net: list };
    container::write(&path(file), FORMAT, &head, &[&net, &optimizer]).map_err(|error| error.to_string())
}

/// Takes up where the run was: the model as it was then. Where there is nothing to take up, the model as it is, at the start.
pub(super) fn load(file: &RunFile, fresh: Model) -> (Model, Place) {
    let Some((place, net, optimizer)) = read(file) else { return (fresh, Place::default()) };
    // A copy, whose running statistics are its own: what does not fit may have been taken over in part.
    let optimizer = || fresh.optimizer.clone().from_bytes(optimizer);
    // Burn's reader asserts that a tensor's shape and bytes agree. A file with a right checksum where they do not is no checkpoint either.
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

/// Removes it: the run is done.
pub(super) fn remove(file: &RunFile) {
    // If it stays it is not looked at again: the record says that the run is done.
    let _ = std::fs::remove_file(path(file));
}

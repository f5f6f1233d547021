//! Checkpoints: the state of a run, stored beside its records. A checkpoint includes the number of events so far; later
//! events are removed on resuming and recomputed with the same results. They work for any network ([`Model`]) and any
//! other state of its training ([`Progress`]).

use super::container;
use super::tensors::{self, Entry, Named};
use crate::models::numbers::{numbers, with_numbers};
use crate::records::{Header, RunFile};
use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Bytes;
use layernorm_files::open_regular;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

const FORMAT: &str = "layernorm checkpoint";

/// A network in training.
pub(crate) struct Model<M> {
    pub(crate) net: M,
    pub(crate) optimizer: ModuleOptimizer,
}

/// State of a run besides the model. The default is that before the first step.
pub(crate) trait Progress: Clone + Default + Serialize + DeserializeOwned {
    /// Number of events written.
    fn events(&self) -> usize;
}

#[derive(Serialize, Deserialize)]
struct Head<P> {
    run: Header,
    place: P,
    net: Vec<Entry>,
}

/// A copy of the network with separate running statistics, which clones would share.
pub(crate) fn copy<M: Module>(net: &M) -> M {
    net.valid().train()
}

fn path(file: &RunFile) -> PathBuf {
    file.path().with_extension("checkpoint")
}

/// Saves the state of the run.
pub(crate) fn save<M: Module>(file: &RunFile, place: &impl Progress, model: &Model<M>) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path(file).display());
    // Running statistics are part of the parameters only after they have been read once.
    drop(model.net.valid());
    let (list, net) = tensors::join(&numbers(&model.net).map_err(|error| words(&error))?);
    let optimizer = model.optimizer.into_bytes().map_err(|error| words(&error))?;
    let head = Head { run: file.record().header.clone(), place: place.clone(), net: list };
    container::write(&path(file), FORMAT, &head, &[&net, &optimizer]).map_err(|error| error.to_string())
}

/// Restores the model and the state from the checkpoint; without a usable one, returns the given model at step 0.
pub(crate) fn load<M: Module, P: Progress>(file: &RunFile, fresh: Model<M>) -> (Model<M>, P) {
    let Some((place, net, optimizer)) = read(file) else { return (fresh, P::default()) };
    // A copy with separate running statistics, because a failed load may leave it partly changed.
    let optimizer = || fresh.optimizer.clone().from_bytes(optimizer);
    // Burn's reader asserts that a tensor's shape and bytes agree, so a file in which they do not is rejected here,
    // even if its checksum is correct.
    match (with_numbers(copy(&fresh.net), net), catch_unwind(AssertUnwindSafe(optimizer))) {
        (Ok(net), Ok(Ok(optimizer))) => (Model { net, optimizer }, place),
        _ => (fresh, P::default()),
    }
}

fn read<P: Progress>(file: &RunFile) -> Option<(P, Vec<Named>, Bytes)> {
    let mut bytes = Vec::new();
    open_regular(path(file), OpenOptions::new().read(true)).ok()?.read_to_end(&mut bytes).ok()?;
    let (head, blobs) = container::parse(&bytes, FORMAT).ok()?;
    let head = Head::<P>::deserialize(&head).ok()?;
    let [net, optimizer] = <[&[u8]; 2]>::try_from(blobs).ok()?;
    if head.run != file.record().header || head.place.events() > file.record().events.len() {
        return None;
    }
    Some((head.place, tensors::split(head.net, net).ok()?, Bytes::from_bytes_vec(optimizer.to_vec())))
}

/// Removes the checkpoint of a finished run.
pub(crate) fn remove(file: &RunFile) {
    // If it remains it is never read, because the record says that the run is finished.
    let _ = std::fs::remove_file(path(file));
}

//! `plan.json` in the folder of a shard: the names of all runs of all shards, and a checksum of their settings. With it,
//! a merge recognizes shards of another command and knows which runs are missing.

use super::Error;
use crate::studies::RunPlan;
use layernorm_files::replace_own;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "plan.json";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlanFile {
    /// SHA-256 of the headers of all runs, in hexadecimal digits.
    settings: String,
    /// The names of all runs.
    pub(super) runs: Vec<String>,
}

impl PlanFile {
    pub(super) fn new(plans: &[RunPlan]) -> PlanFile {
        let mut hash = Sha256::new();
        for plan in plans {
            hash.update(serde_json::json!(plan.header()).to_string());
            hash.update("\n");
        }
        let settings = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        PlanFile { settings, runs: plans.iter().map(|plan| plan.run().to_owned()).collect() }
    }

    pub(super) fn path(folder: impl AsRef<Path>) -> PathBuf {
        folder.as_ref().join(NAME)
    }

    /// Reads the file; `None` if the folder has none.
    pub(super) fn read(folder: &Path) -> Result<Option<PlanFile>, Error> {
        let path = PlanFile::path(folder);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(Error::io(&path))?,
        };
        let plan = serde_json::from_slice(&bytes);
        plan.map(Some).map_err(|error| Error::Io { path, source: error.into() })
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = format!("{}\n", serde_json::json!(self));
        replace_own(PlanFile::path(folder), |file| file.write_all(text.as_bytes()))
            .map_err(Error::io(PlanFile::path(folder)))
    }
}

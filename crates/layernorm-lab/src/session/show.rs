//! Shows the runs of a folder in TensorBoard.

use super::Error;
use super::folder::{paths, runs_of};
use crate::records::{Header, Record};
use crate::tensorboard::{Folder, name};
use std::path::{Path, PathBuf};

/// Opens the folder for TensorBoard and checks that it has room for all runs.
pub(super) fn open(path: &Path, wanted: &[&Header]) -> Result<Folder, Error> {
    let folder = Folder::open(path)?;
    for header in wanted {
        folder.check(&name(header), header)?;
    }
    Ok(folder)
}

/// Writes the records that exist; returns the number of those that train a network.
pub(super) fn write(folder: &Folder, records: impl Iterator<Item = PathBuf>) -> Result<usize, Error> {
    let mut shown = 0;
    for path in records {
        let changed = path.metadata().and_then(|file| file.modified()).map_err(Error::io(&path))?;
        if let Some(record) = Record::read(&path)? {
            shown += usize::from(folder.write(&name(&record.header), &record, changed)?);
        }
    }
    Ok(shown)
}

/// Writes event files for the runs of a folder, finished or not; returns the number of runs. Runs that train no network
/// have no curves and are left out.
///
/// # Errors
/// [`Error::Records`] if a record cannot be read, [`Error::Tensorboard`] if event files cannot be written.
pub fn show_in_tensorboard(folder: &Path, tensorboard: &Path) -> Result<usize, Error> {
    let records = paths(&runs_of(folder))?;
    write(&Folder::open(tensorboard)?, records.into_iter())
}

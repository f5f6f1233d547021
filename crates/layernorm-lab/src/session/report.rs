//! Makes the report of a folder from its records and the times stored beside them.

use super::Error;
use super::folder::{records, runs_of};
use crate::records::Record;
use crate::report::{About, Report, RunRow, Story, SummaryRow};
use crate::studies::{Common, Study, catalog, which_norm};
use crate::{draw, language, training};
use std::path::Path;

/// File name of the report.
pub const REPORT: &str = "report.html";

const TITLE: &str = "What layer normalization does";

/// Makes the report of all finished runs in a folder and writes it there as [`REPORT`].
///
/// # Errors
/// [`Error::Nothing`] if no run is finished, [`Error::Records`] if a record cannot be read, [`Error::Report`] if the
/// page cannot be written.
pub fn report(folder: &Path, about: About) -> Result<Report, Error> {
    let report = assemble(folder, about)?;
    if report.runs.is_empty() {
        return Err(Error::Nothing { runs: runs_of(folder) });
    }
    crate::report::write(&report, &folder.join(REPORT))?;
    Ok(report)
}

/// Makes the report of all finished runs in a folder, which may be none, and writes nothing.
///
/// # Errors
/// [`Error::Records`] if a record cannot be read.
pub fn assemble(folder: &Path, about: About) -> Result<Report, Error> {
    let mut records = records(folder)?;
    records.retain(|record| record.finished);
    let mut stories: Vec<Story> =
        catalog::all().into_iter().filter_map(|study| story(study, &records, &runs_of(folder))).collect();
    stories.extend(which_norm::story(&stories));
    let summary =
        stories.iter().map(|story| SummaryRow { what: story.title.clone(), finding: story.answer.clone() }).collect();
    let runs = records.iter().map(row).collect();
    Ok(Report { title: TITLE.to_owned(), about, summary, stories, runs })
}

/// A study's story, if it has records.
fn story(study: &dyn Study, records: &[Record], runs: &Path) -> Option<Story> {
    let own: Vec<Record> = records.iter().filter(|record| record.header.study == study.name()).cloned().collect();
    if own.is_empty() {
        return None;
    }
    let mut story = study.story(&own);
    study.add_measured(&mut story, runs);
    Some(story)
}

/// A run's row in the table.
fn row(record: &Record) -> RunRow {
    let row = training::row(record).or_else(|| draw::row(record)).or_else(|| language::row(record));
    row.unwrap_or_else(|| plain(record))
}

/// The row of a run without training, which has no training results.
fn plain(record: &Record) -> RunRow {
    RunRow {
        study: record.header.study.clone(),
        model: "—".to_owned(),
        norm: "—".to_owned(),
        seed: Common::read(record).seed,
        lr: None,
        batch: None,
        epochs: None,
        train_loss: None,
        val_loss: None,
        val_accuracy: None,
        diverged: false,
        file: format!("runs/{}.jsonl", record.header.run),
    }
}

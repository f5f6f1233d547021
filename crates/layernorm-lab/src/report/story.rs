//! What the report tells: the stories, their summary and the runs behind them.

use serde::Serialize;

use super::chart::{Chart, Table};

/// Everything the page shows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// Which program, where and when.
    pub about: About,
    /// The findings in a few lines, shown first.
    pub summary: Vec<SummaryRow>,
    /// In the order of reading.
    pub stories: Vec<Story>,
    /// Every run that the stories rest on.
    pub runs: Vec<RunRow>,
}

/// Where the report comes from.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Name and version, such as `layernorm 0.1.0`.
    pub program: String,
    /// The processor and the system.
    pub machine: String,
    /// The day, such as `2026-11-15`.
    pub made: String,
    /// The command that makes this report again.
    pub command: String,
}

/// One line of the summary. Where `what` is a story's title, the page links to it.
#[derive(Debug, Clone, Serialize)]
pub struct SummaryRow {
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub finding: String,
}

/// One question, with its answer and its pictures.
#[derive(Debug, Clone, Serialize)]
pub struct Story {
    /// Unique in the report; stands in links, such as `compare`.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What was asked.
    pub question: String,
    /// What was seen, in a sentence or two computed from the numbers.
    pub answer: String,
    /// Whether what was seen is what was expected; `None` where the numbers do not decide.
    pub as_expected: Option<bool>,
    /// What the paper or common knowledge says.
    pub expectation: String,
    /// The pictures.
    pub charts: Vec<Chart>,
    /// The numbers behind the answer.
    pub numbers: Option<Table>,
    /// The command, with its seeds.
    pub reproduce: String,
    /// Remarks, such as what was left out and why.
    pub notes: Vec<String>,
}

/// One training run. A number that is `None` is shown as a dash.
#[derive(Debug, Clone, Serialize)]
pub struct RunRow {
    /// The study it belongs to.
    pub study: String,
    /// The network.
    pub model: String,
    /// The normalization.
    pub norm: String,
    /// The seed of weights and order.
    pub seed: Option<u64>,
    /// The learning rate.
    pub lr: Option<f64>,
    /// Samples in a batch.
    pub batch: Option<usize>,
    /// Passes over the data.
    pub epochs: Option<usize>,
    /// The last training loss.
    pub train_loss: Option<f64>,
    /// The last validation loss.
    pub val_loss: Option<f64>,
    /// The last validation accuracy, from 0 to 1.
    pub val_accuracy: Option<f64>,
    /// Whether the loss left the finite numbers.
    pub diverged: bool,
    /// The record.
    pub file: String,
}

//! The contents of the report: stories, summary and runs.

use serde::Serialize;

use super::chart::{Chart, Table};
use super::finding::Finding;

/// Everything the page shows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// Program, machine and date.
    pub about: About,
    /// The results in a few lines, shown first.
    pub summary: Vec<SummaryRow>,
    /// The stories, in reading order.
    pub stories: Vec<Story>,
    /// All runs behind the stories.
    pub runs: Vec<RunRow>,
}

/// Origin of the report.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Name and version, such as `layernorm 0.1.0`.
    pub program: String,
    /// Processor and system.
    pub machine: String,
    /// The date, such as `2026-11-15`.
    pub made: String,
    /// The command that reproduces this report.
    pub command: String,
}

/// One row of the summary. If `what` is a story's title, the page links to it.
#[derive(Debug, Clone, Serialize)]
pub struct SummaryRow {
    /// The question or topic.
    pub what: String,
    /// The result.
    pub finding: String,
}

/// A question with its answer and charts.
#[derive(Debug, Clone, Serialize)]
pub struct Story {
    /// Unique in the report; used in links, such as `compare`.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The question.
    pub question: String,
    /// The result, in a sentence or two computed from the numbers.
    pub answer: String,
    /// The yes/no questions that the records decide, or leave undecided.
    pub findings: Vec<Finding>,
    /// The expectation, from the paper or common knowledge.
    pub expectation: String,
    /// The charts.
    pub charts: Vec<Chart>,
    /// The numbers behind the answer.
    pub numbers: Option<Table>,
    /// The command that reproduces it, with its seeds.
    pub reproduce: String,
    /// Notes, such as what was left out and why.
    pub notes: Vec<String>,
}

/// One training run. A number that is `None` is shown as a dash.
#[derive(Debug, Clone, Serialize)]
pub struct RunRow {
    /// Its study.
    pub study: String,
    /// The network.
    pub model: String,
    /// The normalization.
    pub norm: String,
    /// Random seed of weights and batch order.
    pub seed: Option<u64>,
    /// The learning rate.
    pub lr: Option<f64>,
    /// Batch size.
    pub batch: Option<usize>,
    /// Number of epochs.
    pub epochs: Option<usize>,
    /// Final training loss.
    pub train_loss: Option<f64>,
    /// Final validation loss.
    pub val_loss: Option<f64>,
    /// Final validation accuracy, from 0 to 1.
    pub val_accuracy: Option<f64>,
    /// Whether the loss became NaN or infinite.
    pub diverged: bool,
    /// Path of the record.
    pub file: String,
}

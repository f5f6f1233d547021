//! Statistics of batch norm in a recurrent network, by time step.
//!
//! An LSTM with batch norm reads images row by row. At inference it uses running statistics of every time step
//! (Cooijmans et al., 2016). They are shown here, and the network is tested
//!
//! - with the same statistics at all steps instead: the mean and the variance of all steps together, and
//! - on sequences longer than in training: the image is read again, up to four times in all. Steps beyond the training
//!   length use the statistics of the last one.
//!
//! The images are reduced to 14 × 14, and their pixels are permuted in the same way: every row has the same kind of
//! content, whereas the first rows of an original image are blank, which harms batch norm.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Images, Probes, Spec, Trial};

/// Study of batch norm's statistics by time step.
pub struct StepStatistics;

/// Name of the network in run names.
const ID: &str = "lstm";
const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
/// How many more times the image is read.
const REPEATS: [usize; 4] = [0, 1, 2, 3];
/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let arch = Arch::lstm(if settings.full { 128 } else { 32 }, Reads::Rows);
    let mut spec = Spec::new(arch, norm, seed, &settings.data);
    (spec.learning_rate, spec.batch_size, spec.steps) = (5e-3, 32, 250);
    (spec.validation, spec.test, spec.evaluations) = (250, 1000, 3);
    spec.images = Images { halved: true, permuted: true, ..Images::default() };
    spec.probes = Probes { statistics: norm == Norm::Batch, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, spec.test] = settings.all_images();
        spec.batch_size = 64;
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    let ways = if norm == Norm::Batch { &[false, true][..] } else { &[false] };
    let trial = |repeats: usize, shared_statistics: bool| {
        let shared = if shared_statistics { ", shared statistics" } else { "" };
        Trial { repeats, shared_statistics, ..Trial::plain(format!("read {} times{shared}", repeats + 1)) }
    };
    spec.trials = ways.iter().flat_map(|&shared| REPEATS.map(|repeats| trial(repeats, shared))).collect();
    trained::chosen(spec, settings)
}

impl Study for StepStatistics {
    fn name(&self) -> &'static str {
        "step-statistics"
    }

    fn question(&self) -> &'static str {
        "Does batch norm in a recurrent network need separate statistics for every time step?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        trained::plans(self.name(), ID, NORMS, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}

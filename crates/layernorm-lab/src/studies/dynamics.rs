//! Hidden-state dynamics: how the states and gates of a recurrent network change over its time steps and in training.
//!
//! ```text
//! a            pre-activations of the gates; their spread s is the standard deviation over images and units
//! variation    of ‖h‖ or of s over the time steps: standard deviation/mean
//! change       of s in training: mean over the time steps of |log₁₀ s(end)/s(start)|
//! saturated    share of pre-activations with σ(a) < 0.05, σ(a) > 0.95 or |tanh a| > 0.95
//! ```
//!
//! The pixels of all images are permuted in the same way, so that every time step has the same kind of input: what
//! changes over time is the network's doing. The first rows of an original image are blank.

mod measures;
mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm, Reads, RecurrentSize};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// Study of hidden-state dynamics.
pub struct HiddenDynamics;

/// A network of this study.
#[derive(Clone, Debug)]
struct Entry {
    id: &'static str,
    title: &'static str,
    arch: Arch,
    weight_scale: f64,
    norms: &'static [Norm],
}

/// Frames of the animations, besides the start.
const MOMENTS: usize = 8;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 1;
/// Factor for weights that are too large.
const LARGE: f64 = 3.0;

fn entries(full: bool) -> Vec<Entry> {
    let size = RecurrentSize { hidden: if full { 128 } else { 32 }, reads: Reads::Rows, layers: 1 };
    let entry = |id, title, arch| Entry { id, title, arch, weight_scale: 1.0, norms: &[Norm::None, Norm::Layer] };
    vec![
        Entry { norms: &[Norm::None, Norm::Batch, Norm::Layer], ..entry("lstm", "LSTM", Arch::Lstm(size)) },
        entry("rnn", "RNN", Arch::Rnn(size)),
        Entry { weight_scale: LARGE, ..entry("rnn-large", "RNN, weights × 3", Arch::Rnn(size)) },
    ]
}

impl Entry {
    fn spec(&self, norm: Norm, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch.clone(), norm, seed, &settings.data);
        (spec.steps, spec.batch_size, spec.evaluations) = (120, 32, MOMENTS);
        (spec.learning_rate, spec.validation, spec.test) = (3e-3, 250, 0);
        (spec.start.weight_scale, spec.images.permuted) = (self.weight_scale, true);
        spec.probes = Probes { dynamics: true, ..Probes::default() };
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            spec.batch_size = 64;
            spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
        }
        trained::chosen(spec, settings)
    }
}

impl Study for HiddenDynamics {
    fn name(&self) -> &'static str {
        "dynamics"
    }

    fn question(&self) -> &'static str {
        "How stable are the hidden states and the gates of a recurrent network, over time and in training?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let plans = |entry: Entry| {
            let norms = entry.norms.iter().copied();
            trained::plans(self.name(), entry.id, norms, settings, |norm, seed, of| entry.spec(norm, seed, of))
        };
        entries(settings.full).into_iter().flat_map(plans).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}

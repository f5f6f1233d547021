//! Six networks, each without a norm and with several: how fast they learn, and their final error.
//!
//! All norms train at one common learning rate. Without a norm and with the norms of the sources (in the full study, with
//! every norm), networks also train at the other rates of a grid, and are compared at the best rate of each: the one with
//! the lowest mean validation loss during training, averaged over seeds.

mod pictures;
#[cfg(test)]
mod tests;

use super::trained::{self, Ran};
use super::{RunPlan, Settings, Study, tools};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Images, Spec};

/// Study that compares norms.
pub struct Compare;

/// A network of the comparison.
pub(super) struct Entry {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    arch: Arch,
    steps: usize,
    /// Epochs of the full study.
    full_epochs: usize,
    /// Training images of the quick study.
    train: usize,
    /// Evaluations of the quick study, and of the full one.
    evaluations: usize,
    full_evaluations: usize,
    images: Images,
    /// The validation loss that networks should reach soon.
    pub(super) goal: f64,
    /// All norms that are compared at the common rate.
    norms: &'static [Norm],
    /// The norms that are also compared at their best rates.
    tuned: &'static [Norm],
}

/// The common learning rate.
const COMMON: f64 = 2e-3;
/// The grid, besides the common rate.
const OTHERS: [f64; 3] = [5e-4, 8e-3, 3.2e-2];
/// The norms of the sources.
const SOURCES: &[Norm] = &[Norm::None, Norm::Batch, Norm::Layer];
/// Those that CNNs use.
const CNN: &[Norm] = &[Norm::None, Norm::Batch, Norm::Layer, Norm::Group, Norm::Instance];

/// The networks of the quick or the full study.
pub(super) fn entries(full: bool) -> Vec<Entry> {
    let (units, hidden, channels) = if full { (256, 128, [16, 32]) } else { (100, 64, [8, 16]) };
    let of = |id, title, arch, steps, goal| Entry {
        id,
        title,
        arch,
        steps,
        full_epochs: 3,
        train: 2000,
        evaluations: 10,
        full_evaluations: 20,
        images: Images::default(),
        goal,
        norms: &Norm::ALL,
        tuned: if full { &Norm::ALL } else { SOURCES },
    };
    let without_batch: &[Norm] = &[Norm::None, Norm::Layer];
    let transformer = |id, title, pre_norm| {
        let (width, heads) = if full { (64, 4) } else { (16, 2) };
        let images = Images { halved: true, ..Images::default() };
        let arch = Arch::Transformer { width, heads, blocks: 4, pre_norm };
        let norms: &[Norm] = if full { &[Norm::None, Norm::Layer, Norm::Rms] } else { without_batch };
        Entry { evaluations: 6, images, norms, tuned: norms, ..of(id, title, arch, 90, 0.7) }
    };
    let mut entries = vec![
        of("mlp", "MLP", Arch::mlp(&[units, units, units]), 150, 0.4),
        Entry {
            train: 6000,
            norms: if full { &[Norm::None, Norm::Layer, Norm::Rms, Norm::Group, Norm::Weight] } else { without_batch },
            // With RMS norm, the LSTM is not fused and takes six times as long.
            tuned: if full { &[Norm::None, Norm::Layer, Norm::Group, Norm::Weight] } else { without_batch },
            ..of("lstm", "LSTM over rows", Arch::lstm(hidden, Reads::Rows), 120, 0.7)
        },
        Entry {
            train: 6000,
            // With batch norm, every evaluation computes the statistics of all time steps first.
            evaluations: 3,
            full_evaluations: 6,
            // The first rows of whole images are blank, which harms batch norm in recurrent networks.
            images: Images { cropped: true, ..Images::default() },
            norms: SOURCES,
            tuned: SOURCES,
            ..of("middle", "LSTM over the middle rows", Arch::lstm(hidden / 2, Reads::Rows), 90, 0.9)
        },
        Entry {
            norms: CNN,
            tuned: if full { CNN } else { SOURCES },
            ..of("cnn", "CNN", Arch::Cnn { channels }, 120, 0.4)
        },
        transformer("transformer", "Post-norm Transformer", false),
        transformer("transformer-pre", "Pre-norm Transformer", true),
    ];
    if full {
        let lstm = Arch::lstm(hidden, Reads::Pixels);
        entries.push(Entry {
            // An LSTM over pixels takes 28 times as long as one over rows.
            full_epochs: 1,
            full_evaluations: 5,
            // In their own order, the first pixels are the same in all images: gradients of batch norm overflow.
            images: Images { permuted: true, ..Images::default() },
            norms: SOURCES,
            tuned: &[],
            ..of("pixels", "LSTM over 784 permuted pixels", lstm, 0, 1.0)
        });
    }
    entries
}

impl Entry {
    /// The rates of a norm, the common one first.
    fn rates(&self, norm: Norm, settings: &Settings) -> Vec<f64> {
        let others = OTHERS.into_iter().filter(|_| self.tuned.contains(&norm) && settings.learning_rate.is_none());
        std::iter::once(COMMON).chain(others).collect()
    }

    fn spec(&self, norm: Norm, rate: f64, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch.clone(), norm, seed, &settings.data);
        (spec.learning_rate, spec.steps) = (rate, self.steps);
        (spec.train, spec.evaluations) = (self.train, self.evaluations);
        (spec.images, spec.test) = (self.images, 500);
        if settings.full {
            [spec.train, spec.validation, spec.test] = settings.all_images();
            spec.evaluations = self.full_evaluations;
            spec.steps = self.full_epochs * spec.steps_of_epoch();
        }
        trained::chosen(spec, settings)
    }
}

/// The case name of a network with a norm at a rate; at the common rate, just that of the network with the norm.
pub(super) fn case(id: &str, norm: Norm, rate: f64) -> String {
    let case = trained::case(id, norm);
    if rate == COMMON { case } else { format!("{case}-{rate:e}") }
}

impl Study for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }

    fn question(&self) -> &'static str {
        "How do networks learn without a norm, with batch norm, with layer norm and with related norms?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        for entry in entries(settings.full) {
            for &norm in entry.norms.iter().filter(|&&norm| entry.arch.refuses(norm).is_none()) {
                for rate in entry.rates(norm, settings) {
                    let case = case(entry.id, norm, rate);
                    let of = |seed| entry.spec(norm, rate, seed, settings);
                    plans.extend(
                        tools::seeds(settings).map(|seed| trained::plan(self.name(), &case, of(seed), settings)),
                    );
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        let runs: Vec<Ran> = trained::read(records);
        pictures::story(self.name(), self.question(), &runs, records)
    }
}

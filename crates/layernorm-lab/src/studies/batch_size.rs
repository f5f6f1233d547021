//! Batch size: the same images, in batches of 1 to 128.
//!
//! An MLP, a CNN and an LSTM train without a norm, with batch norm and with layer norm, for the same number of epochs at
//! every batch size; the CNN also with group norm. At two batch sizes, the MLP also trains at the other learning rates of a
//! grid, and norms are compared at the best rate of each: the one with the lowest mean validation error. The full study adds the
//! network of the paper's section 6.6, 784-1000-1000-10, in which batch norm also normalizes the logits and layer norm does not.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Activation, Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::Spec;

/// Study of batch sizes.
pub struct BatchSize;

/// Batch sizes of the MLP: the paper's (4 and 128), others' (5 and 50), a single sample, and some in between.
const SIZES: &[usize] = &[1, 2, 4, 5, 8, 32, 50, 128];
/// Batch sizes of the CNN and the LSTM.
const FEWER_SIZES: &[usize] = &[1, 2, 4, 8, 32, 128];
/// The paper's batch sizes.
const PAPER_SIZES: &[usize] = &[4, 128];
const NORMS: [Norm; 4] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Group];

/// The batch sizes at which the MLP also trains at [`OTHER_RATES`]: the paper's. With batches of 1, batch norm learns at no rate.
const TUNED_SIZES: [usize; 2] = [4, 128];
/// The learning rate of all runs but those of the LSTM and the CNN, and the rest of the grid.
const COMMON: f64 = 1e-3;
const OTHER_RATES: [f64; 2] = [2.5e-4, 4e-3];

/// Epochs of the quick study (and of the CNN and the LSTM in the full one), of the full study, and of the paper's network.
const QUICK_EPOCHS: usize = 2;
const FULL_EPOCHS: usize = 5;
const PAPER_EPOCHS: usize = 60;
/// Training steps of the CNN and the LSTM, at least: with batches of 128, their few images make few steps.
const LEAST_STEPS: usize = 80;
/// Training images of the CNN and the LSTM in the full study, at most: batches of 1 take a step for each.
const MOST_IMAGES: usize = 4_000;

/// A network of this study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Mlp,
    Cnn,
    Lstm,
    /// The paper's.
    Paper,
}

impl Network {
    const ALL: [Network; 4] = [Network::Mlp, Network::Cnn, Network::Lstm, Network::Paper];

    /// Start of the names of its cases.
    fn id(self) -> &'static str {
        match self {
            Network::Mlp => "small",
            Network::Cnn => "cnn",
            Network::Lstm => "lstm",
            Network::Paper => "paper",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Network::Mlp => "MLP",
            Network::Cnn => "CNN",
            Network::Lstm => "LSTM",
            Network::Paper => "784-1000-1000-10",
        }
    }

    fn sizes(self) -> &'static [usize] {
        match self {
            Network::Mlp => SIZES,
            Network::Cnn | Network::Lstm => FEWER_SIZES,
            Network::Paper => PAPER_SIZES,
        }
    }

    /// Whether it is trained with this seed and batches of this size: the MLP trains in a fraction of the others' time, and has
    /// more seeds.
    fn has(self, size: usize, seed: u64, settings: &Settings) -> bool {
        match self {
            Network::Mlp if size > 2 => true,
            // Batches of 1 or 2 take the most steps.
            Network::Mlp | Network::Cnn | Network::Lstm => tools::seeds(settings).any(|one| one == seed),
            Network::Paper => settings.full,
        }
    }

    /// The norms that it trains with: batch norm and layer norm, the paper's network with no others.
    fn norms(self) -> impl Iterator<Item = Norm> {
        NORMS.into_iter().filter(move |norm| match norm {
            Norm::None => self != Network::Paper,
            Norm::Group => self == Network::Cnn,
            _ => true,
        })
    }

    /// The rates at which it trains with batches of this size.
    fn rates(self, size: usize, seed: u64, settings: &Settings) -> Vec<f64> {
        let common = settings.learning_rate.unwrap_or(match self {
            Network::Cnn | Network::Lstm => 3e-3,
            Network::Mlp | Network::Paper => COMMON,
        });
        let tuned = self == Network::Mlp && TUNED_SIZES.contains(&size) && settings.learning_rate.is_none();
        // Only with the usual number of seeds, to save time.
        let others = OTHER_RATES.into_iter().filter(|_| tuned && tools::seeds(settings).any(|one| one == seed));
        std::iter::once(common).chain(others).collect()
    }

    fn arch(self, norm: Norm, full: bool) -> Arch {
        match self {
            Network::Mlp => Arch::mlp(&[100, 100]),
            Network::Cnn => Arch::Cnn { channels: if full { [16, 32] } else { [8, 16] } },
            Network::Lstm => Arch::lstm(if full { 128 } else { 32 }, Reads::Rows),
            Network::Paper => {
                Arch::Mlp { hidden: vec![1000, 1000], activation: Activation::Relu, output_norm: norm == Norm::Batch }
            }
        }
    }

    /// Numbers of training, validation and test images.
    fn images(self, settings: &Settings) -> [usize; 3] {
        let small = matches!(self, Network::Cnn | Network::Lstm);
        match (settings.full, small) {
            (false, false) => [1500, 1000, 1000],
            (false, true) => [if self == Network::Cnn { 500 } else { 300 }, 500, 0],
            (true, _) => {
                let [train, validation, test] = settings.all_images();
                let most = match self {
                    Network::Cnn | Network::Lstm => MOST_IMAGES,
                    Network::Mlp | Network::Paper => train,
                };
                [train.min(most), validation, test]
            }
        }
    }

    fn epochs(self, settings: &Settings) -> usize {
        settings.epochs.unwrap_or(match (self, settings.full) {
            (Network::Paper, _) => PAPER_EPOCHS,
            (Network::Cnn | Network::Lstm, _) => QUICK_EPOCHS,
            (Network::Mlp, true) => FULL_EPOCHS,
            (Network::Mlp, false) => QUICK_EPOCHS,
        })
    }

    fn spec(self, norm: Norm, size: usize, rate: f64, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch(norm, settings.full), norm, seed, &settings.data);
        [spec.train, spec.validation, spec.test] = self.images(settings);
        (spec.batch_size, spec.evaluations, spec.learning_rate) = (size, if settings.full { 15 } else { 8 }, rate);
        spec.steps = self.epochs(settings) * spec.steps_of_epoch();
        match self {
            Network::Cnn | Network::Lstm => {
                // With batch norm in an LSTM, every evaluation computes the statistics of all time steps first.
                spec.evaluations = if self == Network::Lstm && !settings.full { 2 } else { 4 };
                spec.steps = spec.steps.max(LEAST_STEPS);
            }
            Network::Paper => spec.evaluations = PAPER_EPOCHS,
            Network::Mlp => {}
        }
        // The first rows of whole images are blank, which harms batch norm in recurrent networks.
        spec.images.cropped = self == Network::Lstm;
        spec
    }
}

impl Study for BatchSize {
    fn name(&self) -> &'static str {
        "batch-size"
    }

    fn question(&self) -> &'static str {
        "How does each norm depend on the batch size?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        for seed in tools::many_seeds(settings) {
            // The longest runs first, so that no worker waits for them at the end.
            for network in Network::ALL.into_iter().rev() {
                let sizes = settings.batch_size.map_or(network.sizes().to_vec(), |size| vec![size]);
                let sizes: Vec<usize> = sizes.into_iter().filter(|&size| network.has(size, seed, settings)).collect();
                for (norm, &size) in network.norms().flat_map(|norm| sizes.iter().map(move |size| (norm, size))) {
                    for rate in network.rates(size, seed, settings) {
                        let other = OTHER_RATES.contains(&rate) && settings.learning_rate.is_none();
                        let case = if other { case_at(network, norm, size, rate) } else { case(network, norm, size) };
                        let spec = network.spec(norm, size, rate, seed, settings);
                        plans.push(trained::plan(self.name(), &case, spec, settings));
                    }
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}

fn case(network: Network, norm: Norm, size: usize) -> String {
    format!("{}-{norm}-{size}", network.id())
}

/// The case at another rate than the common one.
fn case_at(network: Network, norm: Norm, size: usize, rate: f64) -> String {
    format!("{}-{rate:e}", case(network, norm, size))
}

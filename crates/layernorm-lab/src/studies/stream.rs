//! Learning from a stream: every image is predicted first and learned then, one at a time, while the classes change.
//!
//! A stream has phases in which the digits 0 to 4 and 5 to 9 alternate; a second stream has all digits in random order.
//! Networks without a norm, with batch norm and with layer norm update after every image. Batch norm and layer norm are
//! also tried with batches of 8, since batch norm needs a batch. Each has a small grid of learning rates, all with SGD.

mod online;
mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Optimizer, Spec, Stream};

/// Study of streams.
pub struct Streams;

/// Learning rates with single images.
const SINGLE: &[f64] = &[0.003, 0.01, 0.03];
/// Learning rates with batches: batch norm and layer norm are best at different ones.
const SEVERAL: &[f64] = &[0.01, 0.03, 0.1, 0.3, 1.0];
/// The smallest batch that is tried with batch norm, besides a single image.
const BATCH: usize = 8;

/// Phases of the stream with changes.
const PHASES: usize = 6;
/// Intervals of a phase in which errors are counted.
const INTERVALS: usize = 8;
/// Images of a phase in the quick study.
const QUICK_PHASE: usize = 200;

/// A norm with a batch size and its learning rates.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    norm: Norm,
    batch: usize,
    rates: &'static [f64],
}

impl Way {
    fn of(norm: Norm, batch: usize) -> Way {
        Way { norm, batch, rates: if batch == 1 { SINGLE } else { SEVERAL } }
    }

    /// The rate in the middle of the grid.
    fn middle(&self) -> f64 {
        self.rates[self.rates.len() / 2]
    }

    /// All of the study.
    fn all() -> [Way; 5] {
        let [none, batch, layer] = [Norm::None, Norm::Batch, Norm::Layer].map(|norm| Way::of(norm, 1));
        [none, batch, layer, Way::of(Norm::Batch, BATCH), Way::of(Norm::Layer, BATCH)]
    }

    /// Name of a run's case, without the rate.
    fn case(&self, order: Order) -> String {
        format!("{}-{}-{}", order.name(), self.norm, self.batch)
    }
}

/// The order of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Phases with different classes.
    Changing,
    /// All classes in random order.
    Shuffled,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Changing => "changing",
            Order::Shuffled => "shuffled",
        }
    }

    fn stream(self) -> Stream {
        let phases = match self {
            Order::Changing => {
                (0..PHASES).map(|phase| if phase % 2 == 0 { (0..5).collect() } else { (5..10).collect() })
            }
            Order::Shuffled => return Stream { phases: vec![(0..10).collect()] },
        };
        Stream { phases: phases.collect() }
    }
}

fn spec(way: Way, rate: f64, order: Order, seed: u64, settings: &Settings) -> Spec {
    let hidden: &[usize] = if settings.full { &[100, 100] } else { &[32, 32] };
    let mut spec = Spec::new(Arch::mlp(hidden), way.norm, seed, &settings.data);
    [spec.train, spec.validation, spec.test] = if settings.full { settings.all_images() } else { [6000, 50, 0] };
    let images = match (settings.epochs, settings.full) {
        (Some(epochs), _) => epochs.saturating_mul(spec.train),
        (None, true) => spec.train / 2,
        (None, false) => PHASES * QUICK_PHASE,
    };
    (spec.optimizer, spec.learning_rate, spec.batch_size) = (Optimizer::Sgd, rate, way.batch);
    spec.steps = images / way.batch;
    spec.evaluations = PHASES * INTERVALS;
    spec.stream = Some(order.stream());
    spec
}

impl Study for Streams {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn question(&self) -> &'static str {
        "Which norm suits learning from a stream, one image at a time, while the classes change?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let ways = match settings.batch_size {
            Some(batch) => [Norm::None, Norm::Batch, Norm::Layer].map(|norm| Way::of(norm, batch)).to_vec(),
            None => Way::all().to_vec(),
        };
        let mut plans = Vec::new();
        for seed in tools::many_seeds(settings) {
            for way in &ways {
                // Shuffled, the middle rate has to do.
                let rates = |order| if order == Order::Changing { way.rates.to_vec() } else { vec![way.middle()] };
                for order in [Order::Changing, Order::Shuffled] {
                    let chosen = settings.learning_rate.map_or(rates(order), |rate| vec![rate]);
                    for rate in chosen {
                        let spec = spec(*way, rate, order, seed, settings);
                        plans.push(trained::plan(self.name(), &format!("{}-{rate}", way.case(order)), spec, settings));
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

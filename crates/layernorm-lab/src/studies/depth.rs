//! Deep Transformers: with the norm before each sublayer (pre-norm), after it (post-norm), and without a norm.
//!
//! ```text
//! post-norm   x = N(x + A(x));  x = N(x + F(x))          the residual connection passes through every norm
//! pre-norm    x = x + A(N(x));  x = x + F(N(x))          an unbroken residual connection from input to output
//! ```
//!
//! Transformers of 2 to 12 blocks train with Adam from the first step at the full learning rate (no warm-up), all at the
//! same rate. The deepest are also trained at the other rates of a grid, so that each can be compared at its best rate, and
//! the deepest with post-norm with warm-up, which is its usual remedy. Images are halved to 14 rows, which makes the networks cheap.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Images, Spec};

/// Study of deep Transformers.
pub struct Depth;

const DEPTHS: [usize; 4] = [2, 4, 8, 12];
/// The learning rate of all depths.
const RATE: f64 = 0.01;
/// A lower rate, at which all of the deepest networks train.
const LOW_RATE: f64 = 0.003;
/// The learning rates of the deepest networks.
const RATES: [f64; 3] = [0.001, LOW_RATE, RATE];

/// A kind of Transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Post,
    Pre,
    None,
}

impl Way {
    const ALL: [Way; 3] = [Way::Post, Way::Pre, Way::None];

    fn id(self) -> &'static str {
        match self {
            Way::Post => "post",
            Way::Pre => "pre",
            Way::None => "none",
        }
    }
}

/// What a run varies besides the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    way: Way,
    blocks: usize,
    rate: f64,
    warm_up: bool,
}

impl Case {
    fn plain(way: Way, blocks: usize) -> Case {
        Case { way, blocks, rate: RATE, warm_up: false }
    }

    /// All of the study; one rate if the user chose it.
    fn all(rate: Option<f64>) -> Vec<Case> {
        let mut cases: Vec<Case> =
            DEPTHS.iter().flat_map(|&blocks| Way::ALL.map(|way| Case::plain(way, blocks))).collect();
        let deepest = |way| Case::plain(way, DEPTHS[DEPTHS.len() - 1]);
        cases.push(Case { warm_up: true, ..deepest(Way::Post) });
        match rate {
            Some(rate) => cases.iter_mut().for_each(|case| case.rate = rate),
            None => {
                let others = RATES.into_iter().filter(|&rate| rate != RATE);
                cases.extend(others.flat_map(|rate| Way::ALL.map(|way| Case { rate, ..deepest(way) })));
            }
        }
        cases
    }

    fn name(&self) -> String {
        let Case { way, blocks, rate, warm_up } = self;
        format!("{}-{blocks}-{rate}{}", way.id(), if *warm_up { "-warm-up" } else { "" })
    }
}

fn spec(case: Case, seed: u64, settings: &Settings) -> Spec {
    let (width, heads) = if settings.full { (32, 4) } else { (16, 2) };
    let norm = if case.way == Way::None { Norm::None } else { Norm::Layer };
    let arch = Arch::Transformer { width, heads, blocks: case.blocks, pre_norm: case.way != Way::Post };
    let mut spec = Spec::new(arch, norm, seed, &settings.data);
    spec.images = Images { halved: true, ..Images::default() };
    spec.batch_size = settings.batch_size.unwrap_or(16);
    spec.learning_rate = case.rate;
    (spec.steps, spec.evaluations) = (48, 3);
    [spec.train, spec.validation, spec.test] = [4000, 200, 0];
    if settings.full {
        [spec.train, spec.validation, spec.test] = settings.all_images();
        (spec.steps, spec.evaluations) = (400, 10);
        spec.validation = spec.validation.min(1000);
    }
    if let Some(epochs) = settings.epochs {
        spec.steps = epochs.saturating_mul(spec.steps_of_epoch());
    }
    spec.warm_up = if case.warm_up { spec.steps / 2 } else { 0 };
    spec
}

impl Study for Depth {
    fn name(&self) -> &'static str {
        "depth"
    }

    fn question(&self) -> &'static str {
        "Which deep Transformers train without warm-up: pre-norm, post-norm, or those without a norm?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        for seed in tools::seeds(settings) {
            for case in Case::all(settings.learning_rate) {
                plans.push(trained::plan(self.name(), &case.name(), spec(case, seed, settings), settings));
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}

//! Character models: an LSTM and a GRU learn to predict the next character of six plays, with and without layer norm,
//! at a common learning rate and at the best of a small grid.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, characters, tools};
use crate::data::Text;
use crate::language::{Cell, Sampling, Spec};
use crate::models::Norm;
use crate::records::Record;
use crate::report::Story;

/// Study of language models.
pub struct Language;

/// The networks: name and cell.
const CELLS: [(&str, Cell); 2] = [("lstm", Cell::Lstm), ("gru", Cell::Gru)];
const NORMS: [Norm; 2] = [Norm::None, Norm::Layer];
/// The learning rates of Adam, from which each norm takes its best.
const RATES: [f64; 4] = [3e-3, 1e-2, 3e-2, 1e-1];
/// The common learning rate.
const COMMON: f64 = RATES[1];
/// Steps of the full study.
const FULL_STEPS: usize = 300;

/// Name of a case. The rate is in scientific notation to keep the name short.
fn case(cell: &str, norm: Norm, rate: f64) -> String {
    format!("{cell}-{norm}-{rate:e}")
}

fn spec(cell: Cell, norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let mut spec = Spec::new(cell, norm, 64, seed, Text::EMBEDDED_LABEL);
    (spec.batch_size, spec.sampling) = (8, Sampling::Streams { segment: 32 });
    (spec.steps, spec.evaluations) = (200, 8);
    (spec.validation, spec.test, spec.sample) = (4_000, 8_000, 200);
    if settings.full {
        (spec.hidden, spec.batch_size, spec.sampling) = (128, 32, Sampling::Streams { segment: 64 });
        (spec.steps, spec.evaluations) = (FULL_STEPS, 15);
        (spec.validation, spec.test, spec.sample) = (8_000, 36_000, 400);
    }
    characters::chosen(spec, settings)
}

impl Study for Language {
    fn name(&self) -> &'static str {
        "language"
    }

    fn question(&self) -> &'static str {
        "Does layer norm help a recurrent network to model text?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        let rates = settings.learning_rate.map_or(RATES.to_vec(), |rate| vec![rate]);
        for (name, cell) in CELLS {
            for norm in NORMS {
                for &rate in &rates {
                    for seed in tools::seeds(settings) {
                        let spec = Spec { learning_rate: rate, ..spec(cell, norm, seed, settings) };
                        plans.push(characters::plan(self.name(), &case(name, norm, rate), spec, settings));
                    }
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &characters::read(records), records)
    }
}

//! Backpropagated gradients: through the layers of a deep network, and through the time steps of a recurrent one.
//!
//! ```text
//! layers   ‖∂L/∂W‖ of each layer        L: the mean loss of a batch of validation images
//! time     ‖∂L/∂h‖ of each time step
//! decay    log₁₀ of the gradient at a late position over that at an early one: the powers of ten that it loses
//! ```
//!
//! The decay is measured between positions of equal size: all time steps, and the hidden layers from the second on.
//! (The first layer has 784 inputs and the last has 10 outputs, so their gradients differ for reasons other than
//! depth.)

mod pictures;
#[cfg(test)]
mod tests;

use super::trained;
use super::{RunPlan, Settings, Study, tools};
use crate::models::{Activation, Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// Study of backpropagated gradients.
pub struct GradientFlow;

/// A network of this study.
#[derive(Clone, Debug)]
struct Entry {
    id: &'static str,
    title: &'static str,
    arch: Arch,
    steps: usize,
    batch_size: usize,
}

const NORMS: [Norm; 4] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Rms];
/// Hidden layers of the deep networks.
const LAYERS: usize = 10;
/// Frames of the animation, besides the start.
const MOMENTS: usize = 20;
/// Epochs of the full study. An LSTM over pixels takes 28 times as long as one over rows, so it gets fewer.
const FULL_EPOCHS: usize = 5;
const PIXEL_EPOCHS: usize = 1;

fn entries(full: bool) -> Vec<Entry> {
    let deep =
        |activation| Arch::Mlp { hidden: vec![if full { 128 } else { 32 }; LAYERS], activation, output_norm: false };
    let mlp = |id, title, activation| Entry { id, title, arch: deep(activation), steps: 200, batch_size: 64 };
    let lstm =
        |id, title, hidden, reads| Entry { id, title, arch: Arch::lstm(hidden, reads), steps: 150, batch_size: 32 };
    let mut entries = vec![
        mlp("relu", "Deep MLP, ReLU", Activation::Relu),
        mlp("tanh", "Deep MLP, tanh", Activation::Tanh),
        lstm("rows", "LSTM over rows", if full { 128 } else { 32 }, Reads::Rows),
    ];
    if full {
        entries.push(lstm("pixels", "LSTM over 784 pixels", 64, Reads::Pixels));
    }
    entries
}

impl Entry {
    /// Whether its gradients are per time step rather than per layer.
    fn through_time(&self) -> bool {
        self.arch.as_recurrent().is_some()
    }

    /// The first and the last of `places` positions that have equal size.
    fn ends(&self, places: usize) -> Option<[usize; 2]> {
        let last = places.checked_sub(1)?;
        match self.through_time() {
            true => Some([0, last]),
            false => Some([1, last.checked_sub(1)?]),
        }
    }

    /// A description of the path between them.
    fn way(&self) -> String {
        match self.through_time() {
            true => "from the last time step to the first".to_owned(),
            false => format!("from layer {LAYERS} to layer 2"),
        }
    }

    /// Label of its positions.
    fn places(&self) -> &'static str {
        match self.arch.as_recurrent().map(|(_, size)| size.reads) {
            Some(Reads::Pixels) => "time step (pixel of the image)",
            Some(Reads::Rows) => "time step (row of the image)",
            None => "layer, from input to output",
        }
    }

    fn spec(&self, norm: Norm, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch.clone(), norm, seed, &settings.data);
        (spec.steps, spec.batch_size, spec.evaluations) = (self.steps, self.batch_size, MOMENTS);
        (spec.learning_rate, spec.validation, spec.test) = (2e-3, 250, 0);
        let through_time = self.through_time();
        spec.probes = Probes { gradients: !through_time, time: through_time, ..Probes::default() };
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            spec.batch_size = 64;
            let epochs = if self.id == "pixels" { PIXEL_EPOCHS } else { FULL_EPOCHS };
            spec.steps = epochs * spec.steps_of_epoch();
        }
        trained::chosen(spec, settings)
    }
}

impl Study for GradientFlow {
    fn name(&self) -> &'static str {
        "gradient-flow"
    }

    fn question(&self) -> &'static str {
        "How much of the gradient reaches the first layers of a deep network and the first time steps of a recurrent \
         one?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        for entry in entries(settings.full) {
            for norm in NORMS {
                let case = trained::case(entry.id, norm);
                let of = |seed| trained::plan(self.name(), &case, entry.spec(norm, seed, settings), settings);
                plans.extend(tools::seeds(settings).map(of));
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}

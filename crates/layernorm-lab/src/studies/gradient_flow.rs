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

mod flow;
mod pictures;
#[cfg(test)]
mod tests;

use super::trained;
use super::{RunPlan, Settings, Study, tools};
use crate::models::{Activation, Arch, Norm, Reads, RecurrentSize};
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
    /// Its name among the other networks of its kind.
    label: &'static str,
    /// The animation that shows it; networks with the same positions can share one.
    chart: &'static str,
    arch: Arch,
    /// Factor for the initial weights.
    weight_scale: f64,
    /// Whether the images are reduced to half of their rows and columns.
    halved: bool,
    norms: &'static [Norm],
    steps: usize,
    batch_size: usize,
    evaluations: usize,
}

const NORMS: [Norm; 4] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Rms];
/// Batch norm and RMS norm are slow in a recurrent network.
const FAST: [Norm; 2] = [Norm::None, Norm::Layer];
/// Hidden layers of the deep networks.
const LAYERS: usize = 10;
/// Frames of the animation, besides the start.
const MOMENTS: usize = 20;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;
/// Steps and evaluations of the networks over pixels in the full study.
const FULL_PIXEL_STEPS: usize = 100;
const FULL_PIXEL_MOMENTS: usize = 10;
/// Their validation images: with all of them, evaluations would take longer than training.
const FULL_PIXEL_VALIDATION: usize = 500;
/// Factors for weights that are too small and too large. With weights uniform in ±k/√f, summed inputs have the standard
/// deviation s = k/√3 times that of the inputs. For a small k, tanh is nearly linear, and a layer multiplies the gradient
/// by s. For a large k, the inputs of a layer are near ±1 and tanh' is not near 0 for about one unit in s, so that a
/// layer multiplies the gradient by about 0.7·√s. (With ReLU, large weights would not show: gradients grow towards the
/// input as fast as activations shrink, and the gradient of a weight is their product.)
const SMALL: f64 = 0.3;
const LARGE: f64 = 20.0;

/// The animations: their ids and titles.
const CHARTS: [(&str, &str); 9] = [
    ("relu", "Deep MLP, ReLU"),
    ("tanh", "Deep MLP, tanh"),
    ("small", "Deep MLP, tanh, weights too small"),
    ("large", "Deep MLP, tanh, weights too large"),
    ("rows", "LSTM over rows"),
    ("rows-others", "RNN and GRU over rows"),
    ("halved", "RNN, GRU and LSTM over 196 pixels"),
    ("pixels", "LSTM over 784 pixels"),
    ("pixels-others", "RNN and GRU over 784 pixels"),
];

fn entries(full: bool) -> Vec<Entry> {
    let deep =
        |activation| Arch::Mlp { hidden: vec![if full { 128 } else { 32 }; LAYERS], activation, output_norm: false };
    let mlp = |id, title, label, activation| Entry {
        id,
        title,
        label,
        chart: id,
        arch: deep(activation),
        weight_scale: 1.0,
        halved: false,
        norms: &NORMS,
        steps: 200,
        batch_size: 64,
        evaluations: MOMENTS,
    };
    let scaled = |id, title, label, weight_scale| Entry {
        weight_scale,
        steps: 100,
        evaluations: 10,
        ..mlp(id, title, label, Activation::Tanh)
    };
    let network = |id, title, label, chart, arch| Entry {
        chart,
        arch,
        steps: 150,
        batch_size: 32,
        // With batch norm, every evaluation computes the statistics of all time steps first.
        evaluations: if full { MOMENTS } else { 10 },
        ..mlp(id, title, label, Activation::Tanh)
    };
    let others = |entry: Entry| Entry { norms: &FAST, ..entry };
    let halved = |entry: Entry| Entry {
        halved: true,
        norms: if full && entry.id == "lstm-halved" { &NORMS } else { &FAST },
        steps: 60,
        evaluations: 10,
        ..entry
    };
    let size = |hidden, reads| RecurrentSize { hidden, reads, layers: 1 };
    let rows = size(if full { 128 } else { 32 }, Reads::Rows);
    let half = size(if full { 64 } else { 32 }, Reads::Pixels);
    let mut entries = vec![
        mlp("relu", "Deep MLP, ReLU", "ReLU", Activation::Relu),
        mlp("tanh", "Deep MLP, tanh", "tanh", Activation::Tanh),
        scaled("small", "Deep MLP, tanh, weights × 0.3", "tanh, weights × 0.3", SMALL),
        scaled("large", "Deep MLP, tanh, weights × 20", "tanh, weights × 20", LARGE),
        Entry {
            // RMS norm is not fused in recurrent networks, and slow.
            norms: if full { &NORMS } else { &NORMS[..3] },
            ..network("rows", "LSTM over rows", "LSTM, rows", "rows", Arch::Lstm(rows))
        },
        others(network("rnn-rows", "RNN over rows", "RNN, rows", "rows-others", Arch::Rnn(rows))),
        others(network("gru-rows", "GRU over rows", "GRU, rows", "rows-others", Arch::Gru(rows))),
        halved(network("rnn-halved", "RNN over 196 pixels", "RNN, 196", "halved", Arch::Rnn(half))),
        halved(network("gru-halved", "GRU over 196 pixels", "GRU, 196", "halved", Arch::Gru(half))),
        halved(network("lstm-halved", "LSTM over 196 pixels", "LSTM, 196", "halved", Arch::Lstm(half))),
    ];
    if full {
        let pixels = size(64, Reads::Pixels);
        entries.extend([
            Entry {
                norms: &NORMS[..3],
                ..network("pixels", "LSTM over 784 pixels", "LSTM, 784", "pixels", Arch::Lstm(pixels))
            },
            others(network("rnn-pixels", "RNN over 784 pixels", "RNN, 784", "pixels-others", Arch::Rnn(pixels))),
            others(network("gru-pixels", "GRU over 784 pixels", "GRU, 784", "pixels-others", Arch::Gru(pixels))),
        ]);
    }
    entries
}

impl Entry {
    /// Whether its gradients are per time step rather than per layer.
    fn through_time(&self) -> bool {
        self.arch.as_recurrent().is_some()
    }

    /// Whether a time step is a pixel.
    fn over_pixels(&self) -> bool {
        self.arch.as_recurrent().is_some_and(|(_, size)| size.reads == Reads::Pixels)
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
            Some(Reads::Pixels) => "time step (pixel)",
            Some(Reads::Rows) => "time step (row of 28 pixels)",
            None => "layer, from input to output",
        }
    }

    fn spec(&self, norm: Norm, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch.clone(), norm, seed, &settings.data);
        (spec.steps, spec.batch_size, spec.evaluations) = (self.steps, self.batch_size, self.evaluations);
        (spec.learning_rate, spec.validation, spec.test) = (2e-3, 250, 0);
        (spec.start.weight_scale, spec.images.halved) = (self.weight_scale, self.halved);
        let through_time = self.through_time();
        // In their own order, the first pixels are blank in all images, and batch norm would divide by almost nothing.
        spec.images.permuted = through_time;
        spec.probes = Probes { gradients: !through_time, time: through_time, ..Probes::default() };
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            spec.batch_size = 64;
            spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
            if self.over_pixels() {
                spec.steps = spec.steps.min(FULL_PIXEL_STEPS);
                spec.evaluations = FULL_PIXEL_MOMENTS;
                spec.validation = spec.validation.min(FULL_PIXEL_VALIDATION);
            }
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
            for &norm in entry.norms {
                let case = trained::case(entry.id, norm);
                let of = |seed| trained::plan(self.name(), &case, entry.spec(norm, seed, settings), settings);
                // The recurrent networks take several times as long.
                if matches!(entry.arch, Arch::Mlp { .. }) {
                    plans.extend(tools::many_seeds(settings).map(of));
                } else {
                    plans.extend(tools::seeds(settings).map(of));
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}

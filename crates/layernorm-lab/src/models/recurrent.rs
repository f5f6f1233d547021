//! A recurrent network over the rows or the pixels of an image; its last state is classified.
//!
//! ```text
//! none, layer, group   one fused operation: the paper's cell without norms, the paper's cell, and the paper's cell with
//!                      each gate normalized separately
//! weight               the fused cell without norms on W = g·v/‖v‖ and U likewise
//! batch, rms           one step at a time ([`StepCell`]), with norms at the positions of the paper's layer norms
//! ```
//!
//! All of them use the seed's W and U, and those with a bias b the seed's b; the bias of an LSTM's forget gate starts at
//! 1 more. The paper's GRU and RNN have no b besides β of their norms.

use super::dense::{Dense, lengths, normalized};
use super::start::Draw;
use super::states::{self, StepState, StepStatistics};
use super::steps::StepCell;
use super::{LOGITS, Norm, Reads, RecurrentSize, Start, Taps, Weight};
use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Tensor};
use layernorm_burn::Recurrent;
use layernorm_rnn::{Config, Init, Kind, Network, Over, Slot, Variant};

/// A recurrent network with a linear classifier.
#[derive(Module, Debug)]
pub struct Reader {
    cells: Cells,
    last: Dense,
    #[module(skip)]
    reads: Reads,
}

/// The recurrent network itself.
#[expect(clippy::large_enum_variant, reason = "a network has one of them")]
#[derive(Module, Debug)]
pub enum Cells {
    /// One fused operation.
    Fused(Fused),
    /// One step at a time.
    Steps(StepCell),
}

/// A fused network, with or without weight norm.
#[derive(Module, Debug)]
pub struct Fused {
    /// The network, of any kind. The name of this field is part of the parameters' names in files.
    lstm: Layers,
    /// g of W and of U, `[G·H]`.
    lengths: Option<Lengths>,
}

/// The layers of a fused network.
#[derive(Module, Debug)]
pub struct Layers {
    net: Recurrent,
}

/// g of W and of U.
#[derive(Module, Debug)]
pub struct Lengths {
    input: Param<Tensor<1>>,
    recurrent: Param<Tensor<1>>,
}

impl Reader {
    pub(super) fn new(
        kind: Kind,
        size: RecurrentSize,
        [rows, columns]: [usize; 2],
        norm: Norm,
        draw: &mut Draw<'_>,
    ) -> Result<Reader, String> {
        let (steps, input) = match size.reads {
            Reads::Rows => (rows, columns),
            Reads::Pixels => (rows * columns, 1),
        };
        let variant = variant(kind, norm, draw.start).map_err(|error| error.to_string())?;
        let config = Config::new(variant, input, size.hidden).with_layers(size.layers);
        let network = network(config, draw.seed(), draw.start).map_err(|error| error.to_string())?;
        let cells = match norm {
            Norm::Batch | Norm::Rms => Cells::Steps(StepCell::new(&network, steps, norm, draw)),
            _ => Cells::Fused(Fused::new(&network, norm, draw.device)?),
        };
        Ok(Reader { cells, last: Dense::new(size.hidden, LOGITS, norm, draw), reads: size.reads })
    }

    pub(super) fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        let x = self.sequence(images);
        let states = match &self.cells {
            Cells::Fused(fused) => {
                let [h, _] = fused.weighted().forward(x, [None, None], None).1;
                h.expect("a recurrent network has h")
            }
            Cells::Steps(cell) => cell.forward(x, None).unsqueeze_dim(0),
        };
        let layers = states.dims()[0];
        for layer in 0..layers {
            let h = state(&states, layer);
            let number = if layers == 1 { String::new() } else { format!(", layer {}", layer + 1) };
            taps.vectors(|| format!("last state{number}"), &h, &h);
        }
        self.last.forward(state(&states, layers - 1))
    }

    pub(super) fn forward_through_time(&self, images: Tensor<3>) -> (Tensor<2>, Vec<Tensor<3>>) {
        let x = self.sequence(images);
        let mut marks = Vec::new();
        let h = match &self.cells {
            Cells::Fused(fused) => {
                let (net, mut states) = (fused.weighted(), [None, None]);
                for step in 0..x.dims()[1] {
                    let [h, c] = net.forward(x.clone().narrow(1, step, 1), states, None).1;
                    states = [h.map(|h| last_layer_marked(h, &mut marks)), c];
                }
                let [h, _] = states;
                h.map_or_else(|| Tensor::zeros([x.dims()[0], 0], &x.device()), |h| state(&h, h.dims()[0] - 1))
            }
            Cells::Steps(cell) => cell.forward(x, Some(&mut marks)),
        };
        (self.last.forward(h), marks)
    }

    /// a, c and h of the last layer at every time step.
    pub(super) fn states(&self, images: Tensor<3>) -> Vec<StepState> {
        let x = self.sequence(images);
        match &self.cells {
            Cells::Fused(fused) => states::fused(&fused.weighted(), x),
            Cells::Steps(cell) => cell.states(x),
        }
    }

    /// The running statistics of its batch norms.
    pub(super) fn statistics(&self) -> Vec<StepStatistics> {
        match &self.cells {
            Cells::Fused(_) => Vec::new(),
            Cells::Steps(cell) => cell.statistics(),
        }
    }

    /// With the same running statistics for all time steps.
    pub(super) fn with_shared_statistics(self) -> Reader {
        let cells = match self.cells {
            Cells::Steps(cell) => Cells::Steps(cell.with_shared_statistics()),
            fused => fused,
        };
        Reader { cells, ..self }
    }

    /// `[B, steps, inputs per step]`.
    fn sequence(&self, images: Tensor<3>) -> Tensor<3> {
        let [batch, rows, columns] = images.dims();
        match self.reads {
            Reads::Rows => images,
            Reads::Pixels => images.reshape([batch, rows * columns, 1]),
        }
    }

    /// Sets the momentum of the running statistics; returns whether there are any.
    pub(super) fn set_momentum(&mut self, momentum: f64) -> bool {
        match &mut self.cells {
            Cells::Fused(_) => false,
            Cells::Steps(cell) => cell.set_momentum(momentum),
        }
    }

    pub(super) fn weights(&self) -> Vec<(String, Weight)> {
        let cells: Vec<[ParamId; 2]> = match &self.cells {
            Cells::Fused(fused) => {
                fused.lstm.net.cells.iter().map(|cell| [cell.input_weight.id, cell.recurrent_weight.id]).collect()
            }
            Cells::Steps(cell) => vec![cell.weights()],
        };
        let number = |layer: usize| if cells.len() == 1 { String::new() } else { format!(" {}", layer + 1) };
        let named = cells.iter().enumerate().flat_map(|(layer, ids)| {
            let names = ["input", "recurrent"].map(|name| format!("{name}{}", number(layer)));
            names.into_iter().zip(ids.map(Weight::Matrix))
        });
        named.chain([("logits".to_owned(), self.last.handle())]).collect()
    }
}

/// h `[B, H]` of a layer, from those of all layers `[L, B, H]`.
fn state(states: &Tensor<3>, layer: usize) -> Tensor<2> {
    states.clone().narrow(0, layer, 1).squeeze_dim(0)
}

/// The states `[L, B, H]` with that of the last layer [`marked`]. The others also reach the loss within the step, so
/// their marks would not get the whole gradient.
fn last_layer_marked(states: Tensor<3>, marks: &mut Vec<Tensor<3>>) -> Tensor<3> {
    let below = states.dims()[0] - 1;
    let last = marked(states.clone().narrow(0, below, 1), marks);
    if below == 0 { last } else { Tensor::cat(vec![states.narrow(0, 0, below), last], 0) }
}

/// The state plus a zero tensor whose gradient equals that of the state. Without autodiff there is no gradient.
pub(super) fn marked(state: Tensor<3>, marks: &mut Vec<Tensor<3>>) -> Tensor<3> {
    let device = state.device();
    let zero = Tensor::zeros(state.dims(), &device);
    let zero = if device.is_autodiff() { zero.require_grad() } else { zero };
    marks.push(zero.clone());
    state + zero
}

impl Fused {
    pub(super) fn new(network: &Network<f32>, norm: Norm, device: &Device) -> Result<Fused, String> {
        let net = Recurrent::from_network(network, true, device).map_err(|error| error.to_string())?;
        let length = |weight| lengths(weight, 0, norm);
        let lengths = net.cells.first().and_then(|cell| {
            Some(Lengths { input: length(&cell.input_weight)?, recurrent: length(&cell.recurrent_weight)? })
        });
        Ok(Fused { lstm: Layers { net }, lengths })
    }

    /// With weight norm applied, if it is used.
    pub(super) fn weighted(&self) -> Recurrent {
        let mut net = self.lstm.net.clone();
        if let (Some(lengths), Some(cell)) = (&self.lengths, net.cells.first_mut()) {
            let of = |v: &Param<Tensor<2>>, g| Param::initialized(ParamId::new(), normalized(v, Some(g), 0));
            cell.input_weight = of(&cell.input_weight, &lengths.input);
            cell.recurrent_weight = of(&cell.recurrent_weight, &lengths.recurrent);
        }
        net
    }
}

/// The paper's cell with the norms that are fused.
pub(super) fn variant(kind: Kind, norm: Norm, start: &Start) -> Result<Variant, layernorm_rnn::Error> {
    let mut cell = Variant::named(kind, "paper")?.with_eps(start.epsilon);
    if !matches!(norm, Norm::Layer | Norm::Group) {
        (cell.input_norm, cell.recurrent_norm, cell.sum_norm, cell.cell_norm) = (None, None, None, None);
        cell.bias = true;
    }
    for gates in [&mut cell.input_norm, &mut cell.recurrent_norm, &mut cell.sum_norm].into_iter().flatten() {
        if norm == Norm::Group {
            gates.over = Over::EachGate;
        }
        (gates.gain, gates.bias) = (start.affine, start.affine);
    }
    if let Some(state) = &mut cell.cell_norm {
        (state.norm.gain, state.norm.bias) = (start.affine, start.affine);
    }
    Ok(cell)
}

/// The initial values, in the layout of layernorm-rnn.
pub(crate) fn network(config: Config, seed: u64, start: &Start) -> Result<Network<f32>, layernorm_rnn::Error> {
    let init = Init { forget_bias: 1.0, ..Init::for_variant(&Variant::named(config.variant.kind, "none")?) };
    let mut network = Network::new(config, init, seed)?;
    let params = network.params_mut();
    let mut set = |slot, change: &dyn Fn(&mut f32)| {
        for layer in 0..config.layers {
            if let Some(values) = params.get_mut(layer, 0, slot) {
                values.iter_mut().for_each(change);
            }
        }
    };
    for slot in [Slot::InputWeight, Slot::RecurrentWeight] {
        set(slot, &|value| *value = (f64::from(*value) * start.weight_scale) as f32);
    }
    for slot in [Slot::InputNormGain, Slot::RecurrentNormGain, Slot::SumNormGain, Slot::CellNormGain] {
        set(slot, &|value| *value = start.gain as f32);
    }
    for slot in [Slot::InputNormBias, Slot::RecurrentNormBias, Slot::SumNormBias, Slot::CellNormBias] {
        set(slot, &|value| *value = start.bias as f32);
    }
    Ok(network)
}

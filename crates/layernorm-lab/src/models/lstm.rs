//! An LSTM over the rows or the pixels of an image; its last state is classified.
//!
//! ```text
//! none, layer, group   one fused operation: variants `none`, `paper`, and `paper` with each gate normalized separately
//! weight               the fused plain cell on W = g·v/‖v‖ and U likewise
//! batch, rms           one step at a time ([`StepLstm`]), with norms at the positions of the paper's layer norms
//! ```
//!
//! All of them use the seed's W, U and b; the forget gate's bias starts at 1.

use super::dense::{Dense, lengths, normalized};
use super::start::Draw;
use super::steps::StepLstm;
use super::{LOGITS, Norm, Reads, Start, Taps, Weight};
use burn::module::{Module, Param, ParamId};
use burn::nn::LstmState;
use burn::tensor::{Device, Tensor};
use layernorm_burn::{Lstm, Recurrent};
use layernorm_rnn::{Config, Init, Kind, Network, Over, Slot, Variant};

/// An LSTM with a linear classifier.
#[derive(Module, Debug)]
pub struct Reader {
    cells: Cells,
    last: Dense,
    #[module(skip)]
    reads: Reads,
}

/// The LSTM itself.
#[expect(clippy::large_enum_variant, reason = "a network has one of them")]
#[derive(Module, Debug)]
pub enum Cells {
    /// One fused operation.
    Fused(FusedLstm),
    /// One step at a time.
    Steps(StepLstm),
}

/// A fused LSTM, with or without weight norm.
#[derive(Module, Debug)]
pub struct FusedLstm {
    lstm: Lstm,
    /// g of W and of U, `[4H]`.
    lengths: Option<Lengths>,
}

/// g of W and of U.
#[derive(Module, Debug)]
pub struct Lengths {
    input: Param<Tensor<1>>,
    recurrent: Param<Tensor<1>>,
}

impl Reader {
    pub(super) fn new(
        [rows, columns]: [usize; 2],
        hidden: usize,
        reads: Reads,
        norm: Norm,
        draw: &mut Draw<'_>,
    ) -> Result<Reader, String> {
        let (steps, input) = match reads {
            Reads::Rows => (rows, columns),
            Reads::Pixels => (rows * columns, 1),
        };
        let network = network(norm, input, hidden, draw.seed(), draw.start).map_err(|error| error.to_string())?;
        let cells = match norm {
            Norm::Batch | Norm::Rms => Cells::Steps(StepLstm::new(&network, steps, norm, draw)),
            _ => Cells::Fused(FusedLstm::new(&network, norm, draw.device)?),
        };
        Ok(Reader { cells, last: Dense::new(hidden, LOGITS, norm, draw), reads })
    }

    pub(super) fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        let x = self.sequence(images);
        let h = match &self.cells {
            Cells::Fused(lstm) => lstm.weighted().forward(x, None).1.hidden.squeeze_dim(0),
            Cells::Steps(lstm) => lstm.forward(x, None),
        };
        taps.vectors(|| "last state".to_owned(), &h, &h);
        self.last.forward(h)
    }

    pub(super) fn forward_through_time(&self, images: Tensor<3>) -> (Tensor<2>, Vec<Tensor<3>>) {
        let x = self.sequence(images);
        let mut states = Vec::new();
        let h = match &self.cells {
            Cells::Fused(lstm) => {
                let (lstm, mut state) = (lstm.weighted(), None);
                for step in 0..x.dims()[1] {
                    let LstmState { hidden, cell } = lstm.forward(x.clone().narrow(1, step, 1), state).1;
                    state = Some(LstmState { hidden: marked(hidden, &mut states), cell });
                }
                state.map_or_else(|| Tensor::zeros([x.dims()[0], 0], &x.device()), |state| state.hidden.squeeze_dim(0))
            }
            Cells::Steps(lstm) => lstm.forward(x, Some(&mut states)),
        };
        (self.last.forward(h), states)
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
            Cells::Steps(lstm) => lstm.set_momentum(momentum),
        }
    }

    pub(super) fn weights(&self) -> Vec<(String, Weight)> {
        let [input, recurrent] = match &self.cells {
            Cells::Fused(FusedLstm { lstm, .. }) => lstm
                .net
                .cells
                .first()
                .map_or([None; 2], |cell| [Some(cell.input_weight.id), Some(cell.recurrent_weight.id)]),
            Cells::Steps(lstm) => lstm.weights().map(Some),
        };
        let named = [("input", input), ("recurrent", recurrent)];
        let cells = named.into_iter().filter_map(|(name, id)| Some((name.to_owned(), Weight::Matrix(id?))));
        cells.chain([("logits".to_owned(), self.last.handle())]).collect()
    }
}

/// The state plus a zero tensor whose gradient equals that of the state. Without autodiff there is no gradient.
pub(super) fn marked(state: Tensor<3>, marks: &mut Vec<Tensor<3>>) -> Tensor<3> {
    let device = state.device();
    let zero = Tensor::zeros(state.dims(), &device);
    let zero = if device.is_autodiff() { zero.require_grad() } else { zero };
    marks.push(zero.clone());
    state + zero
}

impl FusedLstm {
    fn new(network: &Network<f32>, norm: Norm, device: &Device) -> Result<FusedLstm, String> {
        let net = Recurrent::from_network(network, true, device).map_err(|error| error.to_string())?;
        let length = |weight| lengths(weight, 0, norm);
        let lengths = net.cells.first().and_then(|cell| {
            Some(Lengths { input: length(&cell.input_weight)?, recurrent: length(&cell.recurrent_weight)? })
        });
        Ok(FusedLstm { lstm: Lstm { net }, lengths })
    }

    /// With weight norm applied, if it is used.
    fn weighted(&self) -> Lstm {
        let mut lstm = self.lstm.clone();
        if let (Some(lengths), Some(cell)) = (&self.lengths, lstm.net.cells.first_mut()) {
            let of = |v: &Param<Tensor<2>>, g| Param::initialized(ParamId::new(), normalized(v, Some(g), 0));
            cell.input_weight = of(&cell.input_weight, &lengths.input);
            cell.recurrent_weight = of(&cell.recurrent_weight, &lengths.recurrent);
        }
        lstm
    }
}

/// The initial values, in the layout of layernorm-rnn.
fn network(
    norm: Norm,
    input: usize,
    hidden: usize,
    seed: u64,
    start: &Start,
) -> Result<Network<f32>, layernorm_rnn::Error> {
    let paper = Variant::named(Kind::Lstm, "paper")?.with_eps(start.epsilon);
    let mut variant = Variant::plain(Kind::Lstm);
    if matches!(norm, Norm::Layer | Norm::Group) {
        variant = paper;
    }
    if norm == Norm::Group {
        variant.input_norm = variant.input_norm.map(|norm| norm.over(Over::EachGate));
        variant.recurrent_norm = variant.recurrent_norm.map(|norm| norm.over(Over::EachGate));
    }
    let init = Init { forget_bias: 1.0, ..Init::for_variant(&Variant::named(Kind::Lstm, "none")?) };
    let mut network = Network::new(Config::new(variant, input, hidden), init, seed)?;
    let params = network.params_mut();
    let mut set = |slot, change: &dyn Fn(&mut f32)| {
        if let Some(values) = params.get_mut(0, 0, slot) {
            values.iter_mut().for_each(change);
        }
    };
    for slot in [Slot::InputWeight, Slot::RecurrentWeight] {
        set(slot, &|value| *value = (f64::from(*value) * start.weight_scale) as f32);
    }
    for slot in [Slot::InputNormGain, Slot::RecurrentNormGain, Slot::CellNormGain] {
        set(slot, &|value| *value = start.gain as f32);
    }
    for slot in [Slot::InputNormBias, Slot::RecurrentNormBias, Slot::CellNormBias] {
        set(slot, &|value| *value = start.bias as f32);
    }
    Ok(network)
}

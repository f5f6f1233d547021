//! Recurrent networks: any variant of [`layernorm_rnn`], with its parameters as Candle tensors.

mod config;
mod gru;
mod lstm;
mod names;
mod rnn;

pub use config::RecurrentConfig;
pub use gru::{Gru, gru};
pub use lstm::{Lstm, lstm};
pub use rnn::{Rnn, rnn};

use crate::ops::{self, Call, RunnerPool, States, refused, wide};
use candle_core::{DType, Device, Result, Tensor, Var, WithDType};
use candle_nn::{Init, VarBuilder};
use layernorm::Float;
use layernorm_rnn::{Config, Direction, Entry, Error, Kind, Layout, Network, Params};
use std::sync::Arc;

/// A recurrent network of any kind and variant, with any number of layers and directions. [`Lstm`], [`Gru`] and [`Rnn`]
/// wrap it with their own type of state.
#[derive(Clone, Debug)]
pub struct Recurrent {
    /// The entries of the core's parameter vector, and the tensor of each.
    parameters: Vec<(Entry, Tensor)>,
    config: Config,
    batch_first: bool,
    /// Shared by clones.
    pool: Arc<RunnerPool>,
}

impl Recurrent {
    /// Creates a network with the parameters of a builder. Parameters that a [`candle_nn::VarMap`] does not have yet
    /// are initialized as in the variant's source ([`layernorm_rnn::Init::for_variant`]). With the same seed they have
    /// the same numbers as [`Network::new`]; without one, the seed is random.
    ///
    /// # Errors
    /// If the configuration is invalid or has noise in training (use Candle's own dropout), or if the builder's shapes
    /// differ.
    pub fn new(config: Config, batch_first: bool, seed: Option<u64>, vb: VarBuilder) -> Result<Recurrent> {
        let mut start: Option<Vec<Tensor>> = None;
        Recurrent::build(config, batch_first, |number, entry| {
            let name = names::name(&config, entry);
            let is_new = !vb.contains_tensor(&name);
            let tensor = vb.get_with_hints(entry.shape.as_slice(), &name, Init::Const(0.0))?;
            if is_new && tensor.is_variable() {
                let start = match &mut start {
                    Some(start) => start,
                    none => none.insert(started(config, seed, vb.dtype())?),
                };
                Var::from_tensor(&tensor)?.set(&start[number].to_device(tensor.device())?)?;
            }
            Ok(tensor)
        })
    }

    /// Creates a network with the parameters of a network of the core, written into the variables of a builder. The
    /// builder must have variables (as that of a [`candle_nn::VarMap`] does). Use this to import weights of other
    /// libraries: [`layernorm_rnn::weights`].
    pub fn from_network<A>(network: &Network<A>, batch_first: bool, vb: VarBuilder) -> Result<Recurrent>
    where
        A: Float + WithDType,
    {
        let (config, values) = (*network.config(), network.params().values());
        Recurrent::build(config, batch_first, |_, entry| {
            let name = names::name(&config, entry);
            let tensor = vb.get_with_hints(entry.shape.as_slice(), &name, Init::Const(0.0))?;
            if !tensor.is_variable() {
                candle_core::bail!("layernorm: expected a VarBuilder of variables, found the constant {name}");
            }
            let numbers = Tensor::from_slice(&values[entry.range.clone()], entry.shape.as_slice(), tensor.device())?;
            Var::from_tensor(&tensor)?.set(&numbers.to_dtype(tensor.dtype())?)?;
            Ok(tensor)
        })
    }

    fn build(
        config: Config,
        batch_first: bool,
        mut get: impl FnMut(usize, &Entry) -> Result<Tensor>,
    ) -> Result<Recurrent> {
        if config.noise != Default::default() {
            let what = format!("noise: expected none, found {:?}", config.noise);
            return Err(refused(Error::Unsupported { what }));
        }
        let entries = Params::<f32>::zeros(&config).map_err(refused)?.entries().to_vec();
        let parameters = entries.into_iter().enumerate().map(|(number, entry)| {
            let tensor = get(number, &entry)?;
            Ok((entry, tensor))
        });
        Ok(Recurrent { parameters: parameters.collect::<Result<_>>()?, config, batch_first, pool: Arc::default() })
    }

    /// A network of the core with these parameters, in f32 or f64.
    pub fn to_network<A>(&self) -> Result<Network<A>>
    where
        A: Float + WithDType,
    {
        let mut params = Params::<A>::zeros(&self.config).map_err(refused)?;
        for (entry, tensor) in &self.parameters {
            let values = tensor.to_dtype(A::DTYPE)?.flatten_all()?.to_vec1::<A>()?;
            params.values_mut()[entry.range.clone()].copy_from_slice(&values);
        }
        Network::from_params(self.config, params).map_err(refused)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether sequences are `[B, T, …]` instead of `[T, B, …]`.
    pub fn batch_first(&self) -> bool {
        self.batch_first
    }

    /// The parameters with their names in a builder: `weight_ih_l0` and so on.
    pub fn named_parameters(&self) -> impl Iterator<Item = (String, &Tensor)> {
        self.parameters.iter().map(|(entry, tensor)| (names::name(&self.config, entry), tensor))
    }

    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// I is the input size, H the number of hidden units, P the size of h (H without a projection), L the number of
    /// layers, D that of directions.
    /// - x: `[B, T, I]` with `batch_first`, else `[T, B, I]`; copied if it is not contiguous
    /// - y: `[B, T, D·P]` or `[T, B, D·P]`: h of the last layer at every step, 0 past the end of a sequence
    /// - states: h `[L·D, B, P]` and, for an LSTM, c `[L·D, B, H]`, in the arithmetic type: f64 for f64, else f32
    /// - lengths: the number of valid steps of each sequence, 1 to T. Later steps are not read.
    pub fn forward(
        &self,
        x: &Tensor,
        initial: [Option<&Tensor>; 2],
        lengths: Option<&[usize]>,
    ) -> Result<(Tensor, [Option<Tensor>; 2])> {
        ops::recurrent(self.call(lengths, self.batch_first), x, &self.flat(x.dtype())?, initial)
    }

    /// One step: from x `[B, I]` to y `[B, P]` and the state after it. Gives the same bits as that step of a whole
    /// sequence, which is faster if all inputs are known.
    ///
    /// # Errors
    /// If the network does not run forward in time.
    pub fn step(&self, x: &Tensor, state: [Option<&Tensor>; 2]) -> Result<(Tensor, [Option<Tensor>; 2])> {
        if self.config.direction != Direction::Forward {
            let what = "step: expected a network that runs forward in time, found one that starts at the end".into();
            return Err(refused(Error::Unsupported { what }));
        }
        let (y, state) = ops::recurrent(self.call(None, false), &x.unsqueeze(0)?, &self.flat(x.dtype())?, state)?;
        Ok((y.squeeze(0)?, state))
    }

    /// All parameters one after the other, as in [`Params`], in the arithmetic type for sequences of this type.
    fn flat(&self, sequences: DType) -> Result<Tensor> {
        let parts = self.parameters.iter().map(|(_, tensor)| {
            ops::on_cpu([tensor])?;
            tensor.flatten_all()?.to_dtype(wide(sequences))
        });
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    }

    fn call(&self, lengths: Option<&[usize]>, batch_first: bool) -> Call {
        let layout = if batch_first { Layout::BatchFirst } else { Layout::TimeFirst };
        let lengths = lengths.map(<[usize]>::to_vec);
        Call { config: self.config, layout, lengths, pool: Arc::clone(&self.pool) }
    }

    /// A state of zeros for this many sequences.
    fn zero_state(&self, batch: usize) -> Result<States> {
        let [(_, first), ..] = self.parameters.as_slice() else { candle_core::bail!("layernorm: no parameters") };
        let part = |shape: Option<[usize; 3]>| {
            shape.map(|shape| Tensor::zeros(&shape, wide(first.dtype()), first.device())).transpose()
        };
        let [h, c] = self.call(None, true).state_shapes(batch);
        Ok([part(h)?, part(c)?])
    }

    /// h of the last layer after each of these steps, as `[B, T, P]`.
    fn outputs<'a>(&self, hidden: impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
        let last = self.config.layers - 1;
        Tensor::stack(&hidden.map(|h| h.get(last)).collect::<Result<Vec<_>>>()?, 1)
    }

    /// Creates a network of a kind, as its configuration says.
    fn of_kind(
        kind: Kind,
        (input, hidden): (usize, usize),
        config: impl Into<RecurrentConfig>,
        vb: VarBuilder,
    ) -> Result<Recurrent> {
        let config = config.into();
        Recurrent::new(config.network(kind, input, hidden)?, config.batch_first, config.seed, vb)
    }
}

/// The initial parameters of a new network, in the order of its entries.
fn started(config: Config, seed: Option<u64>, dtype: DType) -> Result<Vec<Tensor>> {
    let seed = seed.map_or_else(random_seed, Ok)?;
    if dtype == DType::F64 { started_as::<f64>(config, seed, dtype) } else { started_as::<f32>(config, seed, dtype) }
}

fn started_as<A: Float + WithDType>(config: Config, seed: u64, dtype: DType) -> Result<Vec<Tensor>> {
    let init = layernorm_rnn::Init::for_variant(&config.variant);
    let network = Network::<A>::new(config, init, seed).map_err(refused)?;
    let params = network.params();
    let tensor = |entry: &Entry| {
        let values = &params.values()[entry.range.clone()];
        Tensor::from_slice(values, entry.shape.as_slice(), &Device::Cpu)?.to_dtype(dtype)
    };
    params.entries().iter().map(tensor).collect()
}

/// A seed from Candle's random numbers.
fn random_seed() -> Result<u64> {
    let draw = Tensor::rand(0f32, 1f32, 4, &Device::Cpu)?.to_vec1::<f32>()?;
    Ok(draw.into_iter().fold(0, |seed, x| seed << 16 ^ u64::from((x * 65536.0) as u32)))
}

/// Unwraps a part of a state that this kind of network has.
fn part(part: Option<Tensor>) -> Result<Tensor> {
    part.ok_or_else(|| candle_core::Error::msg("layernorm: this network has no such part of a state"))
}

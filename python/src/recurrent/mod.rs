//! Recurrent networks: descriptions, passes over sequences, and tapes of training passes.
//!
//! Parameters are the caller's tensors. A pass takes a runner from the pool, copies the parameters that have changed
//! into it (only then are weights packed again), and runs. In training the tape keeps the runner until it is dropped, so that any
//! number of passes can wait for their gradients.

mod convert;
mod pool;
mod tape;

pub use tape::Tape;

use crate::detach::detached;
use crate::failure::Failure;
use crate::flat::Flat;
use crate::settings::How;
use crate::tensor::{Dtype, with_type};
use convert::{check_state, give_state, take_parameters, take_state};
use layernorm::parts::memory;
use layernorm::{Element, Float};
use layernorm_rnn::weights::{self, Format};
use layernorm_rnn::{
    Config, Direction, Init, Keep, Kind, Layout, Network, Noise, Params, Sequences, Slot, Training, Variant,
};
use pool::{PooledReal, PooledRunner, RunnerPool};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A network without its parameters.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Recurrent {
    config: Config,
    pool: Arc<RunnerPool>,
}

fn kind_of(name: &str) -> Result<Kind, Failure> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(Failure::Order("kind: expected lstm, gru or rnn"))
}

/// Returns a variant by name, with another ε if one is given.
fn variant_of(kind: &str, name: &str, eps: Option<f64>) -> Result<Variant, Failure> {
    let variant = Variant::named(kind_of(kind)?, name)?;
    Ok(eps.map_or(variant, |eps| variant.with_eps(eps)))
}

/// `(layer, direction, slot, shape, offset)` of a parameter.
type Place = (usize, usize, &'static str, Vec<usize>, usize);

/// `(name, shape, numbers)` of a float64 tensor.
type Named = (String, Vec<usize>, Flat);

/// h and c, in the accumulation type.
type Pair = (Option<Flat>, Option<Flat>);

#[derive(Clone)]
struct Sizes {
    steps: usize,
    batch: usize,
    batch_first: bool,
    lengths: Option<Vec<usize>>,
}

impl Sizes {
    /// Total number of steps of all sequences. Saturates, because no tensor is that large.
    fn rows(&self) -> usize {
        self.steps.saturating_mul(self.batch)
    }
}

#[pymethods]
impl Recurrent {
    #[new]
    #[pyo3(signature = (kind, variant, input, hidden, layers, bidirectional, projection, bias, eps, noise, /))]
    #[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
    fn new(
        kind: &str,
        variant: &str,
        input: usize,
        hidden: usize,
        layers: usize,
        bidirectional: bool,
        projection: Option<usize>,
        bias: bool,
        eps: Option<f64>,
        noise: (f64, f64, f64, f64, f64),
    ) -> PyResult<Recurrent> {
        let mut variant = variant_of(kind, variant, eps)?;
        if !bias {
            (variant.input_bias, variant.recurrent_bias, variant.bias, variant.tied_bias) =
                (false, false, false, false);
        }
        let (dropout, recurrent_dropout, drop_connect, zoneout_hidden, zoneout_cell) = noise;
        let noise = Noise { dropout, recurrent_dropout, drop_connect, zoneout_hidden, zoneout_cell };
        let direction = if bidirectional { Direction::Both } else { Direction::Forward };
        let plain = Config::new(variant, input, hidden).with_layers(layers).with_direction(direction).with_noise(noise);
        let config = projection.map_or(plain, |projection| plain.with_projection(projection));
        config.check().map_err(Failure::from)?;
        Ok(Recurrent { config, pool: Arc::default() })
    }

    /// Reads tensors of another library by their names and shapes. Returns the network and all its parameters as one float64
    /// list.
    #[staticmethod]
    #[pyo3(signature = (kind, variant, format, tensors, eps, noise_of_layers, /))]
    fn from_tensors(
        kind: &str,
        variant: &str,
        format: &str,
        tensors: Vec<Named>,
        eps: Option<f64>,
        noise_of_layers: f64,
    ) -> PyResult<(Recurrent, Vec<f64>)> {
        let read = || -> Result<(Recurrent, Vec<f64>), Failure> {
            let format: Format = format.parse()?;
            let shapes: BTreeMap<_, _> = tensors.iter().map(|(name, shape, _)| (name.clone(), shape.clone())).collect();
            let config = weights::config_of_shapes(&shapes, format, variant_of(kind, variant, eps)?, "")?
                .with_noise(Noise { dropout: noise_of_layers, ..Noise::default() });
            let mut found = BTreeMap::new();
            for (name, shape, numbers) in tensors {
                let count = shape.iter().fold(1, |count: usize, &n| count.saturating_mul(n));
                // SAFETY: Python keeps the arrays alive and describes them correctly.
                let values = memory::copied(unsafe { numbers.read::<f64>("weights", Dtype::F64, count)? })?;
                found.insert(name, weights::Tensor { shape, values });
            }
            let network = weights::from_tensors::<f64>(&found, format, &config, "")?;
            Ok((Recurrent { config, pool: Arc::default() }, network.params().values().to_vec()))
        };
        Ok(read()?)
    }

    /// Returns the names of the variants of a kind.
    #[staticmethod]
    fn variants(kind: &str) -> PyResult<Vec<&'static str>> {
        Ok(Variant::all(kind_of(kind)?).map(|variant| variant.name).collect())
    }

    /// Returns `(input, hidden, layers, directions, projection or None)`.
    fn sizes(&self) -> (usize, usize, usize, usize, Option<usize>) {
        let config = &self.config;
        (config.input, config.hidden, config.layers, config.directions(), config.projection)
    }

    /// Whether there is a bias that `bias=False` would remove.
    fn has_bias(&self) -> bool {
        let variant = &self.config.variant;
        variant.input_bias || variant.recurrent_bias || variant.bias
    }

    /// Returns slot, shape and offset of every parameter. Does not allocate the parameters.
    fn places(&self) -> Vec<Place> {
        let (config, mut found, mut offset) = (&self.config, Vec::new(), 0);
        for layer in 0..config.layers {
            for direction in 0..config.directions() {
                for slot in Slot::ALL {
                    let Some(shape) = slot.shape(config, layer) else { continue };
                    let count = shape.iter().product::<usize>();
                    found.push((layer, direction, slot.name(), shape, offset));
                    offset += count;
                }
            }
        }
        found
    }

    /// Returns all initial parameters as one list, initialized as in the variant's source.
    fn start(&self, seed: u64) -> PyResult<Vec<f64>> {
        let network = Network::<f64>::new(self.config, Init::for_variant(&self.config.variant), seed);
        Ok(network.map_err(Failure::from)?.params().values().to_vec())
    }

    /// The same, written to a float64 array, because a list of millions of numbers takes seconds.
    #[pyo3(signature = (seed, to, /))]
    fn start_into(&self, py: Python<'_>, seed: u64, to: Flat) -> PyResult<()> {
        let start = || -> Result<(), Failure> {
            let network = Network::<f64>::new(self.config, Init::for_variant(&self.config.variant), seed)?;
            let values = network.params().values();
            // SAFETY: Python keeps the memory alive, and nothing else accesses it.
            unsafe { to.write("parameters", Dtype::F64, values.len())? }.copy_from_slice(values);
            Ok(())
        };
        Ok(detached(py, start)?)
    }

    /// Runs over sequences x `[T, B, I]` (or `[B, T, I]`); writes y, of the same type, and the last h and c (in the accumulation
    /// type). With `training = (seed, recompute)` it returns a tape. `parameters` are in the order of `places`.
    #[pyo3(signature = (parameters, x, sizes, lengths, state, y, last, training, how, /))]
    #[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
    fn forward(
        &self,
        py: Python<'_>,
        parameters: Vec<Flat>,
        x: Flat,
        sizes: (usize, usize, bool),
        lengths: Option<Vec<usize>>,
        state: Pair,
        y: Flat,
        last: Pair,
        training: Option<(u64, bool)>,
        how: How,
    ) -> PyResult<Option<Tape>> {
        let (steps, batch, batch_first) = sizes;
        let sizes = Sizes { steps, batch, batch_first, lengths };
        let training = training
            .map(|(seed, recompute)| Training { seed, keep: if recompute { Keep::Recompute } else { Keep::All } });
        let call = Call { parameters, x, y, state, last, sizes, training, how };
        Ok(detached(py, || with_type!(call.x.dtype(), forward_of(self, &call)))?)
    }
}

struct Call {
    parameters: Vec<Flat>,
    x: Flat,
    y: Flat,
    state: Pair,
    last: Pair,
    sizes: Sizes,
    training: Option<Training>,
    how: How,
}

impl Recurrent {
    /// The configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    fn zeros<A: Float>(&self) -> Result<Params<A>, Failure> {
        Ok(Params::zeros(&self.config)?)
    }

    /// Number of elements of h and c for a batch.
    fn state_sizes(&self, batch: usize) -> (usize, usize) {
        let config = &self.config;
        let cells = (config.layers * config.directions()).saturating_mul(batch);
        (cells.saturating_mul(config.output()), if config.has_cell() { cells.saturating_mul(config.hidden) } else { 0 })
    }
}

fn forward_of<T: Element>(recurrent: &Recurrent, call: &Call) -> Result<Option<Tape>, Failure>
where
    T::Acc: PooledReal,
{
    let (sizes, config, dtype) = (&call.sizes, &recurrent.config, call.x.dtype());
    let counts = recurrent.state_sizes(sizes.batch);
    let rows = sizes.rows();
    let mut pooled = recurrent.pooled::<T::Acc>(call.how)?;
    // SAFETY: Python keeps the tensors alive, contiguous and of the given sizes; outputs are exclusive.
    unsafe {
        take_parameters(&mut pooled.network, &call.parameters)?;
        let sequences = Sequences {
            data: call.x.read::<T>("input", dtype, rows.saturating_mul(config.input))?,
            steps: sizes.steps,
            batch: sizes.batch,
            layout: if sizes.batch_first { Layout::BatchFirst } else { Layout::TimeFirst },
            lengths: sizes.lengths.as_deref(),
        };
        let y = call.y.write::<T>("output", dtype, rows.saturating_mul(width(config)))?;
        check_state("final state", &call.last, dtype.acc(), counts)?;
        let initial = take_state("state", &mut pooled.initial, &call.state, dtype.acc(), counts)?;
        let PooledRunner { network, runner, initial: first, last, .. } = &mut pooled;
        let initial = initial.then_some(&*first);
        match call.training {
            None => runner.forward_into(network, &sequences, initial, y, last)?,
            Some(training) => runner.train_into(network, &sequences, initial, training, y, last)?,
        }
        give_state("final state", &pooled.last, &call.last, dtype.acc())?;
    }
    if call.training.is_none() {
        T::Acc::free(&recurrent.pool).push(pooled);
        return Ok(None);
    }
    let recorded = Mutex::new(T::Acc::record(pooled));
    Ok(Some(Tape { recorded, pool: recurrent.pool.clone(), config: *config, dtype, rows, counts }))
}

/// Returns the number of outputs at a step of a sequence.
fn width(config: &Config) -> usize {
    config.output() * config.directions()
}

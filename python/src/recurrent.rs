//! Recurrent networks: descriptions, passes over sequences, and tapes of training passes.
//!
//! Parameters are the caller's tensors. A pass takes a *seat* (a network with its runner), copies the parameters that have changed
//! into it (only then are weights packed again), and runs. In training the tape keeps the seat until it is dropped, so that any
//! number of passes can wait for their gradients.

use crate::detach::detached;
use crate::failure::Failure;
use crate::flat::Flat;
use crate::settings::{How, configured};
use crate::tensor::{Dtype, slice, with_type};
use layernorm::parts::memory;
use layernorm::{Context, Element, Float, Isa};
use layernorm_rnn::weights::{self, Format};
use layernorm_rnn::{
    Config, Direction, Gradients, Init, Keep, Kind, Layout, Network, Noise, Params, Real, Runner, Sequences, Slot,
    State, Training, Variant,
};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A network with its runner, and memory for results.
struct Seat<A: Element<Acc = A>> {
    network: Network<A>,
    runner: Runner<A>,
    /// Settings that the runner was created with.
    settings: (usize, Option<Isa>),
    initial: State<A>,
    last: State<A>,
    /// Memory for gradients of the parameters and the state.
    gradients: Option<(Params<A>, State<A>)>,
}

/// Free seats.
#[derive(Default)]
struct Seats {
    single: Mutex<Vec<Seat<f32>>>,
    double: Mutex<Vec<Seat<f64>>>,
}

/// The two accumulation types.
trait Kept: Real + Element<Acc = Self> {
    fn free(seats: &Seats) -> MutexGuard<'_, Vec<Seat<Self>>>;
    fn record(seat: Seat<Self>) -> Recorded;
    fn recorded(recorded: &mut Recorded) -> Option<&mut Seat<Self>>;
}

macro_rules! kept {
    ($type:ty, $field:ident, $variant:ident) => {
        impl Kept for $type {
            fn free(seats: &Seats) -> MutexGuard<'_, Vec<Seat<$type>>> {
                seats.$field.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
            }

            fn record(seat: Seat<$type>) -> Recorded {
                Recorded::$variant(Box::new(seat))
            }

            fn recorded(recorded: &mut Recorded) -> Option<&mut Seat<$type>> {
                match recorded {
                    Recorded::$variant(seat) => Some(seat),
                    _ => None,
                }
            }
        }
    };
}
kept!(f32, single, Single);
kept!(f64, double, Double);

enum Recorded {
    Single(Box<Seat<f32>>),
    Double(Box<Seat<f64>>),
    /// The seat was returned.
    Gone,
}

/// A network without its parameters.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Recurrent {
    config: Config,
    seats: Arc<Seats>,
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
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
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
        Ok(Recurrent { config, seats: Arc::default() })
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
            Ok((Recurrent { config, seats: Arc::default() }, network.params().values().to_vec()))
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

    /// Returns slot, shape and offset of every parameter. Allocates nothing of the size of the parameters.
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
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
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

    /// Returns a free seat, or a new one, with the current settings.
    fn seat<A: Kept>(&self, how: How) -> Result<Seat<A>, Failure> {
        let context = configured(Context::new(), (how.0, false))?;
        let settings = (context.threads(), Some(context.isa()?));
        let free = A::free(&self.seats).pop();
        let mut seat = match free {
            Some(seat) => seat,
            None => Seat {
                network: Network::from_params(self.config, self.zeros()?)?,
                runner: Runner::new(Context::new()),
                settings: (0, None),
                initial: State::default(),
                last: State::default(),
                gradients: None,
            },
        };
        if seat.settings != settings {
            seat.runner = Runner::new(context);
            seat.settings = settings;
        }
        Ok(seat)
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
    T::Acc: Kept,
{
    let (sizes, config, dtype) = (&call.sizes, &recurrent.config, call.x.dtype());
    let counts = recurrent.state_sizes(sizes.batch);
    let rows = sizes.rows();
    let mut seat = recurrent.seat::<T::Acc>(call.how)?;
    // SAFETY: Python keeps the tensors alive, contiguous and of the given sizes; outputs are exclusive.
    unsafe {
        take_parameters(&mut seat.network, &call.parameters)?;
        let sequences = Sequences {
            data: call.x.read::<T>("input", dtype, rows.saturating_mul(config.input))?,
            steps: sizes.steps,
            batch: sizes.batch,
            layout: if sizes.batch_first { Layout::BatchFirst } else { Layout::TimeFirst },
            lengths: sizes.lengths.as_deref(),
        };
        let y = call.y.write::<T>("output", dtype, rows.saturating_mul(width(config)))?;
        check_state("final state", &call.last, dtype.acc(), counts)?;
        let initial = take_state("state", &mut seat.initial, &call.state, dtype.acc(), counts)?;
        let Seat { network, runner, initial: first, last, .. } = &mut seat;
        let initial = initial.then_some(&*first);
        match call.training {
            None => runner.forward_into(network, &sequences, initial, y, last)?,
            Some(training) => runner.train_into(network, &sequences, initial, training, y, last)?,
        }
        give_state("final state", &seat.last, &call.last, dtype.acc())?;
    }
    if call.training.is_none() {
        T::Acc::free(&recurrent.seats).push(seat);
        return Ok(None);
    }
    let recorded = Mutex::new(T::Acc::record(seat));
    Ok(Some(Tape { recorded, seats: recurrent.seats.clone(), config: *config, dtype, rows, counts }))
}

/// Returns the range of y at a step of a sequence.
fn width(config: &Config) -> usize {
    config.output() * config.directions()
}

/// Copies parameters that differ from those of the network.
///
/// # Safety
/// The memory is as described.
unsafe fn take_parameters<A: Kept>(network: &mut Network<A>, from: &[Flat]) -> Result<(), Failure> {
    let entries = network.params().entries().len();
    if from.len() != entries {
        let what = "parameters".to_owned();
        return Err(Failure::Count { what, expected: entries, found: from.len() });
    }
    let mut room = Vec::new();
    for (i, numbers) in from.iter().enumerate() {
        let entry = &network.params().entries()[i];
        let range = entry.range.clone();
        let address = numbers.checked(|| entry.name(), range.len())?;
        // SAFETY: guaranteed by the caller; the count was checked.
        let found = unsafe { with_type!(numbers.dtype(), converted(address, range.len(), &mut room;)) }?;
        // Compare bits: −0 differs from 0, and NaN equals itself.
        if bytes(found) != bytes(&network.params().values()[range.clone()]) {
            network.params_mut().values_mut()[range].copy_from_slice(found);
        }
    }
    Ok(())
}

/// Returns the bytes of numbers, for a fast comparison.
fn bytes<A: Kept>(numbers: &[A]) -> &[u8] {
    // SAFETY: f32 and f64 have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// Returns numbers in the accumulation type, borrowed or converted.
///
/// # Safety
/// As for [`slice`].
unsafe fn converted<T: Element, A: Kept>(address: usize, count: usize, room: &mut Vec<A>) -> Result<&[A], Failure> {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<A>() {
        // SAFETY: guaranteed by the caller; the types are the same.
        return Ok(unsafe { slice::<A>(address, count) });
    }
    room.clear();
    room.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
    // SAFETY: guaranteed by the caller.
    room.extend(unsafe { slice::<T>(address, count) }.iter().map(|x| A::from_f64(x.widen().to_f64())));
    Ok(room)
}

/// Checks types and sizes of h and c.
fn check_state(what: &'static str, state: &Pair, acc: Dtype, counts: (usize, usize)) -> Result<(), Failure> {
    for (part, count) in [(state.0, counts.0), (state.1, counts.1)] {
        if let Some(part) = part {
            part.fits(what, acc, count)?;
        }
    }
    Ok(())
}

/// Copies the state of the caller, with zeros for missing parts. Returns false if there is none.
///
/// # Safety
/// As for [`Flat::read`].
unsafe fn take_state<A: Kept>(
    what: &'static str,
    to: &mut State<A>,
    from: &Pair,
    acc: Dtype,
    counts: (usize, usize),
) -> Result<bool, Failure> {
    if from.0.is_none() && from.1.is_none() {
        return Ok(false);
    }
    for (numbers, part, count) in [(&mut to.h, from.0, counts.0), (&mut to.c, from.1, counts.1)] {
        numbers.clear();
        match part {
            None => memory::refill(numbers, count, A::ZERO)?,
            Some(part) => {
                // SAFETY: guaranteed by the caller.
                let found = unsafe { part.read(what, acc, count)? };
                numbers.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
                numbers.extend_from_slice(found);
            }
        }
    }
    Ok(true)
}

/// Copies a state to the caller's memory.
///
/// # Safety
/// As for [`Flat::write`].
unsafe fn give_state<A: Kept>(what: &'static str, from: &State<A>, to: &Pair, acc: Dtype) -> Result<(), Failure> {
    for (numbers, part) in [(&from.h, to.0), (&from.c, to.1)] {
        if let Some(part) = part {
            // SAFETY: guaranteed by the caller.
            unsafe { part.write(what, acc, numbers.len())? }.copy_from_slice(numbers);
        }
    }
    Ok(())
}

/// A recorded training pass.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Tape {
    recorded: Mutex<Recorded>,
    seats: Arc<Seats>,
    config: Config,
    dtype: Dtype,
    rows: usize,
    /// Number of elements of h and c.
    counts: (usize, usize),
}

#[pymethods]
impl Tape {
    /// Writes the gradients of x, of the parameters (joined, in the accumulation type) and of the first h and c, from those of y
    /// and of the last h and c. Those that are None are not written; that of x is then not computed. May be called again.
    #[pyo3(signature = (dy, dlast, dx, dparameters, dfirst, /))]
    fn backward(
        &self,
        py: Python<'_>,
        dy: Flat,
        dlast: Pair,
        dx: Option<Flat>,
        dparameters: Option<Flat>,
        dfirst: Pair,
    ) -> PyResult<()> {
        let to = Ends { dy, dlast, dx, dparameters, dfirst };
        Ok(detached(py, || with_type!(self.dtype, backward_of(self, &to)))?)
    }
}

struct Ends {
    dy: Flat,
    dlast: Pair,
    dx: Option<Flat>,
    dparameters: Option<Flat>,
    dfirst: Pair,
}

fn backward_of<T: Element>(tape: &Tape, ends: &Ends) -> Result<(), Failure>
where
    T::Acc: Kept,
{
    let (config, dtype, acc) = (&tape.config, tape.dtype, tape.dtype.acc());
    let mut recorded = tape.recorded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let seat = T::Acc::recorded(&mut recorded).ok_or(Failure::Order("the tape is of another type"))?;
    let inputs = if ends.dx.is_some() { tape.rows.saturating_mul(config.input) } else { 0 };
    // SAFETY: Python keeps the tensors alive, contiguous and of the given sizes; outputs are exclusive.
    unsafe {
        let dy = ends.dy.read::<T>("gradient of the output", dtype, tape.rows.saturating_mul(width(config)))?;
        let dx = ends.dx.map(|dx| dx.write::<T>("gradient of the input", dtype, inputs)).transpose()?;
        let count = seat.network.params().values().len();
        let dparameters = ends.dparameters.map(|to| to.write("gradients of the parameters", acc, count)).transpose()?;
        check_state("gradient of the state", &ends.dfirst, acc, tape.counts)?;
        let dlast = take_state("gradient of the final state", &mut seat.initial, &ends.dlast, acc, tape.counts)?;
        let dlast = dlast.then_some(&seat.initial);
        let (mut params, state) = match seat.gradients.take() {
            Some(kept) => kept,
            None => (seat.network.params().try_zeros_like()?, State::default()),
        };
        // The runner accumulates.
        params.values_mut().fill(T::Acc::ZERO);
        let mut gradients = Gradients { input: memory::zeros(inputs)?, params, state };
        seat.runner.backward_into(&seat.network, dy, dlast, 0, &mut gradients)?;
        if let Some(dx) = dx {
            dx.copy_from_slice(&gradients.input);
        }
        if let Some(to) = dparameters {
            to.copy_from_slice(gradients.params.values());
        }
        give_state("gradient of the state", &gradients.state, &ends.dfirst, acc)?;
        seat.gradients = Some((gradients.params, gradients.state));
    }
    Ok(())
}

impl Drop for Tape {
    fn drop(&mut self) {
        let recorded = self.recorded.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        match std::mem::replace(recorded, Recorded::Gone) {
            Recorded::Single(seat) => f32::free(&self.seats).push(*seat),
            Recorded::Double(seat) => f64::free(&self.seats).push(*seat),
            Recorded::Gone => {}
        }
    }
}

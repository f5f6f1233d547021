//! Recurrent networks: a network's description, its passes over sequences, and the tapes that training passes leave.
//!
//! Parameters are the caller's tensors. A pass takes a *seat*, a network with its runner, copies the parameters that differ
//! into it (weights are packed again only then), and runs. In training the seat stays with the tape until that is dropped, so
//! that any number of passes can wait for their gradients.

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

/// What runs a pass, and the memory of its results.
struct Seat<A: Element<Acc = A>> {
    network: Network<A>,
    runner: Runner<A>,
    /// The settings that the runner was made with.
    settings: (usize, Option<Isa>),
    initial: State<A>,
    last: State<A>,
    /// Memory for gradients of parameters and of the state.
    gradients: Option<(Params<A>, State<A>)>,
}

/// Seats that are free.
#[derive(Default)]
struct Seats {
    single: Mutex<Vec<Seat<f32>>>,
    double: Mutex<Vec<Seat<f64>>>,
}

/// The two types that arithmetic is done in.
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
    /// It has gone back.
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

/// A named variant, with another ε where one is given.
fn variant_of(kind: &str, name: &str, eps: Option<f64>) -> Result<Variant, Failure> {
    let variant = Variant::named(kind_of(kind)?, name)?;
    Ok(eps.map_or(variant, |eps| variant.with_eps(eps)))
}

/// `(layer, direction, slot, shape, offset)` of a parameter.
type Place = (usize, usize, &'static str, Vec<usize>, usize);

/// `(name, shape, numbers)` of a float64 tensor.
type Named = (String, Vec<usize>, Flat);

/// h and c, in the arithmetic type, where they are.
type Pair = (Option<Flat>, Option<Flat>);

#[derive(Clone)]
struct Sizes {
    steps: usize,
    batch: usize,
    batch_first: bool,
    lengths: Option<Vec<usize>>,
}

impl Sizes {
    /// Steps of all sequences. What is too large for a number is more than any tensor has.
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

    /// What another library's tensors are, read off their names and shapes: the network, and its parameters as float64, one
    /// after the other.
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
                // SAFETY: Python keeps the arrays alive.
                let values = memory::copied(unsafe { numbers.read::<f64>("weights", Dtype::F64, count)? })?;
                found.insert(name, weights::Tensor { shape, values });
            }
            let network = weights::from_tensors::<f64>(&found, format, &config, "")?;
            Ok((Recurrent { config, seats: Arc::default() }, network.params().values().to_vec()))
        };
        Ok(read()?)
    }

    /// Names of the variants of a kind.
    #[staticmethod]
    fn variants(kind: &str) -> PyResult<Vec<&'static str>> {
        Ok(Variant::all(kind_of(kind)?).map(|variant| variant.name).collect())
    }

    /// `(input, hidden, layers, directions, projection or None)`.
    fn sizes(&self) -> (usize, usize, usize, usize, Option<usize>) {
        let config = &self.config;
        (config.input, config.hidden, config.layers, config.directions(), config.projection)
    }

    /// Whether any bias is there that `bias=False` would take away.
    fn has_bias(&self) -> bool {
        let variant = &self.config.variant;
        variant.input_bias || variant.recurrent_bias || variant.bias
    }

    /// What stands where among the parameters. Nothing of their size is allocated: passes ask for it.
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

    /// Starting parameters, one after the other: those of the variant's source.
    fn start(&self, seed: u64) -> PyResult<Vec<f64>> {
        let network = Network::<f64>::new(self.config, Init::for_variant(&self.config.variant), seed);
        Ok(network.map_err(Failure::from)?.params().values().to_vec())
    }

    /// The same, written to float64 in memory: a list of millions of numbers takes seconds.
    #[pyo3(signature = (seed, to, /))]
    fn start_into(&self, py: Python<'_>, seed: u64, to: Flat) -> PyResult<()> {
        let start = || -> Result<(), Failure> {
            let network = Network::<f64>::new(self.config, Init::for_variant(&self.config.variant), seed)?;
            let values = network.params().values();
            // SAFETY: Python keeps the memory alive, and nothing else uses it.
            unsafe { to.write("parameters", Dtype::F64, values.len())? }.copy_from_slice(values);
            Ok(())
        };
        Ok(detached(py, start)?)
    }

    /// Runs over sequences x `[T, B, I]` (or `[B, T, I]`); writes y, of the same type, and the last h and c (in the arithmetic
    /// type). With `training = (seed, recompute)` it gives a tape. `parameters` are in the order of `places`.
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
    /// What it is.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    fn zeros<A: Float>(&self) -> Result<Params<A>, Failure> {
        Ok(Params::zeros(&self.config)?)
    }

    /// A free seat, or a new one, with the present settings.
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

    /// Numbers of h and c for so many sequences.
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
    // SAFETY: Python keeps the tensors alive, contiguous and of the sizes that it says, and those to be written are its own.
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

/// The numbers of y at a step of a sequence.
fn width(config: &Config) -> usize {
    config.output() * config.directions()
}

/// Copies parameters that differ from those that the network has.
///
/// # Safety
/// The memory is what was said.
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
        // SAFETY: the caller's promise; as many as this are there.
        let found = unsafe { with_type!(numbers.dtype(), converted(address, range.len(), &mut room;)) }?;
        // Bits, not numbers: −0 is another parameter than 0, and NaN the same as NaN.
        if bytes(found) != bytes(&network.params().values()[range.clone()]) {
            network.params_mut().values_mut()[range].copy_from_slice(found);
        }
    }
    Ok(())
}

/// The bytes of numbers, to compare them fast.
fn bytes<A: Kept>(numbers: &[A]) -> &[u8] {
    // SAFETY: f32 and f64 have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// Numbers in the arithmetic type: where they are, or converted.
///
/// # Safety
/// As for [`slice`].
unsafe fn converted<T: Element, A: Kept>(address: usize, count: usize, room: &mut Vec<A>) -> Result<&[A], Failure> {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<A>() {
        // SAFETY: the caller's promise; the types are the same.
        return Ok(unsafe { slice::<A>(address, count) });
    }
    room.clear();
    room.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
    // SAFETY: the caller's promise.
    room.extend(unsafe { slice::<T>(address, count) }.iter().map(|x| A::from_f64(x.widen().to_f64())));
    Ok(room)
}

/// Refuses h and c of other types and sizes.
fn check_state(what: &'static str, state: &Pair, acc: Dtype, counts: (usize, usize)) -> Result<(), Failure> {
    for (part, count) in [(state.0, counts.0), (state.1, counts.1)] {
        if let Some(part) = part {
            part.fits(what, acc, count)?;
        }
    }
    Ok(())
}

/// Copies a state that the caller has, zeros for what is missing of it; false if there is none.
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
                // SAFETY: the caller's promise.
                let found = unsafe { part.read(what, acc, count)? };
                numbers.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
                numbers.extend_from_slice(found);
            }
        }
    }
    Ok(true)
}

/// Copies a state to where the caller wants it.
///
/// # Safety
/// As for [`Flat::write`].
unsafe fn give_state<A: Kept>(what: &'static str, from: &State<A>, to: &Pair, acc: Dtype) -> Result<(), Failure> {
    for (numbers, part) in [(&from.h, to.0), (&from.c, to.1)] {
        if let Some(part) = part {
            // SAFETY: the caller's promise.
            unsafe { part.write(what, acc, numbers.len())? }.copy_from_slice(numbers);
        }
    }
    Ok(())
}

/// What a pass in training leaves for its gradients.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Tape {
    recorded: Mutex<Recorded>,
    seats: Arc<Seats>,
    config: Config,
    dtype: Dtype,
    rows: usize,
    /// Numbers of h and c.
    counts: (usize, usize),
}

#[pymethods]
impl Tape {
    /// Writes gradients from those of y and of the last h and c: of x, of the parameters (one after the other, in the
    /// arithmetic type) and of the first h and c. Those that are None are not written, and that of x not computed. It may be
    /// called again.
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
    // SAFETY: Python keeps the tensors alive, contiguous and of the sizes that it says, and those to be written are its own.
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
        // The runner adds.
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

//! Recurrent networks: a network's description, its passes over sequences, and the tapes that training passes leave.
//!
//! Parameters are the caller's tensors. A pass takes a *seat*, a network with its runner, copies the parameters that differ
//! into it (weights are packed again only then), and runs. In training the seat stays with the tape until that is dropped, so
//! that any number of passes can wait for their gradients.

use crate::detach::detached;
use crate::failure::Failure;
use crate::settings::{How, configured};
use crate::tensor::{Dtype, slice, slice_mut, with_type};
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

/// `(name, shape, address)` of a float64 tensor.
type Named = (String, Vec<usize>, usize);

/// Lengths in elements are those that the shapes give; all memory is contiguous. Of h and c an address of 0 says that there is
/// none.
#[derive(Clone)]
struct Memory {
    steps: usize,
    batch: usize,
    batch_first: bool,
    lengths: Option<Vec<usize>>,
    h: usize,
    c: usize,
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
            let tensors = tensors.iter().map(|(name, shape, address)| {
                // SAFETY: Python keeps the arrays alive, contiguous and of float64.
                let values = unsafe { slice::<f64>(*address, shape.iter().product()) }.to_vec();
                (name.clone(), weights::Tensor { shape: shape.clone(), values })
            });
            let network = weights::from_tensors::<f64>(&tensors.collect(), format, &config, "")?;
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

    /// The same, written to memory of so many float64: a list of millions of numbers takes seconds.
    #[pyo3(signature = (seed, address, count, /))]
    fn start_into(&self, py: Python<'_>, seed: u64, address: usize, count: usize) -> PyResult<()> {
        let start = || -> Result<(), Failure> {
            let network = Network::<f64>::new(self.config, Init::for_variant(&self.config.variant), seed)?;
            if network.params().values().len() != count {
                return Err(Failure::Order("expected room for all parameters"));
            }
            // SAFETY: Python keeps the memory alive, and nothing else uses it.
            unsafe { slice_mut::<f64>(address, count) }.copy_from_slice(network.params().values());
            Ok(())
        };
        Ok(detached(py, start)?)
    }

    /// Runs over sequences x `[T, B, I]` (or `[B, T, I]`) of type `dtype`; writes y and the last h and c (in the arithmetic
    /// type). With `training = (seed, recompute)` it gives a tape. `parameters` are `(address, dtype)` in the order of `places`.
    #[pyo3(signature = (parameters, dtype, x, sizes, lengths, state, y, last, training, how, /))]
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
    fn forward(
        &self,
        py: Python<'_>,
        parameters: Vec<(usize, usize)>,
        dtype: usize,
        x: usize,
        sizes: (usize, usize, bool),
        lengths: Option<Vec<usize>>,
        state: (usize, usize),
        y: usize,
        last: (usize, usize),
        training: Option<(u64, bool)>,
        how: How,
    ) -> PyResult<Option<Tape>> {
        let dtype = Dtype::number(dtype)?;
        let (steps, batch, batch_first) = sizes;
        let memory = Memory { steps, batch, batch_first, lengths, h: state.0, c: state.1 };
        let training = training
            .map(|(seed, recompute)| Training { seed, keep: if recompute { Keep::Recompute } else { Keep::All } });
        let call = Call { parameters, x, y, last, memory, training, how };
        Ok(detached(py, || with_type!(dtype, forward_of(self, &call, dtype)))?)
    }
}

struct Call {
    parameters: Vec<(usize, usize)>,
    x: usize,
    y: usize,
    last: (usize, usize),
    memory: Memory,
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
        let cells = config.layers * config.directions() * batch;
        (cells * config.output(), if config.has_cell() { cells * config.hidden } else { 0 })
    }
}

fn forward_of<T: Element>(recurrent: &Recurrent, call: &Call, dtype: Dtype) -> Result<Option<Tape>, Failure>
where
    T::Acc: Kept,
{
    let (memory, config) = (&call.memory, &recurrent.config);
    let mut seat = recurrent.seat::<T::Acc>(call.how)?;
    let (h, c) = recurrent.state_sizes(memory.batch);
    let rows = memory.steps * memory.batch;
    // SAFETY: Python keeps the tensors alive, contiguous and of these sizes, and those to be written are its own.
    unsafe {
        take_parameters(&mut seat.network, &call.parameters)?;
        let sequences = Sequences {
            data: slice::<T>(call.x, rows * config.input),
            steps: memory.steps,
            batch: memory.batch,
            layout: if memory.batch_first { Layout::BatchFirst } else { Layout::TimeFirst },
            lengths: memory.lengths.as_deref(),
        };
        let y = slice_mut::<T>(call.y, rows * config.output() * config.directions());
        let initial = take_state(&mut seat.initial, (memory.h, memory.c), (h, c));
        let Seat { network, runner, initial: first, last, .. } = &mut seat;
        let initial = initial.then_some(&*first);
        match call.training {
            None => runner.forward_into(network, &sequences, initial, y, last)?,
            Some(training) => runner.train_into(network, &sequences, initial, training, y, last)?,
        }
        give_state(&seat.last, call.last, (h, c));
    }
    if call.training.is_none() {
        T::Acc::free(&recurrent.seats).push(seat);
        return Ok(None);
    }
    let recorded = Mutex::new(T::Acc::record(seat));
    let config = *config;
    Ok(Some(Tape { recorded, seats: recurrent.seats.clone(), config, dtype, rows, state: (h, c) }))
}

/// Copies parameters that differ from those that the network has.
///
/// # Safety
/// The memory is there, of the types that are said.
unsafe fn take_parameters<A: Kept>(network: &mut Network<A>, from: &[(usize, usize)]) -> Result<(), Failure> {
    if from.len() != network.params().entries().len() {
        return Err(Failure::Order("expected as many parameters as the network has"));
    }
    let mut room = Vec::new();
    for (i, &(address, dtype)) in from.iter().enumerate() {
        let range = network.params().entries()[i].range.clone();
        let dtype = Dtype::number(dtype).map_err(|_| Failure::Order("no type has this number"))?;
        // SAFETY: the caller's promise.
        let found = unsafe { with_type!(dtype, converted(address, range.len(), &mut room;)) };
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
unsafe fn converted<T: Element, A: Kept>(address: usize, count: usize, room: &mut Vec<A>) -> &[A] {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<A>() {
        // SAFETY: the caller's promise; the types are the same.
        return unsafe { slice::<A>(address, count) };
    }
    room.clear();
    // SAFETY: the caller's promise.
    room.extend(unsafe { slice::<T>(address, count) }.iter().map(|x| A::from_f64(x.widen().to_f64())));
    room
}

/// Copies a state that the caller has; false if there is none.
///
/// # Safety
/// As for [`slice`].
unsafe fn take_state<A: Kept>(to: &mut State<A>, (h, c): (usize, usize), sizes: (usize, usize)) -> bool {
    if h == 0 && c == 0 {
        return false;
    }
    for (numbers, address, count) in [(&mut to.h, h, sizes.0), (&mut to.c, c, sizes.1)] {
        numbers.clear();
        if address == 0 {
            numbers.resize(count, A::ZERO);
        } else {
            // SAFETY: the caller's promise.
            numbers.extend_from_slice(unsafe { slice(address, count) });
        }
    }
    true
}

/// Copies a state to where the caller wants it.
///
/// # Safety
/// As for [`slice_mut`].
unsafe fn give_state<A: Kept>(from: &State<A>, (h, c): (usize, usize), sizes: (usize, usize)) {
    for (numbers, address, count) in [(&from.h, h, sizes.0), (&from.c, c, sizes.1)] {
        if address != 0 {
            // SAFETY: the caller's promise.
            unsafe { slice_mut(address, count) }.copy_from_slice(numbers);
        }
    }
}

/// What a pass in training leaves for its gradients.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Tape {
    recorded: Mutex<Recorded>,
    seats: Arc<Seats>,
    config: Config,
    dtype: Dtype,
    rows: usize,
    state: (usize, usize),
}

#[pymethods]
impl Tape {
    /// Writes gradients from those of y and of the last h and c: of x, of the parameters (one after the other, in the
    /// arithmetic type) and of the first h and c. Those whose address is 0 are not written, and that of x not computed. It may
    /// be called again.
    #[pyo3(signature = (dy, dlast, dx, dparameters, dfirst, /))]
    fn backward(
        &self,
        py: Python<'_>,
        dy: usize,
        dlast: (usize, usize),
        dx: usize,
        dparameters: usize,
        dfirst: (usize, usize),
    ) -> PyResult<()> {
        let to = Ends { dy, dlast, dx, dparameters, dfirst };
        Ok(detached(py, || with_type!(self.dtype, backward_of(self, &to)))?)
    }
}

struct Ends {
    dy: usize,
    dlast: (usize, usize),
    dx: usize,
    dparameters: usize,
    dfirst: (usize, usize),
}

fn backward_of<T: Element>(tape: &Tape, ends: &Ends) -> Result<(), Failure>
where
    T::Acc: Kept,
{
    let config = &tape.config;
    let mut recorded = tape.recorded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let seat = T::Acc::recorded(&mut recorded).ok_or(Failure::Order("the tape is of another type"))?;
    // SAFETY: Python keeps the tensors alive, contiguous and of these sizes, and those to be written are its own.
    unsafe {
        let dy = slice::<T>(ends.dy, tape.rows * config.output() * config.directions());
        let dlast = take_state(&mut seat.initial, ends.dlast, tape.state);
        let dlast = dlast.then_some(&seat.initial);
        let (mut params, state) = match seat.gradients.take() {
            Some(kept) => kept,
            None => (seat.network.params().zeros_like(), State::default()),
        };
        // The runner adds.
        params.values_mut().fill(T::Acc::ZERO);
        let inputs = if ends.dx == 0 { 0 } else { tape.rows * config.input };
        let mut gradients = Gradients { input: vec![T::narrow(T::Acc::ZERO); inputs], params, state };
        seat.runner.backward_into(&seat.network, dy, dlast, 0, &mut gradients)?;
        slice_mut(ends.dx, inputs).copy_from_slice(&gradients.input);
        if ends.dparameters != 0 {
            let values = gradients.params.values();
            slice_mut(ends.dparameters, values.len()).copy_from_slice(values);
        }
        give_state(&gradients.state, ends.dfirst, tape.state);
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

//! A recurrent network of one layer in f32, time first, with what runs it and where its results go.

use crate::failure::Failure;
use crate::{guarded, not_null, write_text};
use layernorm::Context;
use layernorm_rnn::{Config, Gradients, Init, Kind, Network, Runner, Sequences, State, Training, Variant};
use std::ffi::c_char;
use std::slice;

/// The code of an LSTM in [`layernorm_bench_recurrent_create`].
pub const LSTM: i32 = 0;
/// The code of a GRU.
pub const GRU: i32 = 1;

/// The code of the variant `none`.
pub const NONE: i32 = 0;
/// The code of the variant `paper`.
pub const PAPER: i32 = 1;

/// The code of y in [`layernorm_bench_recurrent_read`]: that of the last call that allocated.
pub const Y: i32 = 0;
/// The code of the input's gradient.
pub const DX: i32 = 1;
/// The code of the parameters' gradients, in the order of the parameters.
pub const DPARAMS: i32 = 2;

/// A network, its runner, and memory for results.
#[derive(Debug)]
pub struct Recurrent {
    network: Network<f32>,
    runner: Runner<f32>,
    y: Vec<f32>,
    last: State<f32>,
    gradients: Gradients<f32>,
    /// Between single steps.
    state: State<f32>,
}

/// A batch of sequences from zeros. All memory is contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// T.
    pub steps: usize,
    /// B.
    pub batch: usize,
    /// `[T, B, I]`
    pub x: *const f32,
    /// `[T, B, H]`, of a training step.
    pub dy: *const f32,
    /// Written, `[T, B, H]`; or null: then every result of the call is allocated, and [`layernorm_bench_recurrent_read`] has
    /// it. Gradients are in memory of the network's own either way.
    pub y: *mut f32,
}

/// Makes a network at `*made`, to be given to [`layernorm_bench_recurrent_destroy`].
///
/// # Safety
/// `made` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_create(
    kind: i32,
    variant: i32,
    input: usize,
    hidden: usize,
    threads: usize,
    made: *mut *mut Recurrent,
) -> i32 {
    guarded(|| {
        let made = not_null("made", made)?;
        let kind = match kind {
            LSTM => Kind::Lstm,
            GRU => Kind::Gru,
            found => return Err(Failure::Code { what: "kind", found }),
        };
        let name = match variant {
            NONE => "none",
            PAPER => "paper",
            found => return Err(Failure::Code { what: "variant", found }),
        };
        let variant = Variant::named(kind, name)?;
        let network = Network::new(Config::new(variant, input, hidden), Init::for_variant(&variant), 1)?;
        let runner = Runner::new(Context::new().with_threads(threads)?);
        let params = network.params().zeros_like();
        let gradients = Gradients { input: Vec::new(), params, state: State::default() };
        let (last, state) = (State::default(), network.zero_state(1)?);
        let recurrent = Recurrent { network, runner, y: Vec::new(), last, gradients, state };
        // SAFETY: it is not null, so it can be written.
        unsafe { *made = Box::into_raw(Box::new(recurrent)) };
        Ok(())
    })
}

/// Frees a network. Null is no error.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_destroy(recurrent: *mut Recurrent) -> i32 {
    guarded(|| {
        if !recurrent.is_null() {
            // SAFETY: it came from `Box::into_raw`, and this is its last use.
            drop(unsafe { Box::from_raw(recurrent) });
        }
        Ok(())
    })
}

/// The parameters in their order, a line each: name, first number, end. C text cut to `capacity` bytes.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`]; `text` is null or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_layout(
    recurrent: *mut Recurrent,
    text: *mut c_char,
    capacity: usize,
) -> i32 {
    with(recurrent, |recurrent| {
        let entries = recurrent.network.params().entries();
        let line = |e: &layernorm_rnn::Entry| format!("{} {} {}\n", e.slot.name(), e.range.start, e.range.end);
        // SAFETY: the caller's promise.
        unsafe { write_text(&entries.iter().map(line).collect::<String>(), text, capacity) }
    })
}

/// Takes all parameters from memory.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`]; `from` is null or has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_load(
    recurrent: *mut Recurrent,
    from: *const f32,
    count: usize,
) -> i32 {
    with(recurrent, |recurrent| {
        let to = recurrent.network.params_mut().values_mut();
        check("parameters", to.len(), count)?;
        // SAFETY: the caller's promise.
        to.copy_from_slice(unsafe { numbers("from", from, count) }?);
        Ok(())
    })
}

/// Copies a result into memory: [`Y`], [`DX`] or [`DPARAMS`].
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`]; `to` is null or has room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_read(
    recurrent: *mut Recurrent,
    what: i32,
    to: *mut f32,
    count: usize,
) -> i32 {
    with(recurrent, |recurrent| {
        let from = match what {
            Y => &recurrent.y[..],
            DX => &recurrent.gradients.input,
            DPARAMS => recurrent.gradients.params.values(),
            found => return Err(Failure::Code { what: "result", found }),
        };
        check("result", from.len(), count)?;
        // SAFETY: the caller's promise.
        unsafe { numbers_mut("to", to, count) }?.copy_from_slice(from);
        Ok(())
    })
}

/// A forward pass outside training.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`], and no other call uses it; `pass` is null or its
/// pointers have the memory that [`Pass`] says, and y overlaps nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_forward(recurrent: *mut Recurrent, pass: *const Pass) -> i32 {
    with(recurrent, |recurrent| {
        // SAFETY: the caller's promise.
        let pass = unsafe { pass.as_ref() }.ok_or(Failure::Null { what: "pass" })?;
        // SAFETY: the caller's promise.
        let sequences = unsafe { pass.sequences(recurrent) }?;
        if pass.y.is_null() {
            let output = recurrent.runner.forward(&recurrent.network, &sequences, None)?;
            (recurrent.y, recurrent.last) = (output.y, output.state);
        } else {
            // SAFETY: the caller's promise.
            let y = unsafe { numbers_mut("y", pass.y, pass.outputs(recurrent)) }?;
            recurrent.runner.forward_into(&recurrent.network, &sequences, None, y, &mut recurrent.last)?;
        }
        Ok(())
    })
}

/// A training step less its optimizer: forward, then the gradients of x and of all parameters.
///
/// The parameters count as changed before it, as an optimizer leaves them, so that weights are packed anew each time; and
/// the gradients begin at 0.
///
/// # Safety
/// As [`layernorm_bench_recurrent_forward`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_train(recurrent: *mut Recurrent, pass: *const Pass) -> i32 {
    with(recurrent, |recurrent| {
        // SAFETY: the caller's promise.
        let pass = unsafe { pass.as_ref() }.ok_or(Failure::Null { what: "pass" })?;
        // SAFETY: the caller's promise.
        let sequences = unsafe { pass.sequences(recurrent) }?;
        let outputs = pass.outputs(recurrent);
        // SAFETY: the caller's promise.
        let dy = unsafe { numbers("dy", pass.dy, outputs) }?;
        let Recurrent { network, runner, last, gradients, .. } = recurrent;
        network.params_mut().values_mut();
        let training = Training::default();
        if pass.y.is_null() {
            let output = runner.train(network, &sequences, None, training)?;
            *gradients = runner.backward(network, dy, None)?;
            (recurrent.y, recurrent.last) = (output.y, output.state);
        } else {
            // SAFETY: the caller's promise.
            let y = unsafe { numbers_mut("y", pass.y, outputs) }?;
            runner.train_into(network, &sequences, None, training, y, last)?;
            gradients.input.resize(sequences.data.len(), 0.0);
            gradients.params.values_mut().fill(0.0);
            runner.backward_into(network, dy, None, 0, gradients)?;
        }
        Ok(())
    })
}

/// The state between single steps of one sequence becomes zeros.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`], and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_reset(recurrent: *mut Recurrent) -> i32 {
    with(recurrent, |recurrent| {
        recurrent.state = recurrent.network.zero_state(1)?;
        Ok(())
    })
}

/// One step of one sequence: x `[I]` to y `[H]`.
///
/// # Safety
/// `recurrent` is null or came from [`layernorm_bench_recurrent_create`], and no other call uses it; `x` and `y` are null or
/// have these numbers, and y overlaps nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_recurrent_step(recurrent: *mut Recurrent, x: *const f32, y: *mut f32) -> i32 {
    with(recurrent, |recurrent| {
        let Recurrent { network, runner, state, .. } = recurrent;
        // SAFETY: the caller's promise.
        let x = unsafe { numbers("x", x, network.config().input) }?;
        // SAFETY: the caller's promise.
        let y = unsafe { numbers_mut("y", y, network.config().hidden) }?;
        runner.step(network, x, state, y)?;
        Ok(())
    })
}

impl Pass {
    /// # Safety
    /// `x` is null or has its numbers for as long as the sequences live.
    unsafe fn sequences<'a>(&self, recurrent: &Recurrent) -> Result<Sequences<'a, f32>, Failure> {
        let count = self.steps * self.batch * recurrent.network.config().input;
        // SAFETY: the caller's promise.
        Ok(Sequences::new(unsafe { numbers("x", self.x, count) }?, self.steps, self.batch))
    }

    fn outputs(&self, recurrent: &Recurrent) -> usize {
        self.steps * self.batch * recurrent.network.config().hidden
    }
}

/// Calls with a network that is there. All functions here hand on their callers' promise about it.
fn with(recurrent: *mut Recurrent, call: impl FnOnce(&mut Recurrent) -> Result<(), Failure>) -> i32 {
    // SAFETY: it is null or came from `layernorm_bench_recurrent_create`, and no other call uses it.
    guarded(|| call(unsafe { recurrent.as_mut() }.ok_or(Failure::Null { what: "recurrent" })?))
}

fn check(what: &'static str, expected: usize, found: usize) -> Result<(), Failure> {
    if expected == found { Ok(()) } else { Err(Failure::Count { what, expected, found }) }
}

/// # Safety
/// `memory` is null or has `count` numbers for as long as the slice lives.
unsafe fn numbers<'a>(what: &'static str, memory: *const f32, count: usize) -> Result<&'a [f32], Failure> {
    let memory = not_null(what, memory.cast_mut())?;
    // SAFETY: it is not null, so the numbers are there.
    Ok(unsafe { slice::from_raw_parts(memory, count) })
}

/// # Safety
/// As [`numbers`], and nothing else uses them meanwhile.
unsafe fn numbers_mut<'a>(what: &'static str, memory: *mut f32, count: usize) -> Result<&'a mut [f32], Failure> {
    let memory = not_null(what, memory)?;
    // SAFETY: it is not null, so the numbers are there.
    Ok(unsafe { slice::from_raw_parts_mut(memory, count) })
}

#[cfg(test)]
mod tests;

//! Settings of the process, and one context per thread, which keeps its scratch memory.

use crate::detach::detached;
use crate::failure::Failure;
use layernorm::{Context, Isa};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of threads set by the user; 0 if not set.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Instruction set chosen by the user: its index in `Isa::ALL` + 1; 0 if not set.
static ISA: AtomicUsize = AtomicUsize::new(0);
/// Serializes changes of the instruction set.
static SETTING: Mutex<()> = Mutex::new(());

/// `(threads, fresh)` of a call. `threads` (0: all cores) applies unless the user has set a number; `fresh` means that outputs were
/// just allocated.
pub type How = (usize, bool);

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::new(Context::new());
}

/// Returns a context with the current settings and the scratch memory of the given one.
pub fn configured(context: Context, (threads, fresh): How) -> Result<Context, Failure> {
    let mut context = context.with_fresh_outputs(fresh);
    let asked = match THREADS.load(Ordering::Relaxed) {
        0 if threads == 0 => Context::new().threads(),
        0 => threads,
        asked => asked,
    };
    context = context.with_threads(asked)?;
    let isa = match ISA.load(Ordering::Relaxed) {
        0 => Isa::detect()?,
        asked => Isa::ALL[asked - 1],
    };
    Ok(context.with_isa(isa)?)
}

/// Runs a call without the interpreter's lock, in this thread's context.
pub fn run(py: Python<'_>, how: How, call: impl FnOnce(&mut Context) -> Result<(), Failure> + Send) -> PyResult<()> {
    let result = detached(py, || {
        CONTEXT.with_borrow_mut(|slot| {
            let mut context = configured(std::mem::take(slot), how)?;
            let result = call(&mut context);
            *slot = context;
            result
        })
    });
    Ok(result?)
}

/// Sets the number of threads that large calls use, in all Python threads. Does not change results.
///
/// Args:
///     threads: number of threads, 1 or more. None: one per core, or for layernorm.torch those of PyTorch.
///
/// Raises:
///     ValueError: if the number is less than 1.
#[pyfunction]
#[pyo3(signature = (threads, /))]
pub fn set_num_threads(threads: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(asked) = threads else {
        THREADS.store(0, Ordering::Relaxed);
        return Ok(());
    };
    let refused = || PyValueError::new_err(format!("threads: expected 1 or more, found {asked}"));
    match asked.extract::<usize>() {
        Ok(0) => Err(refused()),
        Ok(count) => {
            THREADS.store(count, Ordering::Relaxed);
            Ok(())
        }
        // An integer that is negative or too large.
        Err(error) if error.is_instance_of::<PyOverflowError>(asked.py()) => Err(refused()),
        Err(error) => Err(error),
    }
}

/// Sets the instruction set that calls use. Does not change results.
///
/// Args:
///     name: "scalar", "avx2", "avx512" or "neon"; `info().available` lists those of this machine. None: the widest one.
///
/// Raises:
///     ValueError: if the name is unknown or this machine does not support the instruction set.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub fn set_isa(name: Option<&str>) -> PyResult<()> {
    let _one = SETTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let number = match name {
        None => 0,
        Some(name) => {
            let isa = name.parse::<Isa>().and_then(Isa::checked).map_err(Failure::from)?;
            1 + Isa::ALL.iter().position(|&each| each == isa).unwrap_or(0)
        }
    };
    ISA.store(number, Ordering::Relaxed);
    Ok(())
}

/// Returns `(threads, instruction set, instruction sets of this machine)`.
#[pyfunction]
pub fn settings() -> PyResult<(usize, &'static str, Vec<&'static str>)> {
    let context = configured(Context::new(), (0, false))?;
    let isa = context.isa().map_err(Failure::from)?;
    Ok((context.threads(), isa.name(), Isa::available().into_iter().map(Isa::name).collect()))
}

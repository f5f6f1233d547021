//! How calls run: the settings of the process, and a context a thread that keeps its scratch memory.

use crate::detach::detached;
use crate::failure::Failure;
use layernorm::{Context, Isa};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that the user asked for; 0 if none were.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The instruction set that the user asked for: its place in `Isa::ALL` + 1; 0 if none was.
static ISA: AtomicUsize = AtomicUsize::new(0);
/// So that two settings at once leave one of them whole.
static SETTING: Mutex<()> = Mutex::new(());

/// What a call says about how it runs: `(threads, fresh)`. The threads (0: all) count where the user has set none; `fresh`
/// says that outputs were just allocated.
pub type How = (usize, bool);

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::new(Context::new());
}

/// A context of the present settings, with the scratch memory of the one given.
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

/// Threads for every call from now on, in all Python threads; None: as many as the machine has cores, or as PyTorch uses.
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
        // A whole number, below 0 or beyond any machine.
        Err(error) if error.is_instance_of::<PyOverflowError>(asked.py()) => Err(refused()),
        Err(error) => Err(error),
    }
}

/// The instruction set for every call from now on; None: the widest that the machine has.
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

/// `(threads, instruction set, those of the machine)`.
#[pyfunction]
pub fn settings() -> PyResult<(usize, &'static str, Vec<&'static str>)> {
    let context = configured(Context::new(), (0, false))?;
    let isa = context.isa().map_err(Failure::from)?;
    Ok((context.threads(), isa.name(), Isa::available().into_iter().map(Isa::name).collect()))
}

//! Support for framework modules: how many threads their operations use, and a pool of runners, each with its network.
//! A forward pass in training leases a runner and keeps it until its backward pass has finished or was abandoned.
//! Then the module gets it back, with all its memory, for the next pass.

use crate::{Config, Error, Gradients, Network, Params, Real, Runner, State};
use layernorm::Context;
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of idle runners that a module keeps. This many forward passes can be open at once without repeated
/// allocation.
const MAX_IDLE: usize = 16;

/// A network, its runner, and memory for the gradients of its parameters.
pub struct PooledRunner<A> {
    /// The network.
    pub network: Network<A>,
    /// The runner that runs it.
    pub runner: Runner<A>,
    /// Taken during a backward pass.
    sums: Option<Params<A>>,
}

impl<A: Real> PooledRunner<A> {
    fn new(config: &Config, context: Context) -> Result<Self, Error> {
        let params = Params::zeros(config)?;
        let sums = Some(params.try_zeros_like()?);
        Ok(PooledRunner { network: Network::from_params(*config, params)?, runner: Runner::new(context), sums })
    }

    /// Sets the network's parameters. If they are equal bit for bit, its packed weights stay valid. Fails if the
    /// number of values is wrong.
    pub fn set_params(&mut self, values: &[A]) -> Result<(), Error> {
        let (expected, found) = (self.network.params().values(), values);
        if expected.len() != found.len() {
            let what = format!("expected {} numbers for this network, found {}", expected.len(), found.len());
            return Err(Error::Weights { what });
        }
        let bits = |value: &A| value.to_f64().to_bits();
        if expected.iter().zip(found).any(|(a, b)| bits(a) != bits(b)) {
            self.network.params_mut().values_mut().copy_from_slice(values);
        }
        Ok(())
    }

    /// Computes the gradients of the last recorded forward pass. Passes those of the parameters to `take`; their
    /// memory stays here.
    pub fn backward<T: layernorm::Element<Acc = A>, R>(
        &mut self,
        dy: &[T],
        dlast: Option<&State<A>>,
        input: Vec<T>,
        take: impl FnOnce(&[A]) -> R,
    ) -> Result<(Vec<T>, State<A>, R), Error> {
        let mut params = self.sums.take().map_or_else(|| self.network.params().try_zeros_like(), Ok)?;
        params.values_mut().fill(A::ZERO);
        let mut gradients = Gradients { input, params, state: State { h: Vec::new(), c: Vec::new() } };
        let outcome = self.runner.backward_into(&self.network, dy, dlast, 0, &mut gradients);
        let taken = outcome.map(|()| take(gradients.params.values()));
        self.sums = Some(gradients.params);
        Ok((gradients.input, gradients.state, taken?))
    }
}

/// Idle runners of a module, of both arithmetic types. Clones of the module share them.
#[derive(Default)]
pub struct RunnerPool {
    single: Mutex<Vec<PooledRunner<f32>>>,
    double: Mutex<Vec<PooledRunner<f64>>>,
}

impl std::fmt::Debug for RunnerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunnerPool")
    }
}

/// Arithmetic type of a runner, f32 or f64: selects the idle runners of this type.
pub trait PooledReal: Real {
    #[doc(hidden)]
    fn idle(pool: &RunnerPool) -> &Mutex<Vec<PooledRunner<Self>>>;
}

impl PooledReal for f32 {
    fn idle(pool: &RunnerPool) -> &Mutex<Vec<PooledRunner<f32>>> {
        &pool.single
    }
}

impl PooledReal for f64 {
    fn idle(pool: &RunnerPool) -> &Mutex<Vec<PooledRunner<f64>>> {
        &pool.double
    }
}

/// A runner that returns to its module when this is dropped.
pub struct RunnerLease<A: PooledReal> {
    pooled: Option<PooledRunner<A>>,
    pool: Arc<RunnerPool>,
}

impl<A: PooledReal> RunnerLease<A> {
    /// Leases an idle runner for this network, or creates one with the given context.
    pub fn new(pool: &Arc<RunnerPool>, config: &Config, context: impl FnOnce() -> Context) -> Result<Self, Error> {
        let idle = A::idle(pool).lock().unwrap_or_else(PoisonError::into_inner).pop();
        let pooled = match idle.filter(|pooled| pooled.network.config() == config) {
            Some(pooled) => pooled,
            None => PooledRunner::new(config, context())?,
        };
        Ok(RunnerLease { pooled: Some(pooled), pool: Arc::clone(pool) })
    }
}

impl<A: PooledReal> Deref for RunnerLease<A> {
    type Target = PooledRunner<A>;
    fn deref(&self) -> &PooledRunner<A> {
        self.pooled.as_ref().expect("a runner is present until the lease is dropped")
    }
}

impl<A: PooledReal> DerefMut for RunnerLease<A> {
    fn deref_mut(&mut self) -> &mut PooledRunner<A> {
        self.pooled.as_mut().expect("a runner is present until the lease is dropped")
    }
}

impl<A: PooledReal> Drop for RunnerLease<A> {
    fn drop(&mut self) {
        let mut idle = A::idle(&self.pool).lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE && idle.try_reserve(1).is_ok() {
            idle.extend(self.pooled.take());
        }
    }
}

thread_local! {
    static THREADS: Cell<Option<NonZeroUsize>> = const { Cell::new(None) };
    static CONTEXT: RefCell<Context> = RefCell::new(new_context());
}

/// Limits operations that this thread starts to this many threads; `None`, the default, means as many as there are
/// cores. Recurrent modules keep the limit that was set at their first forward pass. It does not affect the results.
pub fn set_threads(threads: Option<NonZeroUsize>) {
    THREADS.set(threads);
    CONTEXT.with_borrow_mut(|context| *context = new_context());
}

/// Returns a context with as many threads as this thread's operations may use.
pub fn new_context() -> Context {
    let context = Context::new().with_fresh_outputs(true);
    match THREADS.get() {
        // A nonzero number is never rejected.
        Some(threads) => context.with_threads(threads.get()).unwrap_or_default(),
        None => context,
    }
}

/// Calls `call` with this thread's context, which holds its scratch memory.
pub fn with_context<R>(call: impl FnOnce(&mut Context) -> R) -> R {
    CONTEXT.with_borrow_mut(call)
}

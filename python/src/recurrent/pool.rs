//! Networks with their runners, kept for the next call.

use super::Recurrent;
use crate::failure::Failure;
use crate::settings::{How, configured};
use layernorm::{Context, Element, Isa};
use layernorm_rnn::{Network, Params, Real, Runner, State};
use std::sync::{Mutex, MutexGuard};

/// A network with its runner, and memory for results.
pub(super) struct PooledRunner<A: Element<Acc = A>> {
    pub(super) network: Network<A>,
    pub(super) runner: Runner<A>,
    /// Settings that the runner was created with.
    settings: (usize, Option<Isa>),
    pub(super) initial: State<A>,
    pub(super) last: State<A>,
    /// Memory for gradients of the parameters and the state.
    pub(super) gradients: Option<(Params<A>, State<A>)>,
}

/// Runners that are not in use.
#[derive(Default)]
pub(super) struct RunnerPool {
    single: Mutex<Vec<PooledRunner<f32>>>,
    double: Mutex<Vec<PooledRunner<f64>>>,
}

/// The two accumulation types.
pub(super) trait PooledReal: Real + Element<Acc = Self> {
    fn free(pool: &RunnerPool) -> MutexGuard<'_, Vec<PooledRunner<Self>>>;
    fn record(pooled: PooledRunner<Self>) -> Recorded;
    fn recorded(recorded: &mut Recorded) -> Option<&mut PooledRunner<Self>>;
}

macro_rules! pooled {
    ($type:ty, $field:ident, $variant:ident) => {
        impl PooledReal for $type {
            fn free(pool: &RunnerPool) -> MutexGuard<'_, Vec<PooledRunner<$type>>> {
                pool.$field.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
            }

            fn record(pooled: PooledRunner<$type>) -> Recorded {
                Recorded::$variant(Box::new(pooled))
            }

            fn recorded(recorded: &mut Recorded) -> Option<&mut PooledRunner<$type>> {
                match recorded {
                    Recorded::$variant(pooled) => Some(pooled),
                    _ => None,
                }
            }
        }
    };
}
pooled!(f32, single, Single);
pooled!(f64, double, Double);

pub(super) enum Recorded {
    Single(Box<PooledRunner<f32>>),
    Double(Box<PooledRunner<f64>>),
    /// The runner was returned.
    Gone,
}

impl Recurrent {
    /// Returns a free runner, or a new one, with the current settings.
    pub(super) fn pooled<A: PooledReal>(&self, how: How) -> Result<PooledRunner<A>, Failure> {
        let context = configured(Context::new(), (how.0, false))?;
        let settings = (context.threads(), Some(context.isa()?));
        let free = A::free(&self.pool).pop();
        let mut pooled = match free {
            Some(pooled) => pooled,
            None => PooledRunner {
                network: Network::from_params(self.config, self.zeros()?)?,
                runner: Runner::new(Context::new()),
                settings: (0, None),
                initial: State::default(),
                last: State::default(),
                gradients: None,
            },
        };
        if pooled.settings != settings {
            pooled.runner = Runner::new(context);
            pooled.settings = settings;
        }
        Ok(pooled)
    }
}

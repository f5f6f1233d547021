//! Recorded training passes, and their gradients.

use super::convert::{check_state, give_state, take_state};
use super::pool::{PooledReal, Recorded, RunnerPool};
use super::{Pair, width};
use crate::detach::detached;
use crate::failure::Failure;
use crate::flat::Flat;
use crate::tensor::{Dtype, with_type};
use layernorm::parts::memory;
use layernorm::{Element, Float};
use layernorm_rnn::{Config, Gradients, State};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// A recorded training pass.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Tape {
    pub(super) recorded: Mutex<Recorded>,
    pub(super) pool: Arc<RunnerPool>,
    pub(super) config: Config,
    pub(super) dtype: Dtype,
    pub(super) rows: usize,
    /// Number of elements of h and c.
    pub(super) counts: (usize, usize),
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
        let tensors = BackwardTensors { dy, dlast, dx, dparameters, dfirst };
        Ok(detached(py, || with_type!(self.dtype, backward_of(self, &tensors)))?)
    }
}

/// Tensors of a backward pass.
struct BackwardTensors {
    dy: Flat,
    dlast: Pair,
    dx: Option<Flat>,
    dparameters: Option<Flat>,
    dfirst: Pair,
}

fn backward_of<T: Element>(tape: &Tape, tensors: &BackwardTensors) -> Result<(), Failure>
where
    T::Acc: PooledReal,
{
    let (config, dtype, acc) = (&tape.config, tape.dtype, tape.dtype.acc());
    let mut recorded = tape.recorded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let pooled = T::Acc::recorded(&mut recorded).ok_or(Failure::Order("the tape has another type"))?;
    let inputs = if tensors.dx.is_some() { tape.rows.saturating_mul(config.input) } else { 0 };
    // SAFETY: Python keeps the tensors alive, contiguous and of the given sizes; outputs are exclusive.
    unsafe {
        let dy = tensors.dy.read::<T>("gradient of the output", dtype, tape.rows.saturating_mul(width(config)))?;
        let dx = tensors.dx.map(|dx| dx.write::<T>("gradient of the input", dtype, inputs)).transpose()?;
        let count = pooled.network.params().values().len();
        let dparameters =
            tensors.dparameters.map(|to| to.write("gradients of the parameters", acc, count)).transpose()?;
        check_state("gradient of the state", &tensors.dfirst, acc, tape.counts)?;
        let dlast = take_state("gradient of the final state", &mut pooled.initial, &tensors.dlast, acc, tape.counts)?;
        let dlast = dlast.then_some(&pooled.initial);
        let (mut params, state) = match pooled.gradients.take() {
            Some(kept) => kept,
            None => (pooled.network.params().try_zeros_like()?, State::default()),
        };
        // The runner accumulates.
        params.values_mut().fill(T::Acc::ZERO);
        let mut gradients = Gradients { input: memory::zeros(inputs)?, params, state };
        pooled.runner.backward_into(&pooled.network, dy, dlast, 0, &mut gradients)?;
        if let Some(dx) = dx {
            dx.copy_from_slice(&gradients.input);
        }
        if let Some(to) = dparameters {
            to.copy_from_slice(gradients.params.values());
        }
        give_state("gradient of the state", &gradients.state, &tensors.dfirst, acc)?;
        pooled.gradients = Some((gradients.params, gradients.state));
    }
    Ok(())
}

impl Drop for Tape {
    fn drop(&mut self) {
        let recorded = self.recorded.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        match std::mem::replace(recorded, Recorded::Gone) {
            Recorded::Single(pooled) => f32::free(&self.pool).push(*pooled),
            Recorded::Double(pooled) => f64::free(&self.pool).push(*pooled),
            Recorded::Gone => {}
        }
    }
}

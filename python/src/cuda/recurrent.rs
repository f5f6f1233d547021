//! One layer of a recurrent network in one direction, for one shape of batch, in device memory.

use super::open;
use crate::detach::detached;
use crate::failure::Failure;
use crate::recurrent::Recurrent;
use crate::tensor::Dtype;
use layernorm_cuda::Stream;
use layernorm_cuda::recurrent::{
    Gradients, Layer, Number, Order, Parameters, Plan, Run, RunBack, Shape, State, supports,
};
use layernorm_rnn::Slot;
use pyo3::prelude::*;

/// Why the GPU's kernels do not have this network, or None.
#[pyfunction]
#[pyo3(signature = (network, /))]
pub fn cuda_lacks(network: &Recurrent) -> Option<String> {
    let config = network.config();
    if config.projection.is_some() {
        return Some("a projection of the state".into());
    }
    supports(&config.variant).err().map(|error| error.to_string())
}

fn number_of(code: usize) -> Result<Number, Failure> {
    match Dtype::number(code) {
        Ok(Dtype::F32) => Ok(Number::F32),
        Ok(Dtype::F16) => Ok(Number::F16),
        Ok(Dtype::Bf16) => Ok(Number::Bf16),
        _ => Err(Failure::Order("recurrent layers on the GPU: expected float16, bfloat16 or float32")),
    }
}

/// Kernels chosen and loaded. It holds no device memory.
#[pyclass(frozen, module = "layernorm._core")]
pub struct CudaLayer {
    plan: Plan,
    slots: Vec<Slot>,
}

/// Addresses of h and c, or of their gradients: f32 `[B, H]`; 0 for none.
type Pair = (u64, u64);

#[pymethods]
impl CudaLayer {
    /// `place` is `(layer, direction)` of the network, `types` those of x and of the parameters, `shape` is
    /// `(T, B, batch first, lengths)`.
    #[new]
    #[pyo3(signature = (device, network, place, types, tf32, shape, training, /))]
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
    fn new(
        py: Python<'_>,
        device: usize,
        network: &Recurrent,
        place: (usize, usize),
        types: (usize, usize),
        tf32: bool,
        shape: (usize, usize, bool, bool),
        training: bool,
    ) -> PyResult<CudaLayer> {
        let config = network.config();
        let layer = Layer {
            variant: config.variant,
            input: config.layer_input(place.0),
            hidden: config.hidden,
            number: number_of(types.0)?,
            params: number_of(types.1)?,
            tf32,
            reverse: place.1 == 1,
        };
        let (steps, batch, batch_first, lengths) = shape;
        let order = if batch_first { Order::BatchFirst } else { Order::TimeFirst };
        let shape = Shape { steps, batch, order, lengths };
        let plan = detached(py, || Ok::<_, Failure>(Plan::new(&open(device)?, layer, shape, training)?))?;
        let slots = Slot::ALL.into_iter().filter(|slot| slot.shape(config, place.0).is_some()).collect();
        Ok(CudaLayer { plan, slots })
    }

    /// Bytes of the tape and of the workspace.
    fn bytes(&self) -> (usize, usize) {
        (self.plan.tape_bytes(), self.plan.workspace_bytes())
    }

    /// Runs the layer on a stream. Parameters are addresses in the order of the network's `places`, y is
    /// `(address, elements from a row to the next)`.
    #[pyo3(signature = (stream, parameters, x, y, first, last, lengths, tape, workspace, /))]
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
    fn forward(
        &self,
        py: Python<'_>,
        stream: usize,
        parameters: Vec<u64>,
        x: u64,
        y: (u64, usize),
        first: Pair,
        last: Pair,
        lengths: u64,
        tape: u64,
        workspace: u64,
    ) -> PyResult<()> {
        let run = Run {
            params: self.parameters(&parameters)?,
            x,
            y: y.0,
            y_pitch: y.1,
            first: state(first),
            last: state(last),
            lengths,
            tape,
            workspace,
        };
        // SAFETY: Python keeps the tensors alive, of the sizes that the plan has and on its device, until the stream has come
        // past the call.
        Ok(detached(py, || unsafe { self.plan.forward(Stream::from_raw(stream), &run) }).map_err(Failure::from)?)
    }

    /// Gradients on a stream; those whose address is 0 are not computed. `dx` is `(address, whether to add)`.
    #[pyo3(signature = (stream, parameters, x, dy, dlast, lengths, tape, workspace, dparameters, dx, dfirst, /))]
    #[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
    fn backward(
        &self,
        py: Python<'_>,
        stream: usize,
        parameters: Vec<u64>,
        x: u64,
        dy: (u64, usize),
        dlast: Pair,
        lengths: u64,
        tape: u64,
        workspace: u64,
        dparameters: Vec<u64>,
        dx: (u64, bool),
        dfirst: Pair,
    ) -> PyResult<()> {
        let run = RunBack {
            params: self.parameters(&parameters)?,
            x,
            dy: dy.0,
            dy_pitch: dy.1,
            dlast: state(dlast),
            lengths,
            tape,
            workspace,
            gradients: Gradients { params: self.parameters(&dparameters)?, x: dx.0, add_x: dx.1, first: state(dfirst) },
        };
        // SAFETY: as in `forward`.
        Ok(detached(py, || unsafe { self.plan.backward(Stream::from_raw(stream), &run) }).map_err(Failure::from)?)
    }
}

impl CudaLayer {
    fn parameters(&self, addresses: &[u64]) -> Result<Parameters, Failure> {
        if addresses.len() != self.slots.len() {
            return Err(Failure::Order("expected as many parameters as the layer has"));
        }
        let places = self.slots.iter().zip(addresses);
        Ok(places.fold(Parameters::default(), |all, (&slot, &address)| all.with(slot, address)))
    }
}

fn state((h, c): Pair) -> State {
    State { h, c }
}

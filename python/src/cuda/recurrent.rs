//! One layer of a recurrent network in one direction, for one batch shape, in device memory.

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

/// Returns why the GPU's kernels do not support this network, or None.
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

/// Selected and loaded kernels. Holds no device memory.
#[pyclass(frozen, module = "layernorm._core")]
pub struct CudaLayer {
    plan: Plan,
    sizes: Sizes,
}

/// Sizes that determine how much memory the calls need.
struct Sizes {
    layer: Layer,
    shape: Shape,
    /// Parameters of the layer, each with its number of elements.
    slots: Vec<(Slot, usize)>,
}

/// `(address, elements from there)`; bytes for a tape and a workspace. The address is 0 if there is none.
type Memory = (u64, usize);

/// `(address, elements between rows, elements from there)`.
type Matrix = (u64, usize, usize);

/// `(address, dtype, elements)` of a parameter or its gradient; the address is 0 for a gradient that is not needed.
type Parameter = (u64, usize, usize);

/// h and c, or their gradients: f32 `[B, H]`; address 0 for none.
type Pair = (Memory, Memory);

#[pymethods]
impl CudaLayer {
    /// `place` is `(layer, direction)` of the network, `types` those of x and of the parameters, `shape` is
    /// `(T, B, batch_first, has_lengths)`.
    #[new]
    #[pyo3(signature = (device, network, place, types, tf32, shape, training, /))]
    #[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
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
        let count = |slot: Slot| Some((slot, slot.shape(config, place.0)?.iter().product()));
        let sizes = Sizes { layer, shape, slots: Slot::ALL.into_iter().filter_map(count).collect() };
        let plan = detached(py, || Ok::<_, Failure>(Plan::new(&open(device)?, layer, shape, training)?))?;
        Ok(CudaLayer { plan, sizes })
    }

    /// Returns the sizes of the tape and of the workspace in bytes.
    fn bytes(&self) -> (usize, usize) {
        (self.plan.tape_bytes(), self.plan.workspace_bytes())
    }

    /// Runs the layer on a stream. Parameters are in the order of the network's `places`. Raises RuntimeError if an earlier
    /// recurrent pass on this device timed out.
    #[pyo3(signature = (stream, parameters, x, y, first, last, lengths, tape, workspace, /))]
    #[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
    fn forward(
        &self,
        py: Python<'_>,
        stream: usize,
        parameters: Vec<Parameter>,
        x: Memory,
        y: Matrix,
        first: Pair,
        last: Pair,
        lengths: Memory,
        tape: Memory,
        workspace: Memory,
    ) -> PyResult<()> {
        let sizes = &self.sizes;
        let run = Run {
            params: sizes.parameters(&parameters)?,
            x: sizes.input("x", x)?,
            y: sizes.rows("y", y)?,
            y_pitch: y.1,
            first: sizes.state("first state", first)?,
            last: sizes.state("last state", last)?,
            lengths: sizes.lengths(lengths)?,
            tape: enough("tape", tape, self.plan.tape_bytes())?,
            workspace: enough("workspace", workspace, self.plan.workspace_bytes())?,
        };
        // SAFETY: Python keeps the tensors alive, on the plan's device, until the stream has passed the call; their sizes were
        // checked.
        Ok(detached(py, || unsafe { self.plan.forward(Stream::from_raw(stream), &run) }).map_err(Failure::from)?)
    }

    /// Computes gradients on a stream, except those whose address is 0. `dx` is `(address, whether to add)`.
    #[pyo3(signature = (stream, parameters, x, dy, dlast, lengths, tape, workspace, dparameters, dx, dfirst, /))]
    #[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
    fn backward(
        &self,
        py: Python<'_>,
        stream: usize,
        parameters: Vec<Parameter>,
        x: Memory,
        dy: Matrix,
        dlast: Pair,
        lengths: Memory,
        tape: Memory,
        workspace: Memory,
        dparameters: Vec<Parameter>,
        dx: (Memory, bool),
        dfirst: Pair,
    ) -> PyResult<()> {
        let sizes = &self.sizes;
        let gradients = Gradients {
            params: sizes.gradients(&dparameters)?,
            x: if dx.0.0 == 0 { 0 } else { sizes.input("gradient of x", dx.0)? },
            add_x: dx.1,
            first: sizes.state("gradient of the first state", dfirst)?,
        };
        let run = RunBack {
            params: sizes.parameters(&parameters)?,
            x: sizes.input("x", x)?,
            dy: sizes.rows("gradient of y", dy)?,
            dy_pitch: dy.1,
            dlast: sizes.state("gradient of the last state", dlast)?,
            lengths: sizes.lengths(lengths)?,
            tape: enough("tape", tape, self.plan.tape_bytes())?,
            workspace: enough("workspace", workspace, self.plan.workspace_bytes())?,
            gradients,
        };
        // SAFETY: as in `forward`.
        Ok(detached(py, || unsafe { self.plan.backward(Stream::from_raw(stream), &run) }).map_err(Failure::from)?)
    }
}

/// Returns the address of memory for at least `expected` elements.
fn enough(what: &str, (address, found): Memory, expected: usize) -> Result<u64, Failure> {
    if found < expected {
        return Err(Failure::Count { what: what.into(), expected, found });
    }
    Ok(address)
}

/// The same for memory that is required.
fn there(what: &str, memory: Memory, expected: usize) -> Result<u64, Failure> {
    enough(what, if memory.0 == 0 { (0, 0) } else { memory }, expected)
}

impl Sizes {
    /// Returns the address of `[T, B, I]`.
    fn input(&self, what: &str, memory: Memory) -> Result<u64, Failure> {
        there(what, memory, self.shape.steps * self.shape.batch * self.layer.input)
    }

    /// Returns the address of `[T, B, H]`, whose rows may have gaps.
    fn rows(&self, what: &str, (address, pitch, found): Matrix) -> Result<u64, Failure> {
        let rows = self.shape.steps * self.shape.batch;
        there(what, (address, found), pitch.saturating_mul(rows - 1).saturating_add(self.layer.hidden))
    }

    fn lengths(&self, memory: Memory) -> Result<u64, Failure> {
        enough("lengths", memory, if self.shape.lengths { self.shape.batch } else { 0 })
    }

    fn state(&self, what: &str, (h, c): Pair) -> Result<State, Failure> {
        let expected = self.shape.batch * self.layer.hidden;
        let at = |memory: Memory| enough(what, memory, if memory.0 == 0 { 0 } else { expected });
        Ok(State { h: at(h)?, c: at(c)? })
    }

    /// Returns the addresses of all parameters.
    fn parameters(&self, from: &[Parameter]) -> Result<Parameters, Failure> {
        if let Some(i) = from.iter().position(|parameter| parameter.0 == 0) {
            let (what, expected) = self.slots.get(i).map_or(("parameters", 0), |(slot, count)| (slot.name(), *count));
            return Err(Failure::Count { what: what.into(), expected, found: 0 });
        }
        self.gradients(from)
    }

    /// Returns the addresses of the gradients that are needed.
    fn gradients(&self, from: &[Parameter]) -> Result<Parameters, Failure> {
        if from.len() != self.slots.len() {
            return Err(Failure::Order("expected as many parameters as the layer has"));
        }
        let mut all = Parameters::default();
        for (&(slot, expected), &(address, dtype, found)) in self.slots.iter().zip(from) {
            if address != 0 && found != expected {
                return Err(Failure::Count { what: slot.name().into(), expected, found });
            }
            if number_of(dtype)? != self.layer.params {
                return Err(Failure::Order("expected parameters of the type that the layer was created for"));
            }
            all = all.with(slot, address);
        }
        Ok(all)
    }
}

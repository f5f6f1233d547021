//! A recurrent network as one operation on x `[B, T, I]`, all parameters `[n]` and the initial state `[h, c]`. Its
//! single output has y, h and c one after the other in the arithmetic type, so that all of them stay differentiable;
//! they are split with `narrow`. For f16 and bf16 that type represents y exactly, so y and its gradient pass through it
//! unchanged.
//!
//! The tape is the core's own: the runner that ran forward, kept as long as the graph exists.

use super::memory::{Number, Stored, by_type, count, new_context, on_cpu, refused, room, tensor, wide, with_stored};
use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout as Lay, Result, Shape, Tensor};
use layernorm::parts::memory;
use layernorm_rnn::runner_pool::{PooledRunner, RunnerLease, RunnerPool};
use layernorm_rnn::{Config, Layout, Sequences, State, Training};
use std::sync::{Arc, Mutex, PoisonError};

/// What is run, and the layout of its sequences.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    pub(crate) lengths: Option<Vec<usize>>,
    pub(crate) pool: Arc<RunnerPool>,
}

/// h `[L·D, B, P]` and, for an LSTM, c `[L·D, B, H]`.
pub(crate) type States = [Option<Tensor>; 2];

impl Call {
    /// T and B of `[T, B, …]` or `[B, T, …]`.
    fn steps_and_batch(&self, shape: [usize; 3]) -> (usize, usize) {
        match self.layout {
            Layout::TimeFirst => (shape[0], shape[1]),
            Layout::BatchFirst => (shape[1], shape[0]),
        }
    }

    /// The shape of the output, `[T, B, D·P]` or `[B, T, D·P]`.
    fn output_shape(&self, input: [usize; 3]) -> [usize; 3] {
        [input[0], input[1], self.config.output() * self.config.directions()]
    }

    /// The shapes of h and of an LSTM's c.
    pub(crate) fn state_shapes(&self, batch: usize) -> [Option<[usize; 3]>; 2] {
        let cells = self.config.layers * self.config.directions();
        let c = self.config.has_cell().then_some([cells, batch, self.config.hidden]);
        [Some([cells, batch, self.config.output()]), c]
    }

    /// The shape of the input, if it has three dimensions.
    fn input_shape(&self, x: &Tensor) -> Result<[usize; 3]> {
        let error = match *x.dims() {
            [first, second, input] if input == self.config.input => return Ok([first, second, input]),
            [first, second, _] => {
                let expected = vec![first, second, self.config.input];
                layernorm::Error::Shape { what: "x", expected, found: x.dims().to_vec() }
            }
            ref found => {
                return Err(refused(format_args!("x: expected a shape of 3 dimensions, [B, T, I], found {found:?}")));
            }
        };
        Err(refused(error))
    }

    /// The initial state as one vector in the arithmetic type; absent parts are 0.
    fn initial(&self, initial: [Option<&Tensor>; 2], batch: usize, x: &Tensor) -> Result<Option<Tensor>> {
        let mut parts = Vec::new();
        for ((what, shape), found) in ["initial h", "initial c"].into_iter().zip(self.state_shapes(batch)).zip(initial)
        {
            match (shape, found) {
                (Some(shape), Some(found)) if shape == found.dims() => {
                    parts.push(found.flatten_all()?.to_dtype(wide(x.dtype()))?);
                }
                (Some(shape), None) => {
                    parts.push(Tensor::zeros(&shape, wide(x.dtype()), x.device())?.flatten_all()?);
                }
                (None, None) => {}
                (shape, Some(found)) => {
                    let expected = shape.map_or(Vec::new(), |shape| shape.to_vec());
                    return Err(refused(layernorm::Error::Shape { what, expected, found: found.dims().to_vec() }));
                }
            }
        }
        if initial.iter().all(Option::is_none) { Ok(None) } else { Tensor::cat(&parts, 0).map(Some) }
    }
}

/// One call.
struct Op<T: Number> {
    call: Call,
    input: [usize; 3],
    /// The runner that ran forward, if a backward pass may follow.
    tape: Option<Mutex<Option<RunnerLease<T::Acc>>>>,
}

impl<T: Number> Op<T> {
    fn lengths(&self) -> [usize; 3] {
        let (_, batch) = self.call.steps_and_batch(self.input);
        let [h, c] = self.call.state_shapes(batch).map(|shape| shape.map_or(0, |shape| count(&shape)));
        [count(&self.call.output_shape(self.input)), h, c]
    }

    /// Splits one vector into h and c.
    fn state(&self, numbers: &[T::Acc]) -> State<T::Acc> {
        let [_, h, _] = self.lengths();
        State { h: numbers[..h].to_vec(), c: numbers[h..].to_vec() }
    }

    fn forward(&self, x: Stored, parameters: Stored, initial: Option<Stored>) -> Result<(CpuStorage, Shape)> {
        let mut lease = RunnerLease::<T::Acc>::new(&self.call.pool, &self.call.config, new_context).map_err(refused)?;
        lease.set_params(parameters.numbers()?).map_err(refused)?;
        let initial = initial.map(|initial| initial.numbers().map(|numbers| self.state(numbers))).transpose()?;
        let [outputs, h, c] = self.lengths();
        // Room for the states is allocated from the start, so appending them to y needs no further allocation.
        let most = outputs.saturating_add(h).saturating_add(c);
        let mut y = memory::reserved(most).map_err(refused)?;
        y.resize(outputs, T::default());
        let mut last = State { h: Vec::new(), c: Vec::new() };
        let (steps, batch) = self.call.steps_and_batch(self.input);
        let (layout, lengths) = (self.call.layout, self.call.lengths.as_deref());
        let sequences = Sequences { data: x.numbers::<T>()?, steps, batch, layout, lengths };
        let PooledRunner { network, runner, .. } = &mut *lease;
        match &self.tape {
            Some(_) => runner.train_into(network, &sequences, initial.as_ref(), Training::default(), &mut y, &mut last),
            None => runner.forward_into(network, &sequences, initial.as_ref(), &mut y, &mut last),
        }
        .map_err(refused)?;
        if let Some(tape) = &self.tape {
            *tape.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        }
        // In place if the types are the same.
        let mut packed: Vec<T::Acc> = y.into_iter().map(|value| value.widen()).collect();
        packed.extend(last.h);
        packed.extend(last.c);
        let count = packed.len();
        Ok((<T::Acc as candle_core::WithDType>::to_cpu_storage_owned(packed), count.into()))
    }

    /// Computes the gradients of x, of the parameters and of the initial state.
    fn backward(&self, gradient: &Tensor) -> Result<[Tensor; 3]> {
        let gradient = gradient.contiguous()?;
        let [outputs, ..] = self.lengths();
        let (dy, dlast) = with_stored(&gradient, |gradient| {
            let (dy, dlast) = gradient.numbers::<T::Acc>()?.split_at(outputs);
            Ok((dy.iter().map(|&value| T::narrow(value)).collect::<Vec<T>>(), self.state(dlast)))
        })?;
        let Some(tape) = &self.tape else { candle_core::bail!("layernorm: {}", layernorm_rnn::Error::NothingRecorded) };
        let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = tape.as_mut().ok_or_else(|| refused(layernorm_rnn::Error::NothingRecorded))?;
        let input = room(&self.input)?;
        let (dx, dfirst, dparameters) =
            lease.backward(&dy, Some(&dlast), input, |sums| tensor(sums.to_vec(), &[sums.len()])).map_err(refused)?;
        let dinitial = [dfirst.h, dfirst.c].concat();
        let count = dinitial.len();
        Ok([tensor(dx, &self.input)?, dparameters?, tensor(dinitial, &[count])?])
    }
}

/// The gradient, if the argument wants it.
fn wanted(gradient: Tensor, argument: &Tensor) -> Option<Tensor> {
    argument.track_op().then_some(gradient)
}

const NAME: &str = "layernorm recurrent";

impl<T: Number> CustomOp2 for Op<T> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Lay, s2: &CpuStorage, l2: &Lay) -> Result<(CpuStorage, Shape)> {
        self.forward(Stored { storage: s1, layout: l1 }, Stored { storage: s2, layout: l2 }, None)
    }

    fn bwd(&self, x: &Tensor, parameters: &Tensor, _: &Tensor, d: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [dx, dparameters, _] = self.backward(d)?;
        Ok((wanted(dx, x), wanted(dparameters, parameters)))
    }
}

impl<T: Number> CustomOp3 for Op<T> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Lay,
        s2: &CpuStorage,
        l2: &Lay,
        s3: &CpuStorage,
        l3: &Lay,
    ) -> Result<(CpuStorage, Shape)> {
        let initial = Stored { storage: s3, layout: l3 };
        self.forward(Stored { storage: s1, layout: l1 }, Stored { storage: s2, layout: l2 }, Some(initial))
    }

    fn bwd(
        &self,
        x: &Tensor,
        parameters: &Tensor,
        initial: &Tensor,
        _: &Tensor,
        d: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dx, dparameters, dinitial] = self.backward(d)?;
        Ok((wanted(dx, x), wanted(dparameters, parameters), wanted(dinitial, initial)))
    }
}

/// Returns y and the last state. x is copied if it is not contiguous.
pub(crate) fn recurrent(
    call: Call,
    x: &Tensor,
    parameters: &Tensor,
    initial: [Option<&Tensor>; 2],
) -> Result<(Tensor, States)> {
    on_cpu([Some(x), Some(parameters), initial[0], initial[1]].into_iter().flatten())?;
    let input = call.input_shape(x)?;
    by_type!(x.dtype(), T => recurrent_as::<T>(call, input, x, parameters, initial))
}

fn recurrent_as<T: Number>(
    call: Call,
    input: [usize; 3],
    x: &Tensor,
    parameters: &Tensor,
    initial: [Option<&Tensor>; 2],
) -> Result<(Tensor, States)> {
    let (_, batch) = call.steps_and_batch(input);
    let (output, shapes) = (call.output_shape(input), call.state_shapes(batch));
    let (x, parameters) = (x.contiguous()?, parameters.to_dtype(wide(x.dtype()))?.contiguous()?);
    let initial = call.initial(initial, batch, &x)?;
    let tracked = x.track_op() || parameters.track_op() || initial.as_ref().is_some_and(Tensor::track_op);
    let op = Op::<T> { call, input, tape: tracked.then(Mutex::default) };
    let [outputs, h, c] = op.lengths();
    let packed = match &initial {
        Some(initial) => x.apply_op3(&parameters, initial, op)?,
        None => x.apply_op2(&parameters, op)?,
    };
    let y = packed.narrow(0, 0, outputs)?.reshape(&output)?.to_dtype(x.dtype())?;
    let part = |start, count, shape: Option<[usize; 3]>| {
        shape.map(|shape| packed.narrow(0, start, count)?.reshape(&shape)).transpose()
    };
    let [h_shape, c_shape] = shapes;
    Ok((y, [part(outputs, h, h_shape)?, part(outputs + h, c, c_shape)?]))
}

//! A recurrent network as one operation. Its outputs y, h and c are three nodes on top of one node for the whole
//! network. The backward step of an output stores its gradient on the tape. The step of the whole, which comes after
//! all outputs, runs the core's backward pass once.
//!
//! The tape is the core's own: the runner that ran forward, kept until backward.

use super::memory::{Number, Stored, Tracked, by_type, new_context, node, or_panic, room, shape, tensor};
use super::norm::register;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients as Grads;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::{Autodiff, AutodiffBackend, Flex};
use burn::tensor::DType;
use layernorm_rnn::runner_pool::{PooledReal, PooledRunner, RunnerLease, RunnerPool};
use layernorm_rnn::{Config, Error, Layout, Sequences, State, Training};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is run, and the layout of its sequences.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    pub(crate) lengths: Option<Vec<usize>>,
    pub(crate) pool: Arc<RunnerPool>,
}

impl Call {
    /// T and B of `[T, B, …]` or `[B, T, …]`.
    fn steps_and_batch(&self, shape: &[usize]) -> (usize, usize) {
        match self.layout {
            Layout::TimeFirst => (shape[0], shape[1]),
            Layout::BatchFirst => (shape[1], shape[0]),
        }
    }

    /// The shape of the output, `[T, B, D·P]` or `[B, T, D·P]`.
    fn output_shape(&self, input: &[usize]) -> [usize; 3] {
        [input[0], input[1], self.config.output() * self.config.directions()]
    }

    /// Checks the shapes of an initial state. The order of the dimensions matters, not only the number of elements.
    pub(crate) fn check_states(
        &self,
        input: [usize; 3],
        found: [Option<[usize; 3]>; 2],
    ) -> Result<(), layernorm::Error> {
        let (_, batch) = self.steps_and_batch(&input);
        let shapes = self.state_shapes(batch);
        let expected = [Some(shapes[0]), shapes.get(1).copied()];
        for ((what, expected), found) in ["initial h", "initial c"].into_iter().zip(expected).zip(found) {
            if let Some(found) = found.filter(|&found| expected != Some(found)) {
                let expected = expected.map_or(Vec::new(), |shape| shape.to_vec());
                return Err(layernorm::Error::Shape { what, expected, found: found.to_vec() });
            }
        }
        Ok(())
    }

    /// The shapes of h and of an LSTM's c.
    pub(crate) fn state_shapes(&self, batch: usize) -> Vec<[usize; 3]> {
        let cells = self.config.layers * self.config.directions();
        let widths = [Some(self.config.output()), self.config.has_cell().then_some(self.config.hidden)];
        widths.into_iter().flatten().map(|width| [cells, batch, width]).collect()
    }
}

/// Calls `use_them` with the numbers of a tensor in row-major order, without a copy if they already lie in that order.
fn with_numbers<T: Stored, R>(tensor: &FlexTensor, use_them: impl FnOnce(&[T]) -> R) -> R {
    match tensor.layout().contiguous_offsets() {
        Some((start, end)) => use_them(&T::storage(tensor)[start..end]),
        None => use_them(T::storage(&tensor.to_contiguous())),
    }
}

/// The core's state from tensors of the arithmetic type; absent parts are 0.
fn state<A: PooledReal + Stored>(parts: &[Option<FlexTensor>; 2], shapes: &[[usize; 3]]) -> Option<State<A>> {
    if parts.iter().all(Option::is_none) {
        return None;
    }
    let mut numbers = shapes.iter().zip(parts).map(|(shape, part)| match part {
        Some(part) => with_numbers(part, |numbers: &[A]| numbers.to_vec()),
        None => vec![A::ZERO; shape.iter().product()],
    });
    Some(State { h: numbers.next().unwrap_or_default(), c: numbers.next().unwrap_or_default() })
}

/// y, h and c, and in training the runner that holds the tape.
type Ran<T> = (Vec<FlexTensor>, Option<RunnerLease<<T as layernorm::Element>::Acc>>);

fn forward<T: Number>(
    x: &FlexTensor,
    parameters: &FlexTensor,
    initial: &[Option<FlexTensor>; 2],
    call: &Call,
    train: bool,
) -> Result<Ran<T>, Error> {
    let mut lease = RunnerLease::<T::Acc>::new(&call.pool, &call.config, new_context)?;
    if parameters.dtype() == <T::Acc as burn::tensor::Element>::dtype() {
        with_numbers(parameters, |values| lease.set_params(values))?;
    } else {
        let widen = |values: &[T]| values.iter().map(|value| value.widen()).collect::<Vec<_>>();
        lease.set_params(&with_numbers(parameters, widen))?;
    }
    let (steps, batch) = call.steps_and_batch(shape(x));
    let (output, states) = (call.output_shape(shape(x)), call.state_shapes(batch));
    let initial = state(initial, &states);
    let mut y = room::<T>(&output)?;
    let mut last = State { h: Vec::new(), c: Vec::new() };
    with_numbers(x, |data| {
        let lengths = call.lengths.as_deref();
        let sequences = Sequences { data, steps, batch, layout: call.layout, lengths };
        let PooledRunner { network, runner, .. } = &mut *lease;
        match train {
            true => runner.train_into(network, &sequences, initial.as_ref(), Training::default(), &mut y, &mut last),
            false => runner.forward_into(network, &sequences, initial.as_ref(), &mut y, &mut last),
        }
    })?;
    let states = states.iter().zip([last.h, last.c]).map(|(shape, numbers)| tensor(numbers, shape));
    let outputs = std::iter::once(tensor(y, &output)).chain(states).collect();
    Ok((outputs, train.then_some(lease)))
}

/// Without a graph.
pub(super) fn plain(
    x: &FlexTensor,
    parameters: &FlexTensor,
    initial: &[Option<FlexTensor>; 2],
    call: &Call,
) -> Vec<FlexTensor> {
    or_panic(by_type!(x.dtype(), T => forward::<T>(x, parameters, initial, call, false).map(|(outputs, _)| outputs)))
}

/// What a backward pass needs: the runner that ran forward, the shapes, and the gradients of the outputs as they
/// arrive.
struct Recording<A: PooledReal + Stored> {
    lease: RunnerLease<A>,
    call: Call,
    input: Vec<usize>,
    parameters: DType,
    parts: [Option<FlexTensor>; 3],
}

/// The tape of one forward pass. Only the step of the whole network owns it; the steps of the outputs access it through
/// a weak reference.
struct Tape<A: PooledReal + Stored>(Arc<Mutex<Recording<A>>>);

impl<A: PooledReal + Stored> Clone for Tape<A> {
    fn clone(&self) -> Self {
        Tape(Arc::clone(&self.0))
    }
}

impl<A: PooledReal + Stored> std::fmt::Debug for Tape<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tape")
    }
}

/// One output on the tape: 0 is y, 1 is h, 2 is c.
struct PartOf<A: PooledReal + Stored>(Weak<Mutex<Recording<A>>>, usize);

impl<A: PooledReal + Stored> Clone for PartOf<A> {
    fn clone(&self) -> Self {
        PartOf(Weak::clone(&self.0), self.1)
    }
}

impl<A: PooledReal + Stored> std::fmt::Debug for PartOf<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartOf({})", self.1)
    }
}

#[derive(Debug)]
struct Part<A>(PhantomData<A>);

impl<A: PooledReal + Stored> Backward<Flex, 1> for Part<A> {
    type State = PartOf<A>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        let PartOf(tape, part) = ops.state;
        let tape =
            tape.upgrade().expect("the step of the whole network runs after those of its outputs and holds the tape");
        tape.lock().unwrap_or_else(PoisonError::into_inner).parts[part] = Some(gradient);
        register(grads, ops.parents, [Some(signal::<A>())], |node| node.id);
    }
}

/// A placeholder that is passed from the outputs to the whole network in place of a gradient.
fn signal<A: Stored>() -> FlexTensor {
    tensor(vec![A::default()], &[1])
}

#[derive(Debug)]
struct Whole<T>(PhantomData<T>);

impl<T: Number> Backward<Flex, 4> for Whole<T> {
    type State = Tape<T::Acc>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Grads, _: &mut Checkpointer) {
        grads.consume::<Flex>(&ops.node);
        let Tape(tape) = ops.state;
        let gradients = or_panic(backward::<T>(&mut tape.lock().unwrap_or_else(PoisonError::into_inner)));
        register(grads, ops.parents, gradients, |node| node.id);
    }
}

/// Computes the gradients of x, of the parameters, and of the initial h and c.
fn backward<T: Number>(tape: &mut Recording<T::Acc>) -> Result<[Option<FlexTensor>; 4], Error> {
    let (_, batch) = tape.call.steps_and_batch(&tape.input);
    let (output, shapes) = (tape.call.output_shape(&tape.input), tape.call.state_shapes(batch));
    let [dy, dh, dc] = std::mem::take(&mut tape.parts);
    let dlast = state::<T::Acc>(&[dh, dc], &shapes);
    let dy = dy.unwrap_or_else(|| tensor(vec![T::default(); output.iter().product()], &output));
    let input = room(&tape.input)?;
    let wide = tape.parameters == <T::Acc as burn::tensor::Element>::dtype();
    let take = |sums: &[T::Acc]| match wide {
        true => tensor(sums.to_vec(), &[sums.len()]),
        false => tensor(sums.iter().map(|&sum| T::narrow(sum)).collect::<Vec<_>>(), &[sums.len()]),
    };
    let (dx, dfirst, dparameters) = with_numbers(&dy, |dy: &[T]| tape.lease.backward(dy, dlast.as_ref(), input, take))?;
    let mut dstates = shapes.iter().zip([dfirst.h, dfirst.c]).map(|(shape, numbers)| tensor(numbers, shape));
    Ok([Some(tensor(dx, &tape.input)), Some(dparameters), dstates.next(), dstates.next()])
}

/// With a graph.
pub(super) fn tracked<C: CheckpointStrategy>(
    x: Tracked,
    parameters: Tracked,
    initial: [Option<Tracked>; 2],
    call: Call,
) -> Vec<Tracked> {
    by_type!(x.primitive().dtype(), T => tracked_as::<T, C>(x, parameters, initial, call))
}

fn tracked_as<T: Number, C: CheckpointStrategy>(
    x: Tracked,
    parameters: Tracked,
    initial: [Option<Tracked>; 2],
    call: Call,
) -> Vec<Tracked> {
    let [h, c] = &initial;
    let nodes = [x.node(), parameters.node(), node(h.as_ref(), &x), node(c.as_ref(), &x)];
    let prep = Whole::<T>(PhantomData).prepare::<C>(nodes).compute_bound().stateful();
    let (x, parameters) = (x.into_primitive(), parameters.into_primitive());
    let initial = initial.map(|part| part.map(|part| part.into_primitive()));
    let OpsKind::Tracked(prep) = prep else {
        let outputs = plain(&x, &parameters, &initial, &call);
        return outputs.into_iter().map(Autodiff::<Flex>::from_inner).collect();
    };
    let (outputs, lease) = or_panic(forward::<T>(&x, &parameters, &initial, &call, true));
    let lease = lease.expect("the runner was requested");
    let (input, parameters) = (shape(&x).to_vec(), parameters.dtype());
    let recording = Recording { lease, call, input, parameters, parts: [None, None, None] };
    let tape = Arc::new(Mutex::new(recording));
    let weak = Arc::downgrade(&tape);
    let whole = prep.finish(Tape(tape), signal::<T::Acc>());
    let part = |(part, output)| {
        let step = Part::<T::Acc>(PhantomData);
        match step.prepare::<C>([whole.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(PartOf(Weak::clone(&weak), part), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    };
    outputs.into_iter().enumerate().map(part).collect()
}

//! Runs networks. A runner holds packed weights, the tape of a forward pass and all intermediate memory, and reuses
//! them.

mod backward;
mod call;
mod cell_memory;
mod forward;

use crate::buffer::Matrix;
use crate::config::{Config, Direction};
use crate::error::Error;
use crate::network::{Gradients, Network, Output, Sequences, State};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::time_loop::backward::SegmentGradients;
use crate::time_loop::forward::CellState;
use backward::BackwardCall;
use call::{CheckedSequences, SequenceShape};
use cell_memory::CellMemory;
use forward::allocate_output;
use layernorm::parts::{MachineIsa, memory};
use layernorm::{Context, Element};

/// What a forward pass in training keeps for its backward pass. The choice does not affect the results.
///
/// Numbers kept per cell (a direction of a layer) and per step of every sequence:
/// - `All`: I + 15H + P for an LSTM with norms of both products (such as `paper`), I + 11H + P with a norm of their
///   sum or none; I + 10H + P for a GRU, I + 7H + P for one like `dreamer`; I + 2H + P for an RNN, I + 3H + P with
///   norms of both products. Three more for each normalized row; H more with a projection; P more for each of its
///   clip, recurrent dropout, and a reset gate that multiplies the state.
/// - `Recompute`: I. In addition it keeps the state (H + P per sequence) before every segment, and what `All` keeps,
///   for one segment: the fewest steps that have 256 rows in total, where a row is a step of a sequence. The backward
///   pass repeats the forward pass, segment by segment.
///
/// Both also keep each inner layer's output, D·P. [`Runner::memory`] returns the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Everything that the backward pass needs.
    #[default]
    All,
    /// The states between segments; the rest is recomputed.
    Recompute,
}

/// Options of a forward pass in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Training {
    /// Seed of dropout and zoneout.
    pub seed: u64,
    /// What to keep for the backward pass.
    pub keep: Keep,
}

/// What the tape holds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recorded {
    config: Config,
    version: u64,
    training: Training,
    isa: MachineIsa,
    shape: SequenceShape,
}

/// Runs networks of one arithmetic type: f64, or f32 for f32, f16 and bf16. Keep a runner and reuse it: repeated
/// calls of the same size allocate nothing but the results (the calls that end in `_into` not even those), and weights
/// are repacked only after they have changed.
#[derive(Debug)]
pub struct Runner<A> {
    context: Context,
    schedule: Schedule,
    cells: Vec<CellMemory<A>>,
    /// Outputs of the inner layers, `[rows, D·P]` in time order.
    inner: Vec<Matrix<A>>,
    /// Gradients of a layer's input and of its output.
    dinner: [Matrix<A>; 2],
    segment_gradients: SegmentGradients<A>,
    dstate: CellState<A>,
    /// Gradient of U under DropConnect's mask.
    masked: Vec<A>,
    recorded: Option<Recorded>,
    /// State for a single step.
    step_state: State<A>,
}

impl<A: Real> Default for Runner<A> {
    fn default() -> Self {
        Runner::new(Context::new())
    }
}

impl<A: Real> Runner<A> {
    /// Creates a runner with the context's instruction set and threads. Neither affects the results.
    pub fn new(context: Context) -> Self {
        Runner {
            context,
            schedule: Schedule::default(),
            cells: Vec::new(),
            inner: Vec::new(),
            dinner: [Matrix::new(), Matrix::new()],
            segment_gradients: SegmentGradients::new(),
            dstate: CellState::new(),
            masked: Vec::new(),
            recorded: None,
            step_state: State { h: Vec::new(), c: Vec::new() },
        }
    }

    /// Returns the context: instruction set and threads.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the number of bytes held for tapes and gradients.
    pub fn memory(&self) -> usize {
        let matrices = self.inner.iter().chain(&self.dinner).map(Matrix::bytes).sum::<usize>();
        self.cells.iter().map(CellMemory::bytes).sum::<usize>() + matrices + self.segment_gradients.bytes()
    }

    /// Runs a network over sequences. Without an initial state it starts from zeros.
    pub fn forward<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
    ) -> Result<Output<T>, Error> {
        let input = CheckedSequences::new(network.config(), sequences)?;
        let mut output = allocate_output(network.config(), input.shape)?;
        self.run_forward(network, input, initial, None, &mut output.y, &mut output.state)?;
        Ok(output)
    }

    /// Like [`Runner::forward`], but writes to the caller's memory: `y` is written only at valid steps, and `last`
    /// becomes the final state.
    pub fn forward_into<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        let input = CheckedSequences::new(network.config(), sequences)?;
        self.run_forward(network, input, initial, None, y, last)
    }

    /// Runs a network in training: with its noise, and recorded for [`Runner::backward`].
    pub fn train<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        training: Training,
    ) -> Result<Output<T>, Error> {
        let input = CheckedSequences::new(network.config(), sequences)?;
        let mut output = allocate_output(network.config(), input.shape)?;
        self.run_forward(network, input, initial, Some(training), &mut output.y, &mut output.state)?;
        Ok(output)
    }

    /// Like [`Runner::train`], but writes to the caller's memory: `y` is written only at valid steps, and `last`
    /// becomes the final state.
    pub fn train_into<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        training: Training,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        let input = CheckedSequences::new(network.config(), sequences)?;
        self.run_forward(network, input, initial, Some(training), y, last)
    }

    /// Runs one step: computes y `[B, D·P]` from x `[B, I]` and updates the state. The result is bit-identical to that
    /// step of a whole sequence. Fails for networks that run backward in time.
    pub fn step<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        x: &[T],
        state: &mut State<A>,
        y: &mut [T],
    ) -> Result<(), Error> {
        let config = network.config();
        if config.direction != Direction::Forward {
            return Err(Error::Unsupported {
                what: "step: expected a network that runs forward in time, found one that starts at the end".into(),
            });
        }
        let batch = x.len() / config.input;
        if !x.len().is_multiple_of(config.input) {
            return Err(Error::Length {
                what: "x",
                shape: format!("[B, I] = [{batch}, {}]", config.input),
                expected: batch * config.input,
                found: x.len(),
            });
        }
        let sequences = Sequences::new(x, 1, batch);
        let input = CheckedSequences::new(config, &sequences)?;
        state.check(config, batch, ["state h", "state c"])?;
        let mut before = std::mem::take(&mut self.step_state);
        std::mem::swap(&mut before, state);
        let outcome = self.run_forward(network, input, Some(&before), None, y, state);
        if outcome.is_err() {
            std::mem::swap(&mut before, state);
        }
        self.step_state = before;
        outcome
    }

    /// Computes the gradients of the last forward pass in training from those of its outputs (in the same order).
    /// `dlast` is the gradient of the final state, zeros if absent.
    pub fn backward<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        dy: &[T],
        dlast: Option<&State<A>>,
    ) -> Result<Gradients<T>, Error> {
        self.backward_from(network, dy, dlast, 0)
    }

    /// Computes the gradients, truncated: covers only the steps from `from` on. Gradients of earlier inputs are 0,
    /// and so are those of the initial state unless `from` is 0. Only for networks that run forward in time.
    pub fn backward_from<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        dy: &[T],
        dlast: Option<&State<A>>,
        from: usize,
    ) -> Result<Gradients<T>, Error> {
        let recorded = self.recorded.as_ref().ok_or(Error::NothingRecorded)?;
        if recorded.version != network.params().version() || recorded.config != *network.config() {
            return Err(Error::OtherNetwork);
        }
        let (steps, batch) = (recorded.shape.steps, recorded.shape.batch);
        let mut gradients = Gradients {
            input: memory::zeros(steps * batch * network.config().input)?,
            params: network.params().try_zeros_like()?,
            state: network.zero_state(batch)?,
        };
        self.backward_into(network, dy, dlast, from, &mut gradients)?;
        Ok(gradients)
    }

    /// Like [`Runner::backward_from`], but writes to the caller's memory. Gradients of parameters are *added*, so
    /// that batches can be accumulated; those of inputs are written only at valid steps from `from` on.
    pub fn backward_into<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        dy: &[T],
        dlast: Option<&State<A>>,
        from: usize,
        gradients: &mut Gradients<T>,
    ) -> Result<(), Error> {
        let recorded = self.recorded.ok_or(Error::NothingRecorded)?;
        let config = network.config();
        if recorded.version != network.params().version() || recorded.config != *config {
            return Err(Error::OtherNetwork);
        }
        let args = BackwardCall { network, recorded, dy, dlast, from };
        args.check(gradients)?;
        if self.schedule.rows() == 0 {
            gradients.state.resize(config, recorded.shape.batch)?;
            if let Some(dlast) = dlast {
                gradients.state.clone_from(dlast);
            }
            return Ok(());
        }
        self.run_backward(&args, gradients)
    }
}

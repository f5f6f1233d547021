//! What runs networks: it holds packed weights, the tape of a forward pass, and all memory in between, and uses them again.

use crate::buffer::Matrix;
use crate::config::{Config, Direction};
use crate::engine::backward::Work;
use crate::engine::forward::{CellState, Scratch};
use crate::engine::prepared::Prepared;
use crate::engine::tape::Tape;
use crate::error::Error;
use crate::network::{Gradients, Layout, Network, Output, Sequences, State};
use crate::real::Real;
use crate::schedule::Schedule;
use layernorm::parts::{MachineIsa, memory};
use layernorm::{Context, Element};

/// What a forward pass in training keeps for its backward pass. Neither changes a bit of any result.
///
/// Numbers for every cell (a direction of a layer) and every step of every sequence:
/// - `All`: I + 15H + P for an LSTM with norms of both products (as `paper`), I + 11H + P with a norm of their sum or none;
///   I + 10H + P for a GRU, I + 7H + P for one like `dreamer`; I + 2H + P for an RNN, I + 3H + P with norms of both products.
///   Three more for each row that is normalized; H with a projection, P with its clip, with recurrent dropout, and with a
///   reset gate that multiplies the state.
/// - `Recompute`: I. Beside that there is the state (H + P of every sequence) before every segment, and what `All` keeps for
///   one segment: the fewest steps that have 256 rows together, a row being a step of a sequence. The backward pass does the
///   forward pass again, segment by segment.
///
/// Both also keep each inner layer's output, D·P. [`Runner::memory`] says what it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Everything that the backward pass needs.
    #[default]
    All,
    /// The states between segments; the rest is computed again.
    Recompute,
}

/// How a forward pass in training runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Training {
    /// The seed of dropout and zoneout.
    pub seed: u64,
    /// What is kept.
    pub keep: Keep,
}

/// One cell's memory.
#[derive(Debug)]
struct Cell<A> {
    prepared: Prepared<A>,
    tape: Tape<A>,
    state: CellState<A>,
    /// The states before every segment.
    checkpoints: CellState<A>,
    mask: Matrix<A>,
    scratch: Vec<Scratch<A>>,
}

impl<A: Real> Cell<A> {
    fn new() -> Self {
        Cell {
            prepared: Prepared::new(),
            tape: Tape::new(),
            state: CellState::new(),
            checkpoints: CellState::new(),
            mask: Matrix::new(),
            scratch: Vec::new(),
        }
    }

    fn bytes(&self) -> usize {
        self.tape.bytes() + self.state.bytes() + self.checkpoints.bytes() + self.mask.bytes()
    }
}

/// What the tape holds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recorded {
    config: Config,
    version: u64,
    training: Training,
    isa: MachineIsa,
    layout: Layout,
    steps: usize,
}

/// Runs networks of one arithmetic type: f64, or f32 for f32, f16 and bf16. Keep one and use it again: from the second call
/// of a size on it allocates nothing but the results (and not those in the calls that end in `_into`), and it packs the
/// weights only when they have changed.
#[derive(Debug)]
pub struct Runner<A> {
    context: Context,
    schedule: Schedule,
    cells: Vec<Cell<A>>,
    /// Outputs of the inner layers, `[rows, D·P]` in order of time.
    inner: Vec<Matrix<A>>,
    /// Gradients of a layer's input and of its output.
    dinner: [Matrix<A>; 2],
    work: Work<A>,
    dstate: CellState<A>,
    /// The gradient of U under DropConnect's mask.
    masked: Vec<A>,
    recorded: Option<Recorded>,
    /// For a single step.
    step_state: State<A>,
}

impl<A: Real> Default for Runner<A> {
    fn default() -> Self {
        Runner::new(Context::new())
    }
}

/// A pointer that several threads may hold.
#[derive(Clone, Copy)]
struct Shared<T>(T);
// SAFETY: each thread writes to rows of its own.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    fn get(&self) -> T {
        self.0
    }
}

/// Where a time and sequence of a batch stand in a tensor.
#[derive(Clone, Copy)]
struct Places {
    layout: Layout,
    steps: usize,
    batch: usize,
}

impl Places {
    fn of<T>(sequences: &Sequences<'_, T>) -> Self {
        Places { layout: sequences.layout, steps: sequences.steps, batch: sequences.batch }
    }

    fn at(&self, t: usize, b: usize) -> usize {
        match self.layout {
            Layout::TimeFirst => t * self.batch + b,
            Layout::BatchFirst => b * self.steps + t,
        }
    }
}

impl<A: Real> Runner<A> {
    /// A runner with this instruction set and so many threads. Neither changes a bit of any result.
    pub fn new(context: Context) -> Self {
        Runner {
            context,
            schedule: Schedule::default(),
            cells: Vec::new(),
            inner: Vec::new(),
            dinner: [Matrix::new(), Matrix::new()],
            work: Work::new(),
            dstate: CellState::new(),
            masked: Vec::new(),
            recorded: None,
            step_state: State { h: Vec::new(), c: Vec::new() },
        }
    }

    /// The instruction set and the threads.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Bytes that are held for tapes and gradients.
    pub fn memory(&self) -> usize {
        let matrices = self.inner.iter().chain(&self.dinner).map(Matrix::bytes).sum::<usize>();
        self.cells.iter().map(Cell::bytes).sum::<usize>() + matrices + self.work.bytes()
    }

    /// Runs a network over sequences. Without an initial state it starts from zeros.
    pub fn forward<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
    ) -> Result<Output<T>, Error> {
        let mut output = self.room(network, sequences)?;
        self.forward_into(network, sequences, initial, &mut output.y, &mut output.state)?;
        Ok(output)
    }

    /// The same into given memory: `y` is written at the valid steps alone, `last` becomes the final state.
    pub fn forward_into<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        self.run(network, sequences, initial, None, y, last)
    }

    /// Runs a network in training: with its noise, and so that [`Runner::backward`] can follow.
    pub fn train<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        training: Training,
    ) -> Result<Output<T>, Error> {
        let mut output = self.room(network, sequences)?;
        self.train_into(network, sequences, initial, training, &mut output.y, &mut output.state)?;
        Ok(output)
    }

    /// The same into given memory: `y` is written at the valid steps alone, `last` becomes the final state.
    pub fn train_into<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        training: Training,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        self.run(network, sequences, initial, Some(training), y, last)
    }

    /// One step: x `[B, I]` to y `[B, D·P]`, the state moved on. The same bits as that step of a whole sequence. A network
    /// that goes backward in time has no single steps.
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
                what: "step: expected a network that goes forward in time, found one that needs the end first".into(),
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
        state.check(config, batch, ["state h", "state c"])?;
        let mut before = std::mem::take(&mut self.step_state);
        std::mem::swap(&mut before, state);
        let outcome = self.run(network, &Sequences::new(x, 1, batch), Some(&before), None, y, state);
        if outcome.is_err() {
            std::mem::swap(&mut before, state);
        }
        self.step_state = before;
        outcome
    }

    /// The gradients of the last forward pass in training, given those of its outputs (in their order; `dlast` are those of
    /// the final state, zeros if absent).
    pub fn backward<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        dy: &[T],
        dlast: Option<&State<A>>,
    ) -> Result<Gradients<T>, Error> {
        self.backward_from(network, dy, dlast, 0)
    }

    /// The same, truncated: only steps from `from` on are gone through. Gradients of earlier inputs are 0, and so are those
    /// of the initial state unless `from` is 0. For networks that go forward in time.
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
        let (steps, batch) = (recorded.steps, self.schedule.batch);
        let mut gradients = Gradients {
            input: memory::zeros(steps * batch * network.config().input)?,
            params: network.params().try_zeros_like()?,
            state: network.zero_state(batch)?,
        };
        self.backward_into(network, dy, dlast, from, &mut gradients)?;
        Ok(gradients)
    }

    /// The same into given memory. Gradients of parameters are *added* to what is there, so that batches can be summed; those
    /// of inputs are written at the valid steps from `from` on alone.
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
        let places = Places { layout: recorded.layout, steps: recorded.steps, batch: self.schedule.batch };
        self.check_backward(network, places, dy, dlast, from, gradients)?;
        if self.schedule.rows() == 0 {
            gradients.state.resize(config, places.batch)?;
            if let Some(dlast) = dlast {
                gradients.state.clone_from(dlast);
            }
            return Ok(());
        }
        self.back(network, &recorded, places, dy, dlast, from, gradients)
    }
}

mod back;
mod run;

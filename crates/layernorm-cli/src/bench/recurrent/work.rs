//! The contestants of a measurement of recurrent networks and the memory they use.

use super::size::Size;
use crate::bench::buffer::Buffer;
use crate::dtype::Type;
use crate::failure::Failure;
use crate::random::Random;
use layernorm::{Context, Element, Float};
use layernorm_rnn::{Config, Gradients, Init, Network, Real, Runner, Sequences, State, Training, Variant};

/// What to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Forward over whole sequences.
    Forward,
    /// A training step: forward and backward with all gradients.
    Training,
    /// One step of all sequences, as in streaming.
    Step,
}

impl Pass {
    /// All of them.
    pub const ALL: [Pass; 3] = [Pass::Forward, Pass::Training, Pass::Step];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Training => "training step",
            Pass::Step => "one step",
        }
    }

    /// Number of time steps.
    pub fn steps(self, size: &Size) -> usize {
        if self == Pass::Step { 1 } else { size.steps }
    }

    /// Operations relative to a forward pass over as many steps: backward has two products for each one of forward.
    pub fn products(self) -> f64 {
        if self == Pass::Training { 3.0 } else { 1.0 }
    }
}

/// An element type with an arithmetic type that networks can run in.
pub trait Number: Type + Element<Acc: Real> {}

impl<T: Type + Element<Acc: Real>> Number for T {}

/// The memory that all networks of a size share.
#[derive(Debug)]
pub struct Work<T: Number> {
    /// The sizes.
    pub size: Size,
    /// x, `[T, B, I]`.
    pub x: Buffer<T>,
    /// The gradient of y, `[T, B, H]`.
    pub dy: Buffer<T>,
    /// y, `[T, B, H]`: the output of the last call.
    pub y: Buffer<T>,
}

/// One network with the memory of each pass. Each pass has its own runner, so that no pass repacks weights or allocates memory
/// for another.
#[derive(Debug)]
pub struct Entrant<T: Number> {
    /// The network.
    pub network: Network<T::Acc>,
    runners: [Runner<T::Acc>; 3],
    last: State<T::Acc>,
    stream: State<T::Acc>,
    /// The gradients of a training step.
    pub gradients: Gradients<T>,
}

impl<T: Number> Work<T> {
    /// Approximate bytes that a size needs: the tensors, and what a training step of a layer-normalized LSTM stores.
    pub fn bytes(size: &Size) -> u64 {
        let Size { batch, steps, input, hidden } = *size;
        let (rows, numbers) = ((batch * steps) as u64, (3 * input + 20 * hidden) as u64);
        let weights = 16 * hidden as u64 * (input + hidden) as u64;
        (rows.saturating_mul(numbers)).saturating_add(weights).saturating_mul(size_of::<T::Acc>() as u64)
    }

    /// Allocates and writes all memory.
    pub fn new(size: Size) -> Result<Self, Failure> {
        let mut random = Random::new(size.input as u64);
        let mut number = move || T::narrow(T::Acc::from_f64(2.0 * random.uniform() - 1.0));
        let rows = size.batch * size.steps;
        Ok(Work {
            size,
            x: Buffer::new(rows * size.input, &mut number)?,
            dy: Buffer::new(rows * size.hidden, &mut number)?,
            y: Buffer::new(rows * size.hidden, T::default)?,
        })
    }

    /// Makes one call.
    pub fn call(&mut self, entrant: &mut Entrant<T>, pass: Pass) -> Result<(), Failure> {
        let Work { size, x, dy, y } = self;
        let Entrant { network, runners, last, stream, gradients } = entrant;
        let [forward, training, step] = runners;
        let sequences = Sequences::new(x.get(), size.steps, size.batch);
        match pass {
            Pass::Forward => forward.forward_into(network, &sequences, None, y.get_mut(), last)?,
            Pass::Training => {
                training.train_into(network, &sequences, None, Training::default(), y.get_mut(), last)?;
                gradients.params.values_mut().fill(T::Acc::ZERO);
                training.backward_into(network, dy.get(), None, 0, gradients)?;
            }
            Pass::Step => {
                let (x, y) = (&x.get()[..size.batch * size.input], &mut y.get_mut()[..size.batch * size.hidden]);
                step.step(network, x, stream, y)?;
            }
        }
        Ok(())
    }
}

impl<T: Number> Entrant<T> {
    /// A network of this variant. Gains and biases, which start at 1 and 0, are changed so that the proof covers them.
    pub fn new(variant: Variant, size: &Size, cx: impl Fn() -> Result<Context, Failure>) -> Result<Self, Failure> {
        let config = Config::new(variant, size.input, size.hidden);
        let mut network = Network::<T::Acc>::new(config, Init::for_variant(&variant), 1)?;
        let mut random = Random::new(2);
        let vectors = network.params().entries().to_vec().into_iter().filter(|entry| entry.shape.len() == 1);
        for value in vectors.flat_map(|entry| entry.range) {
            let number: T::Acc = network.params().values()[value];
            let moved = Float::to_f64(number) + 0.4 * (random.uniform() - 0.5);
            network.params_mut().values_mut()[value] = T::Acc::from_f64(moved);
        }
        let (last, stream) = (network.zero_state(size.batch)?, network.zero_state(size.batch)?);
        let gradients = Gradients {
            input: vec![T::default(); size.batch * size.steps * size.input],
            params: network.params().zeros_like(),
            state: network.zero_state(size.batch)?,
        };
        let runners = [Runner::new(cx()?), Runner::new(cx()?), Runner::new(cx()?)];
        Ok(Entrant { network, runners, last, stream, gradients })
    }

    /// The variant's name.
    pub fn name(&self) -> &'static str {
        self.network.config().variant.name
    }
}

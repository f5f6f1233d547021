//! Runs one network on one batch along every path and counts differing bits.

use crate::dtype::Type;
use crate::failure::Failure;
use crate::random::Random;
use crate::verify::case::{Count, THREADS};
use layernorm::{Context, Element, Float, Isa};
use layernorm_rnn::{
    Config, Direction, Gradients, Init, Keep, Network, Output, Real, Runner, Sequences, State, Training,
};

/// An element type with an arithmetic type that networks can run in.
pub(super) trait Number: Type + Element<Acc: Real> {}

impl<T: Type + Element<Acc: Real>> Number for T {}

/// The counts of each comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// y and the final state: for the whole batch, and for each sequence alone.
    pub(super) forward: Count,
    /// All gradients, in the same way; those of the parameters for the whole batch only.
    pub(super) backward: Count,
    /// y and the final state, step by step.
    pub(super) streaming: Count,
}

/// A network and a batch of B sequences of T steps.
#[derive(Debug)]
pub(super) struct Case<T: Number> {
    network: Network<T::Acc>,
    steps: usize,
    batch: usize,
    lengths: Option<Vec<usize>>,
    x: Vec<T>,
    dy: Vec<T>,
    initial: State<T::Acc>,
}

/// The results of a training step.
type Results<T> = (Output<T>, Gradients<T>);

impl<T: Number> Case<T> {
    /// Seeded numbers; gains and biases differ from 1 and 0. With `ragged`, sequences have different lengths.
    pub(super) fn new(config: Config, steps: usize, batch: usize, ragged: bool) -> Result<Self, Failure> {
        let mut random = Random::new((steps * 1009 + batch) as u64);
        let mut network = Network::<T::Acc>::new(config, Init::torch(), 1)?;
        let vectors = network.params().entries().to_vec().into_iter().filter(|entry| entry.shape.len() == 1);
        for at in vectors.flat_map(|entry| entry.range) {
            let value = &mut network.params_mut().values_mut()[at];
            *value = T::Acc::from_f64(Float::to_f64(*value) + 0.1 * random.normal());
        }
        let mut initial = network.zero_state(batch)?;
        for value in initial.h.iter_mut().chain(&mut initial.c) {
            *value = T::Acc::from_f64(0.5 * random.normal());
        }
        let width = config.output() * config.directions();
        Ok(Case {
            network,
            steps,
            batch,
            lengths: ragged.then(|| (0..batch).map(|b| 1 + (b * 7 + steps - 1) % steps).collect()),
            x: random.normals(steps * batch * config.input, |z| z),
            dy: random.normals(steps * batch * width, |z| z),
            initial,
        })
    }

    /// Compares every path of these instruction sets with the first one on one thread.
    pub(super) fn check(&self, isas: &[Isa], counts: &mut Counts) -> Result<(), Failure> {
        let first = isas.first().copied().unwrap_or(Isa::Scalar);
        let expected = self.whole(Context::new().with_isa(first)?.with_threads(1)?, Keep::All)?;
        for &isa in isas {
            for threads in THREADS {
                let keep = if threads == THREADS[1] { Keep::Recompute } else { Keep::All };
                let found = self.whole(Context::new().with_isa(isa)?.with_threads(threads)?, keep)?;
                compare(&found, &expected, counts);
                counts.backward.add(found.1.params.values(), expected.1.params.values());
            }
            let cx = || Ok::<_, Failure>(Context::new().with_isa(isa)?.with_threads(THREADS[1])?);
            // Each sequence alone (of many: the first, one in the middle and the last), and the batch in reverse order.
            let mut runner = Runner::new(cx()?);
            for b in (0..self.batch).filter(|b| self.batch < 10 || [0, self.batch / 2, self.batch - 1].contains(b)) {
                compare(&self.part(&[b]).train(&mut runner, Keep::All)?, &self.pick(&expected, &[b]), counts);
            }
            let order: Vec<usize> = (0..self.batch).rev().collect();
            compare(&self.part(&order).train(&mut runner, Keep::All)?, &self.pick(&expected, &order), counts);
            if self.network.config().direction == Direction::Forward && self.lengths.is_none() {
                self.stream(&mut Runner::new(cx()?), &expected.0, &mut counts.streaming)?;
            }
        }
        Ok(())
    }

    fn whole(&self, cx: Context, keep: Keep) -> Result<Results<T>, Failure> {
        self.train(&mut Runner::new(cx), keep)
    }

    fn train(&self, runner: &mut Runner<T::Acc>, keep: Keep) -> Result<Results<T>, Failure> {
        let lengths = self.lengths.as_deref();
        let sequences = Sequences { lengths, ..Sequences::new(&self.x, self.steps, self.batch) };
        let training = Training { seed: 0, keep };
        let output = runner.train(&self.network, &sequences, Some(&self.initial), training)?;
        let gradients = runner.backward(&self.network, &self.dy, Some(&self.initial))?;
        Ok((output, gradients))
    }

    /// Runs the network step by step.
    fn stream(&self, runner: &mut Runner<T::Acc>, expected: &Output<T>, count: &mut Count) -> Result<(), Failure> {
        let mut state = self.initial.clone();
        let mut y = vec![T::default(); expected.y.len() / self.steps];
        let steps = self.x.chunks(self.x.len() / self.steps).zip(expected.y.chunks(y.len()));
        for (x, expected) in steps {
            runner.step(&self.network, x, &mut state, &mut y)?;
            count.add(&y, expected);
        }
        count.add(&state.h, &expected.state.h);
        count.add(&state.c, &expected.state.c);
        Ok(())
    }

    /// A batch of some of the sequences, in this order.
    fn part(&self, order: &[usize]) -> Self {
        Case {
            network: self.network.clone(),
            steps: self.steps,
            batch: order.len(),
            lengths: self.lengths.as_ref().map(|lengths| order.iter().map(|&b| lengths[b]).collect()),
            x: pick(&self.x, self.steps, self.batch, order),
            dy: pick(&self.dy, self.steps, self.batch, order),
            initial: self.pick_state(&self.initial, order),
        }
    }

    fn pick(&self, (output, gradients): &Results<T>, order: &[usize]) -> Results<T> {
        let sequences = |tensor: &[T]| pick(tensor, self.steps, self.batch, order);
        let output = Output { y: sequences(&output.y), state: self.pick_state(&output.state, order) };
        let (input, state) = (sequences(&gradients.input), self.pick_state(&gradients.state, order));
        (output, Gradients { input, params: gradients.params.clone(), state })
    }

    fn pick_state(&self, state: &State<T::Acc>, order: &[usize]) -> State<T::Acc> {
        let cells = self.network.config().layers * self.network.config().directions();
        let of = |values: &[T::Acc]| pick(values, cells, self.batch, order);
        State { h: of(&state.h), c: of(&state.c) }
    }

    /// The largest difference of y from the same network and batch in f64.
    pub(super) fn error(&self) -> Result<f64, Failure> {
        let wide = |values: &[T::Acc]| values.iter().map(|value| Float::to_f64(*value)).collect::<Vec<f64>>();
        let mut params = layernorm_rnn::Params::zeros(self.network.config())?;
        params.values_mut().copy_from_slice(&wide(self.network.params().values()));
        let case = Case {
            network: Network::from_params(*self.network.config(), params)?,
            steps: self.steps,
            batch: self.batch,
            lengths: self.lengths.clone(),
            x: self.x.iter().map(|x| Float::to_f64(x.widen())).collect(),
            dy: self.dy.iter().map(|x| Float::to_f64(x.widen())).collect(),
            initial: State { h: wide(&self.initial.h), c: wide(&self.initial.c) },
        };
        let (found, exact) = (self.whole(Context::new(), Keep::All)?, case.whole(Context::new(), Keep::All)?);
        let distance = |(found, exact): (&T, &f64)| (Float::to_f64(found.widen()) - exact).abs();
        Ok(found.0.y.iter().zip(&exact.0.y).map(distance).fold(0.0, f64::max))
    }
}

/// Some sequences of a tensor `[M, B, N]`.
fn pick<T: Copy>(tensor: &[T], outer: usize, batch: usize, order: &[usize]) -> Vec<T> {
    let width = tensor.len() / outer / batch;
    let rows = (0..outer).flat_map(|t| order.iter().map(move |b| t * batch + b));
    rows.flat_map(|row| &tensor[row * width..(row + 1) * width]).copied().collect()
}

/// Compares everything except the gradients of the parameters, which are sums over the batch.
fn compare<T: Number>(found: &Results<T>, expected: &Results<T>, counts: &mut Counts) {
    counts.forward.add(&found.0.y, &expected.0.y);
    for (count, found, expected) in [
        (&mut counts.forward, &found.0.state, &expected.0.state),
        (&mut counts.backward, &found.1.state, &expected.1.state),
    ] {
        count.add(&found.h, &expected.h);
        count.add(&found.c, &expected.c);
    }
    counts.backward.add(&found.1.input, &expected.1.input);
}

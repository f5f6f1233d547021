//! A network with everything that a pass over it needs, and the comparison of all its results, bit for bit.
#![allow(dead_code, reason = "each test takes what it needs")]

use super::sample::{self, Rng, network};
use layernorm::Context;
use layernorm_rnn::{
    Config, Direction, Gradients, Keep, Layout, Network, Params, Real, Runner, Sequences, State, Training, Variant,
};

pub fn alone() -> Context {
    Context::new().with_threads(1).unwrap()
}

/// Numbers as bits.
pub trait Bits: Real {
    fn of(values: &[Self]) -> Vec<u64>;
}

impl Bits for f32 {
    fn of(values: &[f32]) -> Vec<u64> {
        values.iter().map(|v| u64::from(v.to_bits())).collect()
    }
}

impl Bits for f64 {
    fn of(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }
}

/// Asserts that two lists are the same bits, and says where they first differ.
pub fn same<A: Bits>(what: &str, found: &[A], expected: &[A]) {
    let (f, e) = (A::of(found), A::of(expected));
    assert_eq!(f.len(), e.len(), "{what}: numbers");
    if let Some(i) = (0..f.len()).find(|&i| f[i] != e[i]) {
        panic!("{what}: number {i} of {}: {:?}, expected {:?}", f.len(), found[i], expected[i]);
    }
}

pub fn same_state<A: Bits>(what: &str, found: &State<A>, expected: &State<A>) {
    same(&format!("{what}: h"), &found.h, &expected.h);
    same(&format!("{what}: c"), &found.c, &expected.c);
}

/// A network with sequences, states and gradients to run it on.
#[derive(Clone)]
pub struct Case<A> {
    pub network: Network<A>,
    pub steps: usize,
    pub batch: usize,
    pub layout: Layout,
    pub lengths: Option<Vec<usize>>,
    pub x: Vec<A>,
    pub initial: State<A>,
    pub dy: Vec<A>,
    pub dlast: State<A>,
    pub training: Training,
}

/// All that comes out.
pub struct All<A: Bits> {
    pub y: Vec<A>,
    pub last: State<A>,
    pub gradients: Gradients<A>,
}

impl Case<f32> {
    pub fn new(config: &Config, steps: usize, batch: usize) -> Case<f32> {
        let wide = Case::<f64>::wide(config, steps, batch);
        let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
        Case {
            network: sample::narrow(&wide.network),
            steps,
            batch,
            layout: wide.layout,
            lengths: None,
            x: narrow(&wide.x),
            initial: sample::narrow_state(&wide.initial),
            dy: narrow(&wide.dy),
            dlast: sample::narrow_state(&wide.dlast),
            training: wide.training,
        }
    }
}

impl Case<f64> {
    pub fn wide(config: &Config, steps: usize, batch: usize) -> Case<f64> {
        let mut rng = Rng::new(17 + config.hidden as u64);
        let network = network(config, 5);
        let x = rng.vec(steps * batch * config.input);
        let dy = rng.vec(steps * batch * config.output() * config.directions());
        let (initial, dlast) = (sample::state(&network, batch, &mut rng), sample::state(&network, batch, &mut rng));
        let training = Training { seed: 3, keep: Keep::All };
        Case { network, steps, batch, layout: Layout::TimeFirst, lengths: None, x, initial, dy, dlast, training }
    }
}

impl<A: Bits> Case<A> {
    pub fn with_lengths(mut self, lengths: &[usize]) -> Self {
        self.lengths = Some(lengths.to_vec());
        self
    }

    pub fn sequences(&self) -> Sequences<'_, A> {
        let Case { steps, batch, layout, .. } = *self;
        Sequences { data: &self.x, steps, batch, layout, lengths: self.lengths.as_deref() }
    }

    pub fn all(&self, context: Context) -> All<A> {
        let mut runner = Runner::new(context);
        let trained = runner.train(&self.network, &self.sequences(), Some(&self.initial), self.training).unwrap();
        let gradients = runner.backward(&self.network, &self.dy, Some(&self.dlast)).unwrap();
        All { y: trained.y, last: trained.state, gradients }
    }

    /// Outputs outside training.
    pub fn forward(&self, context: Context) -> (Vec<A>, State<A>) {
        let output = Runner::new(context).forward(&self.network, &self.sequences(), Some(&self.initial)).unwrap();
        (output.y, output.state)
    }

    /// Some sequences of it, as a batch of their own.
    pub fn some(&self, which: &[usize]) -> Case<A> {
        let config = self.network.config();
        let width = config.output() * config.directions();
        let pick = |v: &[A], width| self.rows(v, width, self.steps, which);
        let pick_state = |s: &State<A>| pick_state(s, config, self.batch, which);
        Case {
            network: self.network.clone(),
            batch: which.len(),
            lengths: self.lengths.as_ref().map(|lengths| which.iter().map(|&b| lengths[b]).collect()),
            x: pick(&self.x, config.input),
            initial: pick_state(&self.initial),
            dy: pick(&self.dy, width),
            dlast: pick_state(&self.dlast),
            ..*self
        }
    }

    /// Rows of some sequences out of a tensor, up to a number of steps, in the same layout.
    pub fn rows(&self, values: &[A], width: usize, steps: usize, which: &[usize]) -> Vec<A> {
        let row = |t: usize, b: usize| {
            let place = if self.layout == Layout::TimeFirst { t * self.batch + b } else { b * self.steps + t };
            &values[place * width..(place + 1) * width]
        };
        let mut rows = Vec::new();
        match self.layout {
            Layout::TimeFirst => (0..steps).for_each(|t| which.iter().for_each(|&b| rows.extend(row(t, b)))),
            Layout::BatchFirst => which.iter().for_each(|&b| (0..steps).for_each(|t| rows.extend(row(t, b)))),
        }
        rows
    }
}

pub fn pick_state<A: Bits>(state: &State<A>, config: &Config, batch: usize, which: &[usize]) -> State<A> {
    let part = |values: &[A], width: usize| {
        let cells = values.chunks(width * batch);
        let cell =
            |cell: &[A]| which.iter().flat_map(|&b| cell[b * width..(b + 1) * width].to_vec()).collect::<Vec<_>>();
        cells.flat_map(cell).collect::<Vec<_>>()
    };
    State { h: part(&state.h, config.output()), c: part(&state.c, config.hidden) }
}

pub fn same_all<A: Bits>(what: &str, found: &All<A>, expected: &All<A>) {
    same(&format!("{what}: y"), &found.y, &expected.y);
    same_state(&format!("{what}: final state"), &found.last, &expected.last);
    same(&format!("{what}: dx"), &found.gradients.input, &expected.gradients.input);
    same_state(&format!("{what}: gradient of the initial state"), &found.gradients.state, &expected.gradients.state);
    same_params(what, &found.gradients.params, &expected.gradients.params);
}

pub fn same_params<A: Bits>(what: &str, found: &Params<A>, expected: &Params<A>) {
    for entry in expected.entries() {
        let part = |params: &Params<A>| params.values()[entry.range.clone()].to_vec();
        same(&format!("{what}: gradient of {}", entry.name()), &part(found), &part(expected));
    }
}

/// Two layers, each in both directions.
pub fn deep(variant: Variant, input: usize, hidden: usize) -> Config {
    Config::new(variant, input, hidden).with_layers(2).with_direction(Direction::Both)
}

//! What changes no bit: place in the batch, threads, instruction set, steps one by one, layout, padding, what is kept, a
//! neighbour's NaN. And what noise does.

#[path = "common/sample.rs"]
mod sample;

use layernorm::{Context, Isa};
use layernorm_rnn::{
    Config, Direction, Gradients, Keep, Kind, Layout, Network, Noise, Params, Real, Runner, Sequences, Slot, State,
    Training, Variant,
};
use sample::{Rng, label, named, network, network32, state32, variants};
use std::sync::{Mutex, MutexGuard};

/// A team that is busy lets a second call run on one thread, which would test nothing: tests with threads take turns.
fn team() -> MutexGuard<'static, ()> {
    static TEAM: Mutex<()> = Mutex::new(());
    TEAM.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn alone() -> Context {
    Context::new().with_threads(1).unwrap()
}

/// Numbers as bits.
trait Bits: Real {
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
fn same<A: Bits>(what: &str, found: &[A], expected: &[A]) {
    let (f, e) = (A::of(found), A::of(expected));
    assert_eq!(f.len(), e.len(), "{what}: numbers");
    if let Some(i) = (0..f.len()).find(|&i| f[i] != e[i]) {
        panic!("{what}: number {i} of {}: {:?}, expected {:?}", f.len(), found[i], expected[i]);
    }
}

fn same_state<A: Bits>(what: &str, found: &State<A>, expected: &State<A>) {
    same(&format!("{what}: h"), &found.h, &expected.h);
    same(&format!("{what}: c"), &found.c, &expected.c);
}

/// A network with sequences, states and gradients to run it on.
#[derive(Clone)]
struct Case<A> {
    network: Network<A>,
    steps: usize,
    batch: usize,
    layout: Layout,
    lengths: Option<Vec<usize>>,
    x: Vec<A>,
    initial: State<A>,
    dy: Vec<A>,
    dlast: State<A>,
    training: Training,
}

/// All that comes out.
struct All<A: Bits> {
    y: Vec<A>,
    last: State<A>,
    gradients: Gradients<A>,
}

impl Case<f32> {
    fn new(config: &Config, steps: usize, batch: usize) -> Case<f32> {
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
    fn wide(config: &Config, steps: usize, batch: usize) -> Case<f64> {
        let mut rng = Rng(17 + config.hidden as u64);
        let network = network(config, 5);
        let x = rng.vec(steps * batch * config.input);
        let dy = rng.vec(steps * batch * config.output() * config.directions());
        let (initial, dlast) = (sample::state(&network, batch, &mut rng), sample::state(&network, batch, &mut rng));
        let training = Training { seed: 3, keep: Keep::All };
        Case { network, steps, batch, layout: Layout::TimeFirst, lengths: None, x, initial, dy, dlast, training }
    }
}

impl<A: Bits> Case<A> {
    fn with_lengths(mut self, lengths: &[usize]) -> Self {
        self.lengths = Some(lengths.to_vec());
        self
    }

    fn sequences(&self) -> Sequences<'_, A> {
        let Case { steps, batch, layout, .. } = *self;
        Sequences { data: &self.x, steps, batch, layout, lengths: self.lengths.as_deref() }
    }

    fn all(&self, context: Context) -> All<A> {
        let mut runner = Runner::new(context);
        let trained = runner.train(&self.network, &self.sequences(), Some(&self.initial), self.training).unwrap();
        let gradients = runner.backward(&self.network, &self.dy, Some(&self.dlast)).unwrap();
        All { y: trained.y, last: trained.state, gradients }
    }

    /// Outputs outside training.
    fn forward(&self, context: Context) -> (Vec<A>, State<A>) {
        let output = Runner::new(context).forward(&self.network, &self.sequences(), Some(&self.initial)).unwrap();
        (output.y, output.state)
    }

    /// Some sequences of it, as a batch of their own.
    fn some(&self, which: &[usize]) -> Case<A> {
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
    fn rows(&self, values: &[A], width: usize, steps: usize, which: &[usize]) -> Vec<A> {
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

fn pick_state<A: Bits>(state: &State<A>, config: &Config, batch: usize, which: &[usize]) -> State<A> {
    let part = |values: &[A], width: usize| {
        let cells = values.chunks(width * batch);
        let cell =
            |cell: &[A]| which.iter().flat_map(|&b| cell[b * width..(b + 1) * width].to_vec()).collect::<Vec<_>>();
        cells.flat_map(cell).collect::<Vec<_>>()
    };
    State { h: part(&state.h, config.output()), c: part(&state.c, config.hidden) }
}

fn same_all<A: Bits>(what: &str, found: &All<A>, expected: &All<A>) {
    same(&format!("{what}: y"), &found.y, &expected.y);
    same_state(&format!("{what}: final state"), &found.last, &expected.last);
    same(&format!("{what}: dx"), &found.gradients.input, &expected.gradients.input);
    same_state(&format!("{what}: gradient of the initial state"), &found.gradients.state, &expected.gradients.state);
    same_params(what, &found.gradients.params, &expected.gradients.params);
}

fn same_params<A: Bits>(what: &str, found: &Params<A>, expected: &Params<A>) {
    for entry in expected.entries() {
        let part = |params: &Params<A>| params.values()[entry.range.clone()].to_vec();
        same(&format!("{what}: gradient of {}", entry.name()), &part(found), &part(expected));
    }
}

/// Two layers both ways, with every noise that needs no noise in particular.
fn deep(variant: Variant, input: usize, hidden: usize) -> Config {
    Config::new(variant, input, hidden).with_layers(2).with_direction(Direction::Both)
}

/// The variants whose code differs most: for what is too slow for all of them.
fn few() -> [Variant; 6] {
    [
        named(Kind::Lstm, "paper"),
        named(Kind::Lstm, "tflite-cifg"),
        named(Kind::Lstm, "none"),
        named(Kind::Gru, "paper"),
        named(Kind::Gru, "none-reset-before"),
        named(Kind::Rnn, "paper"),
    ]
}

/// A batch of 64 against 1 and 3 of its sequences at other places: outputs, states, and the gradients of both inputs.
fn any_place_in_the_batch(config: &Config, threads: usize, steps: usize) {
    let context = || Context::new().with_threads(threads).unwrap();
    let name = format!("{}, H {}, {threads} threads", label(&config.variant), config.hidden);
    let case = Case::new(config, steps, 64);
    let whole = case.all(context());
    let width = config.output() * config.directions();
    for which in [&[0][..], &[1], &[31], &[63], &[40, 2, 63], &[63, 62, 61, 60, 59, 58, 57, 56, 9]] {
        let part = case.some(which);
        let found = part.all(context());
        let name = format!("{name}, sequences {which:?}");
        same(&format!("{name}: y"), &found.y, &case.rows(&whole.y, width, steps, which));
        same_state(&name, &found.last, &pick_state(&whole.last, config, 64, which));
        same(
            &format!("{name}: dx"),
            &found.gradients.input,
            &case.rows(&whole.gradients.input, config.input, steps, which),
        );
        same_state(&name, &found.gradients.state, &pick_state(&whole.gradients.state, config, 64, which));
        let (y, last) = part.forward(context());
        same(&format!("{name}: y outside training"), &y, &found.y);
        same_state(&format!("{name}, outside training"), &last, &found.last);
    }
}

#[test]
fn batch_sizes_and_places() {
    for variant in variants() {
        for hidden in [1, 7, 33] {
            any_place_in_the_batch(&deep(variant, 3, hidden), 1, 4);
        }
    }
    for variant in few() {
        for hidden in [128, 129] {
            any_place_in_the_batch(&Config::new(variant, 10, hidden), 1, 3);
        }
    }
}

#[test]
fn batch_sizes_where_the_threads_share_each_step() {
    let _turn = team();
    // 9 steps of one sequence are over 2²³ products with over 2¹⁸ weights: Split::Columns at batches below 12, and
    // Split::Sequences at 64.
    any_place_in_the_batch(&Config::new(named(Kind::Lstm, "paper"), 20, 512), 2, 9);
    any_place_in_the_batch(&Config::new(named(Kind::Gru, "none-reset-before"), 20, 512), 2, 12);
    any_place_in_the_batch(&Config::new(named(Kind::Lstm, "tflite"), 20, 700).with_projection(400), 2, 9);
}

fn any_threads(case: &Case<f32>) {
    let name = format!("{}, H {}", label(&case.network.config().variant), case.network.config().hidden);
    let one = case.all(alone());
    for threads in [2, 3, 5] {
        let found = case.all(Context::new().with_threads(threads).unwrap());
        same_all(&format!("{name}, {threads} threads"), &found, &one);
        let (y, last) = case.forward(Context::new().with_threads(threads).unwrap());
        same(&format!("{name}, {threads} threads: y outside training"), &y, &one.y);
        same_state(&format!("{name}, {threads} threads, outside training"), &last, &one.last);
    }
}

#[test]
fn threads() {
    let _turn = team();
    for (turn, variant) in variants().enumerate() {
        // Over 2²³ products in each cell, so that there is a team.
        let config = deep(variant, 20, 48).with_direction([Direction::Forward, Direction::Both][turn % 2]);
        let steps = 8_400_000 / (config.gate_width() * (20 + 48) * 29) + 2;
        let case = Case::new(&config, steps, 30);
        let mut lengths = vec![steps; 30];
        lengths[7] = 1;
        any_threads(&case.with_lengths(&lengths));
    }
}

#[test]
fn threads_that_share_each_step() {
    let _turn = team();
    for variant in few() {
        // U has over 2¹⁸ numbers; so few sequences that the threads share each step.
        let hidden = if variant.kind == Kind::Rnn { 530 } else { 310 };
        let config = Config::new(variant, 20, hidden);
        let steps = 8_400_000 / (config.gate_width() * (20 + hidden) * 3) + 2;
        let lengths = [steps, steps - 1, steps, steps];
        any_threads(&Case::new(&config, steps, 4).with_lengths(&lengths));
    }
}

#[test]
fn instruction_sets() {
    let isas = Isa::available();
    println!("instruction sets compared: {isas:?}; not on this machine, so not tested: {:?}", {
        Isa::ALL.into_iter().filter(|isa| !isas.contains(isa)).collect::<Vec<_>>()
    });
    fn hold<A: Bits>(name: &str, isas: &[Isa], case: &Case<A>) {
        let with = |isa| alone().with_isa(isa).unwrap();
        let scalar = case.all(with(Isa::Scalar));
        for &isa in isas {
            same_all(&format!("{name}, {isa:?}"), &case.all(with(isa)), &scalar);
        }
    }
    for variant in variants() {
        for hidden in [1, 2, 7, 16, 33, 67] {
            let name = format!("{}, H {hidden}", label(&variant));
            let lengths = [6, 1, 4, 6, 3];
            hold(&format!("{name}, f32"), &isas, &Case::new(&deep(variant, 5, hidden), 6, 5).with_lengths(&lengths));
            hold(&format!("{name}, f64"), &isas, &Case::wide(&deep(variant, 5, hidden), 6, 5).with_lengths(&lengths));
        }
        if variant.kind == Kind::Lstm {
            let variant = Variant { cell_clip: Some(0.5), projection_clip: Some(0.3), ..variant };
            let config = deep(variant, 5, 21).with_projection(9);
            hold(&format!("projected {}", variant.name), &isas, &Case::new(&config, 6, 5));
        }
    }
}

#[test]
fn steps_one_by_one() {
    for variant in variants() {
        for (hidden, batch) in [(1, 1), (7, 3), (33, 9)] {
            let mut config = Config::new(variant, 4, hidden).with_layers(2);
            if variant.kind == Kind::Lstm && hidden == 7 {
                config = config.with_projection(3);
            }
            // Outside training zoneout is an expectation, and so the same in steps.
            config.noise.zoneout_hidden = 0.1;
            let case = Case::new(&config, 8, batch);
            let (y, last) = case.forward(alone());
            let name = format!("{}, H {hidden}", label(&variant));
            let (mut runner, mut state, mut steps) = (Runner::new(alone()), case.initial.clone(), Vec::new());
            for x in case.x.chunks(batch * 4) {
                let mut y = vec![0.0; batch * config.output()];
                runner.step(&case.network, x, &mut state, &mut y).unwrap();
                steps.extend(y);
            }
            same(&format!("{name}: y"), &steps, &y);
            same_state(&format!("{name}: after the last step"), &state, &last);

            // In two calls, the state handed over.
            for cut in [1, 5] {
                let (first, second) = case.x.split_at(cut * batch * 4);
                let first = Sequences::new(first, cut, batch);
                let first = runner.forward(&case.network, &first, Some(&case.initial)).unwrap();
                let second = Sequences::new(second, 8 - cut, batch);
                let second = runner.forward(&case.network, &second, Some(&first.state)).unwrap();
                same(&format!("{name}, cut at {cut}: y"), &[first.y, second.y].concat(), &y);
                same_state(&format!("{name}, cut at {cut}"), &second.state, &last);
            }
        }
    }
}

#[test]
fn layouts() {
    for variant in variants() {
        let case = Case::new(&deep(variant, 3, 10), 6, 4).with_lengths(&[6, 2, 6, 5]);
        let turned = |values: &[f32], width: usize| -> Vec<f32> {
            let place = |b: usize, t: usize| &values[(t * 4 + b) * width..][..width];
            (0..4).flat_map(|b| (0..6).flat_map(move |t| place(b, t).to_vec())).collect()
        };
        let mut other = case.clone();
        (other.layout, other.x, other.dy) = (Layout::BatchFirst, turned(&case.x, 3), turned(&case.dy, 20));
        let mut time_first = case.all(alone());
        time_first.y = turned(&time_first.y, 20);
        time_first.gradients.input = turned(&time_first.gradients.input, 3);
        same_all(&label(&variant), &other.all(alone()), &time_first);
    }
}

#[test]
fn keep_or_recompute() {
    for (turn, variant) in variants().enumerate() {
        let noise =
            Noise { dropout: 0.2, recurrent_dropout: 0.2, drop_connect: 0.2, zoneout_hidden: 0.2, zoneout_cell: 0.0 };
        let mut config = deep(variant, 3, 9);
        if turn % 2 == 1 {
            config = config.with_noise(noise);
        }
        // 100 sequences: a segment has three steps, and the last one fewer.
        let lengths: Vec<usize> = (0..100).map(|b| 1 + b * 7 % 11).collect();
        let mut case = Case::new(&config, 11, 100).with_lengths(&lengths);
        let all = case.all(alone());
        case.training.keep = Keep::Recompute;
        same_all(&label(&variant), &case.all(alone()), &all);
    }
}

#[test]
fn each_sequence_alone_at_its_own_length() {
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for layout in [Layout::TimeFirst, Layout::BatchFirst] {
                let config = Config::new(variant, 3, 9).with_layers(2).with_direction(direction);
                let width = config.output() * config.directions();
                let lengths = [3, 7, 1, 7, 4];
                let mut case = Case::new(&config, 7, 5).with_lengths(&lengths);
                case.layout = layout;
                let whole = case.all(alone());
                for (b, &length) in lengths.iter().enumerate() {
                    let name = format!("{}, {direction:?}, {layout:?}, sequence {b}", label(&variant));
                    let mut one = case.some(&[b]);
                    (one.steps, one.lengths) = (length, None);
                    one.x = case.rows(&case.x, 3, length, &[b]);
                    one.dy = case.rows(&case.dy, width, length, &[b]);
                    let found = one.all(alone());
                    same(&format!("{name}: y"), &found.y, &case.rows(&whole.y, width, length, &[b]));
                    same_state(&name, &found.last, &pick_state(&whole.last, &config, 5, &[b]));
                    let dx = case.rows(&whole.gradients.input, 3, length, &[b]);
                    same(&format!("{name}: dx"), &found.gradients.input, &dx);
                    let dinitial = pick_state(&whole.gradients.state, &config, 5, &[b]);
                    same_state(&format!("{name}: gradient"), &found.gradients.state, &dinitial);
                }
            }
        }
    }
}

/// Each sequence of a tensor `[T, B, width]` turned round within its length.
fn turned_round(values: &[f32], width: usize, lengths: &[usize]) -> Vec<f32> {
    let mut turned = values.to_vec();
    for (b, &length) in lengths.iter().enumerate() {
        for t in 0..length {
            let place = |t: usize| (t * lengths.len() + b) * width;
            turned[place(t)..][..width].copy_from_slice(&values[place(length - 1 - t)..][..width]);
        }
    }
    turned
}

#[test]
fn reverse_is_forward_on_the_reversed_sequence() {
    for variant in variants() {
        let config = Config::new(variant, 3, 9).with_layers(2);
        let lengths = [5, 7, 1, 7];
        let case = Case::new(&config, 7, 4).with_lengths(&lengths);
        let mut forward = case.all(alone());
        forward.y = turned_round(&forward.y, 9, &lengths);
        forward.gradients.input = turned_round(&forward.gradients.input, 3, &lengths);
        let mut other = case.clone();
        let reverse = config.with_direction(Direction::Reverse);
        other.network = Network::from_params(reverse, case.network.params().clone()).unwrap();
        other.x = turned_round(&case.x, 3, &lengths);
        other.dy = turned_round(&case.dy, 9, &lengths);
        same_all(&label(&variant), &other.all(alone()), &forward);
    }
}

#[test]
fn the_first_of_both_directions_is_forward_and_the_second_is_reverse() {
    for variant in variants() {
        let both = Case::new(&Config::new(variant, 3, 9).with_direction(Direction::Both), 7, 2);
        let (y, _) = both.forward(alone());
        for (number, direction) in [Direction::Forward, Direction::Reverse].into_iter().enumerate() {
            let config = Config::new(variant, 3, 9).with_direction(direction);
            let mut params = Params::<f32>::zeros(&config).unwrap();
            for slot in Slot::ALL {
                if let Some(to) = params.get_mut(0, 0, slot) {
                    to.copy_from_slice(both.network.params().get(0, number, slot).unwrap());
                }
            }
            let mut one = Case::new(&config, 7, 2);
            one.x.clone_from(&both.x);
            one.network = Network::from_params(config, params).unwrap();
            let half = |state: &[f32]| if state.is_empty() { Vec::new() } else { state[number * 18..][..18].to_vec() };
            one.initial = State { h: half(&both.initial.h), c: half(&both.initial.c) };
            let expected: Vec<f32> = y.chunks(18).flat_map(|row| row[number * 9..][..9].to_vec()).collect();
            same(&format!("{}, {direction:?}", label(&variant)), &one.forward(alone()).0, &expected);
        }
    }
}

#[test]
fn padding_is_neither_read_nor_written() {
    const SENTINEL: f32 = 123.456;
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for layout in [Layout::TimeFirst, Layout::BatchFirst] {
                let name = format!("{}, {direction:?}, {layout:?}", label(&variant));
                let config = Config::new(variant, 3, 9).with_layers(2).with_direction(direction);
                let width = config.output() * config.directions();
                let lengths = [2, 6, 1, 5];
                let mut case = Case::new(&config, 7, 4).with_lengths(&lengths);
                case.layout = layout;
                let clean = case.all(alone());
                let padding = |t: usize, b: usize| t >= lengths[b];
                let each = |values: &mut [f32], width: usize, f: &mut dyn FnMut(bool, &mut [f32])| {
                    for (at, row) in values.chunks_mut(width).enumerate() {
                        let (t, b) = if layout == Layout::TimeFirst { (at / 4, at % 4) } else { (at % 7, at / 7) };
                        f(padding(t, b), row);
                    }
                };
                let poison = |values: &mut [f32], width: usize| {
                    each(values, width, &mut |padding, row| {
                        if padding {
                            row.fill(f32::NAN)
                        }
                    });
                };
                poison(&mut case.x, 3);
                poison(&mut case.dy, width);
                same_all(&name, &case.all(alone()), &clean);

                let mut expected = [clean.y.clone(), clean.gradients.input.clone()];
                for (values, width) in expected.iter_mut().zip([width, 3]) {
                    each(values, width, &mut |padding, row| {
                        if padding {
                            assert!(row.iter().all(|&v| v == 0.0), "{name}: what was allocated is 0 in the padding");
                            row.fill(SENTINEL);
                        }
                    });
                }
                let mut runner = Runner::new(alone());
                let (mut y, mut last) = (vec![SENTINEL; clean.y.len()], State::default());
                runner.forward_into(&case.network, &case.sequences(), Some(&case.initial), &mut y, &mut last).unwrap();
                same(&format!("{name}: y of forward_into"), &y, &expected[0]);
                y.fill(SENTINEL);
                let (network, initial) = (&case.network, Some(&case.initial));
                runner.train_into(network, &case.sequences(), initial, case.training, &mut y, &mut last).unwrap();
                same(&format!("{name}: y of train_into"), &y, &expected[0]);
                let params = network.params().zeros_like();
                let mut gradients = Gradients { input: vec![SENTINEL; case.x.len()], params, state: State::default() };
                runner.backward_into(network, &case.dy, Some(&case.dlast), 0, &mut gradients).unwrap();
                same(&format!("{name}: dx of backward_into"), &gradients.input, &expected[1]);
                same_params(&name, &gradients.params, &clean.gradients.params);
            }
        }
    }
}

#[test]
fn a_nan_stays_in_its_sequence() {
    for variant in variants() {
        for hidden in [7, 33] {
            let config = deep(variant, 3, hidden);
            let clean = Case::new(&config, 6, 11);
            let mut ill = clean.clone();
            ill.x[(2 * 11 + 5) * 3 + 1] = f32::NAN;
            ill.x[(4 * 11 + 5) * 3] = f32::INFINITY;
            let (clean_all, ill_all) = (clean.all(alone()), ill.all(alone()));
            let others: Vec<usize> = (0..11).filter(|&b| b != 5).collect();
            let name = format!("{}, H {hidden}", label(&variant));
            let pick = |values: &[f32], width| clean.rows(values, width, 6, &others);
            same(&format!("{name}: y"), &pick(&ill_all.y, 2 * hidden), &pick(&clean_all.y, 2 * hidden));
            let dx = [&ill_all, &clean_all].map(|all| pick(&all.gradients.input, 3));
            same(&format!("{name}: dx"), &dx[0], &dx[1]);
            let last = [&ill_all, &clean_all].map(|all| pick_state(&all.last, &config, 11, &others));
            same_state(&name, &last[0], &last[1]);
            let start = [&ill_all, &clean_all].map(|all| pick_state(&all.gradients.state, &config, 11, &others));
            same_state(&format!("{name}: gradient"), &start[0], &start[1]);
            let own = clean.rows(&ill_all.y, 2 * hidden, 6, &[5]);
            assert!(own.iter().any(|y| y.is_nan()), "{name}: a NaN does not vanish");
        }
    }
}

#[test]
fn a_seed_is_all_there_is_to_noise() {
    let _turn = team();
    let noise =
        Noise { dropout: 0.2, recurrent_dropout: 0.2, drop_connect: 0.2, zoneout_hidden: 0.2, zoneout_cell: 0.0 };
    for variant in variants() {
        let config = deep(variant, 3, 20);
        let quiet = Case::new(&config, 7, 9);
        let names = ["dropout", "recurrent dropout", "DropConnect", "zoneout of h", "zoneout of c", "all"];
        for (number, name) in names.into_iter().enumerate() {
            let mut noise = if number == 5 { noise } else { Noise::default() };
            match number {
                0 => noise.dropout = 0.2,
                1 => noise.recurrent_dropout = 0.2,
                2 => noise.drop_connect = 0.2,
                3 => noise.zoneout_hidden = 0.2,
                4 if variant.kind != Kind::Lstm => continue,
                4 => noise.zoneout_cell = 0.2,
                _ => {}
            }
            let name = format!("{}, {name}", label(&variant));
            let case = Case::new(&config.with_noise(noise), 7, 9);
            let first = case.all(alone());
            same_all(&name, &case.all(Context::new().with_threads(2).unwrap()), &first);
            let mut other = case.clone();
            other.training.seed += 1;
            assert_ne!(other.all(alone()).y, first.y, "{name}: another seed is another noise");
            assert_ne!(quiet.all(alone()).y, first.y, "{name}: there is noise in training");
            let mut still = case.clone();
            still.network = quiet.network.clone();
            // Outside training only zoneout is seen, as its expectation.
            if number < 3 {
                same(&format!("{name}: outside training"), &case.forward(alone()).0, &still.forward(alone()).0);
            }
        }
    }
}

#[test]
fn zoneout_keeps_the_old_or_takes_the_new_and_is_its_mean_outside_training() {
    let rate = 0.3;
    for variant in variants() {
        let name = label(&variant);
        let mut config = Config::new(variant, 3, 8);
        let plain = Case::new(&config, 1, 4);
        config.noise.zoneout_hidden = rate;
        config.noise.zoneout_cell = if variant.kind == Kind::Lstm { rate } else { 0.0 };
        let mut case = Case::new(&config, 1, 4);
        let (_, new) = plain.forward(alone());
        let (_, mean) = case.forward(alone());
        let all = |state: &State<f32>| state.h.iter().chain(&state.c).copied().collect::<Vec<_>>();
        let (old, new, mean) = (all(&case.initial), all(&new), all(&mean));
        for (i, &mean) in mean.iter().enumerate() {
            let expected = rate * f64::from(old[i]) + (1.0 - rate) * f64::from(new[i]);
            // Two products, a sum and the rate itself, each rounded once.
            let bound = 4.0 * f64::from(f32::EPSILON) * f64::from(old[i].abs().max(new[i].abs()));
            assert!((f64::from(mean) - expected).abs() <= bound, "{name}: {mean}, expected {expected}");
        }
        let (mut kept, mut count) = (0, 0);
        for seed in 0..60 {
            case.training.seed = seed;
            let last = all(&case.all(alone()).last);
            for (i, last) in last.iter().enumerate().filter(|&(i, _)| old[i] != new[i]) {
                assert!(*last == old[i] || *last == new[i], "{name}: {last} is neither {} nor {}", old[i], new[i]);
                kept += usize::from(*last == old[i]);
                count += 1;
            }
        }
        // Five standard deviations of a mean of so many chances.
        let (share, deviation) = (kept as f64 / count as f64, (rate * (1.0 - rate) / count as f64).sqrt());
        assert!((share - rate).abs() < 5.0 * deviation, "{name}: {share} kept of {count}");
    }
}

/// `h = relu(W x + U h)` with W and U as given.
fn linear(layers: usize, hidden: usize, w: f32, u: f32, noise: Noise) -> Network<f32> {
    let config = Config::new(named(Kind::Rnn, "none-relu"), hidden, hidden).with_layers(layers).with_noise(noise);
    let mut params = Params::zeros(&config).unwrap();
    for layer in 0..layers {
        for (slot, value) in [(Slot::InputWeight, w), (Slot::RecurrentWeight, u)] {
            let weights = params.get_mut(layer, 0, slot).unwrap();
            (0..hidden).for_each(|k| weights[k * hidden + k] = value);
        }
    }
    Network::from_params(config, params).unwrap()
}

/// Of numbers that are each 0 or 1/(1 − rate), the share of zeros is the rate and so the mean is 1.
fn is_dropped(name: &str, values: &[f32], rate: f64) {
    let scale = (1.0 / (1.0 - rate)) as f32;
    assert!(values.iter().all(|&v| v == 0.0 || v == scale), "{name}: each number is dropped or scaled up");
    let (mean, n) = (values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64, values.len() as f64);
    let deviation = (rate / (1.0 - rate) / n).sqrt();
    assert!((mean - 1.0).abs() < 5.0 * deviation, "{name}: a mean of {mean}");
}

#[test]
fn dropout_keeps_the_mean() {
    let (rate, hidden, batch, steps) = (0.3, 40, 30, 4);
    let ones = vec![1.0f32; steps * batch * hidden];
    let sequences = Sequences::new(&ones, steps, batch);
    let mut runner = Runner::new(alone());
    let training = Training { seed: 9, keep: Keep::All };

    // Between the layers, afresh at each step.
    let network = linear(2, hidden, 1.0, 0.0, Noise { dropout: rate, ..Noise::default() });
    let y = runner.train(&network, &sequences, None, training).unwrap().y;
    is_dropped("dropout", &y, rate);
    assert_ne!(y[..batch * hidden], y[batch * hidden..2 * batch * hidden], "each step has a mask of its own");

    // On h: the state of ones that comes in, times the same mask at every step.
    let one = |network: &Network<f32>| {
        let mut state = network.zero_state(batch).unwrap();
        state.h.fill(1.0);
        state
    };
    let network = linear(1, hidden, 0.0, 1.0, Noise { recurrent_dropout: rate, ..Noise::default() });
    let y = runner.train(&network, &sequences, Some(&one(&network)), training).unwrap().y;
    is_dropped("recurrent dropout", &y[..batch * hidden], rate);
    let scale = (1.0 / (1.0 - rate)) as f32;
    let again: Vec<f32> = y[..batch * hidden].iter().map(|&y| y * scale).collect();
    assert_eq!(y[batch * hidden..2 * batch * hidden], again, "recurrent dropout: one mask for all steps");

    // On U: the same for all sequences and steps.
    let network = linear(1, 400, 0.0, 1.0, Noise { drop_connect: rate, ..Noise::default() });
    let ones = vec![1.0f32; 2 * 3 * 400];
    let mut state = network.zero_state(3).unwrap();
    state.h.fill(1.0);
    let y = runner.train(&network, &Sequences::new(&ones, 2, 3), Some(&state), training).unwrap().y;
    is_dropped("DropConnect", &y[..400], rate);
    assert!(y[..400] == y[400..800] && y[..400] == y[800..1200], "DropConnect: one mask for all sequences");
    let again: Vec<f32> = y[..400].iter().map(|&y| y * scale).collect();
    assert_eq!(y[1200..1600], again, "DropConnect: one mask for all steps");
}

#[test]
fn gradients_of_batches_add_up() {
    for (turn, variant) in variants().enumerate() {
        let mut config = deep(variant, 3, 8);
        config.noise.drop_connect = [0.0, 0.4][turn % 2];
        let case = Case::new(&config, 5, 4);
        let mut second = case.clone();
        second.training.seed = 77;
        let (one, two) = (case.all(alone()), second.all(alone()));
        let mut runner = Runner::new(alone());
        let mut sum = one.gradients.clone();
        runner.train(&second.network, &second.sequences(), Some(&second.initial), second.training).unwrap();
        runner.backward_into(&second.network, &second.dy, Some(&second.dlast), 0, &mut sum).unwrap();
        let parts = one.gradients.params.values().iter().zip(two.gradients.params.values());
        for (i, (sum, (a, b))) in sum.params.values().iter().zip(parts).enumerate() {
            // A tied bias has two sums to add, in another order here: a rounding of each.
            let bound = 4.0 * f32::EPSILON * (a.abs() + b.abs() + 1.0);
            assert!((sum - (a + b)).abs() <= bound, "{}: number {i}: {sum}, expected {a} + {b}", label(&variant));
        }
    }
}

#[test]
fn a_second_backward_pass_gives_the_same() {
    for variant in variants() {
        for keep in [Keep::All, Keep::Recompute] {
            let mut case = Case::new(&deep(variant, 3, 8), 9, 40);
            case.training.keep = keep;
            let once = case.all(alone());
            let mut runner = Runner::new(alone());
            let trained = runner.train(&case.network, &case.sequences(), Some(&case.initial), case.training).unwrap();
            runner.backward(&case.network, &case.dlast.h[..0], None).unwrap_err();
            runner.backward(&case.network, &vec![1.0f32; case.dy.len()], None).unwrap();
            let gradients = runner.backward(&case.network, &case.dy, Some(&case.dlast)).unwrap();
            same_all(&label(&variant), &All { y: trained.y, last: trained.state, gradients }, &once);
        }
    }
}

/// A runner that has run one network runs another one as a fresh runner does, also if their parameters are copies.
#[test]
fn a_runner_forgets_the_network_before() {
    let mut runner = Runner::new(alone());
    let gru = named(Kind::Gru, "none");
    let lstm = named(Kind::Lstm, "paper");
    for (before, after) in [
        (lstm, lstm.with_eps(0.3)),
        (lstm, Variant { offset: 1.0, ..lstm }),
        (lstm, Variant { tied_bias: true, ..lstm }),
        (gru, Variant { reset: layernorm_rnn::Reset::Sum, ..gru }),
        (gru, named(Kind::Gru, "none-reset-before")),
        (named(Kind::Gru, "none-reset-before"), gru),
    ] {
        let config = Config::new(before, 3, 8);
        let case = Case::new(&config, 4, 3);
        runner.forward(&case.network, &case.sequences(), Some(&case.initial)).unwrap();
        let mut other = case.clone();
        let config = Config { variant: after, ..config };
        other.network = Network::from_params(config, case.network.params().clone()).unwrap();
        let found = runner.forward(&other.network, &other.sequences(), Some(&other.initial)).unwrap();
        let (y, last) = other.forward(alone());
        same(&format!("{before:?}, then {after:?}: y"), &found.y, &y);
        same_state("final state", &found.state, &last);
    }
}

#[test]
fn a_runner_may_be_used_for_anything_in_any_order() {
    let mut runner = Runner::new(alone());
    let mut rng = Rng(1);
    let all: Vec<Variant> = variants().collect();
    for _ in 0..150 {
        let variant = rng.one_of(&all);
        let direction = rng.one_of(&[Direction::Forward, Direction::Reverse, Direction::Both]);
        let config = Config::new(variant, 1 + rng.below(9), 1 + rng.below(30)).with_layers(1 + rng.below(3));
        let config = config.with_direction(direction);
        let (steps, batch) = (1 + rng.below(9), 1 + rng.below(20));
        let mut case = Case::new(&config, steps, batch);
        case.training.keep = rng.one_of(&[Keep::All, Keep::Recompute]);
        let fresh = case.all(alone());
        let trained = runner.train(&case.network, &case.sequences(), Some(&case.initial), case.training).unwrap();
        let gradients = runner.backward(&case.network, &case.dy, Some(&case.dlast)).unwrap();
        let found = All { y: trained.y, last: trained.state, gradients };
        same_all(&label(&variant), &found, &fresh);
    }
}

#[test]
fn no_initial_state_is_one_of_zeros() {
    for variant in variants() {
        let network = network32(&deep(variant, 3, 9), 1);
        let x = Rng(2).vec32(5 * 4 * 3);
        let mut runner = Runner::new(alone());
        let zero = network.zero_state(4).unwrap();
        let sequences = Sequences::new(&x, 5, 4);
        let found = runner.forward(&network, &sequences, None).unwrap();
        let expected = runner.forward(&network, &sequences, Some(&zero)).unwrap();
        same(&label(&variant), &found.y, &expected.y);
        let mut other = state32(&network, 4, &mut Rng(3));
        let mut y = found.y.clone();
        runner.forward_into(&network, &sequences, None, &mut y, &mut other).unwrap();
        same_state("what was in the final state before does not matter", &other, &expected.state);
    }
}

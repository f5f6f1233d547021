//! Recurrent networks give the core's bits: outputs, states and all gradients, for every variant.

use crate::common::{builder, loss, random, same, same_gradient, tensor, values, var};
use candle_core::{DType, Tensor, Var, WithDType};
use candle_nn::rnn::{LSTMState, RNN};
use layernorm::{Element, Float, bf16, f16};
use layernorm_candle::{Recurrent, RecurrentConfig, gru, lstm, rnn};
use layernorm_rnn::{
    Config, Direction, Gradients, Init, Kind, Layout, Network, Output, Real, Runner, Sequences, State, Training,
    Variant,
};

/// Sizes that are not multiples of anything.
const STEPS: usize = 7;
const BATCH: usize = 5;
const INPUT: usize = 6;
const HIDDEN: usize = 9;

/// A network, sequences and gradients of the outputs.
struct Case<T: Element> {
    network: Network<T::Acc>,
    x: Vec<T>,
    dy: Vec<T>,
    initial: Option<State<T::Acc>>,
    dlast: State<T::Acc>,
    lengths: Option<Vec<usize>>,
    layout: Layout,
}

impl<T: Element<Acc: Real + WithDType> + WithDType> Case<T> {
    fn new(config: Config) -> Self {
        let init = Init::for_variant(&config.variant);
        let mut network = Network::<T::Acc>::new(config, init, 3).unwrap();
        // Gains and biases that have an effect.
        for (i, value) in network.params_mut().values_mut().iter_mut().enumerate() {
            *value += <T::Acc as Float>::from_f64(0.01 * (i % 11) as f64);
        }
        let state = |seed| {
            let mut state = network.zero_state(BATCH).unwrap();
            state.h.iter_mut().zip(random::<T::Acc>(seed, 9999)).for_each(|(to, x)| *to = x);
            state.c.iter_mut().zip(random::<T::Acc>(seed + 1, 9999)).for_each(|(to, x)| *to = x);
            state
        };
        let (initial, dlast) = (Some(state(20)), state(30));
        let width = config.output() * config.directions();
        let (x, dy) = (random(10, STEPS * BATCH * INPUT), random(11, STEPS * BATCH * width));
        Case { network, x, dy, initial, dlast, lengths: None, layout: Layout::BatchFirst }
    }

    fn shape(&self, width: usize) -> [usize; 3] {
        if self.layout == Layout::BatchFirst { [BATCH, STEPS, width] } else { [STEPS, BATCH, width] }
    }

    fn state_vars(&self, state: &State<T::Acc>) -> [Option<Var>; 2] {
        let config = self.network.config();
        let cells = config.layers * config.directions();
        let part = |numbers: &[T::Acc], width| var(numbers, &[cells, BATCH, width]);
        [Some(part(&state.h, config.output())), config.has_cell().then(|| part(&state.c, config.hidden))]
    }

    fn expected(&self) -> (Output<T>, Gradients<T>) {
        let mut runner = Runner::default();
        let lengths = self.lengths.as_deref();
        let sequences = Sequences { data: &self.x, steps: STEPS, batch: BATCH, layout: self.layout, lengths };
        let output = runner.train(&self.network, &sequences, self.initial.as_ref(), Training::default()).unwrap();
        let gradients = runner.backward(&self.network, &self.dy, Some(&self.dlast)).unwrap();
        (output, gradients)
    }

    /// Compares everything with the core.
    fn check(&self, name: &str) {
        let (config, (output, expected)) = (*self.network.config(), self.expected());
        let width = config.output() * config.directions();
        let (_, vb) = builder(<T::Acc as WithDType>::DTYPE);
        let module = Recurrent::from_network(&self.network, self.layout == Layout::BatchFirst, vb).unwrap();
        let lengths = self.lengths.as_deref();
        let initial = self.initial.as_ref().map_or([None, None], |state| self.state_vars(state));
        let initial_tensors = initial.each_ref().map(|part| part.as_ref().map(|var| var.as_tensor()));

        let x = var(&self.x, &self.shape(INPUT));
        let (y, last) = module.forward(&x, initial_tensors, lengths).unwrap();
        assert_eq!(y.dims(), self.shape(width));
        same(&format!("{name}: y"), &y, &output.y);
        same_state(&format!("{name}: last"), &last, &output.state);
        let wide = <T::Acc as WithDType>::DTYPE;
        let mut total = loss(&y, &tensor(&self.dy, &self.shape(width))).to_dtype(wide).unwrap();
        for (part, gradient) in last.iter().zip(self.state_vars(&self.dlast)) {
            if let (Some(part), Some(gradient)) = (part, gradient) {
                total = (total + loss(part, &gradient.detach())).unwrap();
            }
        }
        // The same graph can be used for backward more than once.
        for _ in 0..2 {
            let gradients = total.backward().unwrap();
            same_gradient(&format!("{name}: dx"), &gradients, &x, &expected.input);
            let states = [&expected.state.h, &expected.state.c];
            for (part, expected) in initial_tensors.iter().zip(states) {
                if let Some(part) = part {
                    same_gradient(&format!("{name}: dinitial"), &gradients, part, expected);
                }
            }
            let parameters = module.named_parameters();
            for (entry, (parameter, tensor)) in expected.params.entries().iter().zip(parameters) {
                let sums = &expected.params.values()[entry.range.clone()];
                same_gradient(&format!("{name}: d{parameter}"), &gradients, tensor, sums);
            }
        }
    }
}

fn same_state<A: WithDType>(name: &str, found: &[Option<Tensor>; 2], expected: &State<A>) {
    for (found, expected) in found.iter().zip([&expected.h, &expected.c]) {
        match found {
            Some(found) => same(name, found, expected),
            None => assert!(expected.is_empty(), "{name}"),
        }
    }
}

fn named(kind: Kind, name: &str) -> Config {
    Config::new(Variant::named(kind, name).unwrap(), INPUT, HIDDEN)
}

#[test]
fn every_variant_has_the_cores_bits() {
    for kind in Kind::ALL {
        for &variant in Variant::all(kind) {
            let name = format!("{} {}", kind.name(), variant.name);
            let mut case = Case::<f32>::new(Config::new(variant, INPUT, HIDDEN));
            case.check(&name);
            case.initial = None;
            case.check(&format!("{name} from zeros"));
        }
    }
}

#[test]
fn layers_directions_and_layouts_have_the_cores_bits() {
    for (kind, variant) in [(Kind::Lstm, "paper"), (Kind::Gru, "haste"), (Kind::Rnn, "split")] {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for (layout, lengths) in [
                (Layout::TimeFirst, None),
                (Layout::TimeFirst, Some(vec![7, 1, 4, 7, 2])),
                (Layout::BatchFirst, Some(vec![3; 5])),
            ] {
                let mut case = Case::<f32>::new(named(kind, variant).with_layers(2).with_direction(direction));
                (case.layout, case.lengths) = (layout, lengths);
                case.check(&format!("{variant}, {direction:?}, {layout:?}, {:?}", case.lengths));
            }
        }
    }
    Case::<f32>::new(named(Kind::Lstm, "tflite").with_projection(4).with_layers(2)).check("with a projection");
}

#[test]
fn other_types_have_the_cores_bits() {
    Case::<f64>::new(named(Kind::Lstm, "paper")).check("f64");
    Case::<f64>::new(named(Kind::Gru, "dreamer")).check("f64");
    // f32 parameters with f16 and bf16 sequences.
    Case::<f16>::new(named(Kind::Lstm, "paper")).check("f16");
    Case::<bf16>::new(named(Kind::Gru, "paper")).check("bf16");
}

/// f16 parameters: widened exactly, with gradients rounded once.
#[test]
fn half_parameters_are_those_of_f32_rounded() {
    let (_, half) = builder(DType::F16);
    let config = RecurrentConfig { seed: Some(5), ..RecurrentConfig::from("paper") };
    let net = lstm(INPUT, HIDDEN, config, half).unwrap().net;
    let (_, single) = builder(DType::F32);
    let wide = Recurrent::from_network(&net.to_network::<f32>().unwrap(), true, single).unwrap();
    let x = tensor(&random::<f16>(1, BATCH * STEPS * INPUT), &[BATCH, STEPS, INPUT]);
    let run = |net: &Recurrent| {
        let (y, _) = net.forward(&x, [None, None], None).unwrap();
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let of = |(_, tensor): (String, &Tensor)| gradients.get(tensor).unwrap().to_dtype(DType::F16).unwrap();
        (values::<f16>(&y), net.named_parameters().map(of).map(|t| values::<f16>(&t)).collect::<Vec<_>>())
    };
    assert!(run(&net) == run(&wide));
}

/// Several forward passes before their backward passes, in any order, and abandoned graphs: each has its own tape.
#[test]
fn tapes_do_not_mix() {
    let (_, vb) = builder(DType::F32);
    let lstm = lstm(INPUT, HIDDEN, "paper", vb).unwrap();
    let x = |seed| var(&random::<f32>(seed, BATCH * STEPS * INPUT), &[BATCH, STEPS, INPUT]);
    let gradient = |x: &Tensor, y: &Tensor| {
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        values::<f32>(gradients.get(x).unwrap())
    };
    let forward = |x: &Tensor| lstm.forward(x, None).unwrap().0;
    let expected: Vec<_> = (0..4).map(&x).map(|x| gradient(&x, &forward(&x))).collect();
    for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        let open: Vec<_> = (0..4).map(&x).map(|x| (forward(&x), x)).collect();
        drop(forward(&x(9)));
        for k in order {
            assert_eq!(gradient(&open[k].1, &open[k].0), expected[k]);
        }
    }
}

/// Gradients flow through a state from one call to the next: two halves equal one whole.
#[test]
fn a_state_carries_gradients() {
    let (_, vb) = builder(DType::F32);
    let gru = gru(INPUT, HIDDEN, "paper", vb).unwrap();
    let x = var(&random::<f32>(5, STEPS * BATCH * INPUT), &[BATCH, STEPS, INPUT]);
    let gradient = |last: Tensor| {
        let gradients = last.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        values::<f32>(gradients.get(&x).unwrap())
    };
    let (_, middle) = gru.forward(&x.narrow(1, 0, 3).unwrap(), None).unwrap();
    let (_, last) = gru.forward(&x.narrow(1, 3, STEPS - 3).unwrap(), Some(&middle)).unwrap();
    let whole = gru.forward(&x, None).unwrap().1;
    same("h", &last.h, &values::<f32>(&whole.h));
    assert_eq!(gradient(last.h), gradient(whole.h));
}

/// Candle's own way to process a sequence, step by step: the same bits, forward and for the gradient of x.
#[test]
fn steps_are_the_sequence() {
    let x = var(&random::<f32>(5, STEPS * BATCH * INPUT), &[BATCH, STEPS, INPUT]);
    let dy = tensor(&random::<f32>(6, STEPS * BATCH * HIDDEN), &[BATCH, STEPS, HIDDEN]);
    let check = |name: &str, whole: Tensor, steps: Tensor| {
        same(name, &steps, &values::<f32>(&whole));
        let gradient = |y: &Tensor| values::<f32>(loss(y, &dy).backward().unwrap().get(&x).unwrap());
        assert_eq!(gradient(&whole), gradient(&steps), "{name}");
    };
    let layers = |variant: &str| RecurrentConfig { layers: 2, ..RecurrentConfig::from(variant) };
    let lstm = lstm(INPUT, HIDDEN, layers("paper"), builder(DType::F32).1).unwrap();
    let steps = lstm.states_to_tensor(&lstm.seq(&x).unwrap()).unwrap();
    check("lstm", lstm.forward(&x, None).unwrap().0, steps);
    let gru = gru(INPUT, HIDDEN, layers("dreamer"), builder(DType::F32).1).unwrap();
    let steps = gru.states_to_tensor(&gru.seq(&x).unwrap()).unwrap();
    check("gru", gru.forward(&x, None).unwrap().0, steps);
    let rnn = rnn(INPUT, HIDDEN, layers("split"), builder(DType::F32).1).unwrap();
    let steps = rnn.states_to_tensor(&rnn.seq(&x).unwrap()).unwrap();
    check("rnn", rnn.forward(&x, None).unwrap().0, steps);
}

/// Sequences that are not contiguous give the bits of their contiguous copy, forward and backward.
#[test]
fn strides_change_no_bit() {
    let lstm = lstm(INPUT, HIDDEN, "haste", builder(DType::F32).1).unwrap();
    let x = var(&random::<f32>(5, INPUT * STEPS * BATCH), &[INPUT, STEPS, BATCH]);
    let state = var(&random::<f32>(6, HIDDEN * BATCH), &[1, HIDDEN, BATCH]);
    let run = |x_view: Tensor, state_view: Tensor| {
        let initial = LSTMState::new(state_view.clone(), state_view);
        let y = lstm.forward(&x_view, Some(&initial)).unwrap().0;
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        [&y, gradients.get(&x).unwrap(), gradients.get(&state).unwrap()].map(values::<f32>)
    };
    let (turned, state_turned) = (x.transpose(0, 2).unwrap(), state.transpose(1, 2).unwrap());
    let copied = run(turned.contiguous().unwrap(), state_turned.contiguous().unwrap());
    assert!(run(turned, state_turned) == copied);
}

/// The plain cells agree with candle-nn's, from the same checkpoint, within rounding.
#[test]
fn plain_cells_are_candles() {
    let x = tensor(&random::<f64>(5, BATCH * STEPS * INPUT), &[BATCH, STEPS, INPUT]);
    let close = |name: &str, ours: Tensor, theirs: Tensor| {
        let off = (ours - theirs).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        // Sums of at most 30·6 + 9 terms of similar magnitude, over 7 steps in f64; no error is amplified.
        assert!(off < 1e-12, "{name}: {off}");
    };
    let (map, vb) = builder(DType::F64);
    let ours = lstm(INPUT, HIDDEN, RecurrentConfig::default(), vb.clone()).unwrap();
    let theirs = candle_nn::lstm(INPUT, HIDDEN, candle_nn::LSTMConfig::default(), vb).unwrap();
    assert_eq!(map.all_vars().len(), 4, "both took the same variables");
    let states = theirs.seq(&x).unwrap();
    close("lstm", ours.forward(&x, None).unwrap().0, theirs.states_to_tensor(&states).unwrap());
    let (map, vb) = builder(DType::F64);
    let ours = gru(INPUT, HIDDEN, RecurrentConfig::default(), vb.clone()).unwrap();
    let theirs = candle_nn::gru(INPUT, HIDDEN, candle_nn::GRUConfig::default(), vb).unwrap();
    assert_eq!(map.all_vars().len(), 4, "both took the same variables");
    let last = theirs.seq(&x).unwrap().pop().unwrap();
    close("gru", ours.forward(&x, None).unwrap().1.h.squeeze(0).unwrap(), last.h);
}

#[test]
fn networks_go_in_and_out() {
    let variant = Variant::named(Kind::Lstm, "tflite-cifg").unwrap();
    let config = Config::new(variant, INPUT, HIDDEN).with_layers(2).with_direction(Direction::Both).with_projection(5);
    let network = Network::<f32>::new(config, Init::for_variant(&variant), 7).unwrap();
    let (map, vb) = builder(DType::F32);
    let module = Recurrent::from_network(&network, true, vb.clone()).unwrap();
    assert_eq!(module.to_network::<f32>().unwrap(), network);
    let count: usize = map.all_vars().iter().map(|var| var.elem_count()).sum();
    assert_eq!(count, network.params().values().len());
    // The same seed gives the same initial parameters, and existing parameters of a builder are not initialized again.
    let again = Recurrent::new(config, true, Some(7), builder(DType::F32).1).unwrap();
    assert_eq!(again.to_network::<f32>().unwrap(), network);
    let shared = Recurrent::new(config, true, Some(8), vb).unwrap();
    assert_eq!(shared.to_network::<f32>().unwrap(), network);
    // Without a seed, no two networks are the same.
    let drawn = || Recurrent::new(config, true, None, builder(DType::F32).1).unwrap().to_network::<f32>().unwrap();
    assert_ne!(drawn(), drawn());
}

#[test]
fn parameters_are_called_as_pytorch_calls_them() {
    let config = |variant: &str, direction| RecurrentConfig { direction, ..RecurrentConfig::from(variant) };
    let names = |net: &Recurrent| net.named_parameters().map(|(name, _)| name).collect::<Vec<_>>();
    let both = lstm(INPUT, HIDDEN, config("none", Direction::Both), builder(DType::F32).1).unwrap();
    let cell = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
    let expected: Vec<_> =
        cell.iter().map(|name| name.to_string()).chain(cell.iter().map(|name| format!("{name}_reverse"))).collect();
    assert_eq!(names(&both.net), expected);
    let paper = rnn(INPUT, HIDDEN, config("split", Direction::Reverse), builder(DType::F32).1).unwrap();
    assert_eq!(names(&paper.net)[2], "norm_ih_weight_l0_reverse");
}

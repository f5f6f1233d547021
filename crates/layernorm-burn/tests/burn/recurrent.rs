//! Recurrent networks give the core's bits: outputs, states and all gradients, for every variant.

use crate::common::{cpu, leaf, random, same, tensor, training, values};
use burn::module::{Module, Param};
use burn::tensor::{Device, Element as BurnElement, Gradients, Tensor};
use layernorm::{Element, Float, bf16, f16};
use layernorm_burn::{Cell, GruConfig, LstmConfig, Recurrent};
use layernorm_rnn::{
    Config, Direction, Init, Kind, Layout, Network, Output, Real, Runner, Sequences, Slot, State, Training, Variant,
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
    initial: State<T::Acc>,
    dlast: State<T::Acc>,
    lengths: Option<Vec<usize>>,
    layout: Layout,
}

impl<T: Element<Acc: Real + BurnElement> + BurnElement> Case<T> {
    fn new(config: Config) -> Self {
        let init = Init::for_variant(&config.variant);
        let mut network = Network::<T::Acc>::new(config, init, 3).unwrap();
        // Gains and biases that have an effect.
        for (i, value) in network.params_mut().values_mut().iter_mut().enumerate() {
            *value = *value + T::Acc::from_f64(0.01 * (i % 11) as f64);
        }
        let state = |seed| {
            let mut state = network.zero_state(BATCH).unwrap();
            state.h.iter_mut().zip(random::<T::Acc>(seed, 9999)).for_each(|(to, x)| *to = x);
            state.c.iter_mut().zip(random::<T::Acc>(seed + 1, 9999)).for_each(|(to, x)| *to = x);
            state
        };
        let (initial, dlast) = (state(20), state(30));
        let width = config.output() * config.directions();
        let (x, dy) = (random(10, STEPS * BATCH * INPUT), random(11, STEPS * BATCH * width));
        Case { network, x, dy, initial, dlast, lengths: None, layout: Layout::TimeFirst }
    }

    fn batch_first(&self) -> bool {
        self.layout == Layout::BatchFirst
    }

    fn shape(&self, width: usize) -> [usize; 3] {
        if self.batch_first() { [BATCH, STEPS, width] } else { [STEPS, BATCH, width] }
    }

    fn state_tensors(&self, state: &State<T::Acc>, device: &Device) -> [Option<Tensor<3>>; 2] {
        let config = self.network.config();
        let cells = config.layers * config.directions();
        let part = |numbers: &[T::Acc], width| match device.is_autodiff() {
            true => leaf(numbers, [cells, BATCH, width], device),
            false => tensor(numbers, [cells, BATCH, width], device),
        };
        [Some(part(&state.h, config.output())), config.has_cell().then(|| part(&state.c, config.hidden))]
    }

    fn expected(&self) -> (Output<T>, layernorm_rnn::Gradients<T>) {
        let mut runner = Runner::default();
        let lengths = self.lengths.as_deref();
        let sequences = Sequences { data: &self.x, steps: STEPS, batch: BATCH, layout: self.layout, lengths };
        let output = runner.train(&self.network, &sequences, Some(&self.initial), Training::default()).unwrap();
        let gradients = runner.backward(&self.network, &self.dy, Some(&self.dlast)).unwrap();
        (output, gradients)
    }

    /// Compares everything with the core.
    fn check(&self, name: &str) {
        let (config, (output, expected)) = (*self.network.config(), self.expected());
        let width = config.output() * config.directions();
        let module = Recurrent::from_network(&self.network, self.batch_first(), &cpu()).unwrap();
        let lengths = self.lengths.as_deref();

        let device = cpu();
        let initial = self.state_tensors(&self.initial, &device);
        let (y, last) = module.forward(tensor(&self.x, self.shape(INPUT), &device), initial, lengths);
        same(&format!("{name}: y"), &y, &output.y);
        same_state(&format!("{name}: last"), &last, &output.state);

        let (module, device) = (module.train(), training());
        let x = leaf(&self.x, self.shape(INPUT), &device);
        let initial = self.state_tensors(&self.initial, &device);
        let (y, last) = module.forward(x.clone(), initial.clone(), lengths);
        same(&format!("{name}: y in training"), &y, &output.y);
        same_state(&format!("{name}: last in training"), &last, &output.state);
        let mut loss = widened((y * tensor(&self.dy, self.shape(width), &device)).sum(), &last);
        for (part, gradient) in last.into_iter().zip(self.state_tensors(&self.dlast, &device)) {
            if let (Some(part), Some(gradient)) = (part, gradient) {
                loss = loss + (part * gradient).sum();
            }
        }
        let gradients = loss.backward();
        same(&format!("{name}: dx"), &x.grad(&gradients).unwrap(), &expected.input);
        same_state(&format!("{name}: dinitial"), &initial.map(|part| part?.grad(&gradients)), &expected.state);
        for entry in expected.params.entries() {
            let cell = &module.cells[entry.layer * config.directions() + entry.direction];
            let found = gradient(cell, entry.slot, &gradients).expect("every parameter has a gradient");
            same(&format!("{name}: d{}", entry.name()), &found, &expected.params.values()[entry.range.clone()]);
        }
    }
}

/// A loss in the type of the states.
fn widened(loss: Tensor<1>, states: &[Option<Tensor<3>>; 2]) -> Tensor<1> {
    let dtype = states[0].as_ref().unwrap().dtype();
    if loss.dtype() == dtype { loss } else { loss.cast(burn::tensor::FloatDType::from(dtype)) }
}

fn same_state<A: Float + BurnElement>(name: &str, found: &[Option<Tensor<3>>; 2], expected: &State<A>) {
    for (found, expected) in found.iter().zip([&expected.h, &expected.c]) {
        match found {
            Some(found) => same(name, found, expected),
            None => assert!(expected.is_empty(), "{name}"),
        }
    }
}

/// The gradient of a parameter, row-major.
fn gradient(cell: &Cell, slot: Slot, gradients: &Gradients) -> Option<Tensor<1>> {
    let vector = |param: &Option<Param<Tensor<1>>>| param.as_ref()?.val().grad(gradients);
    let matrix = |param: &Param<Tensor<2>>| Some(param.val().grad(gradients)?.flatten::<1>(0, 1));
    match slot {
        Slot::InputWeight => matrix(&cell.input_weight),
        Slot::RecurrentWeight => matrix(&cell.recurrent_weight),
        Slot::InputBias => vector(&cell.input_bias),
        Slot::RecurrentBias => vector(&cell.recurrent_bias),
        Slot::Bias => vector(&cell.bias),
        Slot::InputNormGain => vector(&cell.input_norm_gain),
        Slot::InputNormBias => vector(&cell.input_norm_bias),
        Slot::RecurrentNormGain => vector(&cell.recurrent_norm_gain),
        Slot::RecurrentNormBias => vector(&cell.recurrent_norm_bias),
        Slot::SumNormGain => vector(&cell.sum_norm_gain),
        Slot::SumNormBias => vector(&cell.sum_norm_bias),
        Slot::CellNormGain => vector(&cell.cell_norm_gain),
        Slot::CellNormBias => vector(&cell.cell_norm_bias),
        Slot::Peephole => matrix(cell.peephole.as_ref()?),
        Slot::Projection => matrix(cell.projection.as_ref()?),
        Slot::ProjectionBias => vector(&cell.projection_bias),
    }
}

fn every_variant() -> impl Iterator<Item = (String, Config)> {
    Kind::ALL
        .into_iter()
        .flat_map(Variant::all)
        .map(|&variant| (format!("{} {}", variant.kind.name(), variant.name), Config::new(variant, INPUT, HIDDEN)))
}

#[test]
fn every_variant_has_the_cores_bits() {
    for (name, config) in every_variant() {
        Case::<f32>::new(config).check(&name);
    }
}

#[test]
fn layers_directions_and_layouts_have_the_cores_bits() {
    let named = |kind, name| Variant::named(kind, name).unwrap();
    for (kind, variant) in [(Kind::Lstm, "paper"), (Kind::Gru, "haste"), (Kind::Rnn, "split")] {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for (layout, lengths) in [
                (Layout::BatchFirst, None),
                (Layout::TimeFirst, Some(vec![7, 1, 4, 7, 2])),
                (Layout::BatchFirst, Some(vec![3; 5])),
            ] {
                let config = Config::new(named(kind, variant), INPUT, HIDDEN).with_layers(2).with_direction(direction);
                let mut case = Case::<f32>::new(config);
                (case.layout, case.lengths) = (layout, lengths);
                case.check(&format!("{variant}, {direction:?}, {layout:?}, {:?}", case.lengths));
            }
        }
    }
    let projected = Config::new(named(Kind::Lstm, "tflite"), INPUT, HIDDEN).with_projection(4).with_layers(2);
    Case::<f32>::new(projected).check("with a projection");
}

#[test]
fn other_types_have_the_cores_bits() {
    let config = Config::new(Variant::named(Kind::Lstm, "paper").unwrap(), INPUT, HIDDEN);
    Case::<f64>::new(config).check("f64");
    Case::<f64>::new(Config::new(Variant::named(Kind::Gru, "dreamer").unwrap(), INPUT, HIDDEN)).check("f64");
    // f32 parameters with f16 and bf16 sequences.
    Case::<f16>::new(config).check("f16");
    Case::<bf16>::new(config).check("bf16");
}

/// Several forward passes before their backward passes, in any order, and abandoned graphs: each has its own tape.
#[test]
fn tapes_do_not_mix() {
    let device = training();
    let lstm = LstmConfig::new(INPUT, HIDDEN).with_variant("paper").with_seed(1).init(&device);
    let x = |seed| leaf(&random::<f32>(seed, BATCH * STEPS * INPUT), [BATCH, STEPS, INPUT], &device);
    let alone = |seed| {
        let x = x(seed);
        let gradients = lstm.forward(x.clone(), None).0.square().sum().backward();
        values::<f32, 3>(&x.grad(&gradients).unwrap())
    };
    let expected: Vec<_> = (0..4).map(alone).collect();
    for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        let open: Vec<_> = (0..4).map(&x).map(|x| (x.clone(), lstm.forward(x, None).0)).collect();
        let given_up = lstm.forward(x(9), None);
        drop(given_up);
        for k in order {
            let gradients = open[k].1.clone().square().sum().backward();
            assert_eq!(values::<f32, 3>(&open[k].0.grad(&gradients).unwrap()), expected[k]);
        }
    }
}

/// Gradients flow through a state from one call to the next: two halves equal one whole, also with checkpointing.
#[test]
fn a_state_carries_gradients() {
    for device in [training(), training().gradient_checkpointing()] {
        two_halves_are_one_whole(device);
    }
}

fn two_halves_are_one_whole(device: Device) {
    let gru = GruConfig::new(INPUT, HIDDEN).with_variant("paper").with_batch_first(false).with_seed(2).init(&device);
    let numbers = random::<f32>(5, STEPS * BATCH * INPUT);
    let gradient = |split: bool| {
        let x = leaf(&numbers, [STEPS, BATCH, INPUT], &device);
        let last = if split {
            let (_, middle) = gru.forward(x.clone().narrow(0, 0, 3), None);
            gru.forward(x.clone().narrow(0, 3, STEPS - 3), Some(middle)).1
        } else {
            gru.forward(x.clone(), None).1
        };
        let gradients = last.square().sum().backward();
        values::<f32, 3>(&x.grad(&gradients).unwrap())
    };
    assert_eq!(gradient(true), gradient(false));
}

#[test]
fn networks_go_in_and_out() {
    let variant = Variant::named(Kind::Lstm, "tflite-cifg").unwrap();
    let config = Config::new(variant, INPUT, HIDDEN).with_layers(2).with_direction(Direction::Both).with_projection(5);
    let network = Network::<f32>::new(config, Init::for_variant(&variant), 7).unwrap();
    let module = Recurrent::from_network(&network, true, &cpu()).unwrap();
    assert_eq!(module.to_network::<f32>().unwrap(), network);
    assert_eq!(module.num_params(), network.params().values().len());
    // The same seed gives the same initial parameters.
    let again = Recurrent::try_new(config, true, Some(7), &cpu()).unwrap();
    assert_eq!(again.to_network::<f32>().unwrap(), network);
    // Without a seed, it is drawn from the device's random numbers.
    let drawn = |seed| {
        cpu().seed(seed);
        Recurrent::try_new(config, true, None, &cpu()).unwrap().to_network::<f32>().unwrap()
    };
    let (one, other) = (drawn(1), drawn(2));
    assert_ne!(one, other);
}

//! The two benchmarks of this crate: a training step of the paper's MLP with our layer norm and with Burn's, and a
//! training step of our LSTM and of Burn's. Both sides are first checked to compute the same.
//!
//! `cargo run --release -p layernorm-burn --example speed`

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use layernorm_burn::LstmConfig;
use std::time::{Duration, Instant};

/// Warm-up steps per side, and measured rounds of one step per side, alternating.
const WARM: usize = 3;
const ROUNDS: usize = 31;

macro_rules! mlp {
    ($name:ident, $norm:path, $config:path) => {
        mod $name {
            use super::*;
            use $config as NormConfig;
            use $norm as Norm;

            /// 784-1000-1000-10, with a layer norm before each ReLU.
            #[derive(Module, Debug)]
            pub struct Mlp {
                linears: Vec<Linear>,
                norms: Vec<Norm>,
                last: Linear,
            }

            impl Mlp {
                pub fn new(device: &Device) -> Mlp {
                    Mlp {
                        linears: vec![
                            LinearConfig::new(784, 1000).init(device),
                            LinearConfig::new(1000, 1000).init(device),
                        ],
                        norms: vec![NormConfig::new(1000).init(device), NormConfig::new(1000).init(device)],
                        last: LinearConfig::new(1000, 10).init(device),
                    }
                }
            }

            impl Mlp {
                pub fn loss(&self, data: &Data) -> Tensor<1> {
                    let layers = self.linears.iter().zip(&self.norms);
                    let x = layers.fold(data.x.clone(), |x, (linear, norm)| relu(norm.forward(linear.forward(x))));
                    CrossEntropyLossConfig::new().init(&x.device()).forward(self.last.forward(x), data.classes.clone())
                }
            }
        }
    };
}

mlp!(with_ours, layernorm_burn::LayerNorm, layernorm_burn::LayerNormConfig);
mlp!(with_burns, burn::nn::LayerNorm, burn::nn::LayerNormConfig);

/// Images and classes, `[128, 784]`.
struct Data {
    x: Tensor<2>,
    classes: Tensor<1, Int>,
}

/// A model with its optimizer.
struct Trainer<M> {
    model: Option<M>,
    optimizer: ModuleOptimizer,
}

impl<M: Module> Trainer<M> {
    fn new(model: M) -> Self {
        Trainer { model: Some(model), optimizer: AdamConfig::new().init() }
    }

    /// One step: forward, backward and Adam.
    fn step(&mut self, loss: impl Fn(&M) -> Tensor<1>) -> f32 {
        let model = self.model.take().expect("there is a model between steps");
        let loss = loss(&model);
        let value = loss.clone().into_scalar::<f32>();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        self.model = Some(self.optimizer.step(1e-3, model, gradients));
        value
    }
}

/// Runs both sides alternately and returns their times.
fn race(mut ours: impl FnMut() -> f32, mut theirs: impl FnMut() -> f32) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM + ROUNDS {
        let runs: [&mut dyn FnMut() -> f32; 2] = [&mut ours, &mut theirs];
        for (run, times) in runs.into_iter().zip(&mut times) {
            let start = Instant::now();
            let loss = run();
            assert!(loss.is_finite());
            if round >= WARM {
                times.push(start.elapsed());
            }
        }
    }
    times
}

/// Minimum and median, in milliseconds.
fn summary(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    (times[0].as_secs_f64() * 1e3, times[times.len() / 2].as_secs_f64() * 1e3)
}

fn report(name: &str, other: &str, [mut ours, mut theirs]: [Vec<Duration>; 2]) {
    let (ours, theirs) = (summary(&mut ours), summary(&mut theirs));
    println!(
        "| {name} | {:.2} | {:.2} | {other} {:.2} | {:.2} | {:.2}x | {:.2}x |",
        ours.0,
        ours.1,
        theirs.0,
        theirs.1,
        theirs.0 / ours.0,
        theirs.1 / ours.1
    );
}

fn main() {
    let device = Device::flex().autodiff();
    println!(
        "{ROUNDS} steps of each side in turn, times in ms; {} cores",
        std::thread::available_parallelism().map_or(1, |n| n.get())
    );
    println!("| training step | ours, minimum | median | theirs, minimum | median | ratio of minima | of medians |");
    println!("|---|---|---|---|---|---|---|");
    mlp(&device);
    lstm(&device, "none");
    lstm(&device, "paper");
}

fn classes(count: usize, device: &Device) -> Tensor<1, Int> {
    let classes: Vec<i32> = (0..10).cycle().take(count).collect();
    Tensor::from_data(classes.as_slice(), device)
}

fn mlp(device: &Device) {
    let data =
        Data { x: Tensor::random([128, 784], Distribution::Uniform(0.0, 1.0), device), classes: classes(128, device) };
    device.seed(1);
    let mut ours = Trainer::new(with_ours::Mlp::new(device));
    let burns = with_burns::Mlp::new(device);
    // Both start from the same record, because the parameter names are the same.
    let record = ours.model.clone().expect("there is a model").into_record();
    let mut theirs = Trainer::new(burns.load_record(record));
    let our_loss = |model: &with_ours::Mlp| model.loss(&data);
    let their_loss = |model: &with_burns::Mlp| model.loss(&data);
    let (a, b) = (ours.step(our_loss), theirs.step(their_loss));
    assert!((a - b).abs() <= 1e-4 * a.abs(), "the losses of the first step are {a} and {b}");
    let times = race(|| ours.step(our_loss), || theirs.step(their_loss));
    report("MLP 784-1000-1000-10, batch 128, LayerNorm, Adam", "burn::nn::LayerNorm", times);
}

/// Reads the rows of an image one after the other and classifies it from the last state.
#[derive(Module, Debug)]
struct Reader<L: Module> {
    lstm: L,
    last: Linear,
}

/// Burn's LSTM has no norms. With `none` both compute the same; with another variant Burn's computes less.
fn lstm(device: &Device, variant: &str) {
    let [batch, steps, input, hidden] = [64, 28, 28, 128];
    let x = Tensor::<3>::random([batch, steps, input], Distribution::Normal(0.0, 1.0), device);
    let classes = classes(batch, device);
    let ours = LstmConfig::new(input, hidden).with_variant(variant).with_seed(1).init(device);
    let theirs = burn::nn::LstmConfig::new(input, hidden, true).init(device);
    if variant == "none" {
        same_function(&ours, theirs.clone(), &x);
    }
    let last = LinearConfig::new(hidden, 10).init(device);
    let mut ours = Trainer::new(Reader { lstm: ours, last: last.clone() });
    let mut theirs = Trainer::new(Reader { lstm: theirs, last });
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let loss = |last: &Linear, h: Tensor<2>| cross_entropy.forward(last.forward(h), classes.clone());
    let times = race(
        || ours.step(|model| loss(&model.last, model.lstm.forward(x.clone(), None).1.hidden.squeeze_dim(0))),
        || theirs.step(|model| loss(&model.last, model.lstm.forward(x.clone(), None).1.hidden)),
    );
    report(&format!("LSTM `{variant}` (64, 28, 28, 128), Adam"), "burn::nn::Lstm", times);
}

/// Checks that Burn's LSTM with our weights gives our outputs.
fn same_function(ours: &layernorm_burn::Lstm, mut theirs: burn::nn::Lstm, x: &Tensor<3>) {
    let (cell, hidden) = (&ours.net.cells[0], ours.net.config().hidden);
    let gate = |place: usize, controller: &mut burn::nn::GateController| {
        let part = |weight: Tensor<2>| weight.narrow(0, place * hidden, hidden).transpose();
        let bias = |bias: &Option<burn::module::Param<Tensor<1>>>| {
            bias.as_ref().map(|bias| bias.val().narrow(0, place * hidden, hidden)).expect("both have biases")
        };
        let set = |linear: &mut Linear, weight: Tensor<2>, bias: Tensor<1>| {
            linear.weight = linear.weight.clone().map(|_| weight.detach());
            linear.bias = linear.bias.clone().map(|param| param.map(|_| bias.detach()));
        };
        set(&mut controller.input_transform, part(cell.input_weight.val()), bias(&cell.input_bias));
        set(&mut controller.hidden_transform, part(cell.recurrent_weight.val()), bias(&cell.recurrent_bias));
    };
    gate(0, &mut theirs.input_gate);
    gate(1, theirs.forget_gate.as_mut().expect("not coupled"));
    gate(2, &mut theirs.cell_gate);
    gate(3, &mut theirs.output_gate);
    let (a, b) = (ours.forward(x.clone(), None).0, theirs.forward(x.clone(), None).0);
    let difference = (a - b).abs().max().into_scalar::<f32>();
    assert!(difference <= 1e-5, "outputs of the two LSTMs differ by {difference}");
}

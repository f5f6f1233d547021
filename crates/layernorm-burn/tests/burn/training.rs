//! Training with Burn's optimizers: gradients match finite differences, and parameters before a norm are updated.

use crate::common::{leaf, numbers, tensor, training, values};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use layernorm_burn::{LayerNorm, LayerNormConfig, Lstm, LstmConfig, functional};

#[derive(Module, Debug)]
struct Mlp {
    first: Linear,
    norm: LayerNorm,
    last: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Mlp {
        Mlp {
            first: LinearConfig::new(8, 16).init(device),
            norm: LayerNormConfig::new(16).init(device),
            last: LinearConfig::new(16, 3).init(device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.last.forward(relu(self.norm.forward(self.first.forward(x))))
    }
}

/// 30 points and their classes: which of the first three numbers is largest.
fn task(device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let x: Vec<f32> = numbers(1, 30 * 8).into_iter().map(|x| x as f32).collect();
    let class = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i32;
    let classes: Vec<i32> = x.chunks(8).map(class).collect();
    (tensor(&x, [30, 8], device), Tensor::from_data(classes.as_slice(), device))
}

#[test]
fn an_mlp_learns_and_all_its_parameters_move() {
    let device = training();
    device.seed(1);
    let (mut model, (x, classes)) = (Mlp::new(&device), task(&device));
    let (mut optimizer, loss) = (AdamConfig::new().init(), CrossEntropyLossConfig::new().init(&device));
    let start = model.clone();
    let mut losses = Vec::new();
    for _ in 0..60 {
        let loss = loss.forward(model.forward(x.clone()), classes.clone());
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.01, model, gradients);
    }
    assert!(losses[59] < 0.2 * losses[0], "{losses:?}");
    let moved = |a: Vec<f32>, b: Vec<f32>| assert!(a.iter().zip(&b).all(|(a, b)| a != b));
    moved(values(&start.first.weight.val()), values(&model.first.weight.val()));
    moved(values(&start.norm.gamma.val()), values(&model.norm.gamma.val()));
    moved(values(&start.norm.beta.unwrap().val()), values(&model.norm.beta.unwrap().val()));
    moved(values(&start.last.weight.val()), values(&model.last.weight.val()));
}

#[derive(Module, Debug)]
struct Reader {
    lstm: Lstm,
    last: Linear,
}

/// The task: which number came first, ten steps ago.
#[test]
fn an_lstm_learns_to_remember() {
    let device = training();
    device.seed(2);
    let mut model = Reader {
        lstm: LstmConfig::new(3, 12).with_variant("paper").with_seed(4).init(&device),
        last: LinearConfig::new(12, 2).init(&device),
    };
    let (batch, steps) = (32, 10);
    let x: Vec<f32> = numbers(3, batch * steps * 3).into_iter().map(|x| x as f32).collect();
    let classes: Vec<i32> = x.chunks(steps * 3).map(|sequence| i32::from(sequence[0] > 0.0)).collect();
    let (x, classes) =
        (tensor(&x, [batch, steps, 3], &device), Tensor::<1, Int>::from_data(classes.as_slice(), &device));
    let (mut optimizer, loss) = (AdamConfig::new().init(), CrossEntropyLossConfig::new().init(&device));
    let mut losses = Vec::new();
    for _ in 0..120 {
        let (_, state) = model.lstm.forward(x.clone(), None);
        let loss = loss.forward(model.last.forward(state.hidden.squeeze_dim::<2>(0)), classes.clone());
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.02, model, gradients);
    }
    assert!(losses[119] < 0.3 * losses[0], "{losses:?}");
}

/// The slope of a loss along one number, in f64. The step is the cube root of the unit roundoff, which balances the
/// truncation error (of order h²) against the rounding error (of order u/h): both are near 10⁻¹⁰ of the loss.
fn slope(loss: impl Fn(f64) -> f64, at: f64) -> f64 {
    let h = 6e-6;
    (loss(at + h) - loss(at - h)) / (2.0 * h)
}

#[test]
fn gradients_are_slopes() {
    let (shape, device) = ([4, 3, 5], training());
    let (x, weights) = (numbers(1, 60), numbers(2, 60));
    type Op<'a> = &'a dyn Fn(Tensor<3>) -> Tensor<3>;
    let lengths = |n: usize| leaf(&numbers(3, n), [n], &device);
    let network = {
        use layernorm_rnn::{Config, Init, Kind, Network, Variant};
        let variant = Variant::named(Kind::Lstm, "paper").unwrap();
        let network = Network::<f64>::new(Config::new(variant, 5, 5), Init::for_variant(&variant), 1).unwrap();
        layernorm_burn::Recurrent::from_network(&network, true, &device).unwrap()
    };
    let ops: [(&str, Op); 6] = [
        ("layer norm", &|x| functional::layer_norm(x, Some(lengths(5)), Some(lengths(5)), 1e-5)),
        ("RMS norm", &|x| functional::rms_norm(x, Some(lengths(5)), None, 1e-5)),
        ("group norm", &|x| functional::group_norm(x, Some(lengths(3)), Some(lengths(3)), 1, 1e-5)),
        ("batch norm", &|x| {
            let running = [0.0, 1.0].map(|value| tensor(&[value; 3], [3], &device));
            functional::batch_norm_train(x, Some(lengths(3)), None, running, 0.1, 1e-5).output
        }),
        ("weight norm", &|x| functional::weight_norm(x, lengths(3), Some(1))),
        ("LSTM", &|x| network.forward(x, [None, None], None).0),
    ];
    for (name, op) in ops {
        let loss = |x: Tensor<3>| (op(x) * tensor(&weights, shape, &device)).sum();
        let leaf = leaf(&x, shape, &device);
        let gradients = loss(leaf.clone()).backward();
        let gradient: Vec<f64> = values(&leaf.grad(&gradients).unwrap());
        for i in (0..60).step_by(7) {
            let along = |value: f64| {
                let mut x = x.clone();
                x[i] = value;
                loss(tensor(&x, shape, &device)).into_scalar::<f64>()
            };
            let expected = slope(along, x[i]);
            // The losses here are sums of 60 terms of up to 30·30.
            assert!(
                (gradient[i] - expected).abs() <= 1e-5 * (1.0 + expected.abs()),
                "{name}: {} {expected}",
                gradient[i]
            );
        }
    }
}

//! The composed operations agree with the fused ones within the bounds stated in `fallback`.

use crate::common::{cpu, leaf, numbers, random, tensor, training, values};
use burn::tensor::Tensor;
use layernorm_burn::{Recurrent, fallback, functional};
use layernorm_rnn::{Config, Direction, Init, Kind, Network, Variant};

const U: f64 = 1.0 / (1u64 << 24) as f64;
const EPS: f64 = 1e-5;

/// Rows with one γ and β per element. The bounds are computed from exact values in f64.
struct Rows {
    x: Vec<f64>,
    dy: Vec<f64>,
    gamma: Vec<f64>,
    beta: Vec<f64>,
    n: usize,
}

/// What the bounds of a row are computed from.
struct Row {
    r: f64,
    kappa: f64,
    largest: f64,
    g: f64,
}

impl Rows {
    /// The quantities of each row; without centering, the mean is 0.
    fn facts(&self, centred: bool) -> Vec<Row> {
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0f64, |most, x| most.max(x.abs()));
        let rows = self.x.chunks(self.n).zip(self.dy.chunks(self.n)).enumerate();
        rows.map(|(k, (x, dy))| {
            let mean = if centred { x.iter().sum::<f64>() / self.n as f64 } else { 0.0 };
            let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / self.n as f64;
            let r = 1.0 / (var + EPS).sqrt();
            let gamma = &self.gamma[k * self.n..(k + 1) * self.n];
            let g = most(&mut dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma));
            Row { r, kappa: r * most(&mut x.iter().copied()), largest: r * most(&mut x.iter().map(|x| x - mean)), g }
        })
        .collect()
    }

    fn y_bound(&self, row: &Row, i: usize) -> f64 {
        let (gamma, beta) = (self.gamma[i].abs(), self.beta[i].abs());
        2.0 * (self.n + 8) as f64 * U * (gamma * (row.kappa + (row.kappa + 1.0) * row.largest) + beta)
    }

    fn dx_bound(&self, row: &Row) -> f64 {
        8.0 * (self.n + 16) as f64 * U * (1.0 + row.kappa) * (1.0 + row.largest) * row.r * row.g
    }
}

/// The largest ratio of a difference to its bound.
fn share(found: &[f32], expected: &[f32], bound: impl Fn(usize) -> f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    let shares = found.iter().zip(expected).enumerate().map(|(i, (found, expected))| {
        let difference = f64::from((found - expected).abs());
        if difference == 0.0 { 0.0 } else { difference / bound(i) }
    });
    shares.fold(0.0, |most, share| if share > most || share.is_nan() { share } else { most })
}

/// Values and gradients of an operation.
struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    dgamma: Vec<f32>,
    dbeta: Vec<f32>,
}

type Op<'a> = &'a dyn Fn(Tensor<3>, Option<Tensor<1>>, Option<Tensor<1>>) -> Tensor<3>;

fn run(op: Op, x: &[f32], dy: &[f32], gamma: &[f32], beta: &[f32], shape: [usize; 3]) -> Results {
    let device = training();
    let (x, n) = (leaf(x, shape, &device), gamma.len());
    let (gamma, beta) = (leaf(gamma, [n], &device), leaf(beta, [n], &device));
    let y = op(x.clone(), Some(gamma.clone()), Some(beta.clone()));
    let gradients = (y.clone() * tensor(dy, shape, &device)).sum().backward();
    Results {
        y: values(&y),
        dx: values(&x.grad(&gradients).unwrap()),
        dgamma: values(&gamma.grad(&gradients).unwrap()),
        dbeta: values(&beta.grad(&gradients).unwrap()),
    }
}

/// An operation over x `[N, C, S]`: how it divides x into rows, and which parameter an element has.
struct NormUnderTest<'a> {
    name: &'a str,
    fused: Op<'a>,
    composed: Op<'a>,
    centred: bool,
    /// Elements of x in the order of the rows.
    order: Vec<usize>,
    n: usize,
    parameter: &'a dyn Fn(usize) -> usize,
    parameters: usize,
}

/// Numbers within ±1, slightly off center: none stands out, so κ and X are small and the bounds are tight.
fn even(seed: u64, count: usize) -> Vec<f32> {
    numbers(seed, 2 * count).into_iter().filter(|x| x.abs() <= 1.0).map(|x| x as f32 + 0.25).take(count).collect()
}

fn check(norm: &NormUnderTest, shape: [usize; 3]) {
    let count = shape.iter().product();
    let [x, dy] = [1, 2].map(|seed| even(seed, count));
    let [gamma, beta] = [3, 4].map(|seed| even(seed, norm.parameters));
    let [fused, composed] = [norm.fused, norm.composed].map(|op| run(op, &x, &dy, &gamma, &beta, shape));
    let by_row = |values: &dyn Fn(usize) -> f32| norm.order.iter().map(|&i| f64::from(values(i))).collect::<Vec<_>>();
    let rows = Rows {
        x: by_row(&|i| x[i]),
        dy: by_row(&|i| dy[i]),
        gamma: by_row(&|i| gamma[(norm.parameter)(i)]),
        beta: by_row(&|i| beta[(norm.parameter)(i)]),
        n: norm.n,
    };
    let facts = rows.facts(norm.centred);
    // Element i of x is element place[i] of the rows.
    let mut place = vec![0; count];
    norm.order.iter().enumerate().for_each(|(at, &i)| place[i] = at);
    let row = |i: usize| &facts[place[i] / norm.n];
    let y = share(&fused.y, &composed.y, |i| rows.y_bound(row(i), place[i]));
    let dx = share(&fused.dx, &composed.dx, |i| rows.dx_bound(row(i)));

    let positions = count / norm.parameters;
    let mut sums = vec![0.0; norm.parameters];
    (0..count).for_each(|i| sums[(norm.parameter)(i)] += f64::from(dy[i].abs()));
    let most = |fact: &dyn Fn(&Row) -> f64| facts.iter().map(fact).fold(0.0f64, f64::max);
    let (kappa, largest) = (most(&|row| row.kappa), most(&|row| row.largest));
    let gamma_bound = 2.0 * (norm.n + positions + 8) as f64 * U * (1.0 + kappa) * (1.0 + largest);
    let dgamma = share(&fused.dgamma, &composed.dgamma, |k| gamma_bound * sums[k]);
    let dbeta = share(&fused.dbeta, &composed.dbeta, |k| 2.0 * (positions + 2) as f64 * U * sums[k]);
    println!("{}: y {y:.3}, dx {dx:.3}, dγ {dgamma:.3}, dβ {dbeta:.3} of the bound", norm.name);
    for share in [y, dx, dgamma, dbeta] {
        assert!(share <= 1.0, "{}: {share} of the bound", norm.name);
    }
}

#[test]
fn norms_are_within_their_bounds() {
    let shape @ [samples, channels, width] = [8, 6, 50];
    let count: usize = shape.iter().product();
    let (last, channel) = (|i: usize| i % width, |i: usize| i / width % channels);
    check(
        &NormUnderTest {
            name: "layer norm",
            fused: &|x, g, b| functional::layer_norm(x, g, b, EPS),
            composed: &|x, g, b| fallback::layer_norm(x, g, b, EPS),
            centred: true,
            order: (0..count).collect(),
            n: width,
            parameter: &last,
            parameters: width,
        },
        shape,
    );
    check(
        &NormUnderTest {
            name: "RMS norm",
            fused: &|x, g, b| functional::rms_norm(x, g, b, EPS),
            composed: &|x, g, b| fallback::rms_norm(x, g, b, EPS),
            centred: false,
            order: (0..count).collect(),
            n: width,
            parameter: &last,
            parameters: width,
        },
        shape,
    );
    for groups in [1, 2, channels] {
        check(
            &NormUnderTest {
                name: &format!("group norm, {groups} groups"),
                fused: &|x, g, b| functional::group_norm(x, g, b, groups, EPS),
                composed: &|x, g, b| fallback::group_norm(x, g, b, groups, EPS),
                centred: true,
                order: (0..count).collect(),
                n: channels / groups * width,
                parameter: &channel,
                parameters: channels,
            },
            shape,
        );
    }
    let running = || [1.0f32, 2.0].map(|value| tensor(&vec![value; channels], [channels], &cpu()));
    let by_channel = (0..channels)
        .flat_map(|c| (0..samples).flat_map(move |s| (0..width).map(move |t| (s * channels + c) * width + t)));
    check(
        &NormUnderTest {
            name: "batch norm",
            fused: &|x, g, b| functional::batch_norm_train(x, g, b, running(), 0.1, EPS).output,
            composed: &|x, g, b| fallback::batch_norm_train(x, g, b, running(), 0.1, EPS).output,
            centred: true,
            order: by_channel.collect(),
            n: samples * width,
            parameter: &channel,
            parameters: channels,
        },
        shape,
    );
}

/// Statistics, inference and weight norm: no sum over a norm is involved, so the bounds are simple.
#[test]
fn the_rest_is_within_its_bounds() {
    let shape @ [samples, channels, width] = [8, 6, 50];
    let (count, device) = (shape.iter().product(), cpu());
    let x: Vec<f32> = random(1, count);
    let x = || tensor(&x, shape, &device);
    let running = || [1.0f32, 2.0].map(|value| tensor(&vec![value; channels], [channels], &device));
    let fused = functional::batch_norm_train(x(), None, None, running(), 0.3, EPS);
    let composed = fallback::batch_norm_train(x(), None, None, running(), 0.3, EPS);
    // The mean of M numbers of up to 30, and the mean of their squares of up to 900, which contains the mean twice.
    let m = (samples * width) as f64;
    for (one, other, size) in
        [(fused.running_mean, composed.running_mean, 30.0), (fused.running_var, composed.running_var, 3.0 * 900.0)]
    {
        assert!(share(&values(&one), &values(&other), |_| 2.0 * (m + 8.0) * U * size) <= 1.0);
    }
    let parameter = |seed| Some(tensor(&random::<f32>(seed, channels), [channels], &device));
    let fused = values(&functional::batch_norm(x(), parameter(3), parameter(4), running(), EPS));
    let composed = values(&fallback::batch_norm(x(), parameter(3), parameter(4), running(), EPS));
    // Five roundings of numbers of up to (30 + 1)/sqrt(2)·30 + 30, for the difference of two such results.
    assert!(share(&fused, &composed, |_| 2.0 * 5.0 * U * 700.0) <= 1.0);

    for axis in [None, Some(0), Some(1), Some(2)] {
        let rows = axis.map_or(1, |axis| shape[axis]);
        let g = || tensor(&random::<f32>(5, rows), [rows], &device);
        let fused: Vec<f32> = values(&functional::weight_norm(x(), g(), axis));
        let composed = values(&fallback::weight_norm(x(), g(), axis));
        // r has half of the error of a sum of N squares, plus four roundings.
        let n = (count / rows) as f64;
        assert!(share(&fused, &composed, |i| 2.0 * (n / 2.0 + 8.0) * U * f64::from(fused[i].abs())) <= 1.0);
    }
}

/// A fused and a composed run of every variant in f64. The rounding errors of a step are about 100 units. 2²⁰ units
/// leave room for what eight steps, norms of small rows and the backward pass make of them, and are still far below the
/// effect of a wrong formula.
#[test]
fn every_recurrent_variant_agrees_in_f64() {
    const BOUND: f64 = (1u64 << 20) as f64 / (1u64 << 53) as f64;
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        // The gates are wide enough for the norms to be well conditioned.
        let mut config = Config::new(*variant, 6, 16).with_layers(2).with_direction(Direction::Both);
        if variant.name.starts_with("tflite") {
            config.projection = Some(5);
            config.variant.cell_clip = Some(0.9);
            config.variant.projection_clip = Some(0.8);
        }
        let network = Network::<f64>::new(config, Init::for_variant(variant), 11).unwrap();
        for (lengths, batch_first) in [(None, false), (Some(vec![8, 1, 5]), true)] {
            let difference = differences(&network, lengths.as_deref(), batch_first);
            let name = format!("{} {}, {lengths:?}", variant.kind.name(), variant.name);
            assert!(difference <= BOUND, "{name}: {difference:e} of {BOUND:e}");
        }
    }
}

/// The largest difference between fused and composed results and gradients, relative to the largest number of their
/// tensor.
fn differences(network: &Network<f64>, lengths: Option<&[usize]>, batch_first: bool) -> f64 {
    let (config, device, steps, batch) = (*network.config(), training(), 8, 3);
    let shape = |width| if batch_first { [batch, steps, width] } else { [steps, batch, width] };
    let module = Recurrent::from_network(network, batch_first, &device).unwrap();
    let cells = config.layers * config.directions();
    let width = config.output() * config.directions();
    let run = |fused: bool| {
        let x = leaf(&numbers(1, steps * batch * config.input), shape(config.input), &device);
        let h = leaf(&numbers(2, cells * batch * config.output()), [cells, batch, config.output()], &device);
        let c = config
            .has_cell()
            .then(|| leaf(&numbers(3, cells * batch * config.hidden), [cells, batch, config.hidden], &device));
        let initial = [Some(h), c];
        let (y, last) = match fused {
            true => module.forward(x.clone(), initial.clone(), lengths),
            false => fallback::recurrent(&module, x.clone(), initial.clone(), lengths),
        };
        let mut results = vec![values::<f64, 3>(&y)];
        let mut loss = (y * tensor(&numbers(4, steps * batch * width), shape(width), &device)).sum();
        for part in last.into_iter().flatten() {
            results.push(values(&part));
            loss = loss + part.square().sum();
        }
        let gradients = loss.backward();
        results.push(values(&x.grad(&gradients).unwrap()));
        for part in initial.into_iter().flatten() {
            results.push(values(&part.grad(&gradients).unwrap()));
        }
        for cell in &module.cells {
            results.push(values(&cell.input_weight.val().grad(&gradients).unwrap()));
            results.push(values(&cell.recurrent_weight.val().grad(&gradients).unwrap()));
            let vectors =
                [&cell.input_bias, &cell.recurrent_bias, &cell.bias, &cell.input_norm_gain, &cell.input_norm_bias];
            let more = [&cell.recurrent_norm_gain, &cell.recurrent_norm_bias, &cell.sum_norm_gain, &cell.sum_norm_bias];
            let rest = [&cell.cell_norm_gain, &cell.cell_norm_bias, &cell.projection_bias];
            for param in vectors.iter().chain(&more).chain(&rest).filter_map(|param| param.as_ref()) {
                results.push(values(&param.val().grad(&gradients).unwrap()));
            }
            for param in [&cell.peephole, &cell.projection].into_iter().flatten() {
                results.push(values(&param.val().grad(&gradients).unwrap()));
            }
        }
        results
    };
    let mut most = 0.0f64;
    for (one, other) in run(true).iter().zip(run(false)) {
        let largest = one.iter().fold(1e-3f64, |most, x| most.max(x.abs()));
        for (one, other) in one.iter().zip(other) {
            let difference = (one - other).abs() / largest;
            most = if difference > most || difference.is_nan() { difference } else { most };
        }
    }
    most
}

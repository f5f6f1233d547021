//! Rule 6 where squares vanish (ε = 0 or tiny) and where a constant row overflows: the bits of the contract on every path,
//! and those bits right by arithmetic of 106 bits.

mod common;

use common::rule_six::Line;
use common::{Random, assert_same_bits, contexts, name, reference, widen};
use layernorm::batch_norm::{self, BatchConfig};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::{Affine, BatchNorm, Context, Element, Float, Gradients, NormConfig, Param, Saved, View, ViewMut};
use layernorm::{bf16, layer_norm, rms_norm};
use layernorm_reference::norm as oracle;
use layernorm_reference::units::units;

/// ε as the arithmetic of f32 has it: 0, the smallest number, and those that people use.
const EPSILONS: [f64; 7] = [0.0, 1e-45, 1e-40, 1e-30, 1e-20, 1e-12, 1e-5];

/// How rows are found in `[N, C, S]` data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Layer,
    Rms,
    Groups(usize),
    Instance,
    Batch,
}

struct Case<T> {
    kind: Kind,
    sizes: [usize; 3],
    x: Vec<T>,
    dy: Vec<T>,
    /// One an element of a row for layer and RMS norm, else one a channel.
    gain: Vec<T>,
    eps: f64,
}

#[derive(Debug)]
struct Results<T: Element> {
    y: Vec<T>,
    dx: Vec<T>,
    dgain: Vec<T>,
    saved: Saved<T::Acc>,
}

impl<T: Element> Case<T> {
    fn lines(&self) -> usize {
        let [samples, channels, _] = self.sizes;
        match self.kind {
            Kind::Layer | Kind::Rms => samples,
            Kind::Groups(groups) => samples * groups,
            Kind::Instance => samples * channels,
            Kind::Batch => channels,
        }
    }

    /// Which elements a line has, in the order of its sums.
    fn elements(&self, line: usize) -> Vec<usize> {
        let [samples, channels, space] = self.sizes;
        let n = self.x.len() / self.lines();
        match self.kind {
            Kind::Batch => (0..samples * space).map(|p| (p / space * channels + line) * space + p % space).collect(),
            _ => (line * n..(line + 1) * n).collect(),
        }
    }

    /// Which γ an element has.
    fn parameter(&self, element: usize) -> usize {
        let [_, channels, space] = self.sizes;
        match self.kind {
            Kind::Layer | Kind::Rms => element % (channels * space),
            _ => element / space % channels,
        }
    }

    fn line<'a>(&self, x: &'a [T]) -> Line<'a, T> {
        Line { x, centered: self.kind != Kind::Rms, eps: self.eps, column: self.kind == Kind::Batch }
    }

    fn expected(&self) -> Results<T> {
        let gain = widen(&self.gain);
        let mut results = Results {
            y: self.x.clone(),
            dx: self.x.clone(),
            dgain: self.gain.clone(),
            saved: Saved::new(self.lines()),
        };
        let mut x_hats = vec![T::Acc::ZERO; self.x.len()];
        for line in 0..self.lines() {
            let at = self.elements(line);
            let pick = |data: &[T]| at.iter().map(|&i| data[i]).collect::<Vec<T>>();
            let (x, dy) = (pick(&self.x), pick(&self.dy));
            let gain: Vec<T::Acc> = at.iter().map(|&i| gain[self.parameter(i)]).collect();
            let forward = self.line(&x).forward();
            let (dx, x_hat) = self.line(&x).backward(&dy, &gain);
            for (j, &i) in at.iter().enumerate() {
                results.y[i] = T::narrow(forward.x_hat[j] * gain[j]);
                results.dx[i] = dx[j];
                x_hats[i] = x_hat[j];
            }
            results.saved.m[line] = forward.saved.m;
            results.saved.delta[line] = forward.saved.delta;
            results.saved.rstd[line] = forward.saved.r;
        }
        // Elements that a γ serves, in the order of rule 5.
        let mut served = vec![Vec::new(); self.gain.len()];
        (0..self.x.len()).for_each(|i| served[self.parameter(i)].push(i));
        for (at, dgain) in served.iter().zip(&mut results.dgain) {
            *dgain = T::narrow(reference::column_sum(at.len(), |p| (self.dy[at[p]].widen(), x_hats[at[p]])));
        }
        results
    }

    fn run(&self, cx: &mut Context) -> Results<T> {
        let [samples, channels, space] = self.sizes;
        let flat = [samples, channels * space];
        let shape: &[usize] = if matches!(self.kind, Kind::Layer | Kind::Rms) { &flat } else { &self.sizes };
        let mut results = Results {
            y: vec![T::default(); self.x.len()],
            dx: vec![T::default(); self.x.len()],
            dgain: vec![T::default(); self.gain.len()],
            saved: Saved::new(self.lines()),
        };
        let weight = Some(Param::Same(View::new(&self.gain, &[self.gain.len()]).unwrap()));
        let affine = Affine { weight, bias: None, zero_centered: false };
        let (x, dy) = (View::new(&self.x, shape).unwrap(), View::new(&self.dy, shape).unwrap());
        let count = [self.gain.len()];
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut results.dx, shape).unwrap()),
            weight: Some(ViewMut::new(&mut results.dgain, &count).unwrap().into()),
            bias: None,
        };
        let (y, saved) = (ViewMut::new(&mut results.y, shape).unwrap(), &mut results.saved);
        match self.kind {
            Kind::Layer | Kind::Rms => {
                let config = NormConfig::new().affine(affine).eps(self.eps);
                let layer = self.kind == Kind::Layer;
                let forward = if layer { layer_norm::forward } else { rms_norm::forward };
                let backward = if layer { layer_norm::backward } else { rms_norm::backward };
                forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
            }
            Kind::Groups(groups) => {
                let config = GroupConfig { groups, affine, eps: self.eps };
                group_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                group_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
            }
            Kind::Instance => {
                let config = InstanceConfig { affine, eps: self.eps };
                instance_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                instance_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
            }
            Kind::Batch => {
                let config = BatchConfig { affine, eps: self.eps };
                batch_norm::forward(x, y, saved.as_mut(), &config, cx).unwrap();
                batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
            }
        }
        results
    }

    /// Every path has the bits of the contract, which this gives.
    fn check_bits(&self) -> Results<T> {
        let expected = self.expected();
        for cx in &mut contexts() {
            let found = self.run(cx);
            let what = |of: &str| format!("{of}: {:?} {:?}, ε = {:e}, {}", self.kind, self.sizes, self.eps, name(cx));
            assert_same_bits(&found.saved.m, &expected.saved.m, || what("m"));
            assert_same_bits(&found.saved.delta, &expected.saved.delta, || what("δ"));
            assert_same_bits(&found.saved.rstd, &expected.saved.rstd, || what("r"));
            assert_same_bits(&found.y, &expected.y, || what("y"));
            assert_same_bits(&found.dx, &expected.dx, || what("dx"));
            assert_same_bits(&found.dgain, &expected.dgain, || what("dγ"));
        }
        expected
    }
}

/// Half a step of the smallest numbers there are.
const HALF_STEP: f64 = 1.0 / ((1u128 << 75) as f64 * (1u128 << 75) as f64);

/// Whether f32 arithmetic that may be off by `bound` can come to `found` where `expected` is right. What is beyond the range
/// is infinite.
fn near(found: f32, expected: f64, bound: f64) -> bool {
    let beyond = expected.abs() + bound >= f64::from(f32::MAX);
    (f64::from(found) - expected).abs() <= bound + HALF_STEP
        || (beyond && found.is_infinite() && f64::from(found) * expected > 0.0)
}

impl Case<f32> {
    /// y, r and dx are what the mathematics gives. The bound of y is [`oracle::bound`]; δ is known to half a step of the
    /// smallest numbers, which counts r times. That of dx is 64 roundings of its largest term, r·|g|·√n at the most: a term
    /// carries some ten roundings, the sums behind a and b some twenty.
    fn check_numbers(&self, results: &Results<f32>) {
        let (centered, eps) = (self.kind != Kind::Rms, f64::from(self.eps as f32));
        for line in 0..self.lines() {
            let at = self.elements(line);
            let pick = |data: &[f32]| at.iter().map(|&i| f64::from(data[i])).collect::<Vec<f64>>();
            let (x, dy) = (pick(&self.x), pick(&self.dy));
            let gain = |i: usize| f64::from(self.gain[self.parameter(at[i])]);
            let row = oracle::normalize(&x, centered, eps);
            let rstd = row.stat.rstd.to_f64();
            let what = |of: &str| {
                format!(
                    "{of} of line {line}: {:?} {:?}, ε = {eps:e}, {:?}",
                    self.kind,
                    self.sizes,
                    &x[..x.len().min(4)]
                )
            };
            if !rstd.is_finite() {
                assert!(at.iter().all(|&i| results.y[i].is_nan()), "{}: 0 · ∞", what("y"));
                continue;
            }
            assert!(
                near(results.saved.rstd[line], rstd, 16.0 * rstd * 2f64.powi(-24)),
                "{} {}",
                what("r"),
                results.saved.rstd[line]
            );
            let y = oracle::forward(&x, gain, |_| 0.0, centered, eps);
            let bounds = oracle::bound(&row.x_hat, gain, &y, 2f64.powi(-24));
            let dx = oracle::backward(&x, &dy, gain, centered, eps);
            let largest = dy.iter().enumerate().fold(0.0, |max: f64, (i, dy)| max.max((dy * gain(i)).abs()));
            let dx_bound = 64.0 * 2f64.powi(-24) * rstd * largest * (x.len() as f64).sqrt();
            for (j, &i) in at.iter().enumerate() {
                let steps = rstd.min(2f64.powi(32)) * HALF_STEP * (1.0 + gain(j).abs());
                let (found, bound) = (results.y[i], bounds[j] + steps);
                assert!(
                    near(found, y[j], bound),
                    "{}[{j}]: found {found:e}, expected {:e} ± {bound:e}",
                    what("y"),
                    y[j]
                );
                let (found, bound) = (results.dx[i], dx_bound + steps * largest);
                assert!(
                    near(found, dx[j], bound),
                    "{}[{j}]: found {found:e}, expected {:e} ± {bound:e}",
                    what("dx"),
                    dx[j]
                );
            }
        }
    }
}

/// Rows of all scales, some with a mean, some constant.
fn rows_of_all_scales<T: Element>(random: &mut Random, rows: usize, n: usize, lowest: i32, highest: i32) -> Vec<T> {
    let mut x = Vec::with_capacity(rows * n);
    for _ in 0..rows {
        let exponent = lowest + random.below((highest - lowest) as usize + 1) as i32;
        let (mean, spread) = (random.below(3) as f64, f64::from(u8::from(random.below(8) > 0)));
        let size = 2f64.powi(exponent);
        x.extend(random.map::<T>(n, |z| ((mean + spread * z.clamp(-3.9, 3.9)) * size).clamp(-3.3e38, 3.3e38)));
    }
    x
}

fn random_case(random: &mut Random, kind: Kind, sizes: [usize; 3], eps: f64) -> Case<f32> {
    let [samples, channels, space] = sizes;
    let count = samples * channels * space;
    let gains = if matches!(kind, Kind::Layer | Kind::Rms) { channels * space } else { channels };
    let mut case =
        Case { kind, sizes, x: vec![0.0; count], dy: random.normals(count), gain: random.normals(gains), eps };
    let lines = case.lines();
    let rows: Vec<f32> = rows_of_all_scales(random, lines, count / lines, -149, 127);
    for line in 0..lines {
        let at = case.elements(line);
        at.iter().zip(&rows[line * at.len()..]).for_each(|(&i, &x)| case.x[i] = x);
    }
    case
}

#[test]
fn rows_of_every_scale_with_every_epsilon() {
    let mut random = Random::new(1);
    for eps in EPSILONS {
        for n in [2, 3, 8, 33, 257, 1030] {
            for kind in [Kind::Layer, Kind::Rms] {
                let case = random_case(&mut random, kind, [if n > 100 { 9 } else { 70 }, n, 1], eps);
                case.check_numbers(&case.check_bits());
            }
        }
    }
}

#[test]
fn channels_of_every_scale_with_every_epsilon() {
    let mut random = Random::new(2);
    for eps in EPSILONS {
        for (kind, sizes) in [
            (Kind::Groups(2), [5, 6, 7]),
            (Kind::Groups(1), [3, 4, 300]),
            (Kind::Instance, [4, 5, 33]),
            (Kind::Batch, [70, 9, 1]),
            (Kind::Batch, [3, 9, 40]),
        ] {
            let case = random_case(&mut random, kind, sizes, eps);
            case.check_numbers(&case.check_bits());
        }
    }
}

#[test]
fn a_few_long_rows_shared_by_threads() {
    let mut random = Random::new(3);
    for eps in [0.0, 1e-30, 1e-20] {
        let case = random_case(&mut random, Kind::Layer, [5, 40_000, 1], eps);
        case.check_numbers(&case.check_bits());
    }
}

/// A row's bits without γ, times a power of two where that is exact, are the same: with ε = 0 its size does not count.
fn check_any_size<T: Element>(exponents: &[i32], random: &mut Random) {
    for n in [3, 100, 1500] {
        let row: Vec<T> = random.map(n, |z| 1.0 + z);
        let norm = |x: &[T], centered: bool| {
            let mut y = vec![T::default(); n];
            let forward = if centered { layer_norm::forward } else { rms_norm::forward };
            let to = ViewMut::new(&mut y, &[1, n]).unwrap();
            forward(View::new(x, &[1, n]).unwrap(), to, None, &NormConfig::new().eps(0.0), &mut Context::new())
                .unwrap();
            y
        };
        for &exponent in exponents {
            let scaled: Vec<T> = row.iter().map(|x| T::narrow(x.widen().scale(exponent))).collect();
            for centered in [true, false] {
                assert_same_bits(&norm(&scaled, centered), &norm(&row, centered), || {
                    format!("{} · 2^{exponent}", T::NAME)
                });
            }
        }
    }
}

#[test]
fn without_epsilon_the_size_of_a_row_does_not_count() {
    let mut random = Random::new(4);
    check_any_size::<f32>(&[-100, -80, -64, -40, -33, -32, -31, 40, 62, 90, 120], &mut random);
    check_any_size::<bf16>(&[-100, -64, -33, 62, 120], &mut random);
    check_any_size::<f64>(&[-960, -700, -512, -257, -256, -255, 300, 511, 900, 1000], &mut random);
}

/// y of rows of one shape.
fn layer(x: &[f32], n: usize, eps: f64) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    let shape = [x.len() / n, n];
    let to = ViewMut::new(&mut y, &shape).unwrap();
    layer_norm::forward(View::new(x, &shape).unwrap(), to, None, &NormConfig::new().eps(eps), &mut Context::new())
        .unwrap();
    y
}

#[test]
fn the_rows_that_were_reported() {
    for (x, eps) in [
        (vec![1e-25f32, 2e-25, 4e-25], 0.0),
        (vec![1e-45, 3e-45, 7e-45, 0.0], 0.0),
        (vec![1e-40, -3e-41, 7e-40], 0.0),
        (vec![1e-45, 2e-44, -3e-45], 1e-20),
        (vec![1e-30, 2e-30, 5e-30], 1e-60),
    ] {
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let expected = oracle::forward(&wide, |_| 1.0, |_| 0.0, true, f64::from(eps as f32));
        let found = layer(&x, x.len(), eps);
        assert!(units(&found, &expected) <= 4.0, "{x:?}, ε = {eps:e}: found {found:?}, expected {expected:?}");
    }
    let y = layer(&[1e-45, 2e-44, -3e-45], 3, 1e-20);
    assert!(y[1] > 1e-35 && y[1] < 1e-33, "ε is what counts here: {y:?}");
}

/// A constant row that overflows gives β, r is 1/sqrt(ε), and dx = r·(g − mean(g)).
fn check_constant<T: Element>(size: f64, n: usize) {
    let mut random = Random::new(n as u64);
    let (r, bias): (f64, Vec<T>) = (1.0 / T::Acc::from_f64(1e-5).to_f64().sqrt(), random.normals(n));
    let dy: Vec<T> = random.normals(2 * n);
    let x: Vec<T> = (0..2 * n).map(|i| T::narrow(T::Acc::from_f64(if i < n { size } else { -size }))).collect();
    let affine =
        Affine { weight: None, bias: Some(Param::Same(View::new(&bias, &[n]).unwrap())), zero_centered: false };
    let config = NormConfig::new().affine(affine);
    let mut first: Option<[Vec<T>; 3]> = None;
    for cx in &mut contexts() {
        let what = |of: &str| format!("{of} of {n} times {size:e} in {} on {}", T::NAME, name(cx));
        let labels = ["y", "m", "r", "dx", "dγ", "bits"].map(what);
        let (mut y, mut dx, mut dgain) = (vec![T::default(); 2 * n], vec![T::default(); 2 * n], vec![T::default(); n]);
        let mut saved = Saved::new(2);
        let view = View::new(&x, &[2, n]).unwrap();
        layer_norm::forward(view, ViewMut::new(&mut y, &[2, n]).unwrap(), Some(saved.as_mut()), &config, cx).unwrap();
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &[2, n]).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &[n]).unwrap().into()),
            bias: None,
        };
        let dy_view = View::new(&dy, &[2, n]).unwrap();
        layer_norm::backward(view, dy_view, saved.as_ref(), gradients, &config, cx).unwrap();
        assert_same_bits(&y, &[bias.clone(), bias.clone()].concat(), || labels[0].clone());
        assert_same_bits(&saved.mean(), &[x[0].widen(), x[n].widen()], || labels[1].clone());
        assert_same_bits(&saved.rstd, &[T::Acc::ONE / T::Acc::from_f64(1e-5).sqrt(); 2], || labels[2].clone());
        for row in 0..2 {
            let g: Vec<f64> = dy[row * n..(row + 1) * n].iter().map(|dy| dy.widen().to_f64()).collect();
            let mean = g.iter().sum::<f64>() / n as f64;
            let unit = f64::from(f32::EPSILON) + if size_of::<T>() == 2 { 2f64.powi(-8) } else { 0.0 };
            for (i, g) in g.iter().enumerate() {
                let (found, expected) = (dx[row * n + i].widen().to_f64(), r * (g - mean));
                assert!(
                    (found - expected).abs() <= r * unit * 20.0,
                    "{}: found {found}, expected {expected}",
                    labels[3]
                );
            }
        }
        assert!(dgain.iter().all(|dgain| dgain.widen() == T::Acc::ZERO), "{}", labels[4]);
        let results = [y, dx, dgain];
        match &first {
            None => first = Some(results),
            Some(first) => first.iter().zip(&results).for_each(|(a, b)| assert_same_bits(b, a, || labels[5].clone())),
        }
    }
}

#[test]
fn constant_rows_that_overflow_give_the_bias() {
    for n in [4, 5, 7, 64, 100, 1000, 1025, 3001, 5000] {
        check_constant::<f32>(1e38, n);
        check_constant::<f32>(f64::from(f32::MAX), n);
        check_constant::<bf16>(1e38, n);
        check_constant::<f64>(1e308, n);
    }
    check_constant::<f32>(1e38, 50_000);
}

#[test]
fn a_constant_channel_that_overflows_has_no_variance() {
    for cx in &mut contexts() {
        let mut case = random_case(&mut Random::new(5), Kind::Batch, [50, 3, 2], 1e-5);
        case.elements(1).iter().for_each(|&i| case.x[i] = -2e38);
        let found = case.run(cx);
        assert!(case.elements(1).iter().all(|&i| found.y[i] == 0.0), "y on {}", name(cx));
        assert_eq!(found.saved.rstd[1], 1.0 / 1e-5f32.sqrt(), "r on {}", name(cx));
    }
    let mut layer = BatchNorm::<f32>::new(1);
    layer.momentum = Some(1.0);
    layer.forward_train(&[3e38; 100], &[100, 1]).unwrap();
    assert_eq!((layer.running_mean[0], layer.running_var[0]), (3e38, 0.0));
}

#[test]
fn constant_rows_without_epsilon_are_not_numbers() {
    for x in [[2.0f32; 6], [1e38; 6], [0.1; 6], [1e-30; 6], [0.0; 6]] {
        assert!(layer(&x, 6, 0.0).iter().all(|y| y.is_nan()), "{x:?}");
    }
    for x in [[2.0f32; 6], [1e38; 6], [0.1; 6], [1e-30; 6], [0.0; 6]] {
        assert_eq!(layer(&x, 6, 1e-30), [0.0; 6], "{x:?}");
    }
}

#[test]
fn an_epsilon_beside_the_root_of_a_small_row() {
    use layernorm::parts::{Line as Rows, MachineIsa, RawLayerNorm, StatRows};
    let mut random = Random::new(6);
    for (scale, eps) in [(1e-30, 1e-35f32), (1e-30, 1e-28), (1e-42, 1e-20), (1e-20, 1e-11), (1e-35, 0.0), (1e-20, 1e-5)]
    {
        let n = 50;
        let (x, dy): (Vec<f32>, Vec<f32>) = (random.map(n, |z| z * scale), random.normals(n));
        let (gain, bias) = (vec![1.0f32; n], vec![-0.0f32; n]);
        let (mut y, mut dx, mut stats) = (vec![0.0f32; n], vec![0.0f32; n], [0.0f32; 3]);
        let norm = RawLayerNorm { n, eps: 0.0, eps_outside: eps, gain: gain.as_ptr(), bias: bias.as_ptr() };
        let (isa, at) = (MachineIsa::detect().unwrap(), stats.as_mut_ptr());
        let rows = StatRows { m: at, delta: at.wrapping_add(1), r: at.wrapping_add(2) };
        let line = |data: &[f32]| Rows { ptr: data.as_ptr(), stride: n };
        // SAFETY: one row of n elements each.
        unsafe {
            norm.forward(isa, line(&x), Rows { ptr: y.as_mut_ptr(), stride: n }, rows, 1);
            norm.backward(isa, line(&x), line(&dy), Rows { ptr: dx.as_mut_ptr(), stride: n }, rows, 1);
        }
        let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        let m = mean(&|i| f64::from(x[i]));
        let d = |i: usize| f64::from(x[i]) - m;
        let root = mean(&|i| d(i) * d(i)).sqrt();
        let r = 1.0 / (root + f64::from(eps));
        let a = mean(&|i| f64::from(dy[i]));
        let b = mean(&|i| f64::from(dy[i]) * d(i)) * r / root;
        for i in 0..n {
            let what = format!("scale {scale:e}, ε {eps:e}, element {i}");
            assert!(near(y[i], d(i) * r, 4e-6 * root * r), "y, {what}: {} {}", y[i], d(i) * r);
            let expected = r * (f64::from(dy[i]) - a - d(i) * b);
            assert!(near(dx[i], expected, 3e-5 * r), "dx, {what}: {} {expected}", dx[i]);
        }
    }
}

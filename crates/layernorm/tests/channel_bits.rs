//! Group, instance, batch and weight norm against the contract word for word, in every layout and on every path.

mod common;

use common::reference::{self, Stat};
use common::{Random, assert_same_bits, contexts, name, widen};
use layernorm::batch_norm::{self, BatchConfig, Moments};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, Context, Element, Float, Gradients, Param, Saved, View, ViewMut, bf16};

/// `[N, C, S]` data with one γ and β a channel.
struct Case<T> {
    sizes: [usize; 3],
    x: Vec<T>,
    dy: Vec<T>,
    gain: Option<Vec<T>>,
    bias: Option<Vec<T>>,
}

impl<T: Element> Case<T> {
    fn new(random: &mut Random, sizes: [usize; 3]) -> Self {
        let count = sizes.iter().product();
        let parameters = random.below(4);
        Case {
            sizes,
            x: random.map(count, |z| 3.0 + z),
            dy: random.normals(count),
            gain: (parameters & 1 == 1).then(|| random.normals(sizes[1])),
            bias: (parameters & 2 == 2).then(|| random.normals(sizes[1])),
        }
    }

    fn affine(&self) -> Affine<'_, T> {
        let view = |data| Param::Same(View::new(data, &self.sizes[1..2]).unwrap());
        Affine { weight: self.gain.as_deref().map(view), bias: self.bias.as_deref().map(view), zero_centered: false }
    }

    fn at(&self, n: usize, c: usize, s: usize) -> usize {
        (n * self.sizes[1] + c) * self.sizes[2] + s
    }

    /// γ or β of a channel, `absent` if there is none.
    fn parameter(values: &Option<Vec<T>>, c: usize, absent: T::Acc) -> T::Acc {
        values.as_ref().map_or(absent, |values| values[c].widen())
    }

    /// y of an element from its x̂.
    fn output(&self, x_hat: T::Acc, c: usize) -> T {
        let gain = Self::parameter(&self.gain, c, T::Acc::ONE);
        T::narrow(match &self.bias {
            Some(bias) => x_hat.fma(gain, bias[c].widen()),
            None => x_hat * gain,
        })
    }
}

/// Results in `[N, C, S]` order.
struct Results<T> {
    y: Vec<T>,
    dx: Vec<T>,
    dgain: Vec<T>,
    dbias: Vec<T>,
}

fn expected_groups<T: Element>(case: &Case<T>, groups: usize, eps: f64) -> Results<T> {
    let [samples, channels, space] = case.sizes;
    let n = channels / groups * space;
    let rows = |data: &[T]| data.chunks(n).map(<[T]>::to_vec).collect::<Vec<_>>();
    let (x, dy) = (rows(&case.x), rows(&case.dy));
    let stats: Vec<Stat<T::Acc>> =
        x.iter().map(|row| reference::stat(&widen(row), true, T::Acc::from_f64(eps))).collect();
    let spread = |values: &Option<Vec<T>>, row: usize| {
        values.as_ref().map(|values| {
            (0..n).map(|i| values[row % groups * (channels / groups) + i / space].widen()).collect::<Vec<_>>()
        })
    };
    let per_row = |f: &dyn Fn(usize) -> Vec<T>| (0..samples * groups).flat_map(f).collect::<Vec<T>>();
    let y = per_row(&|row| {
        let (gain, bias) = (spread(&case.gain, row), spread(&case.bias, row));
        reference::forward(&x[row], stats[row], gain.as_deref(), bias.as_deref())
    });
    let dx =
        per_row(&|row| reference::backward(&x[row], &dy[row], stats[row], spread(&case.gain, row).as_deref(), true));
    let channel = |c: usize, gain: bool| {
        T::narrow(reference::column_sum(samples * space, |p| {
            let i = case.at(p / space, c, p % space);
            let stat = stats[p / space * groups + c / (channels / groups)];
            let x_hat = reference::x_hat(case.x[i].widen(), stat);
            (case.dy[i].widen(), if gain { x_hat } else { T::Acc::ONE })
        }))
    };
    Results {
        y,
        dx,
        dgain: (0..channels).map(|c| channel(c, true)).collect(),
        dbias: (0..channels).map(|c| channel(c, false)).collect(),
    }
}

fn expected_batch<T: Element>(case: &Case<T>, eps: f64, fixed: Option<&Moments<T::Acc>>) -> Results<T> {
    let [samples, channels, space] = case.sizes;
    let count = samples * space;
    let divisor = T::Acc::from_count(count);
    let mut results = Results { y: case.x.clone(), dx: case.x.clone(), dgain: Vec::new(), dbias: Vec::new() };
    for c in 0..channels {
        let at = |p: usize| case.at(p / space, c, p % space);
        let x = |p: usize| case.x[at(p)].widen();
        let dy = |p: usize| case.dy[at(p)].widen();
        let one = T::Acc::ONE;
        let stat = match fixed {
            Some(moments) => Stat {
                m: moments.mean[c],
                delta: T::Acc::ZERO,
                r: one / (moments.var[c] + T::Acc::from_f64(eps)).sqrt(),
            },
            None => {
                let m = reference::column_sum(count, |p| (x(p), one)) / divisor;
                let delta = reference::column_sum(count, |p| (x(p) - m, one)) / divisor;
                let v = (-delta).fma(delta, reference::column_sum(count, |p| (x(p) - m, x(p) - m)) / divisor);
                let v = if v < T::Acc::ZERO { T::Acc::ZERO } else { v };
                Stat { m, delta, r: one / (v + T::Acc::from_f64(eps)).sqrt() }
            }
        };
        let x_hat = |p: usize| reference::x_hat(x(p), stat);
        let gain = Case::<T>::parameter(&case.gain, c, one);
        let a = reference::column_sum(count, |p| (dy(p) * gain, one)) / divisor;
        let b = reference::column_sum(count, |p| (dy(p) * gain, x_hat(p))) / divisor;
        for p in 0..count {
            results.y[at(p)] = case.output(x_hat(p), c);
            let g = dy(p) * gain;
            let inner = if fixed.is_some() { g } else { (-x_hat(p)).fma(b, g - a) };
            results.dx[at(p)] = T::narrow(stat.r * inner);
        }
        results.dgain.push(T::narrow(reference::column_sum(count, |p| (dy(p), x_hat(p)))));
        results.dbias.push(T::narrow(reference::column_sum(count, |p| (dy(p), one))));
    }
    results
}

/// The memory layouts `[N, C, S]` data can have: as it is, channels last, all reversed.
const LAYOUTS: [&str; 3] = ["channels first", "channels last", "reversed"];

fn strides(layout: &str, [samples, channels, space]: [usize; 3]) -> ([isize; 3], usize) {
    let (c, s) = (channels as isize, space as isize);
    match layout {
        "channels first" => ([c * s, s, 1], 0),
        "channels last" => ([c * s, 1, c], 0),
        _ => ([-c * s, -s, -1], samples * channels * space - 1),
    }
}

/// Moves data between `[N, C, S]` order and a layout's memory.
fn arrange<T: Element>(data: &[T], layout: &str, sizes: [usize; 3], back: bool) -> Vec<T> {
    let (strides, offset) = strides(layout, sizes);
    let mut moved = data.to_vec();
    let [_, channels, space] = sizes;
    for i in 0..data.len() {
        let index = [i / (channels * space), i / space % channels, i % space];
        let to = offset as isize + index.iter().zip(strides).map(|(&i, s)| i as isize * s).sum::<isize>();
        if back {
            moved[i] = data[to as usize];
        } else {
            moved[to as usize] = data[i];
        }
    }
    moved
}

/// Runs forward and backward in a layout and gives the results in `[N, C, S]` order.
fn run<T: Element>(
    case: &Case<T>,
    layout: &str,
    op: impl FnOnce(View<T>, ViewMut<T>, View<T>, Gradients<T>),
) -> Results<T> {
    let (strides, offset) = strides(layout, case.sizes);
    let (x, dy) = (arrange(&case.x, layout, case.sizes, false), arrange(&case.dy, layout, case.sizes, false));
    let (mut y, mut dx) = (vec![T::default(); x.len()], vec![T::default(); x.len()]);
    let (mut dgain, mut dbias) = (vec![T::default(); case.sizes[1]], vec![T::default(); case.sizes[1]]);
    op(
        View::strided(&x, &case.sizes, &strides, offset).unwrap(),
        ViewMut::strided(&mut y, &case.sizes, &strides, offset).unwrap(),
        View::strided(&dy, &case.sizes, &strides, offset).unwrap(),
        Gradients {
            input: Some(ViewMut::strided(&mut dx, &case.sizes, &strides, offset).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &case.sizes[1..2]).unwrap().into()),
            bias: Some(ViewMut::new(&mut dbias, &case.sizes[1..2]).unwrap().into()),
        },
    );
    let back = |data: &[T]| arrange(data, layout, case.sizes, true);
    Results { y: back(&y), dx: back(&dx), dgain, dbias }
}

fn compare<T: Element>(found: &Results<T>, expected: &Results<T>, what: &str) {
    assert_same_bits(&found.y, &expected.y, || format!("{what}: y"));
    assert_same_bits(&found.dx, &expected.dx, || format!("{what}: dx"));
    assert_same_bits(&found.dgain, &expected.dgain, || format!("{what}: dγ"));
    assert_same_bits(&found.dbias, &expected.dbias, || format!("{what}: dβ"));
}

const SIZES: &[([usize; 3], usize)] = &[
    ([2, 6, 20], 3),
    ([3, 8, 1], 4),
    ([2, 4, 7], 1),
    ([5, 6, 33], 6),
    ([70, 5, 3], 5),
    ([9, 40, 64], 2),
    ([1, 3, 1500], 1),
    ([130, 24, 9], 8),
];

fn groups_have_the_bits<T: Element>(seed: u64) {
    let mut random = Random::new(seed);
    for &(sizes, groups) in SIZES {
        let case = Case::<T>::new(&mut random, sizes);
        let expected = expected_groups(&case, groups, 1e-5);
        for cx in &mut contexts() {
            for layout in LAYOUTS {
                let found = run(&case, layout, |x, y, dy, gradients| {
                    let mut saved = Saved::new(sizes[0] * groups);
                    if groups == sizes[1] {
                        let config = InstanceConfig { affine: case.affine(), eps: 1e-5 };
                        instance_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                        instance_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
                    } else {
                        let config = GroupConfig { groups, affine: case.affine(), eps: 1e-5 };
                        group_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                        group_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
                    }
                });
                compare(&found, &expected, &format!("{sizes:?} in {groups} groups, {layout}, {}", name(cx)));
            }
        }
    }
}

#[test]
fn group_and_instance_norm_have_the_contracts_bits() {
    groups_have_the_bits::<f32>(1);
    groups_have_the_bits::<f64>(2);
    groups_have_the_bits::<bf16>(3);
}

fn batches_have_the_bits<T: Element>(seed: u64) {
    let mut random = Random::new(seed);
    for &(sizes, _) in SIZES {
        let case = Case::<T>::new(&mut random, sizes);
        let (expected, config) = (expected_batch(&case, 1e-3, None), BatchConfig { affine: case.affine(), eps: 1e-3 });
        let mean: Vec<T::Acc> = random.normals(sizes[1]);
        let var: Vec<T::Acc> = random.map(sizes[1], |z| z * z);
        let moments = Moments { mean: &mean, var: &var };
        let expected_fixed = expected_batch(&case, 1e-3, Some(&moments));
        for cx in &mut contexts() {
            for layout in LAYOUTS {
                let what = format!("{sizes:?}, {layout}, {}", name(cx));
                let found = run(&case, layout, |x, y, dy, gradients| {
                    let mut saved = Saved::new(sizes[1]);
                    batch_norm::forward(x, y, saved.as_mut(), &config, cx).unwrap();
                    batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
                });
                compare(&found, &expected, &format!("training {what}"));
                let found = run(&case, layout, |x, y, dy, gradients| {
                    batch_norm::infer(x, y, moments, &config, cx).unwrap();
                    batch_norm::infer_backward(x, dy, moments, gradients, &config, cx).unwrap();
                });
                compare(&found, &expected_fixed, &format!("inference {what}"));
            }
        }
    }
}

#[test]
fn batch_norm_has_the_contracts_bits() {
    batches_have_the_bits::<f32>(4);
    batches_have_the_bits::<f64>(5);
    batches_have_the_bits::<bf16>(6);
}

#[test]
fn weight_norm_has_the_contracts_bits() {
    let mut random = Random::new(7);
    for (rows, n) in [(1, 1), (3, 5), (4, 300), (7, 1025), (100, 64)] {
        let (v, dw): (Vec<f32>, Vec<f32>) = (random.normals(rows * n), random.normals(rows * n));
        let g: Vec<f32> = random.normals(rows);
        for cx in &mut contexts() {
            for transposed in [false, true] {
                check_weight(&v, &g, &dw, [rows, n], transposed, cx);
            }
        }
    }
}

fn check_weight(v: &[f32], g: &[f32], dw: &[f32], [rows, n]: [usize; 2], transposed: bool, cx: &mut Context) {
    let (shape, strides, axis) =
        if transposed { ([n, rows], [1, n as isize], 1) } else { ([rows, n], [n as isize, 1], 0) };
    let (mut w, mut dv, mut dg) = (vec![0.0; v.len()], vec![0.0; v.len()], vec![0.0; rows]);
    let mut saved = Saved::new(rows);
    let view = |data| View::strided(data, &shape, &strides, 0).unwrap();
    let lengths = View::new(g, &[rows]).unwrap();
    let to = ViewMut::strided(&mut w, &shape, &strides, 0).unwrap();
    weight_norm::forward(view(v), lengths, to, Some(saved.as_mut()), Some(axis), cx).unwrap();
    let gradients = WeightGradients {
        v: Some(ViewMut::strided(&mut dv, &shape, &strides, 0).unwrap()),
        g: Some(ViewMut::new(&mut dg, &[rows]).unwrap()),
    };
    weight_norm::backward(view(v), lengths, view(dw), saved.as_ref(), gradients, Some(axis), cx).unwrap();
    for row in 0..rows {
        let (v, dw) = (&v[row * n..(row + 1) * n], &dw[row * n..(row + 1) * n]);
        let r = 1.0 / reference::sum(n, |i| (v[i], v[i])).sqrt();
        let b = reference::sum(n, |i| (dw[i] * g[row], v[i] * r));
        let what = |of: &str| format!("{of} of row {row}, {rows}×{n}, {}", name(cx));
        let expected_w: Vec<f32> = v.iter().map(|v| v * r * g[row]).collect();
        let expected_dv: Vec<f32> = (0..n).map(|i| r * (-(v[i] * r)).mul_add(b, dw[i] * g[row])).collect();
        assert_same_bits(&w[row * n..(row + 1) * n], &expected_w, || what("w"));
        assert_same_bits(&dv[row * n..(row + 1) * n], &expected_dv, || what("dv"));
        assert_same_bits(&dg[row..=row], &[reference::sum(n, |i| (dw[i], v[i] * r))], || what("dg"));
    }
}

//! What holds for every tensor: any shape, any strides, any axes, any type, any options and numbers of any size, on any
//! instruction set and number of threads. The cases are drawn at random, and a failure is made small.
//!
//! - A tensor of any layout gives the bits of its contiguous copy, and nothing beside its elements is read or written.
//! - Forward is within the derived bound of what the mathematics gives.
//! - Finite numbers give no NaN, forward or backward; a constant row gives β.

mod channels;
#[path = "../common/mod.rs"]
mod common;
mod tensors;

use channels::*;
use common::{Random, assert_same_bits};
use layernorm::{Affine, Axes, Context, Element, Float, Gradients, NormConfig, Saved};
use layernorm::{View, ViewMut, bf16, f16, layer_norm, rms_norm};
use layernorm_reference::norm as oracle;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;
use tensors::*;

/// The options of a call and the numbers in it, for all operations.
#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    /// Whether each axis belongs to the row.
    in_row: Vec<bool>,
    /// Whether axes are named from the back.
    from_the_back: bool,
    centered: bool,
    weight: Kind,
    bias: Kind,
    zero_centered: bool,
    eps: f64,
    layouts: Vec<Layout>,
    x: Numbers,
    dy: Numbers,
    gain: Numbers,
    isa: Index,
    threads: usize,
    seed: u64,
}

fn cases(
    shapes: impl Strategy<Value = Vec<usize>>,
    epsilons: &'static [f64],
    numbers: BoxedStrategy<Numbers>,
    gains: BoxedStrategy<Numbers>,
) -> impl Strategy<Value = Case> {
    let options = (vec(any::<bool>(), 8), any::<bool>(), any::<bool>(), kind(), kind(), any::<bool>());
    let data = (numbers.clone(), numbers, gains, select(epsilons));
    let run = (any::<Index>(), 1..4usize, any::<u64>());
    (shapes, options, vec(layout(), 6), data, run).prop_map(|(shape, options, layouts, data, run)| {
        let (in_row, from_the_back, centered, weight, bias, zero_centered) = options;
        let ((x, dy, gain, eps), (isa, threads, seed)) = (data, run);
        let in_row = in_row[..shape.len()].to_vec();
        #[rustfmt::skip]
        return Case {
            shape, in_row, from_the_back, centered, weight, bias, zero_centered, eps, layouts, x, dy, gain, isa, threads, seed,
        };
    })
}

/// The numbers of a case, in row-major order.
struct Data<T> {
    x: Vec<T>,
    dy: Vec<T>,
    weight: Vec<T>,
    bias: Vec<T>,
}

/// What a call gives, in row-major order.
struct Results<T: Element> {
    y: Vec<T>,
    dx: Vec<T>,
    dweight: Vec<f64>,
    dbias: Vec<f64>,
    saved: Saved<T::Acc>,
    /// Means and variances, of batch norm.
    running: Vec<T::Acc>,
}

impl<T: Element> Results<T> {
    fn assert_same(&self, expected: &Self, what: &str) {
        assert_same_bits(&self.y, &expected.y, || format!("y, {what}"));
        assert_same_bits(&self.dx, &expected.dx, || format!("dx, {what}"));
        assert_same_bits(&self.dweight, &expected.dweight, || format!("dγ, {what}"));
        assert_same_bits(&self.dbias, &expected.dbias, || format!("dβ, {what}"));
        assert_same_bits(&self.saved.m, &expected.saved.m, || format!("m, {what}"));
        assert_same_bits(&self.saved.delta, &expected.saved.delta, || format!("δ, {what}"));
        assert_same_bits(&self.saved.rstd, &expected.saved.rstd, || format!("r, {what}"));
        assert_same_bits(&self.running, &expected.running, || format!("running statistics, {what}"));
    }

    fn assert_numbers(&self, what: &str) {
        assert!(!self.y.iter().any(|&y| is_nan(y)), "y has a NaN, {what}");
        assert!(!self.dx.iter().any(|&dx| is_nan(dx)), "dx has a NaN, {what}");
        assert!(!self.dweight.iter().any(|&x| is_nan(x)), "dγ has a NaN, {what}");
        assert!(!self.dbias.iter().any(|&x| is_nan(x)), "dβ has a NaN, {what}");
        let Saved { m, delta, rstd } = &self.saved;
        assert!(!m.iter().chain(delta).chain(rstd).any(|&x| is_nan(x)), "a statistic is NaN, {what}");
        assert!(!self.running.iter().any(|&x| is_nan(x)), "a running statistic is NaN, {what}");
    }
}

/// A call: its tensors, whichever operation runs on them.
struct Tensors<T: Element> {
    x: Tensor<T>,
    dy: Tensor<T>,
    y: Tensor<T>,
    dx: Tensor<T>,
    weight: Parameter<T>,
    bias: Parameter<T>,
    dweight: Parameter<T>,
    dbias: Parameter<T>,
    saved: Saved<T::Acc>,
    running: Vec<T::Acc>,
}

impl<T: Element> Tensors<T> {
    fn new(
        case: &Case,
        data: &Data<T>,
        shape: &[usize],
        parameters: &[usize],
        rows: usize,
        layouts: &[Layout],
    ) -> Self {
        let random = &mut Random::new(case.seed);
        Tensors {
            x: Tensor::of(&data.x, shape, layouts[0], random),
            dy: Tensor::of(&data.dy, shape, layouts[1], random),
            y: Tensor::new(shape, layouts[2], random),
            dx: Tensor::new(shape, layouts[3], random),
            weight: Parameter::of(case.weight, &data.weight, parameters, layouts[4], random),
            bias: Parameter::of(case.bias, &data.bias, parameters, layouts[5], random),
            dweight: Parameter::new(case.weight, parameters, layouts[5], random),
            dbias: Parameter::new(case.bias, parameters, layouts[4], random),
            saved: Saved::new(rows),
            running: Vec::new(),
        }
    }

    fn results(self) -> Results<T> {
        Results {
            y: self.y.elements(),
            dx: self.dx.elements(),
            dweight: self.dweight.elements(),
            dbias: self.dbias.elements(),
            saved: self.saved,
            running: self.running,
        }
    }
}

/// Where backward writes, without borrowing what it reads.
macro_rules! gradients {
    ($tensors:expr) => {
        Gradients {
            input: Some($tensors.dx.view_mut()),
            weight: $tensors.dweight.view_mut(),
            bias: $tensors.dbias.view_mut(),
        }
    };
}
use gradients;

impl Case {
    fn row_shape(&self) -> Vec<usize> {
        self.axes().filter(|&axis| self.in_row[axis]).map(|axis| self.shape[axis]).collect()
    }

    fn axes(&self) -> std::ops::Range<usize> {
        0..self.shape.len()
    }

    fn data<T: Element>(&self, parameters: usize) -> Data<T> {
        let random = &mut Random::new(!self.seed);
        let count = self.shape.iter().product();
        Data {
            x: self.x.draw(count, random),
            dy: self.dy.draw(count, random),
            weight: self.gain.draw(parameters, random),
            bias: self.gain.draw(parameters, random),
        }
    }

    /// Layer norm, or RMS norm if not centred, forward and backward.
    fn norm<T: Element>(&self, mut t: Tensors<T>, axes: Axes, cx: &mut Context) -> Results<T> {
        let forward = if self.centered { layer_norm::forward } else { rms_norm::forward };
        let backward = if self.centered { layer_norm::backward } else { rms_norm::backward };
        let affine = Affine { weight: t.weight.view(), bias: t.bias.view(), zero_centered: self.zero_centered };
        let config = NormConfig::new().axes(axes).affine(affine).eps(self.eps);
        forward(t.x.view(), t.y.view_mut(), Some(t.saved.as_mut()), &config, cx).unwrap();
        let gradients = gradients!(t);
        backward(t.x.view(), t.dy.view(), t.saved.as_ref(), gradients, &config, cx).unwrap();
        t.results()
    }

    /// The row's axes by name.
    fn named(&self) -> Vec<isize> {
        let back = if self.from_the_back { self.shape.len() as isize } else { 0 };
        let named = self.axes().filter(|&axis| self.in_row[axis]).map(|axis| axis as isize - back);
        let mut named: Vec<isize> = named.collect();
        if self.seed.is_multiple_of(2) {
            named.reverse();
        }
        named
    }

    /// As the case has it.
    fn as_it_is<T: Element>(&self, data: &Data<T>) -> Results<T> {
        let rows = self.axes().filter(|&axis| !self.in_row[axis]).map(|axis| self.shape[axis]).product();
        let tensors = Tensors::new(self, data, &self.shape, &self.row_shape(), rows, &self.layouts);
        self.norm(tensors, Axes::These(&self.named()), &mut context(self.isa, self.threads))
    }

    /// From a contiguous copy whose last axes are those of the row, in the plainest way; brought back in order.
    fn of_copy<T: Element>(&self, data: &Data<T>) -> Results<T> {
        let order: Vec<usize> = self.axes().filter(|&axis| !self.in_row[axis]).collect();
        let rows = order.iter().map(|&axis| self.shape[axis]).product();
        let order: Vec<usize> = order.into_iter().chain(self.axes().filter(|&axis| self.in_row[axis])).collect();
        let moved: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        // For each element of the copy, its number in the tensor.
        let number = |i: usize| {
            let index = index(i, &moved);
            self.axes().fold(0, |number, axis| {
                let at = order.iter().position(|&moved| moved == axis).unwrap();
                number * self.shape[axis] + index[at]
            })
        };
        let numbers: Vec<usize> = (0..data.x.len()).map(number).collect();
        let copy = |values: &[T]| numbers.iter().map(|&number| values[number]).collect();
        let copied =
            Data { x: copy(&data.x), dy: copy(&data.dy), weight: data.weight.clone(), bias: data.bias.clone() };
        let row_shape = self.row_shape();
        let tensors = Tensors::new(self, &copied, &moved, &row_shape, rows, &[Layout::Contiguous; 6]);
        let mut results = self.norm(tensors, Axes::Last(row_shape.len()), &mut scalar());
        let back = |values: &[T]| {
            let mut back = values.to_vec();
            numbers.iter().zip(values).for_each(|(&number, &value)| back[number] = value);
            back
        };
        (results.y, results.dx) = (back(&results.y), back(&results.dx));
        results
    }
}

/// A tensor of any layout gives the bits of its contiguous copy.
fn layouts_change_nothing<T: Element>(case: &Case) {
    let data = case.data::<T>(case.row_shape().iter().product());
    case.as_it_is(&data).assert_same(&case.of_copy(&data), T::NAME);
}

/// Finite numbers of any size give no NaN.
fn numbers_stay_numbers<T: Element>(case: &Case) {
    let data = case.data::<T>(case.row_shape().iter().product());
    // A row without elements has no mean.
    if !data.x.is_empty() {
        case.as_it_is(&data).assert_numbers(T::NAME);
    }
}

/// A constant row of any size gives β.
fn constant_rows_give_the_bias<T: Element>(case: &Case) {
    let mut data = case.data::<T>(case.row_shape().iter().product());
    if let Some(&first) = data.x.first() {
        data.x.fill(first);
    }
    let case = Case { bias: Kind::Same, centered: true, ..case.clone() };
    let (results, row_shape) = (case.as_it_is(&data), case.row_shape());
    for (i, &y) in results.y.iter().enumerate() {
        let index = index(i, &case.shape);
        let in_row = case.axes().filter(|&axis| case.in_row[axis]);
        let at = in_row.zip(&row_shape).fold(0, |at, (axis, &dim)| at * dim + index[axis]);
        assert!(y == data.bias[at], "{} element {i}: found {y:?}, expected {:?}", T::NAME, data.bias[at]);
    }
}

/// Roundings of a type: the unit roundoff and the smallest number.
fn rounding<T: Element>() -> (f64, f64) {
    match T::NAME {
        "f16" => (2f64.powi(-11), 2f64.powi(-24)),
        "bf16" => (2f64.powi(-8), 2f64.powi(-133)),
        "f32" => (2f64.powi(-24), 2f64.powi(-149)),
        _ => (2f64.powi(-53), f64::from_bits(1)),
    }
}

/// Forward is within the bound of `oracle::bound`, with what it leaves out: the rounding to the element type, and numbers so
/// small that roundings are no longer relative (one smallest number each for d, m, δ, the product with r, and y).
fn forward_is_accurate<T: Element>(case: &Case) {
    // One row shape for all: the last axis, moved there already.
    let n = case.shape.last().copied().unwrap_or(1);
    let axes = if case.shape.is_empty() { 0 } else { 1 };
    let data = case.data::<T>(n);
    if data.x.is_empty() {
        return;
    }
    let row_shape = &case.shape[case.shape.len() - axes..];
    let tensors = Tensors::new(case, &data, &case.shape, row_shape, data.x.len() / n, &case.layouts);
    let wide = |parameter: &Parameter<T>, absent: f64| {
        let values = parameter.elements();
        if values.is_empty() { vec![absent; n] } else { values }
    };
    let (mut gain, bias) = (wide(&tensors.weight, 1.0), wide(&tensors.bias, 0.0));
    if case.zero_centered && case.weight != Kind::Absent {
        // 1 + γ is rounded once to the arithmetic type.
        gain.iter_mut().for_each(|gain| *gain = (T::Acc::ONE + T::Acc::from_f64(*gain)).to_f64());
    }
    let results = case.norm(tensors, Axes::Last(axes), &mut context(case.isa, case.threads));
    let eps = T::Acc::from_f64(case.eps).to_f64();
    let ((u, least), (u_type, least_of_type)) = (rounding::<T::Acc>(), rounding::<T>());
    for (row, (x, y)) in data.x.chunks(n).zip(results.y.chunks(n)).enumerate() {
        let x: Vec<f64> = x.iter().map(|x| x.widen().to_f64()).collect();
        let normalized = oracle::normalize(&x, case.centered, eps);
        let expected = oracle::forward(&x, |i| gain[i], |i| bias[i], case.centered, eps);
        let bounds = oracle::bound(&normalized.x_hat, |i| gain[i], &expected, u);
        for i in 0..n {
            let found = y[i].widen().to_f64();
            let small = least * (1.0 + gain[i].abs() * (1.0 + 4.0 * normalized.stat.rstd.to_f64()));
            let bound = bounds[i] + small + (u_type * expected[i].abs()).max(least_of_type / 2.0);
            let beyond = expected[i].abs() + bound >= largest::<T>();
            let error = (found - expected[i]).abs();
            assert!(
                error <= bound || (beyond && found.abs() >= largest::<T>() * (1.0 - 2.0 * u_type)),
                "{} row {row} of {n}, element {i}: found {found:e}, expected {:e}, off by {:.1} of the bound",
                T::NAME,
                expected[i],
                error / bound,
            );
        }
    }
}

/// Rows that vary by less than the rounding of their mean. δ is larger than σ there, so that two terms of the derivation are
/// larger than `oracle::bound` has them: v = sum(d·d)/N − δ² cancels, and its s + 6 roundings are relative to v + δ²; and the
/// s + 2 roundings of δ are relative to |δ|, too. (In such a row x itself says little: σ is a part of its last place.)
#[test]
fn nearly_constant_rows() {
    let random = &mut Random::new(1);
    let (u, cx) = (rounding::<f32>().0, &mut Context::new());
    for round in 0..3000 {
        let n = 2 + random.below(if round % 10 == 0 { 6000 } else { 300 });
        let base = 10f64.powf(random.uniform() * 8.0 - 2.0) as f32;
        let mut x = vec![base; n];
        x[random.below(n)] = base.next_up();
        x[random.below(n)] = f32::from_bits(base.to_bits() + random.below(5) as u32);
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        if wide.iter().all(|&x| x == wide[0]) {
            continue;
        }
        let (mut y, mut saved, config) = (vec![0.0; n], Saved::new(1), NormConfig::new().eps(0.0));
        let (from, to) = (View::new(&x, &[n]).unwrap(), ViewMut::new(&mut y, &[n]).unwrap());
        layer_norm::forward(from, to, Some(saved.as_mut()), &config, cx).unwrap();
        let row = oracle::normalize(&wide, true, 0.0);
        let expected = oracle::forward(&wide, |_| 1.0, |_| 0.0, true, 0.0);
        let bounds = oracle::bound(&row.x_hat, |_| 1.0, &expected, u);
        let (s, delta) =
            (12.0 + (n.div_ceil(1024) as f64).log2().ceil(), f64::from(saved.delta[0]) * row.stat.rstd.to_f64());
        for i in 0..n {
            let more = u * (expected[i].abs() * (s + 6.0) / 2.0 * delta * delta + (s + 2.0) * delta.abs());
            let error = (f64::from(y[i]) - expected[i]).abs();
            assert!(error <= bounds[i] + more, "row of {n}, base {base}, element {i}: off by {error:e}");
        }
    }
}

/// The ε for which every row has an answer, and those for which only a row that varies has.
const POSITIVE: &[f64] = &[1e-5, 1e-3, 1e-12, 1.0];
const ANY: &[f64] = &[1e-5, 0.0, 1e-3, 1e-12, 1.0, 1e30];

fn config(cases: u32) -> ProptestConfig {
    // The same cases every time, so that a run says something about the change and not about luck; fuzzing looks for others.
    // PROPTEST_RNG_SEED asks for other cases.
    let mut config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config
}

macro_rules! properties {
    ($($module:ident: $t:ty),*) => {$(
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(config(200))]

                #[test]
                fn layout(case in cases(shapes(0..=8), ANY, moderate::<$t>(), moderate::<$t>())) {
                    layouts_change_nothing::<$t>(&case);
                }

                #[test]
                fn numbers(case in cases(shapes(0..=8), POSITIVE, any_size::<$t>(), any_size::<$t>())) {
                    numbers_stay_numbers::<$t>(&case);
                    layouts_change_nothing::<$t>(&case);
                }

                #[test]
                fn constants(case in cases(shapes(0..=8), POSITIVE, any_size::<$t>(), moderate::<$t>())) {
                    constant_rows_give_the_bias::<$t>(&case);
                }

                #[test]
                fn accuracy(case in cases(shapes(0..=8), POSITIVE, moderate::<$t>(), moderate::<$t>())) {
                    forward_is_accurate::<$t>(&case);
                }

                #[test]
                fn channel_layout(
                    case in cases(shapes(2..=8), ANY, moderate::<$t>(), moderate::<$t>()),
                    op in select(vec![ChannelOp::Group, ChannelOp::Instance, ChannelOp::Batch, ChannelOp::Infer]),
                ) {
                    channel_layouts_change_nothing::<$t>(&case, op);
                }

                #[test]
                fn channel_numbers(
                    case in cases(shapes(2..=8), POSITIVE, any_size::<$t>(), any_size::<$t>()),
                    op in select(vec![ChannelOp::Group, ChannelOp::Instance, ChannelOp::Batch]),
                ) {
                    channel_numbers_stay_numbers::<$t>(&case, op);
                    channel_layouts_change_nothing::<$t>(&case, op);
                }

                #[test]
                fn weight(case in cases(shapes(0..=8), POSITIVE, any_size::<$t>(), any_size::<$t>())) {
                    weight_numbers_stay_numbers::<$t>(&case);
                    weight_layouts_change_nothing::<$t>(&case);
                }
            }
        }
    )*};
}

properties!(of_f32: f32, of_f64: f64, of_f16: f16, of_bf16: bf16);

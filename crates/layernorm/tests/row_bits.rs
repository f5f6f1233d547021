//! Layer norm and RMS norm, forward and backward, against the contract word for word: every path gives its bits.

mod common;

use common::reference::{self, Stat};
use common::{Random, assert_same_bits, contexts, name, widen};
use layernorm::{Affine, Axes, Context, Element, Float, Gradients, NormConfig, Param, Saved, View, ViewMut};
use layernorm::{bf16, f16, layer_norm, rms_norm};

/// Lengths around every boundary of lanes, vectors, blocks and groups.
const LENGTHS: &[usize] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513,
    767, 768, 769, 1000, 1023, 1024, 1025, 1280, 1300, 2047, 2048, 2049, 3073, 4097, 5000,
];

struct Case<T: Element> {
    rows: usize,
    n: usize,
    x: Vec<T>,
    dy: Vec<T>,
    gain: Option<Vec<T>>,
    bias: Option<Vec<T>>,
    centered: bool,
    eps: f64,
}

struct Expected<T: Element> {
    y: Vec<T>,
    dx: Vec<T>,
    stats: Vec<Stat<T::Acc>>,
    dgain: Vec<T::Acc>,
    dbias: Vec<T::Acc>,
}

impl<T: Element> Case<T> {
    fn new(random: &mut Random, rows: usize, n: usize) -> Self {
        let parameters = random.below(4);
        let (mean, scale) = (random.normal() * 100.0, 1.0 + random.uniform());
        Case {
            rows,
            n,
            x: random.map(rows * n, |z| mean + scale * z),
            dy: random.normals(rows * n),
            gain: (parameters & 1 == 1).then(|| random.normals(n)),
            bias: (parameters & 2 == 2).then(|| random.normals(n)),
            centered: random.below(3) > 0,
            eps: [0.0, 1e-5, 0.1][random.below(3)],
        }
    }

    fn expected(&self) -> Expected<T> {
        let (gain, bias) = (self.gain.as_deref().map(widen), self.bias.as_deref().map(widen));
        let (gain, bias) = (gain.as_deref(), bias.as_deref());
        let row = |i: usize| &self.x[i * self.n..(i + 1) * self.n];
        let dy = |i: usize| &self.dy[i * self.n..(i + 1) * self.n];
        let eps = T::Acc::from_f64(self.eps);
        let stats: Vec<_> = (0..self.rows).map(|i| reference::stat(&widen(row(i)), self.centered, eps)).collect();
        let column = |i: usize, row: usize| self.x[row * self.n + i].widen();
        let dcolumn = |i: usize, row: usize| self.dy[row * self.n + i].widen();
        Expected {
            y: (0..self.rows).flat_map(|i| reference::forward(row(i), stats[i], gain, bias)).collect(),
            dx: (0..self.rows)
                .flat_map(|i| reference::backward(row(i), dy(i), stats[i], gain, self.centered))
                .collect(),
            dgain: (0..self.n)
                .map(|i| {
                    let x_hat = |row| reference::x_hat(column(i, row), stats[row]);
                    reference::column_sum(self.rows, |row| (dcolumn(i, row), x_hat(row)))
                })
                .collect(),
            dbias: (0..self.n)
                .map(|i| reference::column_sum(self.rows, |row| (dcolumn(i, row), T::Acc::ONE)))
                .collect(),
            stats,
        }
    }

    /// y, dx, dγ and dβ, without γ and β.
    fn run(&self, cx: &mut Context) -> [Vec<T>; 4] {
        let shape = [self.rows, self.n];
        let [mut y, mut dx] = [(); 2].map(|()| vec![T::default(); self.x.len()]);
        let [mut dgain, mut dbias] = [(); 2].map(|()| vec![T::default(); self.n]);
        let (mut saved, config) = (Saved::new(self.rows), NormConfig::new());
        let x = View::new(&self.x, &shape).unwrap();
        layer_norm::forward(x, ViewMut::new(&mut y, &shape).unwrap(), Some(saved.as_mut()), &config, cx).unwrap();
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &shape).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &[self.n]).unwrap().into()),
            bias: Some(ViewMut::new(&mut dbias, &[self.n]).unwrap().into()),
        };
        let dy = View::new(&self.dy, &shape).unwrap();
        layer_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
        [y, dx, dgain, dbias]
    }

    fn check(&self, expected: &Expected<T>, cx: &mut Context) {
        let what =
            |of: &str| format!("{of}, {}×{} {} centered {} on {}", self.rows, self.n, T::NAME, self.centered, name(cx));
        let shape = [self.rows, self.n];
        let view = |data| View::new(data, &[self.n]).unwrap();
        let affine = Affine {
            weight: self.gain.as_deref().map(|gain| Param::Same(view(gain))),
            bias: self.bias.as_deref().map(|bias| Param::Same(view(bias))),
            zero_centered: false,
        };
        let config = NormConfig::new().affine(affine).eps(self.eps);
        let (mut y, mut dx) = (vec![T::default(); self.x.len()], vec![T::default(); self.x.len()]);
        let (mut dgain, mut dbias) = (vec![T::default(); self.n], vec![T::default(); self.n]);
        let mut saved = Saved::new(self.rows);
        let x = View::new(&self.x, &shape).unwrap();
        let forward = if self.centered { layer_norm::forward } else { rms_norm::forward };
        let backward = if self.centered { layer_norm::backward } else { rms_norm::backward };
        let labels = ["m", "δ", "r", "y", "dx", "dγ", "dβ", "in place"].map(what);
        forward(x, ViewMut::new(&mut y, &shape).unwrap(), Some(saved.as_mut()), &config, cx).unwrap();
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &shape).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &[self.n]).unwrap().into()),
            bias: Some(ViewMut::new(&mut dbias, &[self.n]).unwrap().into()),
        };
        backward(x, View::new(&self.dy, &shape).unwrap(), saved.as_ref(), gradients, &config, cx).unwrap();
        let stats = |f: fn(&Stat<T::Acc>) -> T::Acc| expected.stats.iter().map(f).collect::<Vec<_>>();
        assert_same_bits(&saved.m, &stats(|s| s.m), || labels[0].clone());
        assert_same_bits(&saved.delta, &stats(|s| s.delta), || labels[1].clone());
        assert_same_bits(&saved.rstd, &stats(|s| s.r), || labels[2].clone());
        assert_same_bits(&y, &expected.y, || labels[3].clone());
        assert_same_bits(&dx, &expected.dx, || labels[4].clone());
        let narrow = |sums: &[T::Acc]| sums.iter().map(|&sum| T::narrow(sum)).collect::<Vec<T>>();
        assert_same_bits(&dgain, &narrow(&expected.dgain), || labels[5].clone());
        assert_same_bits(&dbias, &narrow(&expected.dbias), || labels[6].clone());
        let mut inout = self.x.clone();
        let in_place = if self.centered { layer_norm::forward_in_place } else { rms_norm::forward_in_place };
        in_place(ViewMut::new(&mut inout, &shape).unwrap(), None, &config, cx).unwrap();
        assert_same_bits(&inout, &expected.y, || labels[7].clone());
    }
}

fn every_length<T: Element>(seed: u64) {
    let mut random = Random::new(seed);
    let mut contexts = contexts();
    for &n in LENGTHS {
        for rows in [1, 1 + random.below(40)] {
            let case = Case::<T>::new(&mut random, rows, n);
            let expected = case.expected();
            contexts.iter_mut().for_each(|cx| case.check(&expected, cx));
        }
    }
    // Many rows: chunks, trees of chunks, several threads.
    for (rows, n) in [(63, 5), (64, 5), (65, 5), (128, 17), (200, 300), (1000, 33), (4097, 9), (70, 1500)] {
        let case = Case::<T>::new(&mut random, rows, n);
        let expected = case.expected();
        contexts.iter_mut().for_each(|cx| case.check(&expected, cx));
    }
}

/// Few and long rows, which the threads share.
#[test]
fn shared_rows_have_the_contracts_bits() {
    let mut random = Random::new(7);
    for (rows, n) in [(3, 50_000), (70, 49_153), (1, 70_000)] {
        let mut case = Case::<f32>::new(&mut random, rows, n);
        if rows == 3 {
            // Rule 6 in the middle row.
            case.x[n..2 * n].iter_mut().for_each(|x| *x *= 1e35);
        }
        let mut contexts = contexts();
        if rows == 3 {
            // The reference does not know rule 6: hold the paths against each other.
            let results: Vec<_> = contexts.iter_mut().map(|cx| case.run(cx)).collect();
            for found in &results[1..] {
                for (found, first) in found.iter().zip(&results[0]) {
                    assert_same_bits(found, first, || format!("{rows}×{n}"));
                }
            }
            assert!(results[0].iter().flatten().all(|x| x.is_finite()));
        } else {
            let expected = case.expected();
            contexts.iter_mut().for_each(|cx| case.check(&expected, cx));
        }
    }
}

#[test]
fn f32_has_the_contracts_bits() {
    every_length::<f32>(1);
}

#[test]
fn f64_has_the_contracts_bits() {
    every_length::<f64>(2);
}

#[test]
fn f16_has_the_contracts_bits() {
    every_length::<f16>(3);
}

#[test]
fn bf16_has_the_contracts_bits() {
    every_length::<bf16>(4);
}

#[test]
fn every_alignment_gives_the_same_bits() {
    let mut random = Random::new(5);
    let n = 333;
    let x: Vec<f32> = random.normals(20 * n + 16);
    for cx in &mut contexts() {
        let mut first: Option<Vec<f32>> = None;
        for shift in 0..16 {
            let mut input = vec![0.0; shift];
            input.extend_from_slice(&x[..20 * n]);
            let mut output = vec![0.0f32; 20 * n + 32];
            let to = (shift * 7) % 16;
            layer_norm::forward(
                View::new(&input[shift..], &[20, n]).unwrap(),
                ViewMut::new(&mut output[to..to + 20 * n], &[20, n]).unwrap(),
                None,
                &NormConfig::new(),
                cx,
            )
            .unwrap();
            let y = output[to..to + 20 * n].to_vec();
            match &first {
                None => first = Some(y),
                Some(first) => assert_same_bits(&y, first, || format!("shift {shift}")),
            }
            assert!(output[..to].iter().chain(&output[to + 20 * n..]).all(|&x| x == 0.0), "wrote outside");
        }
    }
}

#[test]
fn axes_and_strides_give_the_bits_of_the_contiguous_copy() {
    let mut random = Random::new(6);
    let (shape, strides) = ([3usize, 5, 4, 6], [120isize, 24, 6, 1]);
    let x: Vec<f32> = random.normals(360);
    let axis_sets: &[&[isize]] = &[&[1], &[0], &[1, 3], &[-1, -2], &[0, 2], &[0, 1, 2, 3], &[2, 1], &[]];
    for cx in &mut contexts() {
        for axes in axis_sets {
            let in_row = |axis: usize| axes.iter().any(|&a| a == axis as isize || a + 4 == axis as isize);
            // The same data with the row's axes moved to the end.
            let order: Vec<usize> = (0..4).filter(|&a| !in_row(a)).chain((0..4).filter(|&a| in_row(a))).collect();
            let moved: Vec<usize> = order.iter().map(|&a| shape[a]).collect();
            let moved_strides: Vec<isize> = order.iter().map(|&a| strides[a]).collect();
            let mut copy = Vec::new();
            each(&moved, |index| {
                let at: isize = index.iter().zip(&moved_strides).map(|(&i, &s)| i as isize * s).sum();
                copy.push(x[at as usize]);
            });
            let gain: Vec<f32> = random.normals(order.iter().filter(|&&a| in_row(a)).map(|&a| shape[a]).product());
            let row_shape: Vec<usize> = (0..4).filter(|&a| in_row(a)).map(|a| shape[a]).collect();
            let weight = Some(Param::Same(View::new(&gain, &row_shape).unwrap()));
            let affine = Affine { weight, bias: None, zero_centered: true };
            let mut y = vec![0.0; 360];
            let config = NormConfig::new().axes(Axes::These(axes)).affine(affine);
            layer_norm::forward(
                View::new(&x, &shape).unwrap(),
                ViewMut::new(&mut y, &shape).unwrap(),
                None,
                &config,
                cx,
            )
            .unwrap();
            let mut y_moved = vec![0.0; 360];
            layer_norm::forward(
                View::new(&copy, &moved).unwrap(),
                ViewMut::new(&mut y_moved, &moved).unwrap(),
                None,
                &NormConfig::new().axes(Axes::Last(row_shape.len())).affine(affine),
                cx,
            )
            .unwrap();
            let mut expected = vec![0.0; 360];
            let mut i = 0;
            each(&moved, |index| {
                let at: isize = index.iter().zip(&moved_strides).map(|(&i, &s)| i as isize * s).sum();
                expected[at as usize] = y_moved[i];
                i += 1;
            });
            assert_same_bits(&y, &expected, || format!("axes {axes:?} {}", name(cx)));
        }
    }
}

fn each(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let count: usize = shape.iter().product();
    for mut i in 0..count {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = i % shape[axis];
            i /= shape[axis];
        }
        visit(&index);
    }
}

//! Every operation at small sizes, on views of every kind, alone and on threads: the same bits each time. Quick enough for Miri,
//! which runs this file (`.ci/miri`) and sees every access.

use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{
    Affine, Axes, Context, Element, Gradients, Isa, NormConfig, Saved, View, ViewMut, bf16, f16, layer_norm, rms_norm,
};

mod common;
use common::{Random, assert_same_bits};

/// Small, and no multiple of any vector's length.
const ROWS: usize = 67;
const N: usize = if cfg!(miri) { 9 } else { 19 };

fn contexts() -> Vec<Context> {
    let context = |isa, threads| Context::new().with_isa(isa).unwrap().with_threads(threads).unwrap();
    let threads = if cfg!(miri) { &[3][..] } else { &[1, 3] };
    Isa::available().into_iter().flat_map(|isa| threads.iter().map(move |&threads| context(isa, threads))).collect()
}

/// What all others are held against.
fn alone() -> Context {
    Context::new().with_isa(Isa::Scalar).unwrap().with_threads(1).unwrap()
}

/// How a tensor `[rows, n]` lies in memory.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Plain,
    /// Columns next to each other, so that rows have to be packed.
    Columns,
    /// From the back, with gaps.
    Backward,
}

const MEMORIES: [Memory; 3] = [Memory::Plain, Memory::Columns, Memory::Backward];

impl Memory {
    fn strides(self, rows: usize, n: usize) -> ([isize; 2], usize, usize) {
        let wide = n + 2;
        match self {
            Memory::Plain => ([n as isize, 1], 0, rows * n),
            Memory::Columns => ([1, rows as isize], 0, rows * n),
            Memory::Backward => ([-(wide as isize), -1], rows * wide - 1, rows * wide),
        }
    }

    fn scatter<T: Element>(self, rows: usize, n: usize, values: &[T]) -> Vec<T> {
        let ([row, column], start, len) = self.strides(rows, n);
        let mut memory = vec![T::default(); len];
        for (i, &value) in values.iter().enumerate() {
            memory[(start as isize + (i / n) as isize * row + (i % n) as isize * column) as usize] = value;
        }
        memory
    }

    fn gather<T: Element>(self, rows: usize, n: usize, memory: &[T]) -> Vec<T> {
        let ([row, column], start, _) = self.strides(rows, n);
        let at = |i: usize| start as isize + (i / n) as isize * row + (i % n) as isize * column;
        (0..rows * n).map(|i| memory[at(i) as usize]).collect()
    }

    fn view<T>(self, rows: usize, n: usize, memory: &[T]) -> View<'_, T> {
        let (strides, start, _) = self.strides(rows, n);
        View::strided(memory, &[rows, n], &strides, start).unwrap()
    }

    fn view_mut<T>(self, rows: usize, n: usize, memory: &mut [T]) -> ViewMut<'_, T> {
        let (strides, start, _) = self.strides(rows, n);
        ViewMut::strided(memory, &[rows, n], &strides, start).unwrap()
    }
}

/// Layer norm with a residual, or RMS norm, there and back: h, y, dx, dγ, dβ.
fn rows<T: Element>(centered: bool, x: &[T], gain: &[T], memory: Memory, cx: &mut Context) -> [Vec<T>; 5] {
    let (rows, n) = (ROWS, N);
    let (from, residual) = (memory.scatter(rows, n, x), x.iter().rev().copied().collect::<Vec<T>>());
    let (mut h, mut y, mut dx) = (from.clone(), from.clone(), from.clone());
    let (mut dgain, mut dbias, mut saved) = (gain.to_vec(), gain.to_vec(), Saved::new(rows));
    let parameter = || View::new(gain, &[n]).unwrap();
    let config = NormConfig::new().axes(Axes::These(&[-1])).affine(Affine::new(parameter(), parameter()));
    let input = memory.view(rows, n, &from);
    let to = memory.view_mut(rows, n, &mut y);
    let stats = Some(saved.as_mut());
    if centered {
        let residual = View::new(&residual, &[rows, n]).unwrap();
        let h_to = memory.view_mut(rows, n, &mut h);
        layer_norm::forward_residual(input, residual, h_to, to, stats, &config, cx).unwrap();
    } else {
        rms_norm::forward(input, to, stats, &config, cx).unwrap();
    }
    let gradients = Gradients {
        input: Some(memory.view_mut(rows, n, &mut dx)),
        weight: Some(ViewMut::new(&mut dgain, &[n]).unwrap().into()),
        bias: Some(ViewMut::new(&mut dbias, &[n]).unwrap().into()),
    };
    let (before, dy) = (memory.view(rows, n, &h), memory.view(rows, n, &y));
    if centered {
        layer_norm::backward_residual(before, dy, Some(dy), saved.as_ref(), gradients, &config, cx).unwrap();
    } else {
        rms_norm::backward(input, dy, saved.as_ref(), gradients, &config, cx).unwrap();
    }
    let [h, y, dx] = [h, y, dx].map(|each| memory.gather(rows, n, &each));
    [h, y, dx, dgain, dbias]
}

fn same_rows<T: Element>() {
    let mut random = Random::new(3);
    let (mut x, gain) = (random.normals::<T>(ROWS * N), random.normals::<T>(N));
    // Miri sees f32 in full, and of the others what differs: loads and stores.
    for centered in [true, false].into_iter().take(if cfg!(miri) && T::NAME != "f32" { 1 } else { 2 }) {
        let expected = rows(centered, &x, &gain, Memory::Plain, &mut alone());
        // Miri has little time: rows that are packed, and for f32 all.
        let memories = if cfg!(miri) && T::NAME != "f32" { &MEMORIES[1..2] } else { &MEMORIES };
        for &memory in memories {
            for cx in &mut contexts() {
                let found = rows(centered, &x, &gain, memory, cx);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_same_bits(found, expected, || format!("{}, {memory:?}, {cx:?}", T::NAME));
                }
            }
        }
        // The second time with a row whose squares overflow.
        x[2 * N..3 * N].iter_mut().for_each(|x| *x = T::narrow(x.widen() * T::Acc::from_f64(1e30)));
    }
}

use layernorm::Float;

#[test]
fn rows_of_f32() {
    same_rows::<f32>();
}

#[test]
fn rows_of_f64() {
    same_rows::<f64>();
}

#[test]
fn rows_of_halves() {
    same_rows::<bf16>();
    if !cfg!(miri) {
        same_rows::<f16>();
    }
}

/// Few and long rows, which the threads share.
#[test]
fn long_rows() {
    let (rows, n) = (2, if cfg!(miri) { 800 } else { 40_000 });
    let x: Vec<f32> = Random::new(4).normals(rows * n);
    let run = |cx: &mut Context| {
        let (mut y, mut dx, mut dgain, mut saved) = (x.clone(), x.clone(), x[..n].to_vec(), Saved::new(rows));
        let (view, config) = (|data| View::new(data, &[rows, n]).unwrap(), NormConfig::new());
        let to = ViewMut::new(&mut y, &[rows, n]).unwrap();
        layer_norm::forward(view(&x), to, Some(saved.as_mut()), &config, cx).unwrap();
        let input = Some(ViewMut::new(&mut dx, &[rows, n]).unwrap());
        let weight = Some(ViewMut::new(&mut dgain, &[n]).unwrap().into());
        let gradients = Gradients { input, weight, bias: None };
        layer_norm::backward(view(&x), view(&y), saved.as_ref(), gradients, &config, cx).unwrap();
        [y, dx, dgain]
    };
    let expected = run(&mut alone());
    for cx in &mut contexts() {
        for (found, expected) in run(cx).iter().zip(&expected) {
            assert_same_bits(found, expected, || format!("{cx:?}"));
        }
    }
}

/// Group and batch norm of `[5, 6, 7]`, there and back, plain and with the channels last.
#[test]
fn channels() {
    let (shape, count) = ([5, 6, 7], 5 * 6 * 7);
    let x: Vec<f32> = Random::new(5).normals(count);
    let last: Vec<f32> = (0..count).map(|i| x[i / 42 * 42 + i % 6 * 7 + i / 6 % 7]).collect();
    let gain: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let affine = || Affine::new(View::new(&gain, &[6]).unwrap(), View::new(&gain, &[6]).unwrap());
    let run = |x: &[f32], strides: [isize; 3], cx: &mut Context| {
        let view = || View::strided(x, &shape, &strides, 0).unwrap();
        let mut found = Vec::new();
        let [mut y, mut dx] = [x.to_vec(), x.to_vec()];
        let (mut dgain, mut saved) = (gain.clone(), Saved::new(5 * 2));
        let config = GroupConfig { affine: affine(), ..GroupConfig::new(2) };
        let to = ViewMut::strided(&mut y, &shape, &strides, 0).unwrap();
        group_norm::forward(view(), to, Some(saved.as_mut()), &config, cx).unwrap();
        let input = Some(ViewMut::strided(&mut dx, &shape, &strides, 0).unwrap());
        let gradients = Gradients { input, weight: Some(ViewMut::new(&mut dgain, &[6]).unwrap().into()), bias: None };
        group_norm::backward(view(), view(), saved.as_ref(), gradients, &config, cx).unwrap();
        found.push((y.clone(), dx.clone(), dgain.clone()));

        let config = BatchConfig { affine: affine(), ..BatchConfig::default() };
        let (mut mean, mut var, mut saved) = (vec![0f32; 6], vec![1f32; 6], Saved::new(6));
        let (momentum, variance) = (Momentum::Exponential(0.1), RunningVariance::Unbiased);
        let running = Running { mean: &mut mean, var: &mut var, momentum, variance };
        let to = ViewMut::strided(&mut y, &shape, &strides, 0).unwrap();
        batch_norm::forward_running(view(), to, saved.as_mut(), running, &config, cx).unwrap();
        let input = Some(ViewMut::strided(&mut dx, &shape, &strides, 0).unwrap());
        let gradients = Gradients { input, weight: Some(ViewMut::new(&mut dgain, &[6]).unwrap().into()), bias: None };
        batch_norm::backward(view(), view(), saved.as_ref(), gradients, &config, cx).unwrap();
        found.push((y.clone(), dx, dgain));
        let to = ViewMut::strided(&mut y, &shape, &strides, 0).unwrap();
        batch_norm::infer(view(), to, Moments { mean: &mean, var: &var }, &config, cx).unwrap();
        found.push((y, mean, var));
        found
    };
    let expected = run(&x, [42, 7, 1], &mut alone());
    // The same numbers in the other order.
    let plain = |values: &[f32]| -> Vec<f32> {
        if values.len() == count {
            (0..count).map(|i| values[i / 42 * 42 + i % 7 * 6 + i / 7 % 6]).collect()
        } else {
            values.to_vec()
        }
    };
    for cx in &mut contexts() {
        let found = run(&x, [42, 7, 1], cx);
        let found_last = run(&last, [42, 1, 6], cx);
        for ((found, last), expected) in found.iter().zip(&found_last).zip(&expected) {
            let pairs =
                [(&found.0, &last.0, &expected.0), (&found.1, &last.1, &expected.1), (&found.2, &last.2, &expected.2)];
            for (found, last, expected) in pairs {
                assert_same_bits(found, expected, || format!("{cx:?}"));
                assert_same_bits(&plain(last), expected, || format!("channels last, {cx:?}"));
            }
        }
    }
}

#[test]
fn weights() {
    let (v, g): (Vec<f32>, Vec<f32>) = (Random::new(6).normals(ROWS * N), Random::new(7).normals(ROWS));
    let run = |memory: Memory, cx: &mut Context| {
        let from = memory.scatter(ROWS, N, &v);
        let (mut w, mut dv, mut dg, mut saved) = (from.clone(), from.clone(), g.clone(), Saved::new(ROWS));
        let (view, g) = (memory.view(ROWS, N, &from), View::new(&g, &[ROWS]).unwrap());
        let to = memory.view_mut(ROWS, N, &mut w);
        weight_norm::forward(view, g, to, Some(saved.as_mut()), Some(0), cx).unwrap();
        let gradients = WeightGradients {
            v: Some(memory.view_mut(ROWS, N, &mut dv)),
            g: Some(ViewMut::new(&mut dg, &[ROWS]).unwrap()),
        };
        weight_norm::backward(view, g, view, saved.as_ref(), gradients, Some(0), cx).unwrap();
        [memory.gather(ROWS, N, &w), memory.gather(ROWS, N, &dv), dg]
    };
    let expected = run(Memory::Plain, &mut alone());
    for memory in MEMORIES {
        for cx in &mut contexts() {
            for (found, expected) in run(memory, cx).iter().zip(&expected) {
                assert_same_bits(found, expected, || format!("{memory:?}, {cx:?}"));
            }
        }
    }
}

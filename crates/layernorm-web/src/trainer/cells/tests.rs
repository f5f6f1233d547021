//! The cells against layernorm-rnn's, and against loops over the definition.

use super::*;
use layernorm::parts::SplitMix64;
use layernorm_rnn::{Gradients, Output, Runner, Sequences, State, Training};

const STEPS: usize = 4;
const INPUTS: usize = 3;
const HIDDEN: usize = 5;

fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| 4.0 * random.uniform() - 2.0).collect()
}

/// Cells whose γ and β are not all the same.
fn cells(norm: NormKind) -> Cells<f64> {
    let mut cells = Cells::<f64>::new(norm, [STEPS, INPUTS, HIDDEN], 1.0, 3).unwrap();
    let shift = numbers(9, cells.params.values().len());
    cells.params.values_mut().iter_mut().zip(shift).for_each(|(parameter, shift)| *parameter += 0.1 * shift);
    cells
}

/// About a hundred roundings of f64, each of relative size 10⁻¹⁶, and divisions by standard deviations, which enlarge
/// them by less than a hundred times for these numbers.
fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{what}, {at}: {found} and {expected}");
    }
}

#[test]
fn none_and_layer_norm_are_cells_of_layernorm_rnn() {
    for norm in [NormKind::None, NormKind::Layer] {
        let mut cells = cells(norm);
        let (batch, x) = (6, numbers(1, 6 * STEPS * INPUTS));
        let config = Config::new(variant(norm).unwrap(), INPUTS, HIDDEN);
        let network = Network::from_params(config, cells.params.clone()).unwrap();
        let mut runner = Runner::<f64>::new(Context::new().with_threads(1).unwrap());
        let sequences = Sequences::new(&x, STEPS, batch).batch_first();
        let Output { state, .. } = runner.train(&network, &sequences, None, Training::default()).unwrap();
        assert_close(cells.infer(&x).unwrap(), &state.h, &format!("{norm:?}, inference"));
        assert_close(cells.train(&x).unwrap(), &state.h, &format!("{norm:?}, training"));
        assert_close(cells.states()[1], &state.c, &format!("{norm:?}, c"));
        let mut dh = numbers(2, batch * HIDDEN);
        let last = State { h: dh.clone(), c: vec![0.0; batch * HIDDEN] };
        let dy = vec![0.0; batch * STEPS * HIDDEN];
        let empty = State { h: Vec::new(), c: Vec::new() };
        let mut expected = Gradients { input: Vec::new(), params: Params::zeros(&config).unwrap(), state: empty };
        runner.backward_into(&network, &dy, Some(&last), 0, &mut expected).unwrap();
        cells.backward(&mut dh).unwrap();
        assert_close(cells.gradients().values(), expected.params.values(), &format!("{norm:?}, gradients"));
    }
}

/// Mean and variance of Nx, Nh and Nc at every step.
type Statistics = Vec<[[Vec<f64>; 2]; 3]>;

/// What a pass does: none but a settling pass, after so many others, changes the statistics.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Train,
    Settle(f64),
    Infer,
}

/// Batch or RMS norm of rows of n numbers, one element at a time.
fn normalized(z: &[f64], n: usize, norm: NormKind, [means, variances]: &mut [Vec<f64>; 2], does: Does) -> Vec<f64> {
    let rows = z.len() / n;
    if norm == NormKind::Rms {
        let root = |row: &[f64]| (row.iter().map(|z| z * z).sum::<f64>() / n as f64 + 1e-5).sqrt();
        return z.chunks(n).flat_map(|row| row.iter().map(|z| z / root(row)).collect::<Vec<_>>()).collect();
    }
    let mut moments = Vec::new();
    for unit in 0..n {
        let of = || (0..rows).map(|row| z[row * n + unit]);
        let mean = of().sum::<f64>() / rows as f64;
        let squares = of().map(|z| (z - mean) * (z - mean)).sum::<f64>();
        if let Does::Settle(before) = does {
            means[unit] = (before * means[unit] + mean) / (before + 1.0);
            variances[unit] = (before * variances[unit] + squares / (rows - 1) as f64) / (before + 1.0);
        }
        let settled = (means[unit], variances[unit]);
        moments.push(if does == Does::Infer { settled } else { (mean, squares / rows as f64) });
    }
    z.iter().enumerate().map(|(at, z)| (z - moments[at % n].0) / (moments[at % n].1 + 1e-5).sqrt()).collect()
}

/// The last h of samples `[B, T, I]` by the definition.
fn defined(of: &Cells<f64>, x: &[f64], norm: NormKind, statistics: &mut Statistics, does: Does) -> Vec<f64> {
    let batch = x.len() / STEPS / INPUTS;
    let get = |slot| of.params.get(0, 0, slot).unwrap();
    let times = |weight: &[f64], from: &[f64], sample: usize, n: usize, gate: usize| -> f64 {
        (0..n).map(|at| weight[gate * n + at] * from[sample * n + at]).sum()
    };
    let both = |n: usize| (0..batch).flat_map(move |sample| (0..n).map(move |at| (sample, at)));
    let sigmoid = |a: f64| 1.0 / (1.0 + (-a).exp());
    let (mut h, mut c) = (vec![0.0; batch * HIDDEN], vec![0.0; batch * HIDDEN]);
    if norm == NormKind::Batch && does != Does::Infer {
        noise(of.seed, &mut h);
    }
    for (step, statistics) in statistics.iter_mut().enumerate() {
        let x: Vec<f64> = both(INPUTS).map(|(sample, at)| x[(sample * STEPS + step) * INPUTS + at]).collect();
        let gates = 4 * HIDDEN;
        let (input, recurrent) = (get(Slot::InputWeight), get(Slot::RecurrentWeight));
        let zx: Vec<f64> = both(gates).map(|(sample, gate)| times(input, &x, sample, INPUTS, gate)).collect();
        let zh: Vec<f64> = both(gates).map(|(sample, gate)| times(recurrent, &h, sample, HIDDEN, gate)).collect();
        let [of_input, of_recurrent, of_cell] = statistics;
        let nx = normalized(&zx, gates, norm, of_input, does);
        let nh = normalized(&zh, gates, norm, of_recurrent, does);
        let scales = [Slot::InputNormGain, Slot::RecurrentNormGain, Slot::Bias].map(get);
        let a = |sample: usize, gate: usize| {
            let at = sample * gates + gate;
            scales[0][gate] * nx[at] + scales[1][gate] * nh[at] + scales[2][gate]
        };
        for (sample, at) in both(HIDDEN) {
            let [i, f, g] = [0, 1, 2].map(|gate| a(sample, gate * HIDDEN + at));
            let c = &mut c[sample * HIDDEN + at];
            *c = sigmoid(f) * *c + sigmoid(i) * g.tanh();
        }
        let nc = normalized(&c, HIDDEN, norm, of_cell, does);
        for (sample, at) in both(HIDDEN) {
            let shown = get(Slot::CellNormGain)[at] * nc[sample * HIDDEN + at] + get(Slot::CellNormBias)[at];
            h[sample * HIDDEN + at] = sigmoid(a(sample, 3 * HIDDEN + at)) * shown.tanh();
        }
    }
    h
}

#[test]
fn batch_and_rms_norm_are_those_of_the_definition() {
    for norm in [NormKind::Batch, NormKind::Rms] {
        let mut cells = cells(norm);
        let start = |n: usize| [vec![0.0; n], vec![1.0; n]];
        let all = || [start(4 * HIDDEN), start(4 * HIDDEN), start(HIDDEN)];
        let mut statistics: Statistics = (0..STEPS).map(|_| all()).collect();
        for (before, batch) in [(0, 6), (1, 2), (2, 9)] {
            let x = numbers(before, batch * STEPS * INPUTS);
            let expected = defined(&cells, &x, norm, &mut statistics, Does::Train);
            assert_close(cells.train(&x).unwrap(), &expected, &format!("{norm:?}, training, {batch}"));
            let seen = cells.states().map(<[f64]>::to_vec);
            let x = numbers(7 + before, batch * STEPS * INPUTS);
            defined(&cells, &x, norm, &mut statistics, Does::Settle(before as f64));
            cells.settle(&x, before).unwrap();
            let x = numbers(17 + before, 4 * STEPS * INPUTS);
            let expected = defined(&cells, &x, norm, &mut statistics, Does::Infer);
            assert_close(cells.infer(&x).unwrap(), &expected, &format!("{norm:?}, inference, {batch}"));
            assert_eq!(cells.states(), [&seen[0][..], &seen[1][..]], "inference changed what was seen");
        }
    }
}

#[test]
fn batch_norm_of_one_sample_does_not_see_it() {
    let mut cells = cells(NormKind::Batch);
    let [first, second] = [1, 2].map(|seed| cells.train(&numbers(seed, STEPS * INPUTS)).unwrap().to_vec());
    assert_eq!(first, second);
}

#[test]
fn all_norms_start_with_the_same_weights() {
    let new = |norm| Cells::<f64>::new(norm, [STEPS, INPUTS, HIDDEN], 2.0, 3).unwrap();
    let none = new(NormKind::None);
    for (name, norm) in NormKind::NAMES {
        let cells = new(norm);
        for slot in [Slot::InputWeight, Slot::RecurrentWeight] {
            assert_eq!(cells.params.get(0, 0, slot), none.params.get(0, 0, slot), "{name}");
        }
        let gain = if norm == NormKind::Batch { 0.1 } else { 1.0 };
        for gains in NORMS.iter().filter_map(|[slot, _]| cells.params.get(0, 0, *slot)) {
            assert!(gains.iter().all(|&number| number == gain), "{name}");
        }
    }
}

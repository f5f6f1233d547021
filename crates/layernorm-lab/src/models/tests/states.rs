//! The states of each time step, compared with a plain network in f64, and shared running statistics.

use super::recurrent::{BATCH, HIDDEN, Plain, Rows, cells, start, tolerance};
use super::*;

fn rows(tensor: &Tensor<2>) -> Rows {
    wide(tensor).chunks(tensor.dims()[1]).map(<[f64]>::to_vec).collect()
}

fn apart(a: &Rows, b: &Rows) -> f64 {
    assert_eq!((a.len(), a[0].len()), (b.len(), b[0].len()));
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// h and c from a and the state before, by the equations at the top of `states.rs`.
fn after(plain: &Plain, step: usize, a: &Rows, [h, c]: [&Rows; 2]) -> [Rows; 2] {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let each = |f: &dyn Fn(usize, usize) -> f64| -> Rows {
        (0..BATCH).map(|case| (0..HIDDEN).map(|unit| f(case, unit)).collect()).collect()
    };
    let at = |case: usize, gate: usize, unit: usize| a[case][gate * HIDDEN + unit];
    match plain.kind {
        Kind::Rnn => [each(&|case, unit| at(case, 0, unit).tanh()), c.clone()],
        Kind::Gru => {
            let mix = |z: f64, old: f64, new: f64| (1.0 - z) * old + z * new;
            let h = each(&|case, unit| mix(sigmoid(at(case, 1, unit)), h[case][unit], at(case, 2, unit).tanh()));
            [h, c.clone()]
        }
        Kind::Lstm => {
            let c = each(&|case, unit| {
                sigmoid(at(case, 1, unit)) * c[case][unit] + sigmoid(at(case, 0, unit)) * at(case, 2, unit).tanh()
            });
            let shown = plain.normalized("cell_norm", step, c.clone());
            [each(&|case, unit| sigmoid(at(case, 3, unit)) * shown[case][unit].tanh()), c]
        }
    }
}

#[test]
fn states_are_those_of_the_plain_network_and_follow_from_the_preactivations() {
    let [steps, inputs] = IMAGE;
    for (kind, norm) in cells() {
        let device = training();
        let net = with_start(&recurrent(kind, Reads::Rows), norm, &start(), &device);
        let x = images(2, BATCH, &device);
        let plain = Plain::of(&net, kind, norm, &start(), false);
        let states = net.states(x.clone()).unwrap();
        assert_eq!(states.len(), steps);
        let (mut before, mut expected) = ([0, 0].map(|_| vec![vec![0.0; HIDDEN]; BATCH]), [Vec::new(), Vec::new()]);
        expected.clone_from(&before);
        for (step, state) in states.iter().enumerate() {
            let now = (0..BATCH).map(|case| wide(&x)[(case * steps + step) * inputs..][..inputs].to_vec()).collect();
            let products = [plain.product("input", &now), plain.product("recurrent", &expected[0])];
            let [h, c] = expected;
            expected = plain.step(step, products, h, c);
            let h = rows(&state.h);
            let c = state.c.as_ref().map_or(before[1].clone(), rows);
            assert_eq!(state.c.is_some(), kind == Kind::Lstm);
            for (found, expected) in [(&h, &expected[0]), (&c, &expected[1])] {
                assert!(apart(found, expected) <= tolerance(step + 1), "{kind:?} {norm}, step {step}");
            }
            let again = after(&plain, step, &rows(&state.a), [&before[0], &before[1]]);
            // Only the roundings of this step; a norm of c divides its error by the standard deviation of c, which can
            // be as small as √ε here.
            for (found, expected) in [(&h, &again[0]), (&c, &again[1])] {
                assert!(
                    apart(found, expected) <= tolerance(1) / start().epsilon.sqrt(),
                    "{kind:?} {norm}, step {step}"
                );
            }
            before = [h, c];
        }
    }
}

#[test]
fn the_last_state_is_that_of_the_forward_pass() {
    for layers in [1, 2] {
        let arch = Arch::Lstm(RecurrentSize { hidden: HIDDEN, reads: Reads::Pixels, layers });
        let net = with_start(&arch, Norm::Layer, &start(), &cpu());
        let mut taps = Taps::open();
        net.forward(images(3, BATCH, &cpu()), &mut taps);
        let states = net.states(images(3, BATCH, &cpu())).unwrap();
        assert_eq!(bits(&states.last().unwrap().h), bits(&taps.seen().pop().unwrap().after), "{layers} layers");
    }
    assert!(net(&Arch::mlp(&[4]), Norm::Layer, &cpu()).states(images(1, 1, &cpu())).is_none());
}

#[test]
fn shared_statistics_are_those_of_all_steps_together() {
    for kind in Kind::ALL {
        let device = training();
        let net = with_start(&recurrent(kind, Reads::Rows), Norm::Batch, &start(), &device);
        (0..20).for_each(|seed| drop(logits(&net, images(seed, 16, &device))));
        let net = net.valid();
        let (by_step, shared) = (net.step_statistics(), net.clone().with_shared_statistics());
        assert_eq!(
            by_step.len(),
            if kind == Kind::Lstm {
                3
            } else if kind == Kind::Gru {
                2
            } else {
                1
            }
        );
        for (statistics, pooled) in by_step.iter().zip(shared.step_statistics()) {
            assert_eq!((statistics.means.len(), pooled.means.len(), pooled.of), (IMAGE[0], 1, statistics.of));
            for (unit, &found) in pooled.means[0].iter().enumerate() {
                let of = |steps: &[Vec<f32>]| steps.iter().map(|units| f64::from(units[unit])).collect::<Vec<f64>>();
                let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                let (means, variances) = (of(&statistics.means), of(&statistics.variances));
                let squares: Vec<f64> = means.iter().zip(&variances).map(|(mean, var)| mean * mean + var).collect();
                let mean = average(&means);
                // Sums of six numbers below 8.
                assert!((f64::from(found) - mean).abs() < 50.0 * UNIT, "{kind:?}");
                let variance = f64::from(pooled.variances[0][unit]);
                assert!((variance - (average(&squares) - mean * mean)).abs() < 100.0 * UNIT, "{kind:?} {variance}");
            }
        }
        let x = images(4, BATCH, &cpu());
        assert_ne!(bits(&logits(&net, x.clone())), bits(&logits(&shared, x)), "{kind:?}");
        assert_eq!(net.step_statistics(), by_step, "the network itself is unchanged");
    }
    let plain = net(&lstm(Reads::Rows), Norm::Layer, &cpu());
    assert!(plain.step_statistics().is_empty());
    let x = images(4, BATCH, &cpu());
    assert_eq!(bits(&logits(&plain, x.clone())), bits(&logits(&plain.clone().with_shared_statistics(), x)));
}

//! Every gradient against finite differences of the loss Σ y∘dy + Σ h∘dh + Σ c∘dc, in f64.
//!
//! The difference is of fourth order, (8(f(e) − f(−e)) − (f(2e) − f(−2e)))/12e: its error is e⁴ times a fifth derivative,
//! plus 1e-16·|loss|/e. With e = 1e-4 and losses of up to a hundred that is about 1e-10 where the function is tame. A norm
//! over few units with a small ε is not: its derivatives grow as 1/sqrt(ε) each. So ε is 0.05 here (but in the test of the
//! variants as they are), the bound is 3e-7 of the larger of 1 and the gradient, and where a kink of relu or of a clip lies
//! within the differences, smaller ones are tried: of a wrong gradient none is right.

#[path = "common/sample.rs"]
mod sample;

use layernorm_rnn::{
    Config, Direction, Gradients, Init, Keep, Kind, Layout, Network, Noise, NormSpec, Over, Reset, Runner, Sequences,
    State, Training, Variant,
};
use sample::{Rng, label};

struct Case {
    config: Config,
    steps: usize,
    batch: usize,
    layout: Layout,
    lengths: Option<Vec<usize>>,
    training: Training,
}

impl Case {
    fn new(config: Config) -> Case {
        let training = Training { seed: 7, keep: Keep::All };
        Case { config, steps: 4, batch: 3, layout: Layout::TimeFirst, lengths: None, training }
    }
}

fn check(name: &str, case: &Case) {
    let mut rng = Rng::new(case.config.hidden as u64 * 31 + name.len() as u64);
    let config = &case.config;
    let mut network = Network::<f64>::new(*config, Init::torch(), 3).unwrap();
    // Biases and gains away from where they start, so that every one of them matters.
    network.params_mut().values_mut().iter_mut().for_each(|p| *p += 0.5 * rng.next());
    let mut x = rng.vec(case.steps * case.batch * config.input);
    let dy = rng.vec(case.steps * case.batch * config.output() * config.directions());
    let initial = sample::state(&network, case.batch, &mut rng);
    let dlast = sample::state(&network, case.batch, &mut rng);

    let mut runner = Runner::default();
    let loss = |runner: &mut Runner<f64>, network: &Network<f64>, x: &[f64], initial: &State<f64>| -> f64 {
        let Case { steps, batch, layout, .. } = *case;
        let sequences = Sequences { data: x, steps, batch, layout, lengths: case.lengths.as_deref() };
        let out = runner.train(network, &sequences, Some(initial), case.training).unwrap();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(&out.y, &dy) + dot(&out.state.h, &dlast.h) + dot(&out.state.c, &dlast.c)
    };
    loss(&mut runner, &network, &x, &initial);
    let gradients = runner.backward(&network, &dy, Some(&dlast)).unwrap();
    let (params, state) = (network.params().zeros_like(), network.zero_state(case.batch).unwrap());
    let mut without_input = Gradients { input: Vec::<f64>::new(), params, state };
    runner.backward_into(&network, &dy, Some(&dlast), 0, &mut without_input).unwrap();
    assert!(without_input.input.is_empty() && without_input.params.values() == gradients.params.values(), "{name}");
    assert!(without_input.state == gradients.state, "{name}: without the input's gradients");

    let compare = |what: &str, analytic: f64, at: &mut dyn FnMut(f64) -> f64| {
        let mut numeric = Vec::new();
        for e in [1e-4, 1e-5, 1e-6] {
            numeric.push((8.0 * (at(e) - at(-e)) - (at(2.0 * e) - at(-2.0 * e))) / (12.0 * e));
            if numeric.iter().any(|numeric| (analytic - numeric).abs() <= 3e-7 * analytic.abs().max(1.0)) {
                return;
            }
        }
        panic!("{name}: {what}: {analytic} analytic, {numeric:?} numeric");
    };
    for i in every(x.len()) {
        let before = x[i];
        compare(&format!("x[{i}]"), gradients.input[i], &mut |change| {
            x[i] = before + change;
            loss(&mut runner, &network, &x, &initial)
        });
        x[i] = before;
    }
    let entries = network.params().entries().to_vec();
    for entry in entries {
        for i in every(entry.range.len()) {
            let at = entry.range.start + i;
            let before = network.params().values()[at];
            compare(&format!("{}[{i}]", entry.name()), gradients.params.values()[at], &mut |change| {
                network.params_mut().values_mut()[at] = before + change;
                loss(&mut runner, &network, &x, &initial)
            });
            network.params_mut().values_mut()[at] = before;
        }
    }
    for i in every(initial.h.len()) {
        compare(&format!("initial h[{i}]"), gradients.state.h[i], &mut |change| {
            let mut moved = initial.clone();
            moved.h[i] += change;
            loss(&mut runner, &network, &x, &moved)
        });
    }
    for i in every(initial.c.len()) {
        compare(&format!("initial c[{i}]"), gradients.state.c[i], &mut |change| {
            let mut moved = initial.clone();
            moved.c[i] += change;
            loss(&mut runner, &network, &x, &moved)
        });
    }
}

/// All of a few, some of many.
fn every(count: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count.div_ceil(30).max(1))
}

fn variants() -> impl Iterator<Item = Variant> {
    sample::variants().map(|variant| variant.with_eps(0.05))
}

#[test]
fn every_variant() {
    for variant in sample::variants() {
        check(&label(&variant), &Case::new(Config::new(variant, 3, 9)));
    }
}

#[test]
fn layers_directions_and_lengths() {
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for lengths in [None, Some(vec![2, 4, 1]), Some(vec![3, 3, 3])] {
                let name = format!("{} {direction:?} {lengths:?}", label(&variant));
                let config = Config::new(variant, 2, 3).with_layers(2).with_direction(direction);
                let layout = if lengths.is_some() { Layout::BatchFirst } else { Layout::TimeFirst };
                check(&name, &Case { lengths, layout, ..Case::new(config) });
            }
        }
    }
}

#[test]
fn projections_clips_and_shared_biases() {
    for variant in variants().filter(|variant| variant.kind == Kind::Lstm) {
        let clipped = Variant { cell_clip: Some(0.4), projection_clip: Some(0.3), ..variant };
        for variant in [variant, clipped, variant.with_shared_bias(), Variant { projection_bias: true, ..variant }] {
            let config = Config::new(variant, 3, 4).with_projection(2).with_layers(2);
            check(&format!("projected {}", variant.name), &Case::new(config));
            check(&format!("not projected {}", variant.name), &Case::new(Config::new(variant, 3, 4)));
        }
    }
}

/// Cells that nobody has named: norms in other places.
#[test]
fn cells_of_ones_own() {
    let norm = Some(NormSpec::new(0.05));
    let split = Some(NormSpec::new(0.05).over(Over::GatesAndCandidate));
    let (lstm, gru, rnn) = (Variant::plain(Kind::Lstm), Variant::plain(Kind::Gru), Variant::plain(Kind::Rnn));
    let cells = [
        Variant { reset: Reset::Sum, ..gru },
        Variant { reset: Reset::Sum, input_norm: norm, input_bias: true, ..gru },
        Variant { reset: Reset::Sum, input_norm: split, recurrent_norm: norm, sum_norm: norm, ..gru },
        Variant { reset: Reset::State, input_norm: split, recurrent_norm: split, recurrent_bias: true, ..gru },
        Variant { input_norm: norm, sum_norm: norm, input_bias: true, ..lstm },
        Variant { recurrent_norm: norm, sum_norm: norm.map(|n| n.over(Over::EachGate)), peephole: true, ..lstm },
        Variant { input_norm: norm, recurrent_norm: norm, sum_norm: norm, recurrent_bias: true, ..rnn },
    ];
    for (number, variant) in cells.into_iter().enumerate() {
        check(&format!("cell {number}"), &Case::new(Config::new(variant, 2, 3)));
    }
}

#[test]
fn noise() {
    for variant in variants() {
        let mut noise = Noise { dropout: 0.3, recurrent_dropout: 0.3, drop_connect: 0.2, ..Noise::default() };
        noise.zoneout_hidden = 0.25;
        if variant.kind == Kind::Lstm {
            noise.zoneout_cell = 0.2;
        }
        let config = Config::new(variant, 3, 4).with_layers(2).with_direction(Direction::Both).with_noise(noise);
        check(&format!("noisy {}", label(&variant)), &Case::new(config));
    }
}

#[test]
fn recomputing_and_many_segments() {
    for variant in variants() {
        let training = Training { seed: 7, keep: Keep::Recompute };
        // 90 sequences make a segment of three steps.
        let case = Case { steps: 7, batch: 90, training, ..Case::new(Config::new(variant, 1, 2)) };
        check(&format!("recomputed {}", label(&variant)), &case);
    }
}

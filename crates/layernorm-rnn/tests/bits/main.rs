//! What changes no bit: place in the batch, threads, steps one by one, layout, padding, what is kept, a
//! neighbour's NaN. And what noise does.

#[path = "../common/case.rs"]
mod case;
mod noise;
#[path = "../common/sample.rs"]
mod sample;
mod sequences;

use case::{All, Case, alone, deep, pick_state, same, same_all, same_params, same_state};
use layernorm::Context;
use layernorm_rnn::{
    Config, Direction, Gradients, Keep, Kind, Layout, Network, Noise, Params, Runner, Sequences, Slot, State, Training,
    Variant,
};
use sample::{Rng, label, named, network32, state32, variants};
use std::sync::{Mutex, MutexGuard};

/// A team that is busy lets a second call run on one thread, which would test nothing: tests with threads take turns.
fn team() -> MutexGuard<'static, ()> {
    static TEAM: Mutex<()> = Mutex::new(());
    TEAM.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The variants whose code differs most: for what is too slow for all of them.
fn few() -> [Variant; 6] {
    [
        named(Kind::Lstm, "paper"),
        named(Kind::Lstm, "tflite-cifg"),
        named(Kind::Lstm, "none"),
        named(Kind::Gru, "paper"),
        named(Kind::Gru, "none-reset-before"),
        named(Kind::Rnn, "paper"),
    ]
}

/// A batch of 64 against 1 and 3 of its sequences at other places: outputs, states, and the gradients of both inputs.
fn any_place_in_the_batch(config: &Config, threads: usize, steps: usize) {
    let context = || Context::new().with_threads(threads).unwrap();
    let name = format!("{}, H {}, {threads} threads", label(&config.variant), config.hidden);
    let case = Case::new(config, steps, 64);
    let whole = case.all(context());
    let width = config.output() * config.directions();
    for which in [&[0][..], &[1], &[31], &[63], &[40, 2, 63], &[63, 62, 61, 60, 59, 58, 57, 56, 9]] {
        let part = case.some(which);
        let found = part.all(context());
        let name = format!("{name}, sequences {which:?}");
        same(&format!("{name}: y"), &found.y, &case.rows(&whole.y, width, steps, which));
        same_state(&name, &found.last, &pick_state(&whole.last, config, 64, which));
        same(
            &format!("{name}: dx"),
            &found.gradients.input,
            &case.rows(&whole.gradients.input, config.input, steps, which),
        );
        same_state(&name, &found.gradients.state, &pick_state(&whole.gradients.state, config, 64, which));
        let (y, last) = part.forward(context());
        same(&format!("{name}: y outside training"), &y, &found.y);
        same_state(&format!("{name}, outside training"), &last, &found.last);
    }
}

#[test]
fn batch_sizes_and_places() {
    for variant in variants() {
        for hidden in [1, 7, 33] {
            any_place_in_the_batch(&deep(variant, 3, hidden), 1, 4);
        }
    }
    for variant in few() {
        for hidden in [128, 129] {
            any_place_in_the_batch(&Config::new(variant, 10, hidden), 1, 3);
        }
    }
}

#[test]
fn batch_sizes_where_the_threads_share_each_step() {
    let _turn = team();
    // 9 steps of one sequence are over 2²³ products with over 2¹⁸ weights: Split::Columns at batches below 12, and
    // Split::Sequences at 64.
    any_place_in_the_batch(&Config::new(named(Kind::Lstm, "paper"), 20, 512), 2, 9);
    any_place_in_the_batch(&Config::new(named(Kind::Gru, "none-reset-before"), 20, 512), 2, 12);
    any_place_in_the_batch(&Config::new(named(Kind::Lstm, "tflite"), 20, 700).with_projection(400), 2, 9);
}

fn any_threads(case: &Case<f32>) {
    let name = format!("{}, H {}", label(&case.network.config().variant), case.network.config().hidden);
    let one = case.all(alone());
    for threads in [2, 3, 5] {
        let found = case.all(Context::new().with_threads(threads).unwrap());
        same_all(&format!("{name}, {threads} threads"), &found, &one);
        let (y, last) = case.forward(Context::new().with_threads(threads).unwrap());
        same(&format!("{name}, {threads} threads: y outside training"), &y, &one.y);
        same_state(&format!("{name}, {threads} threads, outside training"), &last, &one.last);
    }
}

#[test]
fn threads() {
    let _turn = team();
    for (turn, variant) in variants().enumerate() {
        // Over 2²³ products in each cell, so that there is a team.
        let config = deep(variant, 20, 48).with_direction([Direction::Forward, Direction::Both][turn % 2]);
        let steps = 8_400_000 / (config.gate_width() * (20 + 48) * 29) + 2;
        let case = Case::new(&config, steps, 30);
        let mut lengths = vec![steps; 30];
        lengths[7] = 1;
        any_threads(&case.with_lengths(&lengths));
    }
}

#[test]
fn threads_that_share_each_step() {
    let _turn = team();
    for variant in few() {
        // U has over 2¹⁸ numbers; so few sequences that the threads share each step.
        let hidden = if variant.kind == Kind::Rnn { 530 } else { 310 };
        let config = Config::new(variant, 20, hidden);
        let steps = 8_400_000 / (config.gate_width() * (20 + hidden) * 3) + 2;
        let lengths = [steps, steps - 1, steps, steps];
        any_threads(&Case::new(&config, steps, 4).with_lengths(&lengths));
    }
}

#[test]
fn steps_one_by_one() {
    for variant in variants() {
        for (hidden, batch) in [(1, 1), (7, 3), (33, 9)] {
            let mut config = Config::new(variant, 4, hidden).with_layers(2);
            if variant.kind == Kind::Lstm && hidden == 7 {
                config = config.with_projection(3);
            }
            // Outside training zoneout is an expectation, and so the same in steps.
            config.noise.zoneout_hidden = 0.1;
            let case = Case::new(&config, 8, batch);
            let (y, last) = case.forward(alone());
            let name = format!("{}, H {hidden}", label(&variant));
            let (mut runner, mut state, mut steps) = (Runner::new(alone()), case.initial.clone(), Vec::new());
            for x in case.x.chunks(batch * 4) {
                let mut y = vec![0.0; batch * config.output()];
                runner.step(&case.network, x, &mut state, &mut y).unwrap();
                steps.extend(y);
            }
            same(&format!("{name}: y"), &steps, &y);
            same_state(&format!("{name}: after the last step"), &state, &last);

            // In two calls, the state handed over.
            for cut in [1, 5] {
                let (first, second) = case.x.split_at(cut * batch * 4);
                let first = Sequences::new(first, cut, batch);
                let first = runner.forward(&case.network, &first, Some(&case.initial)).unwrap();
                let second = Sequences::new(second, 8 - cut, batch);
                let second = runner.forward(&case.network, &second, Some(&first.state)).unwrap();
                same(&format!("{name}, cut at {cut}: y"), &[first.y, second.y].concat(), &y);
                same_state(&format!("{name}, cut at {cut}"), &second.state, &last);
            }
        }
    }
}

#[test]
fn layouts() {
    for variant in variants() {
        let case = Case::new(&deep(variant, 3, 10), 6, 4).with_lengths(&[6, 2, 6, 5]);
        let turned = |values: &[f32], width: usize| -> Vec<f32> {
            let place = |b: usize, t: usize| &values[(t * 4 + b) * width..][..width];
            (0..4).flat_map(|b| (0..6).flat_map(move |t| place(b, t).to_vec())).collect()
        };
        let mut other = case.clone();
        (other.layout, other.x, other.dy) = (Layout::BatchFirst, turned(&case.x, 3), turned(&case.dy, 20));
        let mut time_first = case.all(alone());
        time_first.y = turned(&time_first.y, 20);
        time_first.gradients.input = turned(&time_first.gradients.input, 3);
        same_all(&label(&variant), &other.all(alone()), &time_first);
    }
}

#[test]
fn keep_or_recompute() {
    for (turn, variant) in variants().enumerate() {
        let noise =
            Noise { dropout: 0.2, recurrent_dropout: 0.2, drop_connect: 0.2, zoneout_hidden: 0.2, zoneout_cell: 0.0 };
        let mut config = deep(variant, 3, 9);
        if turn % 2 == 1 {
            config = config.with_noise(noise);
        }
        // 100 sequences: a segment has three steps, and the last one fewer.
        let lengths: Vec<usize> = (0..100).map(|b| 1 + b * 7 % 11).collect();
        let mut case = Case::new(&config, 11, 100).with_lengths(&lengths);
        let all = case.all(alone());
        case.training.keep = Keep::Recompute;
        same_all(&label(&variant), &case.all(alone()), &all);
    }
}

#[test]
fn gradients_of_batches_add_up() {
    for (turn, variant) in variants().enumerate() {
        let mut config = deep(variant, 3, 8);
        config.noise.drop_connect = [0.0, 0.4][turn % 2];
        let case = Case::new(&config, 5, 4);
        let mut second = case.clone();
        second.training.seed = 77;
        let (one, two) = (case.all(alone()), second.all(alone()));
        let mut runner = Runner::new(alone());
        let mut sum = one.gradients.clone();
        runner.train(&second.network, &second.sequences(), Some(&second.initial), second.training).unwrap();
        runner.backward_into(&second.network, &second.dy, Some(&second.dlast), 0, &mut sum).unwrap();
        let parts = one.gradients.params.values().iter().zip(two.gradients.params.values());
        for (i, (sum, (a, b))) in sum.params.values().iter().zip(parts).enumerate() {
            // A tied bias has two sums to add, in another order here: a rounding of each.
            let bound = 4.0 * f32::EPSILON * (a.abs() + b.abs() + 1.0);
            assert!((sum - (a + b)).abs() <= bound, "{}: number {i}: {sum}, expected {a} + {b}", label(&variant));
        }
    }
}

#[test]
fn a_second_backward_pass_gives_the_same() {
    for variant in variants() {
        for keep in [Keep::All, Keep::Recompute] {
            let mut case = Case::new(&deep(variant, 3, 8), 9, 40);
            case.training.keep = keep;
            let once = case.all(alone());
            let mut runner = Runner::new(alone());
            let trained = runner.train(&case.network, &case.sequences(), Some(&case.initial), case.training).unwrap();
            runner.backward(&case.network, &case.dlast.h[..0], None).unwrap_err();
            runner.backward(&case.network, &vec![1.0f32; case.dy.len()], None).unwrap();
            let gradients = runner.backward(&case.network, &case.dy, Some(&case.dlast)).unwrap();
            same_all(&label(&variant), &All { y: trained.y, last: trained.state, gradients }, &once);
        }
    }
}

/// A runner that has run one network runs another one as a fresh runner does, also if their parameters are copies.
#[test]
fn a_runner_forgets_the_network_before() {
    let mut runner = Runner::new(alone());
    let gru = named(Kind::Gru, "none");
    let lstm = named(Kind::Lstm, "paper");
    for (before, after) in [
        (lstm, lstm.with_eps(0.3)),
        (lstm, Variant { offset: 1.0, ..lstm }),
        (lstm, Variant { tied_bias: true, ..lstm }),
        (gru, Variant { reset: layernorm_rnn::Reset::Sum, ..gru }),
        (gru, named(Kind::Gru, "none-reset-before")),
        (named(Kind::Gru, "none-reset-before"), gru),
    ] {
        let config = Config::new(before, 3, 8);
        let case = Case::new(&config, 4, 3);
        runner.forward(&case.network, &case.sequences(), Some(&case.initial)).unwrap();
        let mut other = case.clone();
        let config = Config { variant: after, ..config };
        other.network = Network::from_params(config, case.network.params().clone()).unwrap();
        let found = runner.forward(&other.network, &other.sequences(), Some(&other.initial)).unwrap();
        let (y, last) = other.forward(alone());
        same(&format!("{before:?}, then {after:?}: y"), &found.y, &y);
        same_state("final state", &found.state, &last);
    }
}

#[test]
fn a_runner_may_be_used_for_anything_in_any_order() {
    let mut runner = Runner::new(alone());
    let mut rng = Rng::new(1);
    let all: Vec<Variant> = variants().collect();
    for _ in 0..150 {
        let variant = rng.one_of(&all);
        let direction = rng.one_of(&[Direction::Forward, Direction::Reverse, Direction::Both]);
        let config = Config::new(variant, 1 + rng.below(9), 1 + rng.below(30)).with_layers(1 + rng.below(3));
        let config = config.with_direction(direction);
        let (steps, batch) = (1 + rng.below(9), 1 + rng.below(20));
        let mut case = Case::new(&config, steps, batch);
        case.training.keep = rng.one_of(&[Keep::All, Keep::Recompute]);
        let fresh = case.all(alone());
        let trained = runner.train(&case.network, &case.sequences(), Some(&case.initial), case.training).unwrap();
        let gradients = runner.backward(&case.network, &case.dy, Some(&case.dlast)).unwrap();
        let found = All { y: trained.y, last: trained.state, gradients };
        same_all(&label(&variant), &found, &fresh);
    }
}

#[test]
fn no_initial_state_is_one_of_zeros() {
    for variant in variants() {
        let network = network32(&deep(variant, 3, 9), 1);
        let x = Rng::new(2).vec32(5 * 4 * 3);
        let mut runner = Runner::new(alone());
        let zero = network.zero_state(4).unwrap();
        let sequences = Sequences::new(&x, 5, 4);
        let found = runner.forward(&network, &sequences, None).unwrap();
        let expected = runner.forward(&network, &sequences, Some(&zero)).unwrap();
        same(&label(&variant), &found.y, &expected.y);
        let mut other = state32(&network, 4, &mut Rng::new(3));
        let mut y = found.y.clone();
        runner.forward_into(&network, &sequences, None, &mut y, &mut other).unwrap();
        same_state("what was in the final state before does not matter", &other, &expected.state);
    }
}

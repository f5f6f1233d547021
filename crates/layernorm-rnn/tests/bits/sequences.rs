//! Lengths, directions and padding: each sequence gives the bits that it gives alone.

use super::*;

#[test]
fn each_sequence_alone_at_its_own_length() {
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for layout in [Layout::TimeFirst, Layout::BatchFirst] {
                let config = Config::new(variant, 3, 9).with_layers(2).with_direction(direction);
                let width = config.output() * config.directions();
                let lengths = [3, 7, 1, 7, 4];
                let mut case = Case::new(&config, 7, 5).with_lengths(&lengths);
                case.layout = layout;
                let whole = case.all(alone());
                for (b, &length) in lengths.iter().enumerate() {
                    let name = format!("{}, {direction:?}, {layout:?}, sequence {b}", label(&variant));
                    let mut one = case.some(&[b]);
                    (one.steps, one.lengths) = (length, None);
                    one.x = case.rows(&case.x, 3, length, &[b]);
                    one.dy = case.rows(&case.dy, width, length, &[b]);
                    let found = one.all(alone());
                    same(&format!("{name}: y"), &found.y, &case.rows(&whole.y, width, length, &[b]));
                    same_state(&name, &found.last, &pick_state(&whole.last, &config, 5, &[b]));
                    let dx = case.rows(&whole.gradients.input, 3, length, &[b]);
                    same(&format!("{name}: dx"), &found.gradients.input, &dx);
                    let dinitial = pick_state(&whole.gradients.state, &config, 5, &[b]);
                    same_state(&format!("{name}: gradient"), &found.gradients.state, &dinitial);
                }
            }
        }
    }
}

/// Each sequence of a tensor `[T, B, width]` turned round within its length.
fn turned_round(values: &[f32], width: usize, lengths: &[usize]) -> Vec<f32> {
    let mut turned = values.to_vec();
    for (b, &length) in lengths.iter().enumerate() {
        for t in 0..length {
            let place = |t: usize| (t * lengths.len() + b) * width;
            turned[place(t)..][..width].copy_from_slice(&values[place(length - 1 - t)..][..width]);
        }
    }
    turned
}

#[test]
fn reverse_is_forward_on_the_reversed_sequence() {
    for variant in variants() {
        let config = Config::new(variant, 3, 9).with_layers(2);
        let lengths = [5, 7, 1, 7];
        let case = Case::new(&config, 7, 4).with_lengths(&lengths);
        let mut forward = case.all(alone());
        forward.y = turned_round(&forward.y, 9, &lengths);
        forward.gradients.input = turned_round(&forward.gradients.input, 3, &lengths);
        let mut other = case.clone();
        let reverse = config.with_direction(Direction::Reverse);
        other.network = Network::from_params(reverse, case.network.params().clone()).unwrap();
        other.x = turned_round(&case.x, 3, &lengths);
        other.dy = turned_round(&case.dy, 9, &lengths);
        same_all(&label(&variant), &other.all(alone()), &forward);
    }
}

#[test]
fn the_first_of_both_directions_is_forward_and_the_second_is_reverse() {
    for variant in variants() {
        let both = Case::new(&Config::new(variant, 3, 9).with_direction(Direction::Both), 7, 2);
        let (y, _) = both.forward(alone());
        for (number, direction) in [Direction::Forward, Direction::Reverse].into_iter().enumerate() {
            let config = Config::new(variant, 3, 9).with_direction(direction);
            let mut params = Params::<f32>::zeros(&config).unwrap();
            for slot in Slot::ALL {
                if let Some(to) = params.get_mut(0, 0, slot) {
                    to.copy_from_slice(both.network.params().get(0, number, slot).unwrap());
                }
            }
            let mut one = Case::new(&config, 7, 2);
            one.x.clone_from(&both.x);
            one.network = Network::from_params(config, params).unwrap();
            let half = |state: &[f32]| if state.is_empty() { Vec::new() } else { state[number * 18..][..18].to_vec() };
            one.initial = State { h: half(&both.initial.h), c: half(&both.initial.c) };
            let expected: Vec<f32> = y.chunks(18).flat_map(|row| row[number * 9..][..9].to_vec()).collect();
            same(&format!("{}, {direction:?}", label(&variant)), &one.forward(alone()).0, &expected);
        }
    }
}

#[test]
fn padding_is_neither_read_nor_written() {
    const SENTINEL: f32 = 123.456;
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for layout in [Layout::TimeFirst, Layout::BatchFirst] {
                let name = format!("{}, {direction:?}, {layout:?}", label(&variant));
                let config = Config::new(variant, 3, 9).with_layers(2).with_direction(direction);
                let width = config.output() * config.directions();
                let lengths = [2, 6, 1, 5];
                let mut case = Case::new(&config, 7, 4).with_lengths(&lengths);
                case.layout = layout;
                let clean = case.all(alone());
                let padding = |t: usize, b: usize| t >= lengths[b];
                let each = |values: &mut [f32], width: usize, f: &mut dyn FnMut(bool, &mut [f32])| {
                    for (at, row) in values.chunks_mut(width).enumerate() {
                        let (t, b) = if layout == Layout::TimeFirst { (at / 4, at % 4) } else { (at % 7, at / 7) };
                        f(padding(t, b), row);
                    }
                };
                let poison = |values: &mut [f32], width: usize| {
                    each(values, width, &mut |padding, row| {
                        if padding {
                            row.fill(f32::NAN)
                        }
                    });
                };
                poison(&mut case.x, 3);
                poison(&mut case.dy, width);
                same_all(&name, &case.all(alone()), &clean);

                let mut expected = [clean.y.clone(), clean.gradients.input.clone()];
                for (values, width) in expected.iter_mut().zip([width, 3]) {
                    each(values, width, &mut |padding, row| {
                        if padding {
                            assert!(row.iter().all(|&v| v == 0.0), "{name}: what was allocated is 0 in the padding");
                            row.fill(SENTINEL);
                        }
                    });
                }
                let mut runner = Runner::new(alone());
                let (mut y, mut last) = (vec![SENTINEL; clean.y.len()], State::default());
                runner.forward_into(&case.network, &case.sequences(), Some(&case.initial), &mut y, &mut last).unwrap();
                same(&format!("{name}: y of forward_into"), &y, &expected[0]);
                y.fill(SENTINEL);
                let (network, initial) = (&case.network, Some(&case.initial));
                runner.train_into(network, &case.sequences(), initial, case.training, &mut y, &mut last).unwrap();
                same(&format!("{name}: y of train_into"), &y, &expected[0]);
                let params = network.params().zeros_like();
                let mut gradients = Gradients { input: vec![SENTINEL; case.x.len()], params, state: State::default() };
                runner.backward_into(network, &case.dy, Some(&case.dlast), 0, &mut gradients).unwrap();
                same(&format!("{name}: dx of backward_into"), &gradients.input, &expected[1]);
                same_params(&name, &gradients.params, &clean.gradients.params);
            }
        }
    }
}

#[test]
fn a_nan_stays_in_its_sequence() {
    for variant in variants() {
        for hidden in [7, 33] {
            let config = deep(variant, 3, hidden);
            let clean = Case::new(&config, 6, 11);
            let mut ill = clean.clone();
            ill.x[(2 * 11 + 5) * 3 + 1] = f32::NAN;
            ill.x[(4 * 11 + 5) * 3] = f32::INFINITY;
            let (clean_all, ill_all) = (clean.all(alone()), ill.all(alone()));
            let others: Vec<usize> = (0..11).filter(|&b| b != 5).collect();
            let name = format!("{}, H {hidden}", label(&variant));
            let pick = |values: &[f32], width| clean.rows(values, width, 6, &others);
            same(&format!("{name}: y"), &pick(&ill_all.y, 2 * hidden), &pick(&clean_all.y, 2 * hidden));
            let dx = [&ill_all, &clean_all].map(|all| pick(&all.gradients.input, 3));
            same(&format!("{name}: dx"), &dx[0], &dx[1]);
            let last = [&ill_all, &clean_all].map(|all| pick_state(&all.last, &config, 11, &others));
            same_state(&name, &last[0], &last[1]);
            let start = [&ill_all, &clean_all].map(|all| pick_state(&all.gradients.state, &config, 11, &others));
            same_state(&format!("{name}: gradient"), &start[0], &start[1]);
            let own = clean.rows(&ill_all.y, 2 * hidden, 6, &[5]);
            assert!(own.iter().any(|y| y.is_nan()), "{name}: a NaN does not vanish");
        }
    }
}

//! What noise does: it follows from its seed, and keeps the mean.

use super::*;

#[test]
fn a_seed_is_all_there_is_to_noise() {
    let _turn = team();
    let noise =
        Noise { dropout: 0.2, recurrent_dropout: 0.2, drop_connect: 0.2, zoneout_hidden: 0.2, zoneout_cell: 0.0 };
    for variant in variants() {
        let config = deep(variant, 3, 20);
        let quiet = Case::new(&config, 7, 9);
        let names = ["dropout", "recurrent dropout", "DropConnect", "zoneout of h", "zoneout of c", "all"];
        for (number, name) in names.into_iter().enumerate() {
            let mut noise = if number == 5 { noise } else { Noise::default() };
            match number {
                0 => noise.dropout = 0.2,
                1 => noise.recurrent_dropout = 0.2,
                2 => noise.drop_connect = 0.2,
                3 => noise.zoneout_hidden = 0.2,
                4 if variant.kind != Kind::Lstm => continue,
                4 => noise.zoneout_cell = 0.2,
                _ => {}
            }
            let name = format!("{}, {name}", label(&variant));
            let case = Case::new(&config.with_noise(noise), 7, 9);
            let first = case.all(alone());
            same_all(&name, &case.all(Context::new().with_threads(2).unwrap()), &first);
            let mut other = case.clone();
            other.training.seed += 1;
            assert_ne!(other.all(alone()).y, first.y, "{name}: another seed is another noise");
            assert_ne!(quiet.all(alone()).y, first.y, "{name}: there is noise in training");
            let mut still = case.clone();
            still.network = quiet.network.clone();
            // Outside training only zoneout is seen, as its expectation.
            if number < 3 {
                same(&format!("{name}: outside training"), &case.forward(alone()).0, &still.forward(alone()).0);
            }
        }
    }
}

#[test]
fn zoneout_keeps_the_old_or_takes_the_new_and_is_its_mean_outside_training() {
    let rate = 0.3;
    for variant in variants() {
        let name = label(&variant);
        let mut config = Config::new(variant, 3, 8);
        let plain = Case::new(&config, 1, 4);
        config.noise.zoneout_hidden = rate;
        config.noise.zoneout_cell = if variant.kind == Kind::Lstm { rate } else { 0.0 };
        let mut case = Case::new(&config, 1, 4);
        let (_, new) = plain.forward(alone());
        let (_, mean) = case.forward(alone());
        let all = |state: &State<f32>| state.h.iter().chain(&state.c).copied().collect::<Vec<_>>();
        let (old, new, mean) = (all(&case.initial), all(&new), all(&mean));
        for (i, &mean) in mean.iter().enumerate() {
            let expected = rate * f64::from(old[i]) + (1.0 - rate) * f64::from(new[i]);
            // Two products, a sum and the rate itself, each rounded once.
            let bound = 4.0 * f64::from(f32::EPSILON) * f64::from(old[i].abs().max(new[i].abs()));
            assert!((f64::from(mean) - expected).abs() <= bound, "{name}: {mean}, expected {expected}");
        }
        let (mut kept, mut count) = (0, 0);
        for seed in 0..60 {
            case.training.seed = seed;
            let last = all(&case.all(alone()).last);
            for (i, last) in last.iter().enumerate().filter(|&(i, _)| old[i] != new[i]) {
                assert!(*last == old[i] || *last == new[i], "{name}: {last} is neither {} nor {}", old[i], new[i]);
                kept += usize::from(*last == old[i]);
                count += 1;
            }
        }
        // Five standard deviations of a mean of so many chances.
        let (share, deviation) = (kept as f64 / count as f64, (rate * (1.0 - rate) / count as f64).sqrt());
        assert!((share - rate).abs() < 5.0 * deviation, "{name}: {share} kept of {count}");
    }
}

/// `h = relu(W x + U h)` with W and U as given.
fn linear(layers: usize, hidden: usize, w: f32, u: f32, noise: Noise) -> Network<f32> {
    let config = Config::new(named(Kind::Rnn, "none-relu"), hidden, hidden).with_layers(layers).with_noise(noise);
    let mut params = Params::zeros(&config).unwrap();
    for layer in 0..layers {
        for (slot, value) in [(Slot::InputWeight, w), (Slot::RecurrentWeight, u)] {
            let weights = params.get_mut(layer, 0, slot).unwrap();
            (0..hidden).for_each(|k| weights[k * hidden + k] = value);
        }
    }
    Network::from_params(config, params).unwrap()
}

/// Of numbers that are each 0 or 1/(1 − rate), the share of zeros is the rate and so the mean is 1.
fn is_dropped(name: &str, values: &[f32], rate: f64) {
    let scale = (1.0 / (1.0 - rate)) as f32;
    assert!(values.iter().all(|&v| v == 0.0 || v == scale), "{name}: each number is dropped or scaled up");
    let (mean, n) = (values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64, values.len() as f64);
    let deviation = (rate / (1.0 - rate) / n).sqrt();
    assert!((mean - 1.0).abs() < 5.0 * deviation, "{name}: a mean of {mean}");
}

#[test]
fn dropout_keeps_the_mean() {
    let (rate, hidden, batch, steps) = (0.3, 40, 30, 4);
    let ones = vec![1.0f32; steps * batch * hidden];
    let sequences = Sequences::new(&ones, steps, batch);
    let mut runner = Runner::new(alone());
    let training = Training { seed: 9, keep: Keep::All };

    // Between the layers, afresh at each step.
    let network = linear(2, hidden, 1.0, 0.0, Noise { dropout: rate, ..Noise::default() });
    let y = runner.train(&network, &sequences, None, training).unwrap().y;
    is_dropped("dropout", &y, rate);
    assert_ne!(y[..batch * hidden], y[batch * hidden..2 * batch * hidden], "each step has a mask of its own");

    // On h: the state of ones that comes in, times the same mask at every step.
    let one = |network: &Network<f32>| {
        let mut state = network.zero_state(batch).unwrap();
        state.h.fill(1.0);
        state
    };
    let network = linear(1, hidden, 0.0, 1.0, Noise { recurrent_dropout: rate, ..Noise::default() });
    let y = runner.train(&network, &sequences, Some(&one(&network)), training).unwrap().y;
    is_dropped("recurrent dropout", &y[..batch * hidden], rate);
    let scale = (1.0 / (1.0 - rate)) as f32;
    let again: Vec<f32> = y[..batch * hidden].iter().map(|&y| y * scale).collect();
    assert_eq!(y[batch * hidden..2 * batch * hidden], again, "recurrent dropout: one mask for all steps");

    // On U: the same for all sequences and steps.
    let network = linear(1, 400, 0.0, 1.0, Noise { drop_connect: rate, ..Noise::default() });
    let ones = vec![1.0f32; 2 * 3 * 400];
    let mut state = network.zero_state(3).unwrap();
    state.h.fill(1.0);
    let y = runner.train(&network, &Sequences::new(&ones, 2, 3), Some(&state), training).unwrap().y;
    is_dropped("DropConnect", &y[..400], rate);
    assert!(y[..400] == y[400..800] && y[..400] == y[800..1200], "DropConnect: one mask for all sequences");
    let again: Vec<f32> = y[..400].iter().map(|&y| y * scale).collect();
    assert_eq!(y[1200..1600], again, "DropConnect: one mask for all steps");
}

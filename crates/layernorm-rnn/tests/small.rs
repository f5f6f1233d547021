//! Cells of every kind at small sizes, there and back, alone and in a team: the same bits each time. Quick enough for Miri, which
//! runs this file (`.ci/miri`) and sees every access.

use layernorm::{Context, Isa, bf16};
use layernorm_rnn::{Config, Direction, Init, Keep, Kind, Network, Noise, Runner, Sequences, Training, Variant};

// Miri takes seconds for a pass: it sees all paths at the smallest sizes that have them.
const STEPS: usize = if cfg!(miri) { 3 } else { 4 };
const LENGTHS: [usize; 3] = [2, STEPS, 3];
const HIDDEN: usize = if cfg!(miri) { 3 } else { 5 };

fn runner(threads: usize) -> Runner<f32> {
    Runner::new(Context::new().with_isa(Isa::Scalar).unwrap().with_threads(threads).unwrap())
}

/// y, dx, the gradients of the parameters and of the state.
fn there_and_back(network: &Network<f32>, x: &[f32], keep: Keep, runner: &mut Runner<f32>) -> [Vec<f32>; 4] {
    let sequences = Sequences::new(x, STEPS, LENGTHS.len()).with_lengths(&LENGTHS);
    let initial = network.zero_state(LENGTHS.len()).unwrap();
    let output = runner.train(network, &sequences, Some(&initial), Training { seed: 1, keep }).unwrap();
    let gradients = runner.backward(network, &output.y, Some(&output.state)).unwrap();
    [output.y, gradients.input, gradients.params.values().to_vec(), gradients.state.h]
}

fn same_bits(config: Config) {
    let network = Network::<f32>::new(config, Init::haste(), 1).unwrap();
    let count = STEPS * LENGTHS.len() * config.input;
    let x: Vec<f32> = (0..count).map(|i| (i * 7 % 11) as f32 / 11.0 - 0.4).collect();
    let expected = there_and_back(&network, &x, Keep::All, &mut runner(1));
    assert!(expected.iter().flatten().all(|x| x.is_finite()));
    for (threads, keep, rounds) in [(3, Keep::All, 2), (2, Keep::Recompute, if cfg!(miri) { 1 } else { 2 })] {
        let mut runner = runner(threads);
        // The second time in the memory of the first.
        for round in 0..rounds {
            let found = there_and_back(&network, &x, keep, &mut runner);
            assert!(found == expected, "{config:?}: {threads} threads, {keep:?}, round {round}");
        }
    }
}

#[test]
fn lstms() {
    let noise =
        Noise { dropout: 0.2, recurrent_dropout: 0.2, zoneout_hidden: 0.2, zoneout_cell: 0.2, drop_connect: 0.2 };
    let named = |name| Config::new(Variant::named(Kind::Lstm, name).unwrap(), 3, HIDDEN);
    same_bits(named("paper").with_layers(2).with_direction(Direction::Both).with_noise(noise));
    same_bits(named("none").with_projection(2));
    same_bits(named("tflite-cifg"));
}

/// Weights so large that the members of a team share each step.
#[test]
fn shared_steps() {
    let hidden = if cfg!(miri) { 5 } else { 300 };
    same_bits(Config::new(Variant::named(Kind::Lstm, "paper").unwrap(), 2, hidden));
    same_bits(Config::new(Variant::named(Kind::Gru, "haste").unwrap(), 2, hidden));
}

#[test]
fn grus_and_rnns() {
    for (kind, name) in [(Kind::Gru, "paper"), (Kind::Gru, "dreamer"), (Kind::Rnn, "paper")] {
        same_bits(Config::new(Variant::named(kind, name).unwrap(), 3, HIDDEN).with_direction(Direction::Reverse));
    }
}

/// Step by step, in bf16, in the memory of a longer pass.
#[test]
fn steps() {
    let config = Config::new(Variant::named(Kind::Lstm, "paper").unwrap(), 3, 5);
    let network = Network::<f32>::new(config, Init::paper(), 1).unwrap();
    let x: Vec<bf16> = (0..STEPS * 2 * 3).map(|i| bf16::from_f32(i as f32 / 9.0)).collect();
    let mut runner = runner(2);
    let whole = runner.forward(&network, &Sequences::new(&x, STEPS, 2), None).unwrap();
    let mut state = network.zero_state(2).unwrap();
    for step in 0..STEPS {
        let mut y = [bf16::ZERO; 2 * 5];
        runner.step(&network, &x[step * 6..(step + 1) * 6], &mut state, &mut y).unwrap();
        assert_eq!(y, whole.y[step * 10..(step + 1) * 10], "step {step}");
    }
    assert_eq!(state, whole.state);
}

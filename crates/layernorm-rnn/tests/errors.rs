//! What is wrong with a call is said in words and numbers: what was expected, what came. Nothing panics, and a call that
//! is refused has written nothing.

#[path = "common/sample.rs"]
mod sample;

use layernorm_rnn::{
    CellNorm, Config, Direction, EpsPlace, Error, Gradients, Init, Keep, Kind, Layout, Network, Noise, NormSpec, Over,
    Params, Reset, Runner, Sequences, Slot, State, Training, Variant,
};
use proptest::prelude::*;
use sample::{named, network32, variants};

/// Asserts that an error's text has all of these words.
fn says<T>(result: Result<T, Error>, words: &[&str]) -> Error {
    let error = result.err().unwrap_or_else(|| panic!("expected an error with {words:?}"));
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
    error
}

fn lstm() -> Config {
    Config::new(named(Kind::Lstm, "paper"), 3, 4)
}

fn net(config: Config) -> Network<f32> {
    network32(&config, 1)
}

const STEPS: usize = 5;
const BATCH: usize = 2;

/// 5 steps of 2 sequences of 3 numbers.
fn x() -> Vec<f32> {
    vec![0.5; STEPS * BATCH * 3]
}

#[test]
fn tensors_of_the_wrong_size() {
    let (network, x) = (net(lstm()), x());
    let mut runner = Runner::<f32>::default();
    let mut forward = |data: &[f32], steps, batch, layout| {
        runner.forward(&network, &Sequences { data, steps, batch, layout, lengths: None }, None).map(|out| out.y.len())
    };
    let words = ["input", "expected 30 elements", "[T, B, I] = [5, 2, 3]", "found 29"];
    says(forward(&x[1..], 5, 2, Layout::TimeFirst), &words);
    says(forward(&x[1..], 5, 2, Layout::BatchFirst), &["[B, T, I] = [2, 5, 3]", "found 29"]);
    says(forward(&[], 5, 2, Layout::TimeFirst), &["expected 30", "found 0"]);
    says(forward(&x, 6, 2, Layout::TimeFirst), &["expected 36", "found 30"]);
    says(forward(&x, usize::MAX, 2, Layout::TimeFirst), &["input", "found 30"]);
    says(forward(&x, usize::MAX, usize::MAX, Layout::BatchFirst), &["input", "found 30"]);
    assert_eq!(forward(&x, 5, 2, Layout::BatchFirst), Ok(40));

    let sequences = Sequences::new(&x, STEPS, BATCH);
    let mut last = State::default();
    let mut y = vec![7.0; 41];
    says(
        runner.forward_into(&network, &sequences, None, &mut y, &mut last),
        &["output", "expected 40 elements", "[T, B, D·P] = [5, 2, 4]", "found 41"],
    );
    let training = Training::default();
    let short = &mut y[..39];
    says(
        runner.train_into(&network, &sequences, None, training, short, &mut last),
        &["output", "expected 40", "found 39"],
    );
    assert!(y.iter().all(|&y| y == 7.0) && last == State::default(), "a call that is refused writes nothing");
}

#[test]
fn states_of_the_wrong_size() {
    let (network, x) = (net(lstm().with_layers(2).with_projection(3)), x());
    let mut runner = Runner::<f32>::default();
    let sequences = Sequences::new(&x, STEPS, BATCH);
    let good = network.zero_state(BATCH).unwrap();
    let mut h = good.clone();
    h.h.push(0.0);
    let words = ["initial h", "expected 12 elements", "[L·D, B, P] = [2, 2, 3]", "found 13"];
    says(runner.forward(&network, &sequences, Some(&h)), &words);
    let mut c = good.clone();
    c.c.clear();
    let words = ["initial c", "expected 16 elements", "[L·D, B, H] = [2, 2, 4]", "found 0"];
    says(runner.train(&network, &sequences, Some(&c), Training::default()), &words);
    runner.train(&network, &sequences, Some(&good), Training::default()).unwrap();
    let dy = vec![0.0f32; STEPS * BATCH * 3];
    says(runner.backward(&network, &dy, Some(&h)), &["gradient of the final h", "expected 12", "found 13"]);
    says(runner.backward(&network, &dy, Some(&c)), &["gradient of the final c", "expected 16", "found 0"]);
    runner.backward(&network, &dy, Some(&good)).unwrap();

    let gru = net(Config::new(named(Kind::Gru, "paper"), 3, 4));
    let with_c = State { h: vec![0.0; 8], c: vec![0.0; 8] };
    says(runner.forward(&gru, &sequences, Some(&with_c)), &["initial c", "expected 0", "without c", "found 8"]);
}

#[test]
fn lengths() {
    let (network, x) = (net(lstm()), x());
    let mut runner = Runner::<f32>::default();
    let mut with = |lengths: &[usize]| {
        let (mut y, mut last) = (vec![7.0; 40], State { h: vec![3.0], c: vec![4.0] });
        let sequences = Sequences::new(&x, STEPS, BATCH).with_lengths(lengths);
        let result = runner.forward_into(&network, &sequences, None, &mut y, &mut last);
        if result.is_err() {
            assert!(y.iter().all(|&y| y == 7.0), "a call that is refused writes no output");
            assert_eq!(last, State { h: vec![3.0], c: vec![4.0] }, "a call that is refused writes no state");
        }
        result
    };
    says(with(&[5, 6]), &["sequence 1", "expected 1 to 5", "found 6"]);
    says(with(&[0, 5]), &["sequence 0", "expected 1 to 5", "found 0"]);
    says(with(&[usize::MAX, 5]), &["sequence 0", "expected 1 to 5", "found 18446744073709551615"]);
    says(with(&[5]), &["lengths", "expected 2 elements", "[B] = [2]", "found 1"]);
    says(with(&[5, 5, 5]), &["lengths", "expected 2", "found 3"]);
    says(with(&[]), &["lengths", "expected 2", "found 0"]);
    with(&[5, 1]).unwrap();
}

#[test]
fn no_steps_and_no_sequences() {
    const NONE: &[f32] = &[];
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Both] {
            let network = net(Config::new(variant, 3, 4).with_layers(2).with_direction(direction));
            let mut runner = Runner::<f32>::default();
            // Without steps the state stays what it was, and so does its gradient.
            let mut initial = network.zero_state(BATCH).unwrap();
            initial.h.fill(0.25);
            let out =
                runner.train(&network, &Sequences::new(NONE, 0, BATCH), Some(&initial), Training::default()).unwrap();
            assert!(out.y.is_empty() && out.state == initial);
            let gradients = runner.backward(&network, NONE, Some(&initial)).unwrap();
            assert!(gradients.input.is_empty() && gradients.state == initial);
            assert!(gradients.params.values().iter().all(|&g| g == 0.0));
            // Without sequences there is nothing at all.
            let nobody = network.zero_state(0).unwrap();
            for steps in [0, 5, usize::MAX] {
                let sequences = Sequences::new(NONE, steps, 0).with_lengths(&[]);
                let out = runner.train(&network, &sequences, Some(&nobody), Training::default()).unwrap();
                assert!(out.y.is_empty() && out.state == nobody);
                assert_eq!(runner.backward(&network, NONE, None).unwrap().state, nobody);
            }
            says(runner.forward(&network, &Sequences::new(NONE, 0, 1).with_lengths(&[1]), None), &["expected 1 to 0"]);
        }
    }
}

#[test]
fn one_hidden_unit() {
    for variant in variants() {
        let network = net(Config::new(variant, 3, 1).with_layers(2).with_direction(Direction::Both));
        let mut runner = Runner::<f32>::default();
        let x = x();
        let out = runner.train(&network, &Sequences::new(&x, STEPS, BATCH), None, Training::default()).unwrap();
        let gradients = runner.backward(&network, &vec![1.0f32; out.y.len()], None).unwrap();
        assert!(out.y.iter().chain(&gradients.input).chain(gradients.params.values()).all(|v| v.is_finite()));
    }
}

#[test]
fn backward_without_a_forward_pass_in_training() {
    let (mut network, x) = (net(lstm()), x());
    let mut runner = Runner::<f32>::default();
    let sequences = Sequences::new(&x, STEPS, BATCH);
    let dy = vec![1.0f32; 40];
    let words = ["backward", "expected a preceding forward pass in training", "found none"];
    let train = |runner: &mut Runner<f32>, network: &Network<f32>| {
        runner.train(network, &sequences, None, Training::default()).unwrap();
    };
    assert_eq!(says(runner.backward(&network, &dy, None), &words), Error::NothingRecorded);
    runner.forward(&network, &sequences, None).unwrap();
    assert_eq!(says(runner.backward(&network, &dy, None), &words), Error::NothingRecorded);
    // Any other pass in between ends it: the tape is gone.
    train(&mut runner, &network);
    runner.forward(&network, &sequences, None).unwrap();
    assert_eq!(says(runner.backward(&network, &dy, None), &words), Error::NothingRecorded);
    train(&mut runner, &network);
    runner.step(&network, &x[..3], &mut network.zero_state(1).unwrap(), &mut [0.0; 4]).unwrap();
    assert_eq!(says(runner.backward(&network, &dy, None), &words), Error::NothingRecorded);

    // Other parameters, another network, another config.
    train(&mut runner, &network);
    network.params_mut().values_mut()[0] += 1.0;
    let words =
        ["expected the unchanged network of the preceding forward pass", "found another network or other parameters"];
    assert_eq!(says(runner.backward(&network, &dy, None), &words), Error::OtherNetwork);
    train(&mut runner, &network);
    assert_eq!(says(runner.backward(&net(lstm()), &dy, None), &words), Error::OtherNetwork);
    assert_eq!(says(runner.backward(&net(lstm().with_layers(3)), &dy, None), &words), Error::OtherNetwork);
    let noisy = lstm().with_noise(Noise { zoneout_hidden: 0.5, ..Noise::default() });
    let noisy = Network::from_params(noisy, network.params().clone()).unwrap();
    assert_eq!(says(runner.backward(&noisy, &dy, None), &words), Error::OtherNetwork);

    // A refused call leaves the tape as it was. A copy is the same network.
    says(runner.backward(&network, &dy[1..], None), &["gradient of the output", "expected 40", "found 39"]);
    runner.backward(&network.clone(), &dy, None).unwrap();
}

#[test]
fn gradients_of_the_wrong_size() {
    let (network, x) = (net(lstm()), x());
    let mut runner = Runner::<f32>::default();
    runner.train(&network, &Sequences::new(&x, STEPS, BATCH), None, Training::default()).unwrap();
    let dy = vec![1.0f32; 40];
    let state = network.zero_state(BATCH).unwrap();
    let mut gradients = Gradients { input: vec![7.0f32; 31], params: network.params().zeros_like(), state };
    let words = ["gradient of the input", "expected 30 elements", "[T, B, I] = [5, 2, 3]", "found 31"];
    says(runner.backward_into(&network, &dy, None, 0, &mut gradients), &words);
    gradients.input.pop();
    gradients.params = Params::zeros(&lstm().with_layers(2)).unwrap();
    says(runner.backward_into(&network, &dy, None, 0, &mut gradients), &["expected", "found"]);
    assert!(gradients.input.iter().all(|&dx| dx == 7.0) && gradients.params.values().iter().all(|&d| d == 0.0));
    // The state's gradient grows to its size.
    gradients.params = network.params().zeros_like();
    gradients.state = State::default();
    runner.backward_into(&network, &dy, None, 0, &mut gradients).unwrap();
    assert_eq!(gradients.state.h.len(), 8);
}

#[test]
fn truncated_backward() {
    let x = x();
    let mut runner = Runner::<f32>::default();
    let sequences = Sequences::new(&x, STEPS, BATCH);
    for (direction, width) in [(Direction::Both, 8), (Direction::Reverse, 4)] {
        let network = net(lstm().with_direction(direction));
        runner.train(&network, &sequences, None, Training::default()).unwrap();
        let dy = vec![1.0f32; STEPS * BATCH * width];
        let words = ["truncated backward", "expected a network that runs forward in time", "from = 2"];
        says(runner.backward_from(&network, &dy, None, 2), &words);
        runner.backward_from(&network, &dy, None, 0).unwrap();
    }
    let network = net(lstm());
    let dy = vec![1.0f32; 40];
    runner.train(&network, &sequences, None, Training::default()).unwrap();
    for from in [6, usize::MAX] {
        says(runner.backward_from(&network, &dy, None, from), &["from", "expected", &format!("found {from}")]);
    }
    // From the end on there is nothing.
    let nothing = runner.backward_from(&network, &dy, None, 5).unwrap();
    assert!(nothing.input.iter().chain(nothing.params.values()).chain(&nothing.state.h).all(|&d| d == 0.0));
}

#[test]
fn steps() {
    let mut runner = Runner::<f32>::default();
    for direction in [Direction::Reverse, Direction::Both] {
        let network = net(lstm().with_direction(direction));
        let mut state = network.zero_state(1).unwrap();
        let words = ["step", "expected a network that runs forward in time", "found"];
        says(runner.step(&network, &[0.0f32; 3], &mut state, &mut [0.0; 8]), &words);
    }
    let network = net(lstm());
    let mut state = network.zero_state(2).unwrap();
    state.h.fill(0.5);
    let before = state.clone();
    let mut y = [7.0f32; 8];
    says(runner.step(&network, &[0.0; 5], &mut state, &mut y), &["x", "[B, I]", "found 5"]);
    says(runner.step(&network, &[0.0; 9], &mut state, &mut y), &["state h", "expected 12", "found 8"]);
    says(runner.step(&network, &[0.0; 6], &mut state, &mut y[1..]), &["output", "expected 8", "found 7"]);
    assert_eq!(state, before, "a step that is refused leaves the state");
    assert_eq!(y, [7.0; 8], "and writes nothing");
    runner.step(&network, &[0.0; 6], &mut state, &mut y).unwrap();
    runner.step::<f32>(&network, &[], &mut network.zero_state(0).unwrap(), &mut []).unwrap();
}

#[test]
fn variants_that_do_not_go_together() {
    let norm = NormSpec::new(1e-5);
    let plain = Variant::plain;
    let split = Some(norm.over(Over::GatesAndCandidate));
    let cell = |norm| Some(CellNorm { norm, carried: false });
    let gru = plain(Kind::Gru);
    let cases: Vec<(Variant, &str)> = vec![
        (Variant { input_norm: split, ..plain(Kind::Lstm) }, "only a GRU"),
        (Variant { sum_norm: split, ..plain(Kind::Rnn) }, "only a GRU"),
        (Variant { cell_norm: cell(norm), ..gru }, "belong to LSTMs"),
        (Variant { peephole: true, ..gru }, "belong to LSTMs"),
        (Variant { coupled: true, ..plain(Kind::Rnn) }, "belong to LSTMs"),
        (Variant { cell_clip: Some(1.0), ..gru }, "belong to LSTMs"),
        (Variant { projection_bias: true, ..gru }, "projection"),
        (Variant { projection_clip: Some(1.0), ..plain(Kind::Rnn) }, "projection"),
        (Variant { offset: 1.0, ..plain(Kind::Rnn) }, "offset"),
        (Variant { peephole: true, sum_norm: Some(norm), ..plain(Kind::Lstm) }, "cover each gate separately"),
        (Variant { sum_norm: Some(norm), ..gru }, "norm of the sum"),
        (Variant { sum_norm: Some(norm), reset: Reset::State, ..gru }, "norm of the sum"),
        (Variant { recurrent_norm: Some(norm), reset: Reset::State, ..gru }, "recurrent norm"),
        (Variant { tied_bias: true, bias: false, ..plain(Kind::Lstm) }, "tied bias"),
        (Variant { tied_bias: true, input_bias: true, ..plain(Kind::Lstm) }, "tied bias"),
    ];
    for (variant, word) in cases {
        let variant = Variant { name: "mine", ..variant };
        assert!(matches!(says(variant.check(), &["mine", word]), Error::Variant { .. }));
        says(Network::<f32>::new(Config::new(variant, 3, 4), Init::torch(), 1), &["mine", word]);
    }
    for (variant, words) in [
        (Variant { offset: f64::NAN, ..gru }, ["offset", "expected a finite number", "found NaN"]),
        (Variant { offset: f64::INFINITY, ..gru }, ["offset", "expected a finite number", "found inf"]),
        (Variant { cell_clip: Some(0.0), ..plain(Kind::Lstm) }, ["cell clip", "expected a positive number", "found 0"]),
        (
            Variant { cell_clip: Some(-1.0), ..plain(Kind::Lstm) },
            ["cell clip", "expected a positive number", "found -1"],
        ),
        (
            Variant { projection_clip: Some(f64::NAN), ..plain(Kind::Lstm) },
            ["projection clip", "expected a positive number", "found NaN"],
        ),
    ] {
        says(variant.check(), &words);
    }
    for eps in [-1e-5, f64::NAN, f64::INFINITY] {
        for place in [EpsPlace::Variance, EpsPlace::Deviation] {
            let norm = NormSpec { eps_place: place, ..NormSpec::new(eps) };
            let variants = [
                Variant { input_norm: Some(norm), ..plain(Kind::Lstm) },
                Variant { recurrent_norm: Some(norm), ..gru },
                Variant { sum_norm: Some(norm), ..plain(Kind::Rnn) },
                Variant { cell_norm: cell(norm), ..plain(Kind::Lstm) },
            ];
            for variant in variants {
                assert!(matches!(says(variant.check(), &["eps", &eps.to_string()]), Error::Norm(_)));
            }
        }
    }
    says(Variant::named(Kind::Gru, "papier"), &["gru", "expected one of", "dreamer", "found \"papier\""]);
    variants().for_each(|variant| variant.check().unwrap());
}

#[test]
fn configs_that_cannot_be() {
    let size = |config: Config, words: &[&str]| {
        says(config.check(), words);
        says(Params::<f32>::zeros(&config), words);
        says(Network::<f64>::new(config, Init::paper(), 1), words);
    };
    size(Config { input: 0, ..lstm() }, &["input", "expected 1 to 16777216", "found 0"]);
    size(Config { input: usize::MAX, ..lstm() }, &["input", "expected 1 to 16777216", "found 18446744073709551615"]);
    size(Config { hidden: 0, ..lstm() }, &["hidden", "expected 1 to", "found 0"]);
    size(Config { hidden: (1 << 24) + 1, ..lstm() }, &["hidden", "expected 1 to 16777216", "found 16777217"]);
    size(lstm().with_layers(0), &["layers", "expected 1 to 1024", "found 0"]);
    size(lstm().with_layers(1025), &["layers", "expected 1 to 1024", "found 1025"]);
    size(lstm().with_projection(0), &["projection", "expected 1 to", "found 0"]);
    for kind in [Kind::Gru, Kind::Rnn] {
        let config = Config::new(named(kind, "paper"), 3, 4);
        size(config.with_projection(2), &["projection", "expected an LSTM", "found another cell"]);
        let noise = Noise { zoneout_cell: 0.1, ..Noise::default() };
        size(config.with_noise(noise), &["zoneout of c", "expected an LSTM", "found a cell without c"]);
    }
    for rate in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
        let quiet = Noise::default();
        for (what, noise) in [
            ("dropout", Noise { dropout: rate, ..quiet }),
            ("recurrent dropout", Noise { recurrent_dropout: rate, ..quiet }),
            ("DropConnect", Noise { drop_connect: rate, ..quiet }),
            ("zoneout of h", Noise { zoneout_hidden: rate, ..quiet }),
            ("zoneout of c", Noise { zoneout_cell: rate, ..quiet }),
        ] {
            let found = format!("found {rate}");
            size(lstm().with_noise(noise), &[what, "expected a probability", "less than 1", &found]);
        }
    }
    // Each size is possible, but not all of them together.
    let huge = Config { hidden: 1 << 24, layers: 1024, ..lstm() };
    huge.check().unwrap();
    says(Params::<f64>::zeros(&huge), &["out of memory", "bytes"]);
    says(Network::from_params(lstm().with_layers(2), Params::<f32>::zeros(&lstm()).unwrap()), &["expected", "found"]);
}

#[test]
fn a_batch_that_no_memory_holds() {
    let network = net(lstm());
    let mut runner = Runner::<f32>::default();
    for batch in [1 << 60, usize::MAX] {
        says(network.zero_state(batch), &["out of memory", "bytes"]);
        for training in [None, Some(Training { seed: 1, keep: Keep::Recompute })] {
            let sequences = Sequences::new(&[] as &[f32], 0, batch);
            let result = match training {
                None => runner.forward(&network, &sequences, None),
                Some(training) => runner.train(&network, &sequences, None, training),
            };
            says(result, &["out of memory", "bytes"]);
        }
    }
    assert_eq!(runner.backward::<f32>(&network, &[], None).unwrap_err(), Error::NothingRecorded);
}

/// Sizes of which some are good; the bad ones are so bad that no memory could hold what they ask for.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![30 => 1usize..6, 1 => Just(0), 1 => Just(1 << 60), 1 => Just(usize::MAX)]
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![20 => Just(0.0), 6 => 0.0..1.0f64, 1 => prop_oneof![Just(-1.0), Just(1.0), Just(f64::NAN)]]
}

fn config() -> impl Strategy<Value = Config> {
    let noise = (rate(), rate(), rate(), rate(), rate()).prop_map(
        |(dropout, recurrent_dropout, drop_connect, zoneout_hidden, zoneout_cell)| Noise {
            dropout,
            recurrent_dropout,
            drop_connect,
            zoneout_hidden,
            zoneout_cell,
        },
    );
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse), Just(Direction::Both)];
    let all: Vec<Variant> = variants().collect();
    let variant =
        (0..all.len(), any::<[bool; 4]>()).prop_map(move |(number, [clip, tied, coupled, peephole])| Variant {
            cell_clip: clip.then_some(0.5).or(all[number].cell_clip),
            tied_bias: tied,
            coupled: coupled || all[number].coupled,
            peephole: peephole || all[number].peephole,
            ..all[number]
        });
    let plain = (0..25usize).prop_map(|number| variants().nth(number).unwrap());
    let variant = prop_oneof![plain, variant];
    let sizes = (size(), size(), size(), proptest::option::weighted(0.3, size()));
    (variant, sizes, direction, noise).prop_map(|(variant, (input, hidden, layers, projection), direction, noise)| {
        Config { variant, input, hidden, layers, direction, projection, noise }
    })
}

/// A length of a slice: the right one, or any.
fn length(right: usize, off: usize) -> usize {
    if off < 30 || right > 1 << 16 { right.min(1 << 16) } else { off - 30 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, rng_seed: proptest::test_runner::RngSeed::Fixed(7), failure_persistence: None, ..Default::default() })]

    /// Any sizes at all give a result or an error, and a result has the right size.
    #[test]
    fn nothing_panics(
        config in config(),
        (steps, batch) in (size(), size()),
        layout in prop_oneof![Just(Layout::TimeFirst), Just(Layout::BatchFirst)],
        lengths in proptest::option::weighted(0.3, proptest::collection::vec(0usize..7, 0..6)),
        off in proptest::array::uniform5(0usize..34),
        from in prop_oneof![3 => Just(0), 1 => 0usize..7, 1 => Just(usize::MAX)],
        keep in prop_oneof![Just(Keep::All), Just(Keep::Recompute)],
    ) {
        let Ok(network) = Network::<f32>::new(config, Init::for_variant(&config.variant), 1) else { return Ok(()) };
        let places = steps.saturating_mul(batch);
        let x = vec![0.5f32; length(places.saturating_mul(config.input), off[0])];
        let width = config.output() * config.directions();
        let mut y = vec![0.0f32; length(places.saturating_mul(width), off[1])];
        let cells = config.layers * config.directions();
        let numbers = |of: usize, off: usize| vec![0.1f32; length(batch.saturating_mul(cells * of), off)];
        let initial = State { h: numbers(config.output(), off[2]), c: numbers(if config.has_cell() { config.hidden } else { 0 }, off[3]) };
        let sequences = Sequences { data: &x, steps, batch, layout, lengths: lengths.as_deref() };
        let mut runner = Runner::<f32>::default();
        let mut last = State::default();
        let training = Training { seed: 5, keep };
        let _ = runner.forward(&network, &sequences, None);
        let _ = runner.step(&network, &x, &mut initial.clone(), &mut y);
        if runner.train_into(&network, &sequences, Some(&initial), training, &mut y, &mut last).is_ok() {
            prop_assert_eq!(x.len(), places * config.input);
            prop_assert_eq!(y.len(), places * width);
            prop_assert_eq!(&last.h.len(), &initial.h.len());
            prop_assert!(y.iter().all(|y| y.is_finite()));
        }
        let dy = vec![1.0f32; length(places.saturating_mul(width), off[4])];
        if let Ok(gradients) = runner.backward_from(&network, &dy, Some(&initial), from) {
            prop_assert_eq!(gradients.input.len(), places * config.input);
            prop_assert!(gradients.input.iter().chain(gradients.params.values()).all(|d| d.is_finite()));
        }
    }
}

/// Rule 6: a row of the largest numbers there are has finite gradients, that of its gain too.
#[test]
fn rows_at_the_end_of_the_range() {
    let variant = Variant::named(Kind::Rnn, "split").unwrap();
    let mut network = net(Config::new(variant, 1, 3));
    network.params_mut().get_mut(0, 0, Slot::InputWeight).unwrap().copy_from_slice(&[3e38, -3e38, -3e38]);
    let mut runner = Runner::<f32>::default();
    let output = runner.train(&network, &Sequences::new(&[1.0f32], 1, 1), None, Training::default()).unwrap();
    let gradients = runner.backward(&network, &[1.0, 2.0, 3.0], None).unwrap();
    let numbers = output.y.iter().chain(&gradients.input).chain(gradients.params.values());
    assert!(numbers.copied().all(f32::is_finite), "{output:?} {gradients:?}");
}

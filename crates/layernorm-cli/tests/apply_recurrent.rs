//! `layernorm apply lstm`, `gru` and `rnn` give the bits of the library, for any file layout, number of threads and instruction
//! set.

mod apply_common;

use apply_common::{Folder, Random};
use layernorm::{Context, Element, Isa, f16};
use layernorm_npy::Scalar;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Direction, Init, Kind, Network, Output, Real, Runner, Sequences, State, Variant};

const T: usize = 6;
const B: usize = 5;
const I: usize = 4;
const H: usize = 7;

fn named(kind: Kind, name: &str) -> Config {
    Config::new(Variant::named(kind, name).unwrap(), I, H)
}

/// Writes the network as a native file in f64.
fn save(folder: &Folder, config: Config) -> Network<f64> {
    let network = Network::new(config, Init::for_variant(&config.variant), 3).unwrap();
    weights::save(&network, Format::Native, Dtype::F64, folder.path().join("w.safetensors")).unwrap();
    network
}

fn rounded<A: Real>(network: &Network<f64>) -> Network<A> {
    let bytes = weights::to_bytes(network, Format::Native, Dtype::F64).unwrap();
    weights::load_native(&bytes).unwrap()
}

/// Writes x to a file and returns it.
fn save_x<N: Element + Scalar>(folder: &Folder, shape: &[usize]) -> Vec<N> {
    let x = Random::new(5).numbers(shape.iter().product(), 0.0);
    folder.save("x.npy", shape, &x);
    x
}

/// Runs the command and compares y and the final state with the library's.
fn check<N>(folder: &Folder, command: &str, config: &Config, expected: &Output<N>)
where
    N: Element<Acc: Scalar + std::fmt::Debug> + Scalar + PartialEq + std::fmt::Debug,
{
    let final_c = if config.has_cell() { "--final-c cn.npy" } else { "" };
    folder.apply(&format!(
        "{} --weights w.safetensors --input x.npy --output y.npy --final-h hn.npy {final_c} {command}",
        config.variant.kind.name()
    ));
    let cells = config.layers * config.directions();
    let width = config.output() * config.directions();
    let y = if command.contains("--batch-first") { [B, T, width] } else { [T, B, width] };
    assert_eq!(folder.load::<N>("y.npy", &y), expected.y, "{command}");
    assert_eq!(folder.load::<N::Acc>("hn.npy", &[cells, B, config.output()]), expected.state.h, "{command}");
    if config.has_cell() {
        assert_eq!(folder.load::<N::Acc>("cn.npy", &[cells, B, config.hidden]), expected.state.c, "{command}");
    }
}

fn every_variant<N>()
where
    N: Element<Acc: Scalar + Real> + Scalar + PartialEq + std::fmt::Debug,
{
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        let folder = Folder::new();
        let config = named(variant.kind, variant.name);
        let network = rounded::<N::Acc>(&save(&folder, config));
        let x = save_x::<N>(&folder, &[T, B, I]);
        let expected = Runner::default().forward(&network, &Sequences::new(&x, T, B), None).unwrap();
        check(&folder, "", &config, &expected);
        check(&folder, &format!("--variant {}", variant.name), &config, &expected);
    }
}

#[test]
fn every_variant_gives_the_bits_of_the_library() {
    every_variant::<f32>();
    every_variant::<f64>();
    every_variant::<f16>();
}

/// Two layers, bidirectional, a projection, lengths, an initial state, another ε.
#[test]
fn everything_at_once() {
    let folder = Folder::new();
    let config = named(Kind::Lstm, "paper").with_layers(2).with_direction(Direction::Both).with_projection(3);
    let eps = Config { variant: config.variant.with_eps(0.25), ..config };
    let network = save(&folder, config);
    let network = Network::from_params(eps, rounded::<f32>(&network).params().clone()).unwrap();
    let x = save_x::<f32>(&folder, &[B, T, I]);
    let mut random = Random::new(9);
    let initial = State { h: random.numbers(4 * B * 3, 0.0), c: random.numbers(4 * B * H, 0.0) };
    folder.save("h0.npy", &[4, B, 3], &initial.h);
    folder.save("c0.npy", &[4, B, H], &initial.c);
    let lengths = [6usize, 1, 3, 6, 2];
    folder.save("n32.npy", &[B], &lengths.map(|n| n as i32));
    folder.save("n64.npy", &[B], &lengths.map(|n| n as i64));
    folder.save("n8.npy", &[B], &lengths.map(|n| n as u8));
    let sequences = Sequences::new(&x, T, B).batch_first().with_lengths(&lengths);
    let expected = Runner::default().forward(&network, &sequences, Some(&initial)).unwrap();
    for lengths in ["n32", "n64", "n8"] {
        let command = format!("--batch-first --lengths {lengths}.npy --h0 h0.npy --c0 c0.npy --eps 0.25");
        check(&folder, &command, &eps, &expected);
    }
    // Missing parts of the state are 0.
    let half = State { h: initial.h.clone(), c: vec![0.0; initial.c.len()] };
    let expected = Runner::default().forward(&network, &sequences, Some(&half)).unwrap();
    check(&folder, "--batch-first --lengths n8.npy --h0 h0.npy --eps 0.25", &eps, &expected);
}

#[test]
fn from_the_last_step_to_the_first() {
    let folder = Folder::new();
    let config = named(Kind::Gru, "haste");
    save(&folder, config);
    let reverse = config.with_direction(Direction::Reverse);
    let network = Network::<f64>::new(reverse, Init::for_variant(&config.variant), 3).unwrap();
    let x = save_x::<f64>(&folder, &[T, B, I]);
    let expected = Runner::default().forward(&network, &Sequences::new(&x, T, B), None).unwrap();
    check(&folder, "--reverse", &config, &expected);
}

#[test]
fn a_single_sequence_has_no_dimension_for_the_batch() {
    let folder = Folder::new();
    let network = rounded::<f32>(&save(&folder, named(Kind::Lstm, "keras")));
    let x = save_x::<f32>(&folder, &[T, I]);
    let expected = Runner::default().forward(&network, &Sequences::new(&x, T, 1), None).unwrap();
    let command = "lstm --weights w.safetensors --input x.npy --output y.npy --final-h hn.npy --final-c cn.npy";
    folder.apply(command);
    assert_eq!(folder.load::<f32>("y.npy", &[T, H]), expected.y);
    assert_eq!(folder.load::<f32>("hn.npy", &[1, H]), expected.state.h);
    // The final state of one call is the initial state of the next, with and without a batch dimension.
    let next = Runner::default().forward(&network, &Sequences::new(&x, T, 1), Some(&expected.state)).unwrap();
    folder.save("c0.npy", &[1, 1, H], &expected.state.c);
    folder.apply("lstm --weights w.safetensors --input x.npy --output y.npy --h0 hn.npy --c0 c0.npy");
    assert_eq!(folder.load::<f32>("y.npy", &[T, H]), next.y);
}

#[test]
fn order_threads_and_instruction_sets_change_no_bit() {
    let folder = Folder::new();
    let config = named(Kind::Gru, "paper").with_layers(2);
    let network = rounded::<f32>(&save(&folder, config));
    let x = save_x::<f32>(&folder, &[T, B, I]);
    let expected = Runner::default().forward(&network, &Sequences::new(&x, T, B), None).unwrap();
    for isa in Isa::available() {
        check(&folder, &format!("--isa {isa} --threads 3"), &config, &expected);
    }
    folder.save_fortran("x.npy", &[T, B, I], &x);
    check(&folder, "", &config, &expected);
}

/// f16 input: arithmetic and states are f32, and an initial state may be either.
#[test]
fn half_precision_has_states_of_f32() {
    let folder = Folder::new();
    let config = named(Kind::Lstm, "none");
    let network = rounded::<f32>(&save(&folder, config));
    let x = save_x::<f16>(&folder, &[T, B, I]);
    let h: Vec<f16> = Random::new(6).numbers(B * H, 0.0);
    folder.save("half.npy", &[1, B, H], &h);
    let wide: Vec<f32> = h.iter().map(|h| h.to_f32()).collect();
    folder.save("wide.npy", &[1, B, H], &wide);
    let initial = State { h: wide, c: vec![0.0; B * H] };
    let mut runner = Runner::new(Context::new());
    let expected = runner.forward(&network, &Sequences::new(&x, T, B), Some(&initial)).unwrap();
    check(&folder, "--h0 half.npy", &config, &expected);
    check(&folder, "--h0 wide.npy", &config, &expected);
}

#[test]
fn no_sequences_and_no_steps_give_empty_results() {
    let folder = Folder::new();
    save(&folder, named(Kind::Rnn, "paper"));
    for shape in [[0, B, I], [T, 0, I]] {
        folder.save::<f32>("x.npy", &shape, &[]);
        folder.apply("rnn --weights w.safetensors --input x.npy --output y.npy --final-h h.npy");
        assert!(folder.load::<f32>("y.npy", &[shape[0], shape[1], H]).is_empty());
        assert_eq!(folder.load::<f32>("h.npy", &[1, shape[1], H]), vec![0.0; shape[1] * H]);
    }
}

#[test]
fn help_and_the_list_of_variants() {
    let folder = Folder::new();
    let help = folder.succeed("apply --help");
    assert!(["lstm", "gru", "rnn", "layer-norm"].iter().all(|word| help.contains(word)));
    for kind in Kind::ALL {
        let help = folder.succeed(&format!("apply {} --help", kind.name()));
        let words = ["--weights", "--lengths", "--h0", "--batch-first", "Examples:", "int64", "weights init"];
        assert!(words.iter().all(|word| help.contains(word)), "{help}");
        let list = folder.succeed(&format!("apply {} --variant list", kind.name()));
        assert!(Variant::all(kind).all(|variant| list.contains(&format!("\n  {} ", variant.name))), "{list}");
    }
}

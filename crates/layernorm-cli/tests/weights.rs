//! `layernorm weights`: what is made can be shown, converted and run; what does not fit is refused.

mod apply_common;

use apply_common::Folder;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Direction, Init, Kind, Network, Variant};
use serde_json::Value;

fn json(folder: &Folder, arguments: &str) -> Value {
    serde_json::from_str(&folder.succeed(arguments)).expect("one JSON object")
}

fn native(folder: &Folder, file: &str) -> Network<f64> {
    weights::load_native(&folder.bytes(file)).unwrap()
}

#[test]
fn init_makes_the_network_of_the_library() {
    let folder = Folder::new();
    let options = "--layers 2 --bidirectional --projection 3 --seed 7 --dtype f64 --eps 1e-4";
    folder.succeed(&format!("weights init w.safetensors --cell lstm --variant haste --input 4 --hidden 5 {options}"));
    let variant = Variant::named(Kind::Lstm, "haste").unwrap().with_eps(1e-4);
    let config = Config::new(variant, 4, 5).with_layers(2).with_direction(Direction::Both).with_projection(3);
    assert_eq!(native(&folder, "w.safetensors"), Network::new(config, Init::haste(), 7).unwrap());

    folder.succeed("weights init w.safetensors --cell gru --input 4 --hidden 5 --reverse --init torch --dtype f64");
    let config = Config::new(Variant::named(Kind::Gru, "paper").unwrap(), 4, 5).with_direction(Direction::Reverse);
    assert_eq!(native(&folder, "w.safetensors"), Network::new(config, Init::torch(), 0).unwrap());
    assert_eq!(folder.names(), ["w.safetensors"], "nothing is left beside it");
}

#[test]
fn every_start_and_variant_can_be_made() {
    let folder = Folder::new();
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        let (cell, name) = (variant.kind.name(), variant.name);
        folder.succeed(&format!("weights init w.safetensors --cell {cell} --variant {name} --input 3 --hidden 4"));
        let shown = json(&folder, "weights show w.safetensors --json");
        assert_eq!((&shown["networks"][0]["variant"], &shown["format"]), (&name.into(), &"native".into()));
    }
    let starts = ["paper", "theano", "draw", "fastrnns", "torchaudio", "keras", "haste", "contrib", "dreamer", "torch"];
    for start in starts {
        folder.succeed(&format!("weights init w.safetensors --cell lstm --input 3 --hidden 4 --init {start}"));
    }
}

#[test]
fn show_tells_format_sizes_and_tensors() {
    let folder = Folder::new();
    let make = "weights init w.safetensors --cell lstm --variant none --input 4 --hidden 5 --layers 2 --format torch";
    folder.succeed(make);
    let shown = json(&folder, "weights show w.safetensors --json");
    assert_eq!((&shown["format"], &shown["format_given"]), (&"torch".into(), &false.into()));
    let networks = shown["networks"].as_array().unwrap();
    assert_eq!(networks.len(), 1);
    let network = &networks[0];
    assert_eq!((&network["cell"], &network["variant"]), (&"lstm".into(), &"none".into()));
    assert_eq!((&network["input"], &network["hidden"], &network["layers"]), (&4.into(), &5.into(), &2.into()));
    let tensors = shown["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), 8);
    assert_eq!(tensors[4]["name"], "weight_hh_l0");
    assert_eq!((&tensors[4]["dtype"], &tensors[4]["shape"]), (&"f32".into(), &vec![20, 5].into()));
    let text = folder.succeed("weights show w.safetensors");
    for part in ["format torch, seen from the names", "8 tensors", "lstm, variant none: input 4, hidden 5, 2 layers"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Tensors of something else are shown all the same.
    let other = safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![1], &[0; 8]).unwrap();
    let bytes = safetensors::serialize([("embedding", other)], None).unwrap();
    std::fs::write(folder.path().join("other.safetensors"), bytes).unwrap();
    let shown = json(&folder, "weights show other.safetensors --json");
    assert_eq!((&shown["format"], shown["tensors"].as_array().unwrap().len()), (&Value::Null, 1));
    assert!(folder.succeed("weights show other.safetensors").contains("no format that is known"));
}

/// There and back is the same network, for every variant and every format that holds it.
#[test]
fn convert_there_and_back_changes_nothing() {
    let folder = Folder::new();
    let mut pairs = 0;
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        let config = Config::new(*variant, 3, 4);
        let network = Network::<f64>::new(config, Init::torch(), 2).unwrap();
        weights::save(&network, Format::Native, Dtype::F64, folder.path().join("a.safetensors")).unwrap();
        for format in Format::ALL {
            if weights::to_bytes(&network, format, Dtype::F64).is_err() {
                folder.refuse_any(
                    &format!("weights convert a.safetensors c.safetensors --to {}", format.name()),
                    &[format.name()],
                );
                continue;
            }
            folder.succeed(&format!("weights convert a.safetensors b.safetensors --to {}", format.name()));
            let (cell, name) = (variant.kind.name(), variant.name);
            let back = format!("--to native --from {} --cell {cell} --variant {name}", format.name());
            folder.succeed(&format!("weights convert b.safetensors c.safetensors {back}"));
            let bytes = folder.bytes("b.safetensors");
            let config = weights::config_of(&bytes, format, *variant, "").unwrap();
            let expected = weights::load::<f64>(&bytes, format, &config, "").unwrap();
            assert_eq!(native(&folder, "c.safetensors"), expected, "{cell} {name} {}", format.name());
            std::fs::remove_file(folder.path().join("c.safetensors")).unwrap();
            pairs += 1;
        }
    }
    assert!(pairs > 50, "{pairs}");
}

#[test]
fn convert_finds_what_is_in_a_file() {
    let folder = Folder::new();
    folder.succeed("weights init a.safetensors --cell gru --variant dreamer --input 3 --hidden 4 --format dreamer");
    folder.succeed("weights convert a.safetensors b.safetensors --to native --eps 1e-5 --dtype f16");
    let network = native(&folder, "b.safetensors");
    assert_eq!((network.config().variant.name, network.config().input), ("dreamer", 3));
    assert_eq!(network.config().variant.sum_norm.unwrap().eps, 1e-5);
    let shown = json(&folder, "weights show b.safetensors --json");
    assert!(shown["tensors"].as_array().unwrap().iter().all(|tensor| tensor["dtype"] == "f16"));
    // Without --dtype, that of the file.
    folder.succeed("weights convert b.safetensors c.safetensors --to dreamer-torch");
    let shown = json(&folder, "weights show c.safetensors --json");
    assert_eq!((&shown["format"], &shown["tensors"][0]["dtype"]), (&"dreamer-torch".into(), &"f16".into()));
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    folder.succeed("weights init a.safetensors --cell lstm --input 3 --hidden 4");
    folder.succeed("weights init t.safetensors --cell rnn --variant none --input 3 --hidden 4 --format torch");
    let cases = [
        ("show none.safetensors", "none.safetensors: cannot read"),
        ("show a.safetensors --format tensorflow", "possible values: native, torch"),
        ("convert a.safetensors b.safetensors --to torch", "format torch, variant paper"),
        ("convert a.safetensors b.safetensors --to keras", "format keras, variant paper"),
        ("convert a.safetensors b.safetensors --to tensorflow", "possible values: native, torch"),
        ("convert a.safetensors b.safetensors --to native --variant keras", "expected \"paper\""),
        ("convert a.safetensors b.safetensors --to native --cell gru", "expected weights of gru, found those of lstm"),
        ("convert a.safetensors none/b.safetensors --to native", "expected a place in a folder that exists"),
        ("convert none.safetensors b.safetensors --to native", "none.safetensors: cannot read"),
        ("convert t.safetensors b.safetensors --to native", "rnn none, rnn none-relu"),
        ("convert t.safetensors b.safetensors --to native --variant papier", "gru: paper, theano"),
        ("convert t.safetensors b.safetensors --to native --cell gru", "found none that does"),
        ("convert t.safetensors b.safetensors --to native --variant none --prefix x.", "x."),
        ("init b.safetensors --cell lstm --variant papier --input 3 --hidden 4", "expected one of paper, theano"),
        ("init b.safetensors --cell lstm --input 0 --hidden 4", "input: expected 1 to 16777216, found 0"),
        ("init b.safetensors --cell lstm --input 3 --hidden 2000000", "memory"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --layers 2000", "layers: expected 1 to 1024"),
        ("init b.safetensors --cell gru --input 3 --hidden 4 --projection 2", "projection: expected an LSTM"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --eps NaN", "eps: expected a finite number"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --format torch", "format torch, variant paper"),
        ("init none/b.safetensors --cell lstm --input 3 --hidden 4", "expected a place in a folder that exists"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --bidirectional --reverse", "cannot be used with"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --init xavier", "possible values: paper"),
        ("init b.safetensors --input 3 --hidden 4", "--cell"),
    ];
    for (arguments, message) in cases {
        folder.refuse_any(&format!("weights {arguments}"), &[message]);
    }
}

#[test]
fn help_and_the_list_of_variants() {
    let folder = Folder::new();
    let help = folder.succeed("weights --help");
    assert!(["show", "convert", "init", "variants", "Examples:"].iter().all(|word| help.contains(word)), "{help}");
    assert!(folder.succeed("--help").contains("weights"));
    let list = folder.succeed("weights variants");
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        assert!(list.contains(&format!("\n  {} ", variant.name)), "{}", variant.name);
    }
    assert!(!folder.succeed("weights variants gru").contains("torchaudio"));
}

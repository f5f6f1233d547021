//! `layernorm weights`: files can be created, shown, converted and run; bad input is rejected.

mod apply_common;

use apply_common::Folder;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Direction, Init, Kind, Network, Slot, Variant};
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
fn every_initialization_and_variant_can_be_created() {
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
    for part in
        ["format torch, detected from the names", "8 tensors", "lstm, variant none: input 4, hidden 5, 2 layers"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Tensors of an unknown format are shown as well.
    let other = safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![1], &[0; 8]).unwrap();
    let bytes = safetensors::serialize([("embedding", other)], None).unwrap();
    std::fs::write(folder.path().join("other.safetensors"), bytes).unwrap();
    let shown = json(&folder, "weights show other.safetensors --json");
    assert_eq!((&shown["format"], shown["tensors"].as_array().unwrap().len()), (&Value::Null, 1));
    assert!(folder.succeed("weights show other.safetensors").contains("unknown format"));
}

/// Converting there and back gives the same network, for every variant and every format that can store it.
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
            folder.succeed(&format!("weights convert a.safetensors b.safetensors --lossy --to {}", format.name()));
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
    folder.succeed("weights convert a.safetensors b.safetensors --to native --eps 1e-5 --dtype f16 --lossy");
    let network = native(&folder, "b.safetensors");
    assert_eq!((network.config().variant.name, network.config().input), ("dreamer", 3));
    assert_eq!(network.config().variant.sum_norm.unwrap().eps, 1e-5);
    let shown = json(&folder, "weights show b.safetensors --json");
    assert!(shown["tensors"].as_array().unwrap().iter().all(|tensor| tensor["dtype"] == "f16"));
    // Without --dtype, the type of the file.
    folder.succeed("weights convert b.safetensors c.safetensors --to dreamer-torch");
    let shown = json(&folder, "weights show c.safetensors --json");
    assert_eq!((&shown["format"], &shown["tensors"][0]["dtype"]), (&"dreamer-torch".into(), &"f16".into()));
}

/// A network without norms, with all biases set to these values.
fn save_biases(folder: &Folder, format: Format, dtype: Dtype, [x, h]: [f64; 2]) {
    let config = Config::new(Variant::named(Kind::Lstm, "none").unwrap(), 3, 4);
    let mut network = Network::<f64>::new(config, Init::torch(), 2).unwrap();
    network.params_mut().values_mut().fill(0.5);
    network.params_mut().get_mut(0, 0, Slot::InputBias).unwrap().fill(x);
    network.params_mut().get_mut(0, 0, Slot::RecurrentBias).unwrap().fill(h);
    weights::save(&network, format, dtype, folder.path().join("a.safetensors")).unwrap();
}

#[test]
fn rounding_is_rejected_without_lossy() {
    let folder = Folder::new();
    let to_keras = "weights convert a.safetensors b.safetensors --to keras";
    save_biases(&folder, Format::Torch, Dtype::BF16, [1.0, 1.0 / 512.0]);
    let words = ["16 numbers rounded, by at most 2.0e-3 (in \"lstm/lstm_cell/bias\")", "--lossy"];
    folder.refuse_any(to_keras, &words);
    let said = folder.succeed(&format!("{to_keras} --lossy"));
    assert_eq!(said, "b.safetensors: 16 numbers rounded, by at most 2.0e-3 (in \"lstm/lstm_cell/bias\")\n");
    // Nothing is rounded if the type can hold the sums.
    assert_eq!(folder.succeed(&format!("{to_keras} --dtype f32")), "");
    save_biases(&folder, Format::Torch, Dtype::BF16, [1.0, 0.5]);
    assert_eq!(folder.succeed(to_keras), "");
    // Numbers that the type cannot hold at all are not a rounding.
    save_biases(&folder, Format::Torch, Dtype::F32, [1e6, 0.0]);
    let to_f16 = "weights convert a.safetensors b.safetensors --to torch --dtype f16 --lossy";
    folder.refuse_any(to_f16, &["expected numbers that fit f16, found larger ones in \"bias_ih_l0\""]);
    // tf.contrib adds forget_bias = 1 itself.
    save_biases(&folder, Format::Torch, Dtype::F32, [1e-6, 0.0]);
    folder.refuse_any("weights convert a.safetensors b.safetensors --to contrib", &["4 numbers rounded"]);
    folder.succeed("weights convert a.safetensors b.safetensors --to contrib --dtype f64");
    let back = "weights convert b.safetensors c.safetensors --from contrib --to torch --variant none --cell lstm";
    folder.succeed(back);
    let get = |file: &str| {
        let bytes = folder.bytes(file);
        let config = Config::new(Variant::named(Kind::Lstm, "none").unwrap(), 3, 4);
        weights::load::<f64>(&bytes, Format::Torch, &config, "").unwrap()
    };
    let (before, after) = (get("a.safetensors"), get("c.safetensors"));
    assert_eq!(before, after);
}

/// OUT keeps its kind: devices, links, FIFOs, permissions.
#[cfg(unix)]
#[test]
fn out_may_be_a_device_a_link_or_a_private_file() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    let folder = Folder::new();
    let init = |out: &str| folder.succeed(&format!("weights init {out} --cell lstm --input 3 --hidden 4"));
    init("a.safetensors");
    let expected = folder.bytes("a.safetensors");
    init("/dev/null");
    folder.succeed("weights convert a.safetensors /dev/null --to native");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());

    let path = |name: &str| folder.path().join(name);
    std::fs::set_permissions(path("a.safetensors"), std::fs::Permissions::from_mode(0o600)).unwrap();
    init("a.safetensors");
    assert_eq!(std::fs::metadata(path("a.safetensors")).unwrap().mode() & 0o777, 0o600);

    std::fs::write(path("target"), "old").unwrap();
    symlink("target", path("link")).unwrap();
    init("link");
    assert!(path("link").is_symlink() && folder.bytes("target") == expected);

    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| std::fs::read(path("fifo")).unwrap());
        init("fifo");
        assert!(reader.join().unwrap() == expected);
    });
    assert!(std::fs::symlink_metadata(path("fifo")).unwrap().file_type().is_fifo());
    assert_eq!(folder.names(), ["a.safetensors", "fifo", "link", "target"]);
}

#[test]
fn names_in_files_cannot_control_the_terminal() {
    let folder = Folder::new();
    let view = || safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &[0; 4]).unwrap();
    let long = "x".repeat(70_000);
    let bytes = safetensors::serialize([("a\x1b[2Jb\n", view()), (&long, view())], None).unwrap();
    std::fs::write(folder.path().join("odd.safetensors"), bytes).unwrap();
    let text = folder.succeed("weights show odd.safetensors");
    assert!(!text.contains('\x1b') && text.contains(r"a\u{1b}[2Jb\n  ") && text.contains(&long), "{}", &text[..200]);
    let error = folder.layernorm("weights show none\x1b[2J");
    let said = String::from_utf8(error.stderr).unwrap();
    assert!(said.contains(r"none\u{1b}[2J: cannot read") && !said.contains('\x1b'), "{said}");
}

/// A file of 2 KB that claims 10,000 hidden units.
#[test]
fn sizes_in_a_description_are_not_trusted() {
    let folder = Folder::new();
    folder.succeed("weights init a.safetensors --cell lstm --input 3 --hidden 4");
    let bytes = folder.bytes("a.safetensors");
    let text = String::from_utf8_lossy(&bytes[..2000]).into_owned();
    let at = text.find("hidden = 4").unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) + 4;
    let mut large = length.to_le_bytes().to_vec();
    large.extend(&bytes[8..at]);
    large.extend(b"hidden = 40000");
    large.extend(&bytes[at + 10..]);
    std::fs::write(folder.path().join("large.safetensors"), large).unwrap();
    let convert = "weights convert large.safetensors b.safetensors --to native";
    folder.refuse_any(convert, &["\"l0.input_weight\": expected shape [160000, 3], found [16, 3]"]);
}

#[test]
fn bad_input_is_rejected_and_nothing_is_written() {
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
        ("convert a.safetensors none/b.safetensors --to native", "expected a path in an existing folder"),
        ("convert none.safetensors b.safetensors --to native", "none.safetensors: cannot read"),
        ("convert t.safetensors b.safetensors --to native", "rnn none, rnn none-relu"),
        ("convert t.safetensors b.safetensors --to native --variant papier", "gru: paper, theano"),
        ("convert t.safetensors b.safetensors --to native --cell gru", "found none that do"),
        ("convert t.safetensors b.safetensors --to native --variant none --prefix x.", "x."),
        ("init b.safetensors --cell lstm --variant papier --input 3 --hidden 4", "expected one of paper, theano"),
        ("init b.safetensors --cell lstm --input 0 --hidden 4", "input: expected 1 to 16777216, found 0"),
        ("init b.safetensors --cell lstm --input 3 --hidden 2000000", "memory"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --layers 2000", "layers: expected 1 to 1024"),
        ("init b.safetensors --cell gru --input 3 --hidden 4 --projection 2", "projection: expected an LSTM"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --eps NaN", "eps: expected a finite number"),
        ("init b.safetensors --cell lstm --input 3 --hidden 4 --format torch", "format torch, variant paper"),
        ("init none/b.safetensors --cell lstm --input 3 --hidden 4", "expected a path in an existing folder"),
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

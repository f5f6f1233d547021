//! `layernorm train` and `layernorm predict`: trains a network, saves it, continues training and classifies images.

mod study_common;

use std::fs;
use study_common::Place;

const TRAIN: &str = "train --model mlp --size 16 --epochs 1";

#[test]
fn a_network_is_trained_saved_and_used() {
    let place = Place::new();
    let said = place.succeed(TRAIN).out;
    assert!(said.contains("test accuracy") && said.contains("s per epoch of 9,152 images"), "{said}");
    let records = fs::read(place.path("trained/train.jsonl")).unwrap();

    // The same command again trains nothing and prints the same results.
    let again = place.succeed(TRAIN).out;
    assert!(again.starts_with("This network has already been trained"), "{again}");
    assert_eq!(fs::read(place.path("trained/train.jsonl")).unwrap(), records);
    // Another network does not replace it.
    let said = place.run(&format!("{TRAIN} --seed 2 --eps 0.5"));
    let differences =
        "spec.start.epsilon: expected 0.5, found 0.00001; spec.start.seed: expected 2, found 1; use --out DIR";
    assert_eq!(said.status, Some(2), "{}", said.err);
    assert!(said.err.contains("train.jsonl") && said.err.contains(differences), "{}", said.err);
    assert!(!said.err.contains('{') && said.err.matches("another folder").count() == 1, "{}", said.err);
    assert_eq!(fs::read(place.path("trained/train.jsonl")).unwrap(), records);

    let model = "trained/model.layernorm";
    let mut right = 0;
    for number in 0..20 {
        let told = place.succeed(&format!("predict {model} --test {number} --json")).out;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let sum: f64 = told["probabilities"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
        // Ten f32 numbers, each with a few rounding errors of 2⁻²⁴.
        assert!((sum - 1.0).abs() < 1e-5, "{told}");
        right += usize::from(told["class"] == told["label"]);
    }
    // Guessing gets 2 of 20 right on average, and 12 or more with a probability of 10⁻⁸.
    assert!(right >= 12, "{right} of 20");
    let drawn = place.succeed(&format!("predict {model} --test 0")).out;
    assert!(drawn.contains('█') && drawn.contains("This is a ") && drawn.contains(" %"), "{drawn}");
}

#[test]
fn pictures_of_any_size_and_colour_are_read() {
    let place = Place::new();
    place.succeed(TRAIN);
    // The digit 1: a vertical bar, white on black, grey, 28×28; and black on white, in colour, 84×84.
    let bar = |side: usize| -> Vec<bool> {
        let inside = |at: usize, from: usize, to: usize| (from * side / 28..to * side / 28).contains(&at);
        (0..side * side).map(|i| inside(i / side, 5, 23) && inside(i % side, 13, 16)).collect()
    };
    let small: Vec<u8> = bar(28).into_iter().map(|ink| if ink { 255 } else { 0 }).collect();
    let large: Vec<u8> = bar(84).into_iter().flat_map(|ink| if ink { [0; 3] } else { [255; 3] }).collect();
    write_png(&place, "small.png", 28, png::ColorType::Grayscale, &small);
    write_png(&place, "large.png", 84, png::ColorType::Rgb, &large);
    let told = ["small.png", "large.png"]
        .map(|name| place.succeed(&format!("predict trained/model.layernorm {name} --json")).out);
    assert_eq!(told[0], told[1], "the same picture");
    let told: serde_json::Value = serde_json::from_str(&told[0]).unwrap();
    assert!(told["label"].is_null() && told["class"].is_u64(), "{told}");
}

fn write_png(place: &Place, name: &str, side: u32, colour: png::ColorType, bytes: &[u8]) {
    let mut encoder = png::Encoder::new(fs::File::create(place.path(name)).unwrap(), side, side);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(bytes).unwrap();
}

#[test]
fn bad_arguments_and_files_are_rejected() {
    let place = Place::new();
    for (arguments, words) in [
        ("train --norm bach", &["bach", "none, batch, layer, rms, group, instance, weight"][..]),
        ("train --model mlp --norm instance --size 4", &["MLP with instance norm", "several positions"]),
        ("train --model transformer --size 30", &["--size: expected a multiple of 4 for a Transformer, found 30"]),
        ("train --model cnn --pixels", &["--pixels works only with --model rnn, gru or lstm"]),
        ("train --post-norm", &["--post-norm works only with --model transformer"]),
        ("train --size 4000000000", &["expected a whole number from 1 to 16384"]),
        ("train --epochs 1000000000000", &["expected a whole number from 1 to"]),
        ("train --lr 0", &["expected a number above 0"]),
        ("train --eps -1e-5", &["'-1e-5'", "--eps", "expected a finite number, 0 or more"]),
        ("train --eps inf", &["'inf'", "expected a finite number, 0 or more"]),
        ("train --eps small", &["'small'", "expected a finite number, 0 or more"]),
        ("train --gain NaN", &["'NaN'", "--gain", "expected a finite number"]),
        ("train --bias 1e39", &["'1e39'", "--bias", "expected a finite number"]),
        ("train --weight-scale x", &["'x'", "--weight-scale", "expected a finite number"]),
        ("train --no-affine --gain 2", &["--no-affine", "--gain"]),
        ("train --no-affine --bias 2", &["--no-affine", "--bias"]),
        (
            "train --norm none --eps 1",
            &["--eps works only with --norm batch, layer, rms, group or instance, found none"],
        ),
        ("train --norm weight --gain 1", &["--gain works only with --norm batch", "found weight"]),
        ("train --norm none --bias 1", &["--bias works only with --norm batch"]),
        ("train --norm none --no-affine", &["--no-affine works only with --norm batch"]),
        ("train --model mlp --norm rms --bias 1", &["--bias: rms norm has no β in this network, MLP"]),
        ("train --model gru --norm batch --bias 1", &["--bias: batch norm has no β in this network, GRU"]),
        ("train --layers 0", &["'0'", "--layers", "expected a whole number from 1 to 1024"]),
        ("train --layers 2000", &["'2000'", "--layers", "expected a whole number from 1 to 1024"]),
        ("train --model cnn --layers 2", &["--layers does not work with --model cnn, which has two convolutions"]),
        (
            "train --layers 2 --norm batch",
            &["LSTM with batch norm", "several layers support only none, layer and group"],
        ),
        ("train --model rnn --norm group", &["RNN with group norm", "an RNN has no gates"]),
        ("train --model gru --norm instance", &["GRU with instance norm", "a recurrent network reads one at a time"]),
        ("train --model grue", &["'grue'", "rnn, gru, lstm"]),
        ("train --epochs 0", &["expected a whole number"]),
        ("train --batch-size 20000", &["batch size: expected 1 to 9167, found 20000"]),
        ("train --data nowhere", &["nowhere"]),
        ("predict nothing --test 0", &["nothing"]),
        ("predict model", &["IMAGE"]),
    ] {
        place.refuse(arguments, words);
    }
    let said = place.run("train --model mlp --norm none --size 8 --epochs 1 --optimizer sgd --lr 1e30 --out diverged");
    assert_eq!(said.status, Some(1), "{}", said.err);
    assert!(said.err.contains("training diverged") && !place.path("diverged/model.layernorm").exists(), "{}", said.err);
    let said = place.run("train --pixels --norm batch --size 2 --steps 2 --out constant");
    assert_eq!(said.status, Some(1), "{}", said.err);
    assert!(said.err.contains("the same in all images") && said.err.contains("--permute"), "{}", said.err);
    place.refuse("train --text --permute", &["--permute", "--text"]);
    fs::write(place.path("model"), "no model").unwrap();
    place.refuse("predict model --test 0", &["model: expected a line of JSON"]);
    fs::write(place.path("model"), "{}\n{}\n").unwrap();
    place.refuse("predict model --test 0", &["model: first line"]);
    place.succeed(&format!("{TRAIN} --out good"));
    place.refuse("predict good/model.layernorm --test 2000", &["--test: expected 0 to 1999, found 2000"]);
    fs::write(place.path("text.png"), "no picture").unwrap();
    place.refuse("predict good/model.layernorm text.png", &["text.png: expected a PNG"]);
    place.refuse("predict good/model.layernorm gone.png", &["gone.png"]);
}

#[test]
fn numbers_out_of_range_are_refused_before_anything_is_written() {
    let place = Place::new();
    let beyond = ["1e40", "-1e40", "1e-46", "inf", "-inf", "nan", "x", ""];
    let not_whole = ["0", "-1", "1.5", "1e40", "1e-46", "inf", "nan", "99999999999999999999"];
    for (option, expected, more) in [
        ("--lr", "expected a number above 0", &["0", "-0", "-1"][..]),
        ("--eps", "expected a finite number, 0 or more", &["-1", "-1e-46"]),
        ("--weight-scale", "expected a finite number, 0 or more", &["-1", "-0.5"]),
        ("--gain", "expected a finite number", &["-1e-46"]),
        ("--bias", "expected a finite number", &["-1e-46"]),
    ] {
        for value in beyond.iter().chain(more) {
            let range = "networks compute in f32, which holds numbers from 1.4e-45 to 3.4e38";
            place.refuse(&format!("train {option}={value}"), &[option, expected, range]);
        }
        place.refuse(&format!("train {option} -inf"), &["'-inf'", expected]);
    }
    for (option, expected) in [
        ("--size", "expected a whole number from 1 to 16384"),
        ("--layers", "expected a whole number from 1 to 1024"),
        ("--batch-size", "expected a whole number, 1 or more"),
        ("--epochs", "expected a whole number from 1 to 100000"),
        ("--steps", "expected a whole number from 1 to 100000"),
    ] {
        for value in not_whole {
            place.refuse(&format!("train {option} {value}"), &[&format!("'{value}'"), option, expected]);
        }
    }
    for value in &not_whole[1..] {
        place.refuse(
            &format!("train --seed {value}"),
            &["--seed", "expected a whole number from 0 to 18446744073709551615"],
        );
    }
    place.refuse("train --batch-size 18446744073709551615", &["batch size: expected 1 to 9167"]);
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}

/// The smallest and largest numbers that are accepted train, or training diverges and the message names the cause.
#[test]
fn extreme_numbers_train_or_diverge() {
    let place = Place::new();
    for (number, (options, cause)) in [
        ("--eps 3e38", None),
        ("--eps 1e-45", None),
        ("--weight-scale 0", None),
        ("--weight-scale 1e-45", None),
        ("--gain 0", None),
        ("--bias -1000", None),
        ("--lr 1e-45", None),
        ("--seed 18446744073709551615", None),
        ("--gain 3e38", Some("try a smaller --gain")),
        ("--norm none --weight-scale 3e38", Some("try a smaller --weight-scale")),
        ("--norm none --lr 3e38", Some("try a smaller --lr, or a norm")),
        ("--model lstm --eps 0", Some("try a larger --eps, such as 1e-5")),
    ]
    .into_iter()
    .enumerate()
    {
        let model = if options.contains("--model") { "" } else { "--model mlp" };
        let said = place.run(&format!("train {model} --size 4 --steps 2 {options} --out {number}"));
        match cause {
            None => assert_eq!(said.status, Some(0), "{options}: {}", said.err),
            Some(cause) => {
                assert_eq!(said.status, Some(1), "{options}: {}{}", said.err, said.out);
                assert!(said.err.contains("training diverged at step") && said.err.contains(cause), "{}", said.err);
            }
        }
    }
}

/// The settings and the last line of the records of a run.
fn result(place: &Place, out: &str) -> (serde_json::Value, String) {
    let records = fs::read_to_string(place.path(out).join("train.jsonl")).unwrap();
    let header: serde_json::Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    let test = records.lines().find(|line| line.contains("\"test\"") && line.contains("accuracy")).unwrap();
    (find(&header, "spec").unwrap().clone(), test.to_owned())
}

/// The value of a key, at any depth.
fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    match value {
        serde_json::Value::Object(fields) => {
            fields.get(key).or_else(|| fields.values().find_map(|value| find(value, key)))
        }
        _ => None,
    }
}

#[test]
fn every_option_changes_the_settings_and_the_result() {
    let place = Place::new();
    let plain = format!("{TRAIN} --out plain");
    place.succeed(&plain);
    let (usual, result_of_plain) = result(&place, "plain");
    // Written as before there were these options, so that earlier runs continue.
    let start = serde_json::json!({"seed": 1, "weight_scale": 1.0, "gain": 1.0, "bias": 0.0, "epsilon": 1e-5});
    assert_eq!(usual["start"], start);
    for (number, (option, field, value)) in [
        ("--eps 0.5", "epsilon", serde_json::json!(0.5)),
        ("--gain 0.5", "gain", serde_json::json!(0.5)),
        ("--bias -0.5", "bias", serde_json::json!(-0.5)),
        ("--no-affine", "affine", serde_json::json!(false)),
        ("--weight-scale 3", "weight_scale", serde_json::json!(3.0)),
        ("--layers 3", "hidden", serde_json::json!([16, 16, 16])),
        ("--crop", "cropped", serde_json::json!(true)),
        ("--halve", "halved", serde_json::json!(true)),
        ("--permute", "permuted", serde_json::json!(true)),
    ]
    .into_iter()
    .enumerate()
    {
        let command = format!("{TRAIN} {option} --out {number}");
        place.succeed(&command);
        let (settings, result) = result(&place, &number.to_string());
        assert_eq!(find(&settings, field), Some(&value), "{option}");
        assert_ne!(result, result_of_plain, "{option}");
        // The same option again is the same run; other settings are not.
        let again = place.succeed(&command).out;
        assert!(again.starts_with("This network has already been trained"), "{option}: {again}");
        place.refuse(&format!("{TRAIN} --out {number}"), &["train.jsonl", "--out DIR"]);
        place.refuse(&format!("{plain} {option}"), &["train.jsonl", "--out DIR"]);
        place.succeed(&format!("predict {number}/model.layernorm --test 0"));
    }
}

#[test]
fn rnns_and_grus_are_trained_saved_and_used() {
    let place = Place::new();
    let mut results = Vec::new();
    for model in ["rnn", "gru"] {
        for norm in ["none", "layer"] {
            let out = format!("{model}-{norm}");
            place.succeed(&format!("train --model {model} --norm {norm} --size 12 --epochs 1 --lr 0.005 --out {out}"));
            let (settings, result) = result(&place, &out);
            assert_eq!(settings["arch"], serde_json::json!({"kind": model, "hidden": 12, "reads": "rows"}));
            assert!(!results.contains(&result), "{out}");
            results.push(result);
            let told = place.succeed(&format!("predict {out}/model.layernorm --test 3 --json")).out;
            assert!(told.contains("probabilities"), "{told}");
        }
    }
}

#[test]
fn a_run_with_options_continues_after_it_was_killed() {
    let place = Place::new();
    let command = "train --model gru --layers 2 --size 32 --epochs 2 --eps 1e-3 --no-affine --weight-scale 1.5";
    let mut child = place.command(&format!("{command} --out killed")).spawn().unwrap();
    while !place.path("killed/train.checkpoint").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.refuse("train --model gru --size 32 --epochs 2 --out killed", &["train.jsonl", "--out DIR"]);
    place.succeed(&format!("{command} --out killed"));
    place.succeed(&format!("{command} --out whole"));
    for file in ["train.jsonl", "model.layernorm"] {
        let [killed, whole] = ["killed", "whole"].map(|out| fs::read(place.path(out).join(file)).unwrap());
        assert!(killed == whole, "{file}");
    }
}

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
    place.refuse(&format!("{TRAIN} --seed 2"), &["train.jsonl", "--out DIR"]);
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
        ("train --model cnn --pixels", &["--pixels works only with --model lstm"]),
        ("train --post-norm", &["--post-norm works only with --model transformer"]),
        ("train --size 4000000000", &["expected a whole number from 1 to 16384"]),
        ("train --epochs 1000000000000", &["expected a whole number from 1 to"]),
        ("train --lr 0", &["expected a number above 0"]),
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

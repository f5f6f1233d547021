//! `layernorm train --text` and `layernorm generate`: trains a language model, saves it, continues training and
//! generates text.

mod study_common;

use std::fs;
use study_common::Place;

const TRAIN: &str = "train --text prose.txt --size 16 --batch-size 4 --steps 30 --lr 0.02";
const MODEL: &str = "trained/model.layernorm";

/// A folder with a short text of few words.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("prose.txt"), "the cat sat on the mat.\nthe rat ran.\n".repeat(200)).unwrap();
    place
}

#[test]
fn a_language_model_is_trained_saved_and_used() {
    let place = place();
    let said = place.succeed(TRAIN).out;
    assert!(said.contains("Bits per character: validation ") && said.contains("Sample:\n"), "{said}");
    let records = fs::read_to_string(place.path("trained/train.jsonl")).unwrap();
    // Guessing among 14 characters costs 3.8 bits.
    let bits: f64 = said.split("test ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((0.0..3.5).contains(&bits), "{said}");
    assert!(records.contains("\"train_bits\"") && records.contains("\"layer\""));

    // The same command again trains nothing; another network does not replace it.
    assert!(place.succeed(TRAIN).out.starts_with("This network has already been trained"));
    place.refuse(&format!("{TRAIN} --seed 2"), &["train.jsonl", "--out DIR"]);

    let text = |options: &str| place.succeed(&format!("generate {MODEL} {options}")).out;
    let plain = text("--length 80");
    assert!((80..=81).contains(&plain.chars().count()) && plain.ends_with('\n'), "{plain:?}");
    assert!(plain.trim().chars().all(|c| " .acehmnorst\n".contains(c)), "{plain:?}");
    assert_eq!(plain, text("--length 80"));
    assert!(plain.starts_with(text("--length 20").trim_end_matches('\n')));
    assert_ne!(plain, text("--length 80 --seed 2"));
    assert_ne!(plain, text("--length 80 --temperature 5"));
    assert_eq!(text("--length 30 --temperature 0"), text("--length 30 --temperature 0 --seed 9"));
    assert!(text("--prompt the --length 5").starts_with("the"));
}

#[test]
fn a_language_model_continues_after_it_was_killed() {
    let place = place();
    let command = "train --text prose.txt --model gru --layers 2 --size 48 --batch-size 8 --epochs 40";
    let mut child = place.command(&format!("{command} --out killed")).spawn().unwrap();
    while !place.path("killed/train.checkpoint").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.succeed(&format!("{command} --out killed"));
    place.succeed(&format!("{command} --out whole"));
    for file in ["train.jsonl", "model.layernorm"] {
        let [killed, whole] = ["killed", "whole"].map(|out| fs::read(place.path(out).join(file)).unwrap());
        assert!(killed == whole, "{file}");
    }
}

#[test]
fn bad_texts_and_options_are_rejected() {
    let place = place();
    fs::write(place.path("empty.txt"), "").unwrap();
    fs::write(place.path("one.txt"), "a".repeat(500)).unwrap();
    fs::write(place.path("binary.txt"), [b'a', 0xff].repeat(500)).unwrap();
    fs::write(place.path("short.txt"), "to be or not to be ".repeat(15)).unwrap();
    for (arguments, words) in [
        ("train --text empty.txt", &["empty.txt: expected at least 200 characters, found 0"][..]),
        ("train --text one.txt", &["one.txt: expected 2 to 4096 different characters, found 1"]),
        ("train --text binary.txt", &["binary.txt: expected text in UTF-8", "0xff after 1 bytes"]),
        ("train --text short.txt", &["batch size: expected 1 to 3 for 257 characters, found 32"]),
        ("train --text nothing.txt", &["nothing.txt", "cannot open"]),
        ("train --text --model mlp", &["--text works only with --model rnn, gru or lstm, found MLP"]),
        ("train --text --norm batch", &["--text works only with --norm none or layer, found batch"]),
        ("train --text --pixels", &["--pixels does not work with --text"]),
        ("train --text --post-norm", &["--post-norm works only with --model transformer"]),
        ("train --text --optimizer sgd", &["--optimizer sgd does not work with --text, which uses Adam"]),
        ("train --text --data folder", &["--text", "--data"]),
        ("train --text --epochs 1 --steps 2", &["--epochs", "--steps"]),
        ("train --text --norm none --eps 1", &["--eps works only with --norm"]),
        ("generate nothing", &["nothing"]),
        ("generate model --temperature -1", &["--temperature", "expected a finite number, 0 or more"]),
        ("generate model --length 0", &["--length", "expected a whole number from 1 to"]),
    ] {
        place.refuse(arguments, words);
    }
    place.succeed("train --text prose.txt --size 4 --steps 1 --batch-size 2 --out text");
    place.succeed("train --model mlp --size 4 --steps 1 --out image");
    let language = "expected a network for images, found a language model: use `layernorm generate`";
    place.refuse("predict text/model.layernorm --test 0", &[language]);
    let image = "expected a language model, found a network for images: use `layernorm predict`";
    place.refuse("generate image/model.layernorm", &[image]);
    place.refuse("generate text/model.layernorm --prompt Ω", &["prompt: expected only characters", "'Ω'"]);
    let bytes = fs::read(place.path("text/model.layernorm")).unwrap();
    fs::write(place.path("cut"), &bytes[..bytes.len() - 9]).unwrap();
    place.refuse("generate cut", &["cut: ", "damaged"]);
}

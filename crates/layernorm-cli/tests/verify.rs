//! `layernorm verify` on this machine: everything is within the contract, and the JSON says so.

use serde_json::Value;
use std::process::{Command, Output};

fn layernorm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_layernorm")).args(args).output().expect("the program starts")
}

/// Runs the whole check if the program is optimized, otherwise all but the larger shapes.
fn verify(args: &[&str]) -> Output {
    let mut all = vec!["verify"];
    if cfg!(debug_assertions) {
        all.push("--quick");
    }
    all.extend(args);
    layernorm(&all)
}

#[test]
fn the_contract_holds_here_and_the_json_says_so() {
    let output = verify(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress where stderr is no terminal");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["ok"], true);

    let rows = report["accuracy"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 14);
    for row in rows {
        let ours = row["errors"].as_array().expect("errors").iter().find(|error| error["way"] == "ours");
        let units = ours.expect("ours")["units"].as_f64().expect("a number");
        assert!(units <= 4.0, "{row}");
    }
    // The inputs are hard: every other implementation fails on some of them.
    for way in ["two-pass", "E[x²]−E[x]²", "Welford", "three loops"] {
        let fails = |row: &Value| {
            let errors = row["errors"].as_array().expect("errors");
            let error = errors.iter().find(|error| error["way"] == way).expect("the way");
            error["units"].as_f64().is_none_or(|units| units > 1000.0)
        };
        assert!(rows.iter().filter(|row| fails(row)).count() >= 5, "{way}");
    }

    let identity = &report["identity"];
    assert_eq!(identity["differing_bits"], 0);
    let groups = identity["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 4 * 2 * 3, "types, norms, passes");
    assert!(groups.iter().all(|group| group["outputs_compared"].as_u64() > Some(1_000_000)));
    let isas = ["isas", "skipped_isas"].map(|list| identity[list].as_array().expect("a list").len());
    assert_eq!(isas.iter().sum::<usize>(), 4, "what is not compared is said to be skipped");

    let recurrent = &report["recurrent"];
    assert_eq!(recurrent["differing_bits"], 0);
    let groups = recurrent["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 3 * 4, "cells, types");
    for group in groups {
        let compared = ["forward", "backward", "streaming"].map(|pass| group[pass].as_u64().expect("a count"));
        assert!(compared.iter().all(|&outputs| outputs > 1000), "{group}");
        let error = group["largest_error"].as_f64();
        assert_eq!(error.is_some(), group["dtype"] == "f32", "{group}");
        assert!(error.is_none_or(|error| error > 0.0 && error <= 128.0), "{group}");
    }
}

#[test]
fn the_checksum_depends_on_seed_and_cases_alone() {
    let checksum = |args: &str| {
        let output = layernorm(&args.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let expected = layernorm_web::hexadecimal(layernorm_web::checksum(2, 300).unwrap());
    assert_eq!(checksum("verify --checksum --cases 300 --seed 2"), expected);
    let json = checksum("verify --checksum --cases 300 --seed 2 --json");
    assert!(json.contains(&format!("\"checksum\": \"{expected}\"")), "{json}");
    assert_ne!(checksum("verify --checksum --cases 300"), expected);
    let wrong = layernorm(&["verify", "--cases", "300"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--checksum"), "the message names what is missing");
}

#[test]
fn unknown_arguments_are_rejected() {
    let output = layernorm(&["verify", "--josn"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--json"), "the message names what was meant");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute without optimization")]
fn the_tour_shows_what_the_library_promises() {
    let output = layernorm(&["tour"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in [
        "0 differing bits",
        "within 4 units",
        "into preallocated memory",
        "Recurrent networks",
        "What this shows",
        "Next:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

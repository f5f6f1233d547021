//! `layernorm bench --op lstm`, `gru` and `rnn` on tiny sizes: it proves, times and reports; bad arguments are rejected.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_layernorm")).arg("bench").args(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> Value {
    let output = bench(&[args, &["--json", "--seconds", "0.01"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress where stderr is no terminal");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect(key)
}

/// Checks that proofs hold, times are positive, and the ratio of the plain variant is 1.
fn check(report: &Value, shapes: usize, variants: usize) {
    assert_eq!(list(report, "shapes").len(), shapes);
    for shape in list(report, "shapes") {
        let proofs = list(shape, "proofs");
        assert_eq!(proofs.len(), variants);
        for proof in proofs {
            assert!(proof["largest_part_of_bound"].as_f64() <= Some(1.0), "{proof}");
            assert!(proof["slope_part_of_bound"].as_f64() <= Some(1.0), "{proof}");
            assert!(proof["outputs_compared"].as_u64() > Some(0) && proof["sequences"].as_u64() > Some(0));
        }
        let results = list(shape, "results");
        assert_eq!(results.len(), 3 * variants, "forward, training step, one step");
        for result in results {
            for number in ["best_us", "median_us", "us_per_step", "gflop_per_s", "times_plain"] {
                assert!(result[number].as_f64() > Some(0.0), "{result}");
            }
            assert!(result["variant"] != "none" || result["times_plain"] == 1.0, "{result}");
        }
    }
}

#[test]
fn every_cell_and_type_is_proved_and_timed() {
    for op in ["lstm", "gru", "rnn"] {
        for dtype in ["f32", "f64", "f16", "bf16"] {
            let report = json(&["--op", op, "--dtype", dtype, "--shapes", "3x4x5x6,1x2x3x4", "--threads", "2"]);
            assert_eq!((&report["op"], &report["dtype"]), (&op.into(), &dtype.into()));
            check(&report, 2, 2);
        }
    }
}

#[test]
fn all_variants_take_part_at_one_size() {
    for (op, variants) in [("lstm", 11), ("gru", 6), ("rnn", 8)] {
        check(&json(&["--op", op, "--variant", "all", "--shapes", "2,3,5,8"]), 1, variants);
    }
    check(&json(&["--op", "lstm", "--variant", "none", "--shapes", "2x3x5x8"]), 1, 1);
}

#[test]
fn a_table_says_what_was_measured_and_proved() {
    let args = ["--op", "gru", "--variant", "dreamer", "--shapes", "4x3x5x8", "--seconds", "0.02", "--isa", "scalar"];
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in
        ["4×3×5×8", "GRU of f32", "dreamer", "none", "training step", "one step", "GFLOP/s", "Verified before timing"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn bad_arguments_end_with_status_2_and_say_what_was_expected() {
    let cases: [(&[&str], &str); 7] = [
        (&["--op", "lstm", "--variant", "papier"], "expected one of paper, theano"),
        (&["--op", "lstm", "--shapes", "64x128"], "expected sizes B, T, I and H, as in 64x28x28x128"),
        (&["--op", "lstm", "--shapes", "64,28,28"], "expected sizes B, T, I and H, as in 64x28x28x128"),
        (&["--op", "lstm", "--shapes", "64x28x28x0"], "expected sizes of 1 or more"),
        (&["--op", "gru", "--shapes", "1000000x1000x100x100"], "memory"),
        (&["--variant", "paper"], "--variant: expected --op lstm, gru or rnn"),
        (&["--implementations", "--op", "lstm"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = bench(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn help_mentions_the_cells() {
    let help = String::from_utf8(bench(&["--help"]).stdout).expect("UTF-8");
    for part in ["lstm", "gru", "rnn", "--variant", "64x28x28x128", "--op gru --variant all"] {
        assert!(help.contains(part), "{part}");
    }
}

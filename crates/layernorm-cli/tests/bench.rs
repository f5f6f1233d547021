//! `layernorm bench` on tiny shapes: it proves, times and reports; bad arguments are rejected with what was expected.

use serde_json::Value;
use std::process::{Command, Output};

fn layernorm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_layernorm")).args(args).output().expect("the program starts")
}

fn json(args: &[&str]) -> Value {
    let output = layernorm(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress where stderr is no terminal");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect(key)
}

#[test]
fn every_operation_and_type_has_positive_times() {
    for op in ["layer-norm", "rms-norm", "residual"] {
        for dtype in ["f32", "f64", "f16", "bf16"] {
            let report =
                json(&["bench", "--json", "--seconds", "0.01", "--shapes", "7x33,3x2x5", "--op", op, "--dtype", dtype]);
            assert_eq!((&report["op"], &report["dtype"]), (&op.into(), &dtype.into()));
            assert_eq!(report["memory"], "given");
            let shapes = list(&report, "shapes");
            assert_eq!(shapes.len(), 2);
            for shape in shapes {
                let results = list(shape, "results");
                assert_eq!(results.len(), 5);
                for result in results {
                    for number in ["best_us", "median_us", "gb_per_s", "times_copy"] {
                        assert!(result[number].as_f64() > Some(0.0), "{op} {dtype}: {result}");
                    }
                }
                assert!(shape["proof"]["largest_part_of_bound"].as_f64() <= Some(1.0));
                assert!(shape["proof"]["rows"].as_u64() > Some(0));
            }
        }
    }
}

#[test]
fn a_table_says_where_and_how_it_was_measured() {
    let args = ["bench", "--seconds", "0.05", "--shapes", "64x128", "--threads", "2", "--isa", "scalar"];
    let output = layernorm(&args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in
        ["64×128", "into preallocated memory", "scalar, 2 threads", env!("CARGO_PKG_VERSION"), "backward", "triad"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_textbook_ways_are_compared() {
    let report = json(&["bench", "--implementations", "--json", "--seconds", "0.05", "--shapes", "8x256"]);
    assert_eq!(list(&report, "ways").len(), 5);
    let results = list(&list(&report, "shapes")[0], "results");
    assert_eq!(results.len(), 5);
    for result in results {
        assert!(result["ns_per_element"].as_f64() > Some(0.0) && result["times_ours"].as_f64() > Some(0.0));
        let large_mean = list(result, "errors").last().expect("inputs")["units"].as_f64().expect("a number");
        assert_eq!(large_mean <= 4.0, result["way"] == "ours", "{result}");
    }
}

#[test]
fn bad_arguments_end_with_status_2_and_say_what_was_expected() {
    let cases: [(&[&str], &str); 9] = [
        (&["--shapes", "12by3"], "expected sizes of 1 or more joined by x"),
        (&["--shapes", "12x0"], "expected sizes of 1 or more joined by x"),
        (&["--shapes", "100000000x100000"], "memory"),
        (&["--dtype", "f8"], "possible values: f32, f64, f16, bf16"),
        (&["--op", "softmax"], "possible values: layer-norm, rms-norm, residual, lstm, gru, rnn"),
        (&["--threads", "0"], "expected a whole number, 1 or more"),
        (&["--isa", "sse9"], "expected one of scalar, avx2, avx512, neon"),
        (&["--seconds", "-1"], "expected a number of seconds above 0"),
        (&["--implementations", "--dtype", "f16"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let output = layernorm(&[&["bench"], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn an_instruction_set_that_the_machine_lacks_is_an_error() {
    let missing = layernorm(&["bench", "--isa", if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" }]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("is not available on this machine, which has scalar"));
}

#[test]
fn completions_name_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = layernorm(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(
            [
                "study",
                "report",
                "data",
                "apply",
                "verify",
                "bench",
                "weights",
                "convert",
                "lstm",
                "tour",
                "completions"
            ]
            .iter()
            .all(|name| text.contains(name)),
            "{shell}"
        );
    }
    assert_eq!(layernorm(&["completions", "csh"]).status.code(), Some(2));
}

//! `layernorm apply` rejects bad input: status 2, a message with what was expected and what was found, no output file.

mod apply_common;

use apply_common::Folder;
use layernorm::{Isa, f16};

/// x is [2, 4], c is [2, 4, 3], both float32; w4 is [4].
fn folder() -> Folder {
    let folder = Folder::new();
    folder.save("x.npy", &[2, 4], &[1.0f32, 2.0, 4.0, 8.0, 3.0, 1.0, 0.0, -1.0]);
    folder.save("c.npy", &[2, 4, 3], &[0.5f32; 24]);
    folder.save("w4.npy", &[4], &[1.0f32; 4]);
    folder.save("w5.npy", &[5], &[1.0f32; 5]);
    folder.save("w4-f64.npy", &[4], &[1.0f64; 4]);
    folder.save("x-f64.npy", &[2, 4], &[1.0f64; 8]);
    folder.save("x-f16.npy", &[2, 4], &[f16::ONE; 8]);
    folder.save("x-i32.npy", &[2, 4], &[1i32; 8]);
    folder.save("x3.npy", &[3, 4], &[1.0f32; 12]);
    folder
}

const LAYER: &str = "layer-norm --input x.npy --output y.npy";
const BATCH: &str = "batch-norm --input c.npy --output y.npy";

#[test]
fn missing_files_and_files_that_are_not_arrays() {
    let folder = folder();
    folder.refuse("layer-norm --input none.npy --output y.npy", &["--input", "none.npy", "cannot open"]);
    for option in ["--weight", "--bias", "--residual"] {
        folder.refuse(&format!("{LAYER} {option} none.npy"), &[option, "none.npy", "cannot open"]);
    }
    std::fs::write(folder.path().join("text.npy"), "no array, but some text").unwrap();
    folder.refuse("layer-norm --input text.npy --output y.npy", &["--input", "text.npy", "not an .npy file"]);
}

#[test]
fn wrong_types() {
    let folder = folder();
    let floats = "expected float16, float32 or float64, found int32";
    folder.refuse("layer-norm --input x-i32.npy --output y.npy", &["--input", "x-i32.npy", floats]);
    for option in ["--weight", "--bias"] {
        let same = "expected float32, the input's type, found float64";
        folder.refuse(&format!("{LAYER} {option} w4-f64.npy"), &[option, "w4-f64.npy", same]);
        let either = "expected float16, the input's type, or float32, found float64";
        let half = "layer-norm --input x-f16.npy --output y.npy";
        folder.refuse(&format!("{half} {option} w4-f64.npy"), &[option, "w4-f64.npy", either]);
    }
    let same = "expected float32, the input's type, found float64";
    folder.refuse(&format!("{LAYER} --residual x-f64.npy"), &["--residual", same]);
    folder.refuse(&format!("{LAYER} --grad-output x-f64.npy --grad-input g.npy"), &["--grad-output", same]);
    let backward = "--grad-output x.npy --grad-input g.npy --residual x.npy";
    folder.refuse(&format!("{LAYER} {backward} --grad-residual-output x-f64.npy"), &["--grad-residual-output", same]);
    let running = "--running-mean w4.npy --running-var w4-f64.npy";
    folder.refuse(&format!("{BATCH} {running}"), &["--running-var", same]);
    let half = "batch-norm --input x-f16.npy --output y.npy";
    let either = "expected float16, the input's type, or float32, found float64";
    folder.refuse(&format!("{half} {running}"), &["--running-var", either]);
    let double = "batch-norm --input x-f64.npy --output y.npy";
    let same = "expected float64, the input's type, found float32";
    folder.refuse(&format!("{double} {running}"), &["--running-mean", same]);
}

#[test]
fn wrong_shapes() {
    let folder = folder();
    for (option, name) in [("--weight", "weight"), ("--bias", "bias")] {
        let words = [name, "expected shape [4], found [5]"];
        folder.refuse(&format!("{LAYER} {option} w5.npy"), &words);
        folder.refuse(&format!("{BATCH} {option} w5.npy"), &words);
        folder.refuse(&format!("group-norm --groups 2 --input c.npy --output y.npy {option} w5.npy"), &words);
        folder.refuse(&format!("instance-norm --input c.npy --output y.npy {option} w5.npy"), &words);
    }
    let rows = "expected shape [2, 4], found [3, 4]";
    folder.refuse(&format!("{LAYER} --residual x3.npy"), &["residual", rows]);
    folder.refuse(&format!("{LAYER} --grad-output x3.npy --grad-input g.npy"), &["gradient of the output", rows]);
    let backward = "--grad-output x.npy --grad-input g.npy --residual x.npy";
    folder.refuse(&format!("{LAYER} {backward} --grad-residual-output x3.npy"), &["residual output", rows]);
    let running = format!("{BATCH} --running-mean w4.npy --running-var w5.npy");
    folder.refuse(&running, &["--running-var", "w5.npy", "expected shape [4]", "found [5]"]);
    for op in ["batch-norm", "instance-norm", "group-norm --groups 2"] {
        let command = format!("{op} --input w4.npy --output y.npy");
        folder.refuse(&command, &["input: expected at least 2 dimensions, found 1"]);
    }
}

#[test]
fn wrong_axes_and_groups() {
    let folder = folder();
    for axis in ["2", "-3", "0,2"] {
        let wrong = axis.split(',').next_back().unwrap();
        let message = format!("axis {wrong} does not exist in a tensor of 2 dimensions");
        folder.refuse(&format!("{LAYER} --axes {axis}"), &[&message]);
    }
    folder.refuse(&format!("{LAYER} --axes 1,-1"), &["axis 1 is listed twice"]);
    folder.refuse(&format!("{LAYER} --axes one"), &["--axes", "one"]);
    folder.save("scalar.npy", &[], &[1.0f32]);
    folder.refuse("layer-norm --input scalar.npy --output y.npy", &["axis -1", "0 dimensions"]);
    for groups in ["3", "0", "5", "18446744073709551615"] {
        let message = format!("groups: expected a divisor of the 4 channels, found {groups}");
        folder.refuse(&format!("group-norm --input c.npy --output y.npy --groups {groups}"), &[&message]);
    }
    folder.refuse("group-norm --input c.npy --output y.npy", &["group-norm", "expected --groups"]);
}

#[test]
fn wrong_numbers_and_names() {
    let folder = folder();
    for op in [LAYER, BATCH, "rms-norm --input x.npy --output y.npy"] {
        for (eps, found) in [("-1", "-1"), ("-1e-5", "-0.00001"), ("NaN", "NaN"), ("inf", "inf"), ("-inf", "-inf")] {
            let message = format!("eps: expected a finite number, 0 or more, found {found}");
            folder.refuse(&format!("{op} --eps {eps}"), &[&message]);
        }
    }
    folder.refuse(&format!("{LAYER} --eps small"), &["--eps", "small"]);
    folder.refuse(&format!("{LAYER} --threads 0"), &["threads: expected 1 or more, found 0"]);
    let names = "expected one of scalar, avx2, avx512, neon, found \"sse9\"";
    folder.refuse(&format!("{LAYER} --isa sse9"), &["--isa", names]);
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let message = format!("instruction set {isa} is not available on this machine");
        folder.refuse(&format!("{LAYER} --isa {isa}"), &[&message]);
    }
    folder.refuse("weight-norm --input x.npy --output y.npy", &["weight-norm", "layer-norm", "instance-norm"]);
}

#[test]
fn options_that_do_not_apply_to_the_operation() {
    let folder = folder();
    for (op, option, fits) in [
        ("layer-norm", "--groups 2", "group-norm"),
        ("instance-norm", "--groups 2", "group-norm"),
        ("layer-norm", "--running-mean w4.npy", "batch-norm"),
        ("group-norm --groups 2", "--running-var w4.npy", "batch-norm"),
        ("batch-norm", "--axes 1", "layer-norm or rms-norm"),
        ("group-norm --groups 2", "--axes -1", "layer-norm or rms-norm"),
        ("instance-norm", "--residual x.npy", "layer-norm or rms-norm"),
        ("batch-norm", "--residual-output h.npy", "layer-norm or rms-norm"),
        ("batch-norm", "--grad-residual-output h.npy", "layer-norm or rms-norm"),
        ("rms-norm", "--mean-output m.npy", "layer-norm or batch-norm or group-norm or instance-norm"),
    ] {
        let name = op.split(' ').next().unwrap();
        let flag = option.split(' ').next().unwrap();
        let message = format!("{flag} does not apply to {name}: expected {fits}");
        folder.refuse(&format!("{op} --input x.npy --output y.npy {option}"), &[&message]);
    }
}

#[test]
fn options_that_need_others() {
    let folder = folder();
    for (option, companion) in [
        ("--grad-input g.npy", "--grad-output"),
        ("--grad-weight g.npy", "--grad-output"),
        ("--grad-bias g.npy", "--grad-output"),
        ("--residual-output h.npy", "--residual"),
        ("--residual x.npy --grad-residual-output x.npy", "--grad-output"),
        ("--grad-output x.npy --grad-input g.npy --grad-residual-output x.npy", "--residual"),
        ("--grad-output x.npy", "--grad-input, --grad-weight or --grad-bias"),
    ] {
        folder.refuse(&format!("{LAYER} {option}"), &[&format!("expected {companion}, found none")]);
    }
    folder.refuse(&format!("{BATCH} --running-mean w4.npy"), &["--running-mean: expected --running-var, found none"]);
    folder.refuse(&format!("{BATCH} --running-var w4.npy"), &["--running-var: expected --running-mean, found none"]);
    folder.refuse("layer-norm --input x.npy", &["expected --output or --grad-output"]);
    folder.refuse("layer-norm --output y.npy", &["--input"]);
    folder.refuse("--input x.npy --output y.npy", &["<OP>"]);
}

#[test]
fn two_results_in_one_file() {
    let folder = folder();
    let twice = ["--output and --rstd-output: expected different files", "y.npy twice"];
    folder.refuse(&format!("{LAYER} --rstd-output y.npy"), &twice);
    folder.refuse(&format!("{LAYER} --rstd-output ./y.npy"), &twice);
    folder.refuse(&format!("{LAYER} --rstd-output {}", folder.path().join("y.npy").display()), &twice);
    let gradients = "layer-norm --input x.npy --grad-output x.npy --grad-weight g.npy --grad-bias g.npy";
    folder.refuse(gradients, &["--grad-weight and --grad-bias: expected different files", "g.npy"]);
    #[cfg(unix)]
    {
        folder.save("y.npy", &[1], &[7.0f32]);
        std::os::unix::fs::symlink("y.npy", folder.path().join("link.npy")).unwrap();
        folder.refuse(&format!("{LAYER} --rstd-output link.npy"), &["expected different files", "link.npy"]);
        assert_eq!(folder.load::<f32>("y.npy", &[1]), [7.0]);
    }
}

/// No result is written, and an existing file is kept.
#[test]
fn output_paths_that_cannot_exist() {
    let folder = folder();
    folder.save("y.npy", &[1], &[7.0f32]);
    let none = "expected a path in an existing folder";
    folder.refuse(&format!("{LAYER} --rstd-output none/s.npy"), &["--rstd-output", "none/s.npy", none]);
    folder.refuse("layer-norm --input x.npy --output none/y.npy", &["--output", "none/y.npy", none]);
    folder.refuse(&format!("{LAYER} --mean-output x.npy/m.npy"), &["--mean-output", "x.npy/m.npy"]);
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    folder.refuse(&format!("{LAYER} --rstd-output folder"), &["--rstd-output", "expected a file, found a folder"]);
    assert_eq!(folder.load::<f32>("y.npy", &[1]), [7.0]);
}

/// Shapes that a file of 100 bytes can have. No memory is allocated for them.
#[test]
fn many_rows_without_elements() {
    let folder = folder();
    let rows: usize = 1 << 29;
    folder.save::<f32>("rows.npy", &[rows, 0], &[]);
    folder.save::<f32>("channels.npy", &[2, rows, 0], &[]);
    let words = ["rows.npy", "expected at most 1048576 rows or channels in an empty tensor", "[536870912, 0]"];
    for op in ["layer-norm", "rms-norm", "instance-norm", "batch-norm", "group-norm --groups 1"] {
        // In two dimensions there are samples and no channels.
        let file = if op.starts_with('b') || op.starts_with('g') || op.starts_with('i') { "channels" } else { "rows" };
        let words = if file == "rows" { &words[..] } else { &["channels.npy", words[1], "[2, 536870912, 0]"] };
        folder.refuse(&format!("{op} --input {file}.npy --output y.npy"), words);
    }
    folder.succeed("weights init w.safetensors --cell rnn --input 3 --hidden 4");
    folder.save::<f32>("batch.npy", &[0, rows, 3], &[]);
    let expected = "expected at most 1048576 steps or sequences in an empty tensor";
    folder.refuse("rnn --weights w.safetensors --input batch.npy --output y.npy", &[expected, "[0, 536870912, 3]"]);
}

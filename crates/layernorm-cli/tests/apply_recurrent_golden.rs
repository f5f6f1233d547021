//! `layernorm apply lstm`, `gru` and `rnn` with weights of other libraries, compared with the results of those libraries.

mod apply_common;

use apply_common::Folder;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A golden file.
struct Golden<'a> {
    path: &'a Path,
    file: &'a str,
    tensors: SafeTensors<'a>,
}

impl Golden<'_> {
    /// The shape and numbers of a tensor of a case, if present.
    fn get(&self, case: &str, name: &str) -> Option<(Vec<usize>, Vec<f64>)> {
        let view = self.tensors.tensor(&format!("{case}/{name}")).ok()?;
        fn each<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            data.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)).collect()
        }
        let numbers = match view.dtype() {
            Dtype::F64 => each(view.data(), f64::from_le_bytes),
            Dtype::F32 => each(view.data(), |bytes| f32::from_le_bytes(bytes).into()),
            Dtype::I64 => each(view.data(), |bytes| i64::from_le_bytes(bytes) as f64),
            other => panic!("{other:?}"),
        };
        Some((view.shape().to_vec(), numbers))
    }

    /// The options for a case, or why it is skipped.
    fn options(&self, case: &str, s: &Value) -> Result<String, &'static str> {
        let number = |key: &str| s[key].as_f64().is_some_and(|x| x > 0.0);
        if ["clip", "cell_clip", "proj_clip", "zoneout"].into_iter().any(number) {
            return Err("a clip or zoneout");
        }
        if s["divisor"] == "variance" || s["peephole"] == true && self.file == "contrib" {
            return Err("no such variant");
        }
        if s["input_forget"] == true || s["forget_bias"].as_f64().is_some_and(|bias| bias != 1.0) {
            return Err("what no option says");
        }
        let (name, relu) = (s["variant"].as_str().unwrap(), s["activation"] == "relu");
        let variant = match name {
            "none" if s["reset"] == "before" => "none-reset-before".to_owned(),
            "tflite" if s["cifg"] == true => "tflite-cifg".to_owned(),
            name => format!("{name}{}", if relu { "-relu" } else { "" }),
        };
        let format = match self.file {
            "torch_large" => "torch",
            "addons" => "keras",
            "onnxruntime" => "onnx",
            "dreamer" if case.starts_with("gru_torch") => "dreamer-torch",
            other => other,
        };
        let mut options = format!("--variant {variant} --format {format}");
        if let Some(eps) = s["eps"].as_f64().filter(|_| name != "none") {
            options += &format!(" --eps {eps}");
        }
        options += if s["batch_first"] == true { " --batch-first" } else { "" };
        options += if s["direction"] == "reverse" { " --reverse" } else { "" };
        Ok(options)
    }

    fn check(&self, case: &str, s: &Value) -> Result<(), &'static str> {
        let mut options = self.options(case, s)?;
        let cell = s["cell"].as_str().unwrap();
        let folder = Folder::new();
        for (name, option) in [("x", "--input"), ("h0", "--h0"), ("c0", "--c0")] {
            if let Some((mut shape, numbers)) = self.get(case, name) {
                if name != "x" {
                    shape = with_cells(&shape, s);
                }
                folder.save(&format!("{name}.npy"), &shape, &numbers);
                options += &format!(" {option} {name}.npy");
            }
        }
        let lengths = self.get(case, "lengths").map(|(_, lengths)| lengths);
        if let Some(lengths) = &lengths {
            folder.save("n.npy", &[lengths.len()], &lengths.iter().map(|&n| n as i64).collect::<Vec<_>>());
            options += " --lengths n.npy";
        }
        options += if cell == "lstm" { " --final-c cn.npy" } else { "" };
        let weights = self.path.display();
        folder.apply(&format!(
            "{cell} --weights {weights} --prefix {case}/param/ {options} --output y.npy --final-h hn.npy"
        ));
        // ONNX results are f32 and, with several directions, order y differently.
        let onnx = self.file.starts_with("onnx");
        let tolerance = if onnx || s["dtype"] == "float32" { 3e-6 } else { 1e-11 };
        if let Some((shape, mut y)) = self.get(case, "y").filter(|_| !onnx) {
            if let Some(lengths) = &lengths {
                zero_behind(&mut y, &shape, lengths, s["batch_first"] == true);
            }
            close(case, "y", &folder.load("y.npy", &shape), &y, tolerance);
        }
        for name in ["hn", "cn"] {
            if let Some((shape, expected)) = self.get(case, name) {
                let found = folder.load(&format!("{name}.npy"), &with_cells(&shape, s));
                close(case, name, &found, &expected, tolerance);
            }
        }
        Ok(())
    }
}

/// The shape `[L·D, B, H]` of a state, which some libraries store as `[B, H]` or `[B, 1, H]`.
fn with_cells(shape: &[usize], s: &Value) -> Vec<usize> {
    let (batch, width) = (s["batch"].as_u64().unwrap() as usize, *shape.last().unwrap());
    vec![shape.iter().product::<usize>() / batch / width, batch, width]
}

fn zero_behind(y: &mut [f64], shape: &[usize], lengths: &[f64], batch_first: bool) {
    let [first, second, width] = shape[..] else { panic!("{shape:?}") };
    for (i, row) in y.chunks_mut(width).enumerate() {
        let (t, b) = if batch_first { (i % second, i / second) } else { (i / second, i % second) };
        assert!(i / second < first);
        if t as f64 >= lengths[b] {
            row.fill(0.0);
        }
    }
}

#[track_caller]
fn close(case: &str, what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{case} {what}");
    let scale = expected.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * scale, "{case} {what}[{i}]: found {f}, expected {e}");
    }
}

#[test]
fn the_results_of_other_libraries() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/rnn").canonicalize().unwrap();
    let (mut checked, mut left_out) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let file = path.file_stem().unwrap().to_str().unwrap();
        let golden = Golden { path: &path, file, tensors: SafeTensors::deserialize(&bytes).unwrap() };
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        for (case, text) in metadata.metadata().as_ref().unwrap().iter().filter(|(case, _)| *case != "about") {
            match golden.check(case, &serde_json::from_str(text).unwrap()) {
                Ok(()) => checked += 1,
                Err(why) => left_out.push(format!("{file} {case}: {why}")),
            }
        }
    }
    println!("{checked} cases; left out:\n{}", left_out.join("\n"));
    assert!(checked > 100, "{checked}");
}

//! The results of other libraries: their weights are loaded from their own tensors, and outputs and gradients compared.
//!
//! Tolerances, of the larger of 1 and the largest number of a tensor. Sources in f64: 1e-11. A sum of up to 40 terms has an
//! error of about 1e-15, a norm over few units with ε = 1e-5 can make up to 1/sqrt(ε) ≈ 300 of it, and so can the next step's
//! and the next layer's, damped by the gates; measured agreement is mostly below 1e-13. Sources in f32: 3e-6, fifty units in
//! the last place, for the same reason with theirs as the error. Gradients go through the norms twice: a hundred times that.

use layernorm_rnn::weights::{self, Format, Tensor};
use layernorm_rnn::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

type Tensors = BTreeMap<String, Tensor<f64>>;

fn format(file: &str, case: &str) -> Format {
    match file {
        "torch" | "torch_large" => Format::Torch,
        "addons" => Format::Keras,
        "onnxruntime" => Format::Onnx,
        "dreamer" if case.starts_with("gru_torch") => Format::DreamerTorch,
        other => other.parse().unwrap(),
    }
}

/// The case's cell, or why there is none.
fn variant(s: &Value) -> Result<Variant, &'static str> {
    let flag = |key: &str| s[key].as_bool().unwrap_or(false);
    let number = |key: &str| s[key].as_f64().filter(|&x| x > 0.0);
    let kind = Kind::ALL.into_iter().find(|kind| s["cell"] == kind.name()).unwrap();
    let source = s["source"].as_str().unwrap();
    let name = s["variant"].as_str().unwrap();
    if number("clip").is_some() {
        return Err("a clip of the gates");
    }
    if s["divisor"] == "variance" {
        return Err("division by the variance");
    }
    let mut v = match name {
        "none" if s["reset"] == "before" => Variant::named(kind, "none-reset-before").unwrap(),
        "none" if matches!(source, "tflite" | "contrib" | "torchaudio") => Variant::plain(kind),
        name => Variant::named(kind, name).unwrap(),
    };
    if let Some(eps) = s["eps"].as_f64() {
        v = v.with_eps(eps);
    }
    if s["activation"] == "relu" {
        v.activation = Activation::Relu;
    }
    v.cell_clip = number("cell_clip");
    v.projection_clip = number("proj_clip");
    v.coupled = flag("cifg") || flag("input_forget");
    if source == "contrib" && flag("peephole") {
        return Err("peepholes after the norms");
    }
    Ok(v)
}

fn close(case: &str, what: &str, found: &[f64], expected: &[f64], tol: f64) {
    assert_eq!(found.len(), expected.len(), "{case} {what}");
    let scale = expected.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tol * scale, "{case} {what}[{i}]: {f}, expected {e}");
    }
}

/// ONNX's y `[T, D, B, H]` as `[T, B, D·H]`.
fn onnx_y(t: &Tensor<f64>, batch_first: bool) -> Vec<f64> {
    if batch_first {
        return t.values.clone();
    }
    let [steps, d, b, h] = t.shape[..] else { panic!() };
    let mut y = vec![0.0; t.values.len()];
    for i in 0..t.values.len() {
        let (k, j, e, s) = (i % h, i / h % b, i / h / b % d, i / h / b / d);
        y[((s * b + j) * d + e) * h + k] = t.values[i];
        assert!(s < steps);
    }
    y
}

fn run(file: &str, case: &str, s: &Value, t: &Tensors) -> Result<(), &'static str> {
    let v = variant(s)?;
    let f = format(file, case);
    let prefix = format!("{case}/param/");
    let shapes = t.iter().map(|(n, t)| (n.clone(), t.shape.clone())).collect();
    let mut config = weights::config_of_shapes(&shapes, f, v, &prefix).unwrap_or_else(|e| panic!("{file} {case}: {e}"));
    let size = |key: &str| s[key].as_u64().unwrap() as usize;
    assert_eq!((config.input, config.hidden, config.layers), (size("input"), size("hidden"), size("layers")), "{case}");
    assert_eq!(config.projection.unwrap_or(0), size("proj"), "{case}");
    assert_eq!(config.direction == Direction::Both, s["bidirectional"].as_bool().unwrap(), "{case}");
    if s["direction"] == "reverse" {
        config.direction = Direction::Reverse;
    }
    if let Some(z) = s["zoneout"].as_f64().filter(|&z| z > 0.0) {
        if s["training"] == true {
            return Err("a mask of the library's");
        }
        config.noise.zoneout_hidden = z;
    }
    let mut network: Network<f64> =
        weights::from_tensors(t, f, &config, &prefix).unwrap_or_else(|e| panic!("{case}: {e}"));
    if let Some(offset) = s["forget_bias"].as_f64() {
        // 1 is found by itself; files do not say another one.
        assert_eq!(config.variant.offset, 1.0, "{case}");
        let variant = Variant { offset, ..config.variant };
        network = Network::from_params(Config { variant, ..config }, network.params().clone()).unwrap();
    }
    let get = |name: &str| t.get(&format!("{case}/{name}")).map(|t| t.values.clone());
    let batch_first = s["batch_first"].as_bool().unwrap();
    let lengths: Option<Vec<usize>> = get("lengths").map(|l| l.iter().map(|&l| l as usize).collect());
    let x = get("x").unwrap();
    let (steps, batch) = (size("steps"), size("batch"));
    let mut sequences = Sequences::new(&x, steps, batch);
    if batch_first {
        sequences = sequences.batch_first();
    }
    if let Some(l) = &lengths {
        sequences = sequences.with_lengths(l);
    }
    let initial = get("h0").map(|h| State { h, c: get("c0").unwrap_or_default() });
    let mut runner = Runner::<f64>::default();
    let out = runner.forward(&network, &sequences, initial.as_ref()).unwrap();
    let tol = if matches!(file, "onnx" | "onnxruntime") || s["dtype"] == "float32" { 3e-6 } else { 1e-11 };
    let raw = t.get(&format!("{case}/y"));
    if let Some(raw) = raw {
        let mut y = if f == Format::Onnx { onnx_y(raw, batch_first) } else { raw.values.clone() };
        if let Some(l) = &lengths {
            let width = y.len() / steps / batch;
            for (i, row) in y.chunks_mut(width).enumerate() {
                let (time, b) = if batch_first { (i % steps, i / steps) } else { (i / batch, i % batch) };
                if time >= l[b] {
                    row.fill(0.0);
                }
            }
        }
        close(case, "y", &out.y, &y, tol);
    }
    if let Some(hn) = get("hn") {
        close(case, "hn", &out.state.h, &hn, tol);
    }
    if let Some(cn) = get("cn") {
        close(case, "cn", &out.state.c, &cn, tol);
    }
    let (Some(dy), padding) = (get("dy"), s["padding"].as_str().unwrap_or("zero")) else { return Ok(()) };
    if padding != "zero" || s["zoneout"].as_f64().unwrap_or(0.0) > 0.0 {
        return Ok(());
    }
    let trained = runner.train(&network, &sequences, initial.as_ref(), Training::default()).unwrap();
    assert_eq!(trained, out);
    let dstate = State { h: get("dhn").unwrap(), c: get("dcn").unwrap_or_default() };
    let g = runner.backward(&network, &dy, Some(&dstate)).unwrap();
    let tol = tol * 100.0;
    close(case, "dx", &g.input, &get("dx").unwrap(), tol);
    if let Some(dh0) = get("dh0") {
        close(case, "dh0", &g.state.h, &dh0, tol);
    }
    if let Some(dc0) = get("dc0") {
        close(case, "dc0", &g.state.c, &dc0, tol);
    }
    let names = t.keys().map(String::as_str);
    let grads = weights::map_gradients_like(&g.params, f, &config, &prefix, names).unwrap();
    for (name, found) in &grads {
        let expected = &t[&name.replacen("/param/", "/grad/", 1)];
        assert_eq!(found.shape, expected.shape);
        close(case, name, &found.values, &expected.values, tol);
    }
    Ok(())
}

#[test]
fn results_of_other_libraries() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/rnn");
    let (mut ok, mut left_out) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        let st = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut tensors = Tensors::new();
        for (name, view) in st.iter() {
            let d = view.data();
            let values = match view.dtype() {
                safetensors::Dtype::F64 => d.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
                safetensors::Dtype::F32 => {
                    d.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()) as f64).collect()
                }
                safetensors::Dtype::I64 => {
                    d.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect()
                }
                other => panic!("{other:?}"),
            };
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), values });
        }
        let (_, meta) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        for (case, text) in meta.metadata().as_ref().unwrap() {
            if case == "about" {
                continue;
            }
            let s: Value = serde_json::from_str(text).unwrap();
            let own = tensors
                .iter()
                .filter(|(n, _)| n.starts_with(&format!("{case}/")))
                .map(|(n, t)| (n.clone(), t.clone()))
                .collect();
            match run(&file, case, &s, &own) {
                Ok(()) => ok += 1,
                Err(why) => left_out.push(format!("{file} {case}: {why}")),
            }
        }
    }
    println!("{ok} cases, left out:\n{}", left_out.join("\n"));
    // What cannot be compared: clips of the gates (ONNX), division by the variance (draw), peepholes after the norms
    // (contrib), the masks of another library's zoneout (haste).
    assert_eq!((ok, left_out.len()), (163, 8));
}

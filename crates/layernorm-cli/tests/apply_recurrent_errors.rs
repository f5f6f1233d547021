//! `layernorm apply lstm`, `gru` and `rnn` reject bad input: status 2, a message with what was expected and what was found, no
//! output file.

mod apply_common;

use apply_common::Folder;

/// Weights of an LSTM, of an LSTM from PyTorch, of a GRU and of a bidirectional LSTM; x is [3, 2, 4].
fn folder() -> Folder {
    let folder = Folder::new();
    let init = |name: &str, options: &str| {
        folder.succeed(&format!("weights init {name}.safetensors --input 4 --hidden 5 {options}"));
    };
    init("lstm", "--cell lstm --variant paper");
    init("torch", "--cell lstm --variant none --format torch");
    init("rnn", "--cell rnn --variant none --format torch");
    init("gru", "--cell gru --variant paper");
    init("both", "--cell lstm --bidirectional");
    folder.save("x.npy", &[3, 2, 4], &[0.5f32; 24]);
    folder.save("x2.npy", &[3, 4], &[0.5f32; 12]);
    folder
}

const LSTM: &str = "lstm --weights lstm.safetensors --input x.npy --output y.npy";
const GRU: &str = "gru --weights gru.safetensors --input x.npy --output y.npy";

#[test]
fn missing_files_and_files_of_another_kind() {
    let folder = folder();
    let missing = ["--weights", "none.safetensors", "cannot read"];
    folder.refuse("lstm --weights none.safetensors --input x.npy --output y.npy", &missing);
    folder.refuse("lstm --weights lstm.safetensors --input none.npy --output y.npy", &["--input", "none.npy"]);
    for option in ["--h0", "--c0", "--lengths"] {
        folder.refuse(&format!("{LSTM} {option} none.npy"), &[option, "none.npy", "cannot open"]);
    }
    std::fs::write(folder.path().join("text.safetensors"), "no weights, but some text").unwrap();
    let text = ["--weights", "text.safetensors", "expected a safetensors file"];
    folder.refuse("lstm --weights text.safetensors --input x.npy --output y.npy", &text);
    let half = folder.bytes("lstm.safetensors");
    std::fs::write(folder.path().join("half.safetensors"), &half[..half.len() / 2]).unwrap();
    let half = ["--weights", "half.safetensors", "expected a safetensors file"];
    folder.refuse("lstm --weights half.safetensors --input x.npy --output y.npy", &half);
}

#[test]
fn missing_options_and_options_that_do_not_apply() {
    let folder = folder();
    folder.refuse("lstm", &["apply lstm: expected --weights, found none"]);
    folder.refuse("lstm --weights lstm.safetensors", &["apply lstm: expected --input, found none"]);
    let nothing = "lstm --weights lstm.safetensors --input x.npy";
    folder.refuse(nothing, &["expected --output, --final-h or --final-c, found none"]);
    let nothing = "gru --weights gru.safetensors --input x.npy";
    folder.refuse(nothing, &["expected --output or --final-h, found none"]);
    for option in ["--c0", "--final-c"] {
        let message = format!("{option} does not apply to gru, which has no c: expected lstm");
        folder.refuse(&format!("{GRU} {option} c.npy"), &[&message]);
    }
    folder.refuse(&format!("{LSTM} --residual r.npy"), &["--residual"]);
    folder.refuse("lstm layer-norm --input x.npy", &["layer-norm"]);
    folder.refuse(&format!("{LSTM} --threads 0"), &["threads: expected 1 or more, found 0"]);
    folder.refuse(&format!("{LSTM} --isa sse9"), &["--isa", "expected one of scalar, avx2, avx512, neon"]);
    folder.refuse(&format!("{LSTM} --format tensorflow"), &["--format", "torchaudio", "tensorflow"]);
    folder.refuse(&format!("{LSTM} --eps -1"), &["eps: expected a finite number, 0 or more, found -1"]);
    let plain = "lstm --weights torch.safetensors --input x.npy --output y.npy";
    folder.refuse(&format!("{plain} --eps 1e-3"), &["--eps: expected a variant with norms, found none"]);
    let both = "lstm --weights both.safetensors --input x.npy --output y.npy";
    folder.refuse(&format!("{both} --reverse"), &["--reverse: expected weights of one direction, found both"]);
}

#[test]
fn weights_of_another_network() {
    let folder = folder();
    folder.refuse(&format!("{LSTM} --variant papier"), &["--variant", "expected \"paper\"", "found \"papier\""]);
    folder.refuse(&format!("{LSTM} --variant keras"), &["--variant", "\"paper\"", "lstm.safetensors", "\"keras\""]);
    let other = "gru --weights lstm.safetensors --input x.npy --output y.npy";
    folder.refuse(other, &["lstm.safetensors", "expected weights of gru, found those of lstm"]);
    let torch = "lstm --weights torch.safetensors --input x.npy --output y.npy";
    folder.refuse(&format!("{torch} --variant papier"), &["--variant", "expected one of paper, theano", "papier"]);
    // A variant that would fit the tensors, but that PyTorch does not compute.
    folder.refuse(&format!("{torch} --variant paper"), &["torch.safetensors", "format torch, variant paper"]);
    folder.refuse(&format!("{torch} --variant none --format keras"), &["torch.safetensors", "kernel"]);
    folder.refuse(&format!("{torch} --prefix encoder."), &["torch.safetensors", "encoder."]);
    let rnn = "rnn --weights rnn.safetensors --input x.npy --output y.npy";
    folder.refuse(rnn, &["choose one with the cell and --variant", "rnn none, rnn none-relu"]);
    let gru = "gru --weights torch.safetensors --input x.npy --output y.npy";
    folder.refuse(gru, &["torch.safetensors", "found none that do"]);
}

#[test]
fn wrong_shapes_and_types() {
    let folder = folder();
    folder.save("x5.npy", &[3, 2, 5], &[0.5f32; 30]);
    folder.save("x1.npy", &[4], &[0.5f32; 4]);
    folder.save("xi.npy", &[3, 2, 4], &[1i32; 24]);
    let input = |file: &str| format!("lstm --weights lstm.safetensors --output y.npy --input {file}");
    let shape = "expected shape [T, B, 4] or [T, 4], because the weights have input size 4, found";
    folder.refuse(&input("x5.npy"), &["--input: x5.npy", shape, "[3, 2, 5]"]);
    folder.refuse(&input("x1.npy"), &["--input: x1.npy", shape, "[4]"]);
    folder.refuse(&(input("x5.npy") + " --batch-first"), &["[B, T, 4]", "[3, 2, 5]"]);
    folder.refuse(&input("xi.npy"), &["--input: xi.npy", "expected float16, float32 or float64, found int32"]);

    folder.save("s.npy", &[1, 3, 5], &[0.0f32; 15]);
    folder.save("s64.npy", &[1, 2, 5], &[0.0f64; 10]);
    for option in ["--h0", "--c0"] {
        let message = format!("{option}: s.npy: expected shape [1, 2, 5], found [1, 3, 5]");
        folder.refuse(&format!("{LSTM} {option} s.npy"), &[&message]);
        let message = format!("{option}: s64.npy: expected float32 for this input, found float64");
        folder.refuse(&format!("{LSTM} {option} s64.npy"), &[&message]);
    }
    let single = "lstm --weights lstm.safetensors --input x2.npy --output y.npy --h0 s.npy";
    folder.refuse(single, &["--h0: s.npy: expected shape [1, 5], found [1, 3, 5]"]);
}

#[test]
fn wrong_lengths() {
    let folder = folder();
    for lengths in [[3i64, 4], [0, 3], [3, -1], [i64::MAX, 1]] {
        folder.save("n.npy", &[2], &lengths);
        let bad = lengths.into_iter().find(|n| !(1..=3).contains(n)).unwrap();
        let message = format!("expected 1 to 3 valid steps, found {bad} for sequence");
        folder.refuse(&format!("{LSTM} --lengths n.npy"), &["--lengths: n.npy", &message]);
    }
    folder.save("n.npy", &[3], &[1i32; 3]);
    folder.refuse(&format!("{LSTM} --lengths n.npy"), &["expected shape [2], one per sequence, found [3]"]);
    folder.save("n.npy", &[2], &[1.0f32; 2]);
    folder.refuse(&format!("{LSTM} --lengths n.npy"), &["expected int32, int64 or uint8, found float32"]);
}

#[test]
fn output_paths_that_cannot_exist() {
    let folder = folder();
    folder.refuse(&format!("{LSTM} --final-h y.npy"), &["--output and --final-h: expected different files"]);
    folder.refuse(&format!("{LSTM} --final-h none/h.npy"), &["--final-h", "expected a path in an existing folder"]);
    folder.save("y.npy", &[1], &[7.0f32]);
    folder.refuse(&format!("{LSTM} --lengths none.npy"), &["--lengths"]);
    assert_eq!(folder.load::<f32>("y.npy", &[1]), [7.0], "what is there stays");
}

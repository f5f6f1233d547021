//! Measures the costs that the estimates are made of, on one thread:
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo test --release -p layernorm-lab --lib -- --ignored --nocapture effort::measure
//! ```

use super::{UNIT, look, of_training, step};
use crate::models::{Arch, Norm, Reads, RecurrentSize};
use crate::records::{Header, RunFile};
use crate::studies::tools::testing::{Patience, data};
use crate::training::{self, Spec};
use layernorm_rnn::Kind;
use std::num::NonZeroUsize;

/// Processor time of this thread in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns * 1e-9)
}

/// Processor time of a run with this many steps and evaluations.
fn cost(spec: &Spec) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RunFile::open(folder.path(), Header::new("measure", "measure", serde_json::json!(0))).unwrap();
    let start = cpu();
    training::run(spec, data(), &mut file, &mut Patience(usize::MAX)).unwrap();
    cpu() - start
}

fn spec_of(arch: &Arch, norm: Norm, batch: usize) -> Spec {
    Spec { batch_size: batch, ..Spec::new(arch.clone(), norm, 1, &data().label()) }
}

/// Seconds per training step, and per evaluated image: differences between runs, so that what happens once cancels.
fn measured(arch: &Arch, norm: Norm, batch: usize) -> [f64; 2] {
    let mut spec = spec_of(arch, norm, batch);
    (spec.steps, spec.evaluations, spec.validation, spec.test) = (1, 1, 1, 0);
    // The first run of a network is slower, and this time is subtracted from those of the others.
    let once = (0..3).map(|_| cost(&spec)).fold(f64::INFINITY, f64::min);
    // A few hundred milliseconds each.
    let guess = of_training(&Spec { steps: 100, ..spec.clone() }) * UNIT / 100.0;
    let steps = ((0.4 / guess) as usize).clamp(4, 300);
    let trained = cost(&Spec { steps: 1 + steps, ..spec.clone() });
    let evaluated = cost(&Spec { validation: 501, ..spec.clone() });
    // Both evaluations, before and after the step, have 500 images more.
    [(trained - once) / steps as f64, (evaluated - once) / 1000.0]
}

fn cases() -> Vec<(String, Arch, Vec<Norm>, Vec<usize>)> {
    let three = vec![Norm::None, Norm::Layer, Norm::Batch];
    let mut cases = Vec::new();
    for (hidden, batches) in
        [(vec![100; 2], vec![4, 64]), (vec![256; 3], vec![64]), (vec![32; 12], vec![64]), (vec![1000; 2], vec![4, 128])]
    {
        cases.push((format!("MLP {}×{}", hidden[0], hidden.len()), Arch::mlp(&hidden), three.clone(), batches));
    }
    for kind in [Kind::Rnn, Kind::Gru, Kind::Lstm] {
        for (hidden, layers, reads) in [
            (32, 1, Reads::Rows),
            (128, 1, Reads::Rows),
            (32, 2, Reads::Rows),
            (64, 1, Reads::Pixels),
            (128, 1, Reads::Pixels),
        ] {
            let arch = Arch::recurrent(kind, RecurrentSize { hidden, reads, layers });
            let norms = match (reads, layers) {
                (Reads::Rows, 1) => vec![Norm::None, Norm::Layer, Norm::Batch, Norm::Rms, Norm::Weight],
                _ => vec![Norm::None, Norm::Layer],
            };
            let batches = if hidden == 32 && layers == 1 { vec![4, 64] } else { vec![64] };
            cases.push((format!("{} {hidden}×{layers} {reads:?}", arch.name()), arch, norms, batches));
        }
    }
    for channels in [[8, 16], [16, 32]] {
        cases.push((format!("CNN {channels:?}"), Arch::Cnn { channels }, Norm::ALL.to_vec(), vec![4, 64]));
    }
    for (width, heads, blocks) in [(16, 2, 2), (64, 4, 2), (16, 2, 6)] {
        let arch = Arch::Transformer { width, heads, blocks, pre_norm: true };
        cases.push((format!("Transformer {width}×{blocks}"), arch, three.clone(), vec![4, 64]));
    }
    cases
}

#[test]
#[ignore = "measures for two minutes"]
fn measure() {
    layernorm_burn::set_threads(Some(NonZeroUsize::MIN));
    println!(
        "{:24} {:8} {:>5} {:>10} {:>10} {:>6} {:>10} {:>6}",
        "network", "norm", "batch", "µs/step", "estimate", "ratio", "µs/look", "ratio"
    );
    for (name, arch, norms, batches) in cases() {
        for norm in norms.into_iter().filter(|&norm| arch.refuses(norm).is_none()) {
            for &batch in &batches {
                let [training, looking] = measured(&arch, norm, batch).map(|seconds| seconds * 1e6);
                let spec = spec_of(&arch, norm, batch);
                let estimate = step(&spec) * UNIT * 1e6;
                let look = look(&spec) * UNIT * 1e6;
                println!(
                    "{name:24} {:8} {batch:5} {training:10.0} {estimate:10.0} {:6.2} {looking:10.1} {:6.2}",
                    norm.name(),
                    estimate / training,
                    look / looking
                );
            }
        }
    }
}

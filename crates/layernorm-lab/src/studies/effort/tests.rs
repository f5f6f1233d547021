use super::*;

fn of(change: impl FnOnce(&mut Spec)) -> f64 {
    let arch = Arch::lstm(32, Reads::Rows);
    let mut spec = Spec::new(arch, Norm::Layer, 1, "data");
    change(&mut spec);
    of_training(&spec)
}

#[test]
fn more_work_is_more_effort() {
    let plain = of(|_| {});
    assert!(plain > COMPUTATION);
    assert!(of(|spec| spec.steps *= 2) > 1.5 * plain);
    assert!(of(|spec| spec.batch_size *= 2) > plain);
    assert!(of(|spec| spec.norm = Norm::Batch) > 2.0 * plain);
    assert!(of(|spec| spec.arch = Arch::lstm(32, Reads::Pixels)) > 10.0 * plain);
    assert!(of(|spec| spec.arch = Arch::lstm(128, Reads::Rows)) > 2.0 * plain);
    let size = RecurrentSize { hidden: 32, reads: Reads::Rows, layers: 1 };
    assert!(of(|spec| spec.arch = Arch::Rnn(size)) < of(|spec| spec.arch = Arch::Gru(size)));
    assert!(of(|spec| spec.images.halved = true) < 0.7 * plain);
    assert!(of(|spec| spec.arch = Arch::Lstm(RecurrentSize { layers: 2, ..size })) > 1.5 * plain);
}

/// Measured times of steps in microseconds: the estimates are within a factor of 1.5.
#[test]
fn estimates_are_near_the_measurements() {
    let lstm = |hidden, reads| Arch::Lstm(RecurrentSize { hidden, reads, layers: 1 });
    let rnn = |hidden| Arch::Rnn(RecurrentSize { hidden, reads: Reads::Rows, layers: 1 });
    let gru = |hidden| Arch::Gru(RecurrentSize { hidden, reads: Reads::Rows, layers: 1 });
    let transformer = |width| Arch::Transformer { width, heads: 2, blocks: 2, pre_norm: true };
    for (arch, norm, batch, measured) in [
        (Arch::mlp(&[100; 2]), Norm::None, 4, 262.0),
        (Arch::mlp(&[100; 2]), Norm::Layer, 64, 716.0),
        (Arch::mlp(&[256; 3]), Norm::Layer, 64, 2464.0),
        (Arch::mlp(&[1000; 2]), Norm::Layer, 4, 6689.0),
        (Arch::mlp(&[1000; 2]), Norm::Layer, 128, 20_009.0),
        (rnn(32), Norm::None, 64, 756.0),
        (rnn(128), Norm::Layer, 64, 4022.0),
        (gru(32), Norm::Layer, 64, 1839.0),
        (gru(128), Norm::None, 64, 10_195.0),
        (lstm(32, Reads::Rows), Norm::None, 64, 1786.0),
        (lstm(128, Reads::Rows), Norm::Layer, 64, 18_021.0),
        (lstm(64, Reads::Pixels), Norm::None, 64, 117_026.0),
        (Arch::Cnn { channels: [8, 16] }, Norm::Batch, 64, 4203.0),
        (Arch::Cnn { channels: [16, 32] }, Norm::Layer, 64, 7308.0),
        (transformer(16), Norm::Layer, 64, 5954.0),
        (transformer(64), Norm::Layer, 64, 22_198.0),
    ] {
        let spec = Spec { batch_size: batch, ..Spec::new(arch.clone(), norm, 1, "data") };
        let ratio = step(&spec) * UNIT * 1e6 / measured;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "{arch:?}, {norm:?}, {batch} images: {ratio}");
    }
}

//! `set_threads` changes no bit, and the limit is respected.

use crate::common::{cpu, leaf, random, tensor, training, values};
use burn::tensor::{Device, Tensor};
use layernorm_burn::{Lstm, LstmConfig, functional, set_threads};
use std::num::NonZeroUsize;

/// Large enough for three threads to share the work.
const ROWS: usize = 1024;
const UNITS: usize = 96;

fn bits<const D: usize>(tensor: &Tensor<D>) -> Vec<u32> {
    values::<f32, D>(tensor).into_iter().map(f32::to_bits).collect()
}

fn lstm(device: &Device) -> Lstm {
    LstmConfig::new(32, 64).with_variant("paper").with_seed(1).init(device)
}

/// y, the gradient of x and the gradient of a parameter, for each operation.
fn all_bits(device: &Device) -> Vec<Vec<u32>> {
    let (x, gain) = (random::<f32>(1, ROWS * UNITS), random::<f32>(2, UNITS));
    let slopes = tensor(&random::<f32>(3, ROWS * UNITS), [ROWS, UNITS], device);
    let running = || [0.0, 1.0].map(|value| tensor(&[value; UNITS], [UNITS], device));
    type Op<'a> = &'a dyn Fn(Tensor<2>, Tensor<1>) -> Tensor<2>;
    let ops: [Op; 4] = [
        &|x, gain| functional::layer_norm(x, Some(gain), None, 1e-5),
        &|x, gain| functional::group_norm(x, Some(gain), None, 8, 1e-5),
        &|x, gain| functional::batch_norm_train(x, Some(gain), None, running(), 0.1, 1e-5).output,
        &|x, gain| functional::weight_norm(x, gain, Some(1)),
    ];
    let mut found = Vec::new();
    for op in ops {
        let (x, gain) = (leaf(&x, [ROWS, UNITS], device), leaf(&gain, [UNITS], device));
        let y = op(x.clone(), gain.clone());
        let gradients = (y.clone() * slopes.clone()).sum().backward();
        found.extend([bits(&y), bits(&x.grad(&gradients).unwrap()), bits(&gain.grad(&gradients).unwrap())]);
    }
    let (x, lstm) = (leaf(&random::<f32>(4, 64 * 12 * 32), [64, 12, 32], device), lstm(device));
    let y = lstm.forward(x.clone(), None).0;
    let gradients = y.clone().square().sum().backward();
    let weight = lstm.net.cells[0].recurrent_weight.val().grad(&gradients).unwrap();
    found.extend([bits(&y), bits(&x.grad(&gradients).unwrap()), bits(&weight)]);
    found
}

#[test]
fn no_bit_depends_on_the_number_of_threads() {
    let by = |threads| {
        set_threads(NonZeroUsize::new(threads));
        all_bits(&training())
    };
    let alone = by(1);
    for threads in [2, 3, 7, 1000, 0] {
        assert_eq!(by(threads), alone, "{threads} threads");
    }
}

/// In a separate process, because the core's threads are counted, and other tests have some too.
#[cfg(target_os = "linux")]
#[test]
fn operations_take_no_more_threads_than_they_may() {
    const ALONE: &str = "LAYERNORM_TEST_COUNTS_THREADS";
    if std::env::var_os(ALONE).is_none() {
        let name = "threads::operations_take_no_more_threads_than_they_may";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let output = program.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && words.contains("1 passed"), "{words}");
        return;
    }
    let device = cpu();
    let x = tensor(&random::<f32>(1, ROWS * UNITS), [ROWS, UNITS], &device);
    let sequences = tensor(&random::<f32>(4, 64 * 12 * 32), [64, 12, 32], &device);
    let norm = || values::<f32, 2>(&functional::layer_norm(x.clone(), None, None, 1e-5));
    let run = |lstm: &Lstm| values::<f32, 3>(&lstm.forward(sequences.clone(), None).0);
    // Worker threads stay until the process exits.
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let at_first = threads();
    let helpers = || threads() - at_first;

    set_threads(NonZeroUsize::new(1));
    // The setting of another thread has no effect on this one.
    std::thread::spawn(|| set_threads(NonZeroUsize::new(8))).join().unwrap();
    let first = lstm(&device);
    norm();
    run(&first);
    assert_eq!(helpers(), 0, "with one thread");

    set_threads(NonZeroUsize::new(2));
    run(&first);
    assert_eq!(helpers(), 0, "a recurrent module keeps its first limit");
    run(&lstm(&device));
    assert_eq!(helpers(), 1, "an LSTM with two threads");

    set_threads(NonZeroUsize::new(3));
    norm();
    assert_eq!(helpers(), 2, "a norm with three threads");
}

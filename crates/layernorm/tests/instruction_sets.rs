//! One test for each instruction set of this architecture: ignored, with the reason, where the machine lacks it. The other test files
//! take whatever there is, so this is where a report shows which paths were compared with the contract.

#[path = "common/mod.rs"]
mod common;

use common::reference;
use common::{Random, assert_same_bits, widen};
use layernorm::{Context, Element, Float, Isa, NormConfig, View, ViewMut, bf16, f16, layer_norm, rms_norm};
use libtest_mimic::{Arguments, Trial};

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
const OF_THIS_ARCHITECTURE: &[Isa] = &[Isa::Scalar, Isa::Avx2, Isa::Avx512];
#[cfg(target_arch = "aarch64")]
const OF_THIS_ARCHITECTURE: &[Isa] = &[Isa::Scalar, Isa::Neon];
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
const OF_THIS_ARCHITECTURE: &[Isa] = &[Isa::Scalar];

fn main() {
    let trial = |isa: Isa| {
        let name = format!("{}_has_the_bits_of_the_contract", isa.name());
        let trial = Trial::test(name, move || {
            all_types(isa);
            Ok(())
        });
        match isa.is_available() {
            true => trial,
            false => trial.with_ignored_flag(true).with_kind(format!("this machine has no {isa}")),
        }
    };
    // What the machine lacks stays ignored, whatever the command line says.
    let arguments = Arguments { ignored: false, include_ignored: false, ..Arguments::from_args() };
    libtest_mimic::run(&arguments, OF_THIS_ARCHITECTURE.iter().copied().map(trial).collect()).exit();
}

fn all_types(isa: Isa) {
    forward::<f32>(isa);
    forward::<f64>(isa);
    forward::<f16>(isa);
    forward::<bf16>(isa);
}

/// Layer and RMS norm of lengths around the ends of vectors, lanes and blocks.
fn forward<T: Element>(isa: Isa) {
    let mut cx = Context::new().with_isa(isa).unwrap();
    let mut random = Random::new(7);
    for n in [1, 7, 16, 33, 255, 257, 1000, 1025, 4097] {
        let rows = 3;
        let x: Vec<T> = random.map(rows * n, |z| 100.0 + z);
        for centered in [true, false] {
            let eps = T::Acc::from_f64(1e-5);
            let row = |i: usize| &x[i * n..(i + 1) * n];
            let stat = |i: usize| reference::stat(&widen(row(i)), centered, eps);
            let expected: Vec<T> = (0..rows).flat_map(|i| reference::forward(row(i), stat(i), None, None)).collect();
            let mut y = vec![T::default(); x.len()];
            let (from, to) = (View::new(&x, &[rows, n]).unwrap(), ViewMut::new(&mut y, &[rows, n]).unwrap());
            let run = if centered { layer_norm::forward } else { rms_norm::forward };
            run(from, to, None, &NormConfig::new(), &mut cx).unwrap();
            assert_same_bits(&y, &expected, || format!("{isa}, n = {n}, centered: {centered}"));
        }
    }
}

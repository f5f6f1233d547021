//! The results of every instruction set of this architecture, compared with the scalar one: ignored, with the reason,
//! where the machine lacks it.

#[path = "common/case.rs"]
mod case;
#[path = "common/functions.rs"]
mod functions;
#[path = "common/sample.rs"]
mod sample;

use case::{Bits, Case, alone, deep, same_all};
use functions::{NAMES, all, canonical, canonical64, map, numbers, specials};
use layernorm::Isa;
use layernorm_rnn::{Kind, Variant};
use libtest_mimic::{Arguments, Trial};
use sample::{Rng, label, variants};

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
const OF_THIS_ARCHITECTURE: &[Isa] = &[Isa::Avx2, Isa::Avx512];
#[cfg(target_arch = "aarch64")]
const OF_THIS_ARCHITECTURE: &[Isa] = &[Isa::Neon];
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
const OF_THIS_ARCHITECTURE: &[Isa] = &[];

fn main() {
    let trial = |isa: Isa, what: &str, test: fn(Isa)| {
        let trial = Trial::test(format!("{what}_have_the_same_bits_with_{}", isa.name()), move || {
            test(isa);
            Ok(())
        });
        match isa.is_available() {
            true => trial,
            false => trial.with_ignored_flag(true).with_kind(format!("this machine has no {isa}")),
        }
    };
    let trials = |&isa: &Isa| [trial(isa, "networks", networks), trial(isa, "functions", functions_of)];
    // What the machine lacks stays ignored, whatever the command line says.
    let arguments = Arguments { ignored: false, include_ignored: false, ..Arguments::from_args() };
    libtest_mimic::run(&arguments, OF_THIS_ARCHITECTURE.iter().flat_map(trials).collect()).exit();
}

/// All results of every variant.
fn networks(isa: Isa) {
    fn check<A: Bits>(name: &str, isa: Isa, case: &Case<A>) {
        let with = |isa| alone().with_isa(isa).unwrap();
        same_all(&format!("{name}, {isa}"), &case.all(with(isa)), &case.all(with(Isa::Scalar)));
    }
    for variant in variants() {
        for hidden in [1, 2, 7, 16, 33, 67] {
            let name = format!("{}, H {hidden}", label(&variant));
            let lengths = [6, 1, 4, 6, 3];
            check(&format!("{name}, f32"), isa, &Case::new(&deep(variant, 5, hidden), 6, 5).with_lengths(&lengths));
            check(&format!("{name}, f64"), isa, &Case::wide(&deep(variant, 5, hidden), 6, 5).with_lengths(&lengths));
        }
        if variant.kind == Kind::Lstm {
            let variant = Variant { cell_clip: Some(0.5), projection_clip: Some(0.3), ..variant };
            let config = deep(variant, 5, 21).with_projection(9);
            check(&format!("projected {}", variant.name), isa, &Case::new(&config, 6, 5));
        }
    }
}

/// exp, sigmoid and tanh.
fn functions_of(isa: Isa) {
    let mut rng = Rng::new(9);
    let mut wide = specials();
    wide.extend((0..20_000).map(|_| f64::from_bits(rng.bits())));
    wide.extend(numbers(720.0, 2000));
    for (which, name) in NAMES.into_iter().enumerate() {
        // Any 32 bits, and those of the interesting range.
        let check = |x: &[f32]| {
            let bits = |isa| map(all::<f32>()[which], isa, x).iter().map(|y| canonical(*y)).collect::<Vec<_>>();
            assert_eq!(bits(isa), bits(Isa::Scalar), "f32 {name} {isa}");
        };
        check(&wide.iter().map(|&x| x as f32).collect::<Vec<_>>());
        (0..64u32).for_each(|block| {
            let start = block.wrapping_mul(0x0400_0000);
            check(&(0..4096u32).map(|i| f32::from_bits(start + i * 16_381)).collect::<Vec<_>>());
        });
        let bits = |isa| map(all::<f64>()[which], isa, &wide).iter().map(|y| canonical64(*y)).collect::<Vec<_>>();
        assert_eq!(bits(isa), bits(Isa::Scalar), "f64 {name} {isa}");
    }
}

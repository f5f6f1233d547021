//! The recurrent kernels compile for every architecture where NVRTC can be found, and cells that they do not have are refused
//! with a reason. No GPU is needed.
use layernorm_cuda::recurrent::{Number, all_variants};
use layernorm_cuda::{Arch, Error};

#[test]
fn every_kernel_compiles() {
    for capability in [80, 90, 100] {
        let variants = all_variants().unwrap();
        assert!(variants.len() > 60, "{} kernels", variants.len());
        for variant in variants {
            match variant.compile(Arch::new(capability)) {
                Ok(code) => assert_eq!(&code[..4], b"\x7fELF"),
                Err(error @ Error::NoCompiler { .. }) => {
                    println!("skipped: {error}");
                    return;
                }
                Err(error) => panic!("{capability}: {error}"),
            }
        }
    }
}

#[test]
fn numbers_have_their_sizes() {
    assert_eq!(Number::ALL.map(Number::bytes), [4, 2, 2]);
}

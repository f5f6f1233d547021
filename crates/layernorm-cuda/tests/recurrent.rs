//! The recurrent kernels compile for every architecture where NVRTC can be found. No GPU is needed; against the CPU they are
//! held by `recurrent check` (bench/gpu).
use layernorm_cuda::recurrent::all_variants;
use layernorm_cuda::{Arch, Error};

fn every_kernel_compiles(capability: u32) {
    let variants = all_variants(capability).unwrap();
    assert!(variants.len() > 60, "{} kernels", variants.len());
    for variant in variants {
        match variant.compile(Arch::new(capability)) {
            Ok(code) => assert_eq!(&code[..4], b"\x7fELF"),
            Err(error @ Error::NoCompiler { .. }) => return println!("skipped: {error}"),
            Err(error) => panic!("{capability}: {error}"),
        }
    }
}

#[test]
fn for_ampere() {
    every_kernel_compiles(80);
}

#[test]
fn for_hopper() {
    every_kernel_compiles(90);
}

#[test]
fn for_blackwell() {
    every_kernel_compiles(100);
}

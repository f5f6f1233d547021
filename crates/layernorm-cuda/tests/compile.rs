//! Every kind of kernel compiles for every architecture, where NVRTC can be found. No GPU is needed.
use layernorm_cuda::{Arch, Error, NOOP, Variant, nvrtc, variants};
use std::sync::atomic::{AtomicUsize, Ordering};

fn all(capability: u32) {
    if let Err(error @ Error::NoCompiler { .. }) = nvrtc::version() {
        println!("skipped: {error}");
        return;
    }
    let mut list = variants(capability);
    list.push(Variant::new(&NOOP, "noop"));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(variant) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match variant.compile(Arch::new(capability)) {
                        Ok(code) => assert_eq!(&code[..4], b"\x7fELF", "machine code of {variant:?}"),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
}

#[test]
fn for_sm_80() {
    all(80);
}

#[test]
fn for_sm_90() {
    all(90);
}

#[test]
fn for_sm_100() {
    all(100);
}

//! Every kind of kernel compiles for every architecture. Needs NVRTC but no GPU; without NVRTC, all tests are reported
//! as ignored.
//!
//! For 8.0 and 9.0, every variant is compiled. 10.0 has the kernels of 9.0, which differ there only in the instructions
//! that a source uses, so every function is compiled once with every combination of defined names. The code of 9.0 is
//! optimized as on a GPU, that of the others less, which takes little more than half of the time.
mod harness;

use layernorm_cuda::recurrent::all_variants;
use layernorm_cuda::{Arch, NOOP, Variant, nvrtc, variants};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The compiler's messages about norms and recurrent layers that did not compile.
fn failures(capability: u32) -> Option<String> {
    let mut list = variants(capability);
    let recurrent = all_variants(capability).expect("layers that every device has room for");
    assert!(list.len() > 60 && recurrent.len() > 60, "{} and {} kernels", list.len(), recurrent.len());
    list.extend(recurrent);
    list.push(Variant::new(&NOOP, "noop"));
    if capability == 100 {
        let mut seen = HashSet::new();
        list.retain(|variant| seen.insert((variant.source.name, variant.entry, variant.specific, names(variant))));
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(variant) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let arch = Arch::new(capability);
                    let code = if capability == 90 { variant.compile(arch) } else { variant.compile_quickly(arch) };
                    let wrong = match code {
                        Ok(code) if code.starts_with(b"\x7fELF") => continue,
                        Ok(code) => format!("{variant:?}: {} bytes that are not machine code", code.len()),
                        Err(error) => error.to_string(),
                    };
                    failed.lock().expect("no thread has panicked").push(wrong);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread has panicked");
    (!failed.is_empty()).then(|| failed.join("\n"))
}

/// The names that a variant defines.
fn names(variant: &Variant) -> Vec<String> {
    variant.defines.iter().map(|define| define.split('=').next().unwrap_or_default().to_owned()).collect()
}

fn main() {
    let missing = nvrtc::version().err();
    let tests = [80, 90, 100].map(|capability| (format!("every_kernel_for_sm_{capability}"), capability));
    let missing = missing.map(|error| error.to_string());
    let trial =
        |(name, capability)| harness::test(name, missing.as_deref(), move || failures(capability).map_or(Ok(()), Err));
    harness::run(tests.into_iter().map(trial).collect(), true)
}

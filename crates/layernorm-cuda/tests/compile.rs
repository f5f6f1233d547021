//! Every kind of kernel compiles for every architecture. No GPU is needed, but NVRTC: without it, all is reported as ignored.
use layernorm_cuda::{Arch, NOOP, Variant, nvrtc, variants};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The compiler's words about what did not compile.
fn failures(capability: u32) -> Vec<String> {
    let mut list = variants(capability);
    list.push(Variant::new(&NOOP, "noop"));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(variant) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wrong = match variant.compile(Arch::new(capability)) {
                        Ok(code) if code.starts_with(b"\x7fELF") => continue,
                        Ok(code) => format!("{variant:?}: {} bytes that are no machine code", code.len()),
                        Err(error) => error.to_string(),
                    };
                    failed.lock().expect("no thread has panicked").push(wrong);
                }
            });
        }
    });
    failed.into_inner().expect("no thread has panicked")
}

fn main() {
    const CAPABILITIES: [u32; 3] = [80, 90, 100];
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let list = std::env::args().any(|word| word == "--list");
    let missing = nvrtc::version().err();
    let (mut passed, mut ignored, mut failed) = (0, 0, 0);
    for capability in CAPABILITIES {
        let name = format!("every_kernel_for_sm_{capability}");
        if list {
            println!("{name}: test");
            continue;
        }
        if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        if let Some(error) = &missing {
            println!("test {name} ... ignored, skipped: {error}");
            ignored += 1;
            continue;
        }
        let wrong = failures(capability);
        wrong.iter().for_each(|wrong| println!("{wrong}"));
        println!("test {name} ... {}", if wrong.is_empty() { "ok" } else { "FAILED" });
        if wrong.is_empty() { passed += 1 } else { failed += 1 }
    }
    if !list {
        println!("\ntest result: {passed} passed; {failed} failed; {ignored} ignored\n");
    }
    std::process::exit(i32::from(failed > 0));
}

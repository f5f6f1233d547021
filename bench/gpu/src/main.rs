//! Checks layernorm-cuda against the CPU library, bit for bit, and measures it against a device copy.
//!
//! ```text
//! layernorm-gpu-bench [check] [large] [time] [small] [sweep] [N…] [f32:N | bf16:N] [--reduced] [--few] [--held]
//! ```
//! `N…`: `check` and `sweep` rows of these sizes only. `f32:N`: `time` this type and size only, for a profiler.

mod cases;
mod channels;
mod data;
mod large;
mod rows;
mod sweep;
mod time;

use layernorm_cuda::{Device, Error, Type};

/// The type and size that are timed alone, for a profiler.
fn only(words: &[String]) -> Option<(Type, usize)> {
    words.iter().find_map(|word| {
        let (name, n) = word.split_once(':')?;
        Some((if name == "f32" { Type::F32 } else { Type::Bf16 }, n.parse().ok()?))
    })
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let all = !["check", "large", "time", "small", "sweep"].iter().any(|word| has(word));
    let device = Device::open(0)?;
    println!("{:?}", device.properties());
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut failed = 0;
    if all || has("check") {
        failed = cases::run(&device, has("--reduced"), has("--few"), &sizes);
    }
    if all || has("large") {
        match large::run(&device) {
            Ok(words) => println!("{words}"),
            Err(words) => {
                println!("DIFFERS {words}");
                failed += 1;
            }
        }
    }
    if all || has("time") {
        time::run(&device, only(&words))?;
    }
    if has("small") {
        time::small_alone(&device)?;
    }
    if has("sweep") {
        sweep::run(&device, has("--held"), &sizes)?;
    }
    if failed > 0 {
        eprintln!("{failed} cases differ from the CPU");
        std::process::exit(1);
    }
    Ok(())
}

//! Checks layernorm-cuda against the CPU library, bit for bit, and measures it against a device copy.
//!
//! ```text
//! layernorm-gpu-bench [check] [large] [time] [small] [sweep] [--reduced] [--few] [--held]
//! ```

mod cases;
mod channels;
mod data;
mod large;
mod rows;
mod sweep;
mod time;

use layernorm_cuda::{Device, Error};

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let all = !["check", "large", "time", "small", "sweep"].iter().any(|word| has(word));
    let device = Device::open(0)?;
    println!("{:?}", device.properties());
    let mut failed = 0;
    if all || has("check") {
        failed = cases::run(&device, has("--reduced"), has("--few"));
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
        time::run(&device)?;
    }
    if has("small") {
        time::small_alone(&device)?;
    }
    if has("sweep") {
        sweep::run(&device, has("--held"))?;
    }
    if failed > 0 {
        eprintln!("{failed} cases differ from the CPU");
        std::process::exit(1);
    }
    Ok(())
}

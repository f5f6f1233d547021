//! Checks layernorm-cuda against the CPU library, bit for bit, and measures it against a device copy.
//!
//! ```text
//! layernorm-gpu-bench [check] [time] [sweep] [--reduced]
//! ```

mod cases;
mod channels;
mod data;
mod rows;
mod sweep;
mod time;

use layernorm_cuda::{Device, Error};

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let all = !["check", "time", "sweep"].iter().any(|word| has(word));
    let device = Device::open(0)?;
    println!("{:?}", device.properties());
    let mut failed = 0;
    if all || has("check") {
        failed = cases::run(&device, has("--reduced"));
    }
    if all || has("time") {
        time::run(&device)?;
    }
    if has("sweep") {
        sweep::run(&device)?;
    }
    if failed > 0 {
        eprintln!("{failed} cases differ from the CPU");
        std::process::exit(1);
    }
    Ok(())
}

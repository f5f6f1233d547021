//! Microseconds per step of the whole call, with T = 256 and I = H (or 16).

use crate::case::{Case, Data, OnGpu};
use layernorm_cuda::memory::Event;
use layernorm_cuda::recurrent::Number;
use layernorm_cuda::{Device, Error, Stream};
use layernorm_rnn::{Kind, Variant};

const STEPS: usize = 256;

/// The median time of several calls, in microseconds per step.
fn median(device: &Device, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    for _ in 0..2 {
        call()?;
    }
    let mut times = Vec::new();
    for _ in 0..7 {
        let (start, end) = (Event::new(device)?, Event::new(device)?);
        start.record(Stream::DEFAULT)?;
        call()?;
        end.record(Stream::DEFAULT)?;
        times.push(end.seconds_since(&start)?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2] * 1e6 / STEPS as f64)
}

/// Forward without a tape, forward and backward with one, and the resources that the time loops use.
struct Times {
    there: f64,
    both: f64,
    /// Registers, spilled bytes, shared memory.
    resources: Vec<(u32, u32, usize)>,
}

fn measure(device: &Device, case: &Case) -> Result<Times, Error> {
    let data = Data::random(case, 1);
    let there = {
        let gpu = OnGpu::new(device, case, &data, false)?;
        // SAFETY: all addresses belong to that structure's buffers.
        let time = median(device, || unsafe { gpu.plan.forward(Stream::DEFAULT, &gpu.run) })?;
        gpu.plan.check()?;
        time
    };
    let gpu = OnGpu::new(device, case, &data, true)?;
    let both = median(device, || {
        // SAFETY: as above.
        unsafe {
            gpu.plan.forward(Stream::DEFAULT, &gpu.run)?;
            gpu.plan.backward(Stream::DEFAULT, &gpu.back)
        }
    })?;
    gpu.plan.check()?;
    Ok(Times { there, both, resources: gpu.plan.resources()? })
}

/// The cases to be timed: the cell `paper` of the given kinds, types and sizes; all if none are given.
pub fn cases(arguments: &[String]) -> Vec<Case> {
    let wants = |name: &str, of: &[&str]| {
        !arguments.iter().any(|a| of.contains(&a.as_str())) || arguments.iter().any(|a| a == name)
    };
    let numbers: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let mut sizes: Vec<(usize, usize)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if sizes.is_empty() {
        sizes = [512, 1024, 2048].into_iter().flat_map(|h| [1, 16, 64].map(|b| (h, b))).collect();
    }
    let mut cases = Vec::new();
    for (kind, label) in [(Kind::Lstm, "lstm"), (Kind::Gru, "gru")] {
        for (number, name) in
            [(Number::Bf16, "bf16"), (Number::F16, "f16"), (Number::F32, "f32"), (Number::F32, "tf32")]
        {
            if wants(label, &["lstm", "gru"]) && wants(name, &["bf16", "f16", "f32", "tf32"]) {
                let variant = Variant::named(kind, "paper").unwrap();
                cases.extend(sizes.iter().map(|&(hidden, batch)| Case {
                    params: number,
                    tf32: name == "tf32",
                    ..Case::new(variant, number, (STEPS, batch, hidden, hidden))
                }));
            }
        }
    }
    cases
}

pub fn all(device: &Device, arguments: &[String]) -> bool {
    // With the argument `loop`, I is 16, so that little but the time loop remains.
    let input = arguments.iter().any(|a| a == "loop").then_some(16);
    println!("| cell | type | H | B | fwd | fwd+bwd | registers, spills, shared |");
    println!("|---|---|---|---|---|---|---|");
    let mut good = true;
    for case in cases(arguments) {
        let case = Case { input: input.unwrap_or(case.input), ..case };
        match measure(device, &case) {
            Ok(Times { there, both, resources }) => println!(
                "| {} paper | {:?}{} | {} | {} | {there:.2} | {both:.2} | {resources:?} |",
                case.variant.kind.name(),
                case.number,
                if case.tf32 { " (tf32)" } else { "" },
                case.hidden,
                case.batch,
            ),
            Err(error) => {
                println!("FAIL {}: {error}", case.name());
                good = false;
            }
        }
    }
    good
}

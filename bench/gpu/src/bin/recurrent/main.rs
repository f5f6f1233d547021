//! The recurrent kernels: checked against the CPU engine, or timed. Needs a GPU and nothing else.
//!
//! See `--help` for the arguments.

mod case;
mod check;
mod time;

use case::Case;
use layernorm_cuda::{Device, Error};
use std::sync::atomic::{AtomicUsize, Ordering};

const HELP: &str = "\
recurrent: LSTMs and GRUs on this machine's GPU, compared with the CPU engine, and timed

recurrent check [quick | reduced | part of a case's name]
recurrent time [loop] [lstm | gru] [f32 | tf32 | f16 | bf16] [H B]…     µs per step; loop: little but the time loop
recurrent warm K N [quick | arguments of time]                          compile every N-th case's kernels, from index K on

Exit status: 0 on success, 1 on failure, 2 for bad arguments or no GPU.";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return println!("{HELP}");
    }
    let Some(work @ ("check" | "warm" | "time")) = arguments.first().map(String::as_str) else {
        eprintln!("expected check, time or warm\n\n{HELP}");
        std::process::exit(2);
    };
    let device = Device::open(0).unwrap_or_else(|error| {
        eprintln!("a GPU is needed: {error}");
        std::process::exit(2);
    });
    println!("{}", device.properties().name);
    let good = match work {
        "check" => check_all(&device, arguments.get(1).map(String::as_str)),
        "warm" => warm(&device, &arguments[1..]),
        _ => time::all(&device, &arguments[1..]),
    };
    std::process::exit(i32::from(!good));
}

/// Compiles the kernels of every n-th case, starting at index k, so that several processes can fill the kernel cache
/// together. The cases are those of the quick check, or the cases to be timed that the other arguments select.
fn warm(device: &Device, arguments: &[String]) -> bool {
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<usize>().ok()).unwrap_or(1);
    let quick = arguments.iter().any(|a| a == "quick");
    let cases = if quick { check::cases(true) } else { time::cases(arguments.get(2..).unwrap_or(&[])) };
    let mut good = true;
    for case in cases.iter().skip(number(0)).step_by(number(1)) {
        if let Err(error) = case.compile(device) {
            println!("FAIL {}: {error}", case.name());
            good = false;
        }
    }
    good
}

/// How many of the cases pass, with as many at a time as there are processors; an error counts as a failure.
fn count_good(cases: &[&Case], holds: impl Fn(&Case) -> Result<bool, Error> + Sync) -> usize {
    let (next, good) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(4, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match holds(case) {
                        Ok(held) => good.fetch_add(usize::from(held), Ordering::Relaxed),
                        Err(error) => {
                            println!("FAIL {}: {error}", case.name());
                            0
                        }
                    };
                }
            });
        }
    });
    good.into_inner()
}

fn check_all(device: &Device, which: Option<&str>) -> bool {
    let begun = std::time::Instant::now();
    let (cases, filter) = match which {
        Some("reduced") => (check::reduced(), ""),
        Some("quick") => (check::cases(true), ""),
        filter => (check::cases(false), filter.unwrap_or("")),
    };
    let wanted: Vec<&Case> = cases.iter().filter(|case| case.name().contains(filter)).collect();
    if wanted.is_empty() {
        eprintln!("no case matches \"{filter}\"");
        return false;
    }
    let held = count_good(&wanted, |case| check::check(device, case, case.hidden > 512));
    let seconds = || begun.elapsed().as_secs_f64();
    println!("{held} cases pass, {} fail ({:.1} s)", wanted.len() - held, seconds());
    let among: Vec<&Case> =
        wanted.iter().copied().filter(|case| case.hidden >= 512 && case.batch > 5 && !case.lengths).collect();
    let alone = count_good(&among, |case| check::independent(device, case, 3));
    let word = if alone == among.len() { "same bits" } else { "DIFFER" };
    println!("sequences alone: {word} ({:.1} s)", seconds());
    held == wanted.len() && alone == among.len()
}

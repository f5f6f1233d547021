//! The recurrent kernels: checked against the CPU engine, then timed. Runs where there is a GPU; needs nothing else.
//!
//! `--help` says what it takes.

mod case;
mod check;
mod time;

use case::Case;
use layernorm_cuda::Device;
use layernorm_cuda::recurrent::Route;

const HELP: &str = "\
recurrent: LSTMs and GRUs on this machine's GPU, against the CPU engine, and their times

recurrent check [quick | reduced | part of a case's name]
recurrent time [loop] [lstm | gru] [f32 | tf32 | f16 | bf16] [H B]…     µs a step; loop: without the products around it
recurrent warm K N [quick | what is to be timed]                        compiles every N-th case's kernels, from the K-th on";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return println!("{HELP}");
    }
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    println!("{}", device.properties().name);
    let good = match arguments.first().map(String::as_str) {
        Some("check") => check_all(&device, arguments.get(1).map(String::as_str)),
        Some("warm") => warm(&device, &arguments[1..]),
        Some("time") => time::all(&device, &arguments[1..]),
        _ => {
            eprintln!("{HELP}");
            false
        }
    };
    std::process::exit(i32::from(!good));
}

/// Compiles the kernels of every n-th case, from the k-th on: several processes fill the folder of kernels together. The
/// cases are those of the quick check, or those to be timed that the other arguments name.
fn warm(device: &Device, arguments: &[String]) -> bool {
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<usize>().ok()).unwrap_or(1);
    let quick = arguments.iter().any(|a| a == "quick");
    let cases = if quick { check::cases(true) } else { time::cases(arguments.get(2..).unwrap_or(&[])) };
    let mut good = true;
    for case in cases.iter().skip(number(0)).step_by(number(1)) {
        for training in [true, false] {
            if let Err(error) = Route::new(device, case.layer(), case.shape(), training) {
                println!("FAIL {}: {error}", case.name());
                good = false;
            }
        }
    }
    good
}

fn check_all(device: &Device, which: Option<&str>) -> bool {
    let (mut passed, mut failed) = (0, 0);
    let begun = std::time::Instant::now();
    let (cases, filter) = match which {
        Some("reduced") => (check::reduced(), ""),
        Some("quick") => (check::cases(true), ""),
        filter => (check::cases(false), filter.unwrap_or("")),
    };
    for (index, case) in cases.iter().enumerate() {
        if !case.name().contains(filter) {
            continue;
        }
        match check::check(device, case, index % 12 == 0 || case.hidden > 512) {
            Ok(true) => passed += 1,
            Ok(false) => failed += 1,
            Err(error) => {
                println!("FAIL {}: {error}", case.name());
                failed += 1;
                if failed > 12 {
                    return false;
                }
            }
        }
    }
    println!("{passed} cases hold, {failed} do not ({:.1} s)", begun.elapsed().as_secs_f64());
    let mut independent = true;
    let wanted = |case: &&Case| case.name().contains(filter);
    for case in cases.iter().filter(wanted).filter(|case| case.hidden >= 512 && case.batch > 5 && !case.lengths) {
        match check::independent(device, case, 3) {
            Ok(good) => independent &= good,
            Err(error) => {
                println!("FAIL {}: {error}", case.name());
                independent = false;
            }
        }
    }
    println!(
        "sequences alone: {} ({:.1} s)",
        if independent { "same bits" } else { "DIFFER" },
        begun.elapsed().as_secs_f64()
    );
    failed == 0 && independent
}

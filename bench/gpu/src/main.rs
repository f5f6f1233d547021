//! Checks layernorm-cuda against the CPU library, bit for bit, and measures it against a device copy.
//!
//! See `--help` for the arguments.

mod cases;
mod channels;
mod data;
mod large;
mod repeat;
mod rows;
mod sweep;
mod time;

use layernorm_cuda::{Device, Error, Type};

/// The only type and size to be timed, for use with a profiler.
fn only(words: &[String]) -> Option<(Type, usize)> {
    words.iter().find_map(|word| {
        let (name, n) = word.split_once(':')?;
        Some((if name == "f32" { Type::F32 } else { Type::Bf16 }, n.parse().ok()?))
    })
}

const HELP: &str = "\
layernorm-gpu-bench: the norms on this machine's GPU, compared with the CPU and with a device copy

layernorm-gpu-bench [check] [large] [repeat] [time] [small] [sweep] [N…] [f32:N | bf16:N] [--reduced] [--few] [--held]

  check      compare every size class, type and hard input with the CPU, bit for bit; N…: only these row lengths
             --reduced: a few cases per kernel, for compute-sanitizer; --few: only calls with few rows
  large      compare a tensor of more than 2^31 elements with the CPU
  repeat     repeat the same calls hundreds of times and compare each result with the first, bit for bit; N…: as above
  time       TB/s on tensors of 512 MiB, and small calls; N…: as above; f32:N or bf16:N: only this one, for a profiler
  small      µs per call with few rows
  sweep      compare launch layouts; N…: as above; --held: also those that keep rows in registers
Without a command: check, large and time. Exit status: 0 on success, 1 on failure, 2 for bad arguments or no GPU.";

const WORK: [&str; 6] = ["check", "large", "repeat", "time", "small", "sweep"];
/// What runs if no command is given.
const ALL: [&str; 3] = ["check", "large", "time"];

/// The first argument that is not recognized.
fn unknown(words: &[String]) -> Option<&String> {
    let size = |word: &str| word.parse::<usize>().is_ok_and(|n| n > 0);
    let known = |word: &String| {
        let typed = word.strip_prefix("f32:").or_else(|| word.strip_prefix("bf16:"));
        WORK.contains(&word.as_str())
            || ["--reduced", "--few", "--held"].contains(&word.as_str())
            || size(typed.unwrap_or(word))
    };
    words.iter().find(|word| !known(word))
}

/// Whether a command should run: it was given, or none was given and it is one of the defaults.
fn wanted(words: &[String], work: &str) -> bool {
    let named = |work: &str| words.iter().any(|word| word == work);
    named(work) || (ALL.contains(&work) && !WORK.iter().any(|work| named(work)))
}

/// The error message for sizes that cannot be measured.
fn refused(words: &[String]) -> Option<String> {
    let (time, sweep) = (wanted(words, "time"), wanted(words, "sweep"));
    let (least, most) = (*time::Bench::TAKES.start(), *time::Bench::TAKES.end());
    words.iter().filter_map(|word| word.split(':').next_back()?.parse::<usize>().ok()).find_map(|n| {
        if time && !(least..=most).contains(&n) {
            return Some(format!("{n}: `time` needs rows of {least} to {most} elements"));
        }
        let wrong = sweep && (n > most || !n.is_multiple_of(8));
        wrong.then(|| format!("{n}: `sweep` needs rows of a multiple of 8 elements, at most {most}"))
    })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return println!("{HELP}");
    }
    if let Some(word) = unknown(&words) {
        eprintln!("{word}: expected one of the arguments below\n\n{HELP}");
        std::process::exit(2);
    }
    if let Some(words) = refused(&words) {
        eprintln!("{words}");
        std::process::exit(2);
    }
    let device = Device::open(0).unwrap_or_else(|error| {
        eprintln!("a GPU is needed: {error}");
        std::process::exit(2);
    });
    if let Err(error) = run(&device, &words) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(device: &Device, words: &[String]) -> Result<(), Error> {
    let does = |work: &str| wanted(words, work);
    let has = |word: &str| words.iter().any(|given| given == word);
    println!("{:?}", device.properties());
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut failed = 0;
    if does("check") {
        failed = cases::run(device, has("--reduced"), has("--few"), &sizes);
    }
    if does("large") {
        match large::run(device) {
            Ok(words) => println!("{words}"),
            Err(words) => {
                println!("DIFFERS {words}");
                failed += 1;
            }
        }
    }
    if does("repeat") {
        failed += repeat::run(device, &sizes)?;
    }
    if does("time") {
        time::run(device, only(words), &sizes)?;
    }
    if does("small") {
        time::small_alone(device)?;
    }
    if does("sweep") {
        sweep::run(device, has("--held"), &sizes)?;
    }
    if failed > 0 {
        eprintln!("{failed} cases differ");
        std::process::exit(1);
    }
    Ok(())
}

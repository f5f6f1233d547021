//! The `layernorm` command: parse, call, print.
//!
//! Exit status: 0 on success, 1 if a result is outside the numerical contract or a run failed, 2 if the input or the arguments
//! are bad, 130 if Ctrl-C stopped a study or a training run. Ctrl-C ends a server with 0 if it runs no study. Any other
//! command that a signal ends has the usual status for that signal, and leaves no temporary files.

#![forbid(unsafe_code)]

mod apply;
mod bench;
mod data;
mod dtype;
mod failure;
mod generate;
mod machine;
mod norm;
mod predict;
mod random;
mod recurrent;
mod reference;
mod report;
mod serve;
mod show;
mod signals;
mod study;
mod textbook;
mod tour;
mod train;
mod verify;
mod weights;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Layer normalization and related norms: accurate, and bit-identical on every machine.
///
/// Without a subcommand, runs the quick version of `layernorm study all`: trains networks with and without
/// normalization on real digits and writes one report.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Study(study::Args),
    Report(report::Args),
    Serve(serve::Args),
    Train(train::Args),
    Predict(predict::Args),
    Generate(generate::Args),
    Data(data::Args),
    // Boxed because its arguments are many times larger than those of the others.
    Apply(Box<apply::Args>),
    Verify(verify::Args),
    Bench(bench::Args),
    Weights(weights::Args),
    /// Demonstrate the library: a short verify and a short bench, explained
    Tour,
    /// Print shell completions
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let word = if failure.status == failure::STOPPED { "" } else { "error: " };
            show::say(&format!("{word}{}", failure.message));
            ExitCode::from(failure.status)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    // Checked once here: everything that computes later would fail with the same error.
    layernorm::Isa::detect()?;
    signals::install()?;
    match cli.command {
        Some(Command::Study(args)) => study::run(args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Train(args)) => train::run(args),
        Some(Command::Predict(args)) => predict::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::Data(args)) => data::run(args),
        Some(Command::Apply(args)) => apply::run(*args),
        Some(Command::Verify(args)) => verify::run(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Weights(args)) => weights::run(args),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "layernorm", &mut script);
            show::print_verbatim(&String::from_utf8_lossy(&script))
        }
        Some(Command::Tour) => tour::run(),
        None => study::run(study::Args::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_subcommand_it_is_a_study_without_arguments() {
        assert!(Cli::parse_from(["layernorm"]).command.is_none());
        let Some(Command::Study(args)) = Cli::parse_from(["layernorm", "study"]).command else { panic!("a study") };
        assert_eq!(format!("{args:?}"), format!("{:?}", study::Args::default()));
    }
}

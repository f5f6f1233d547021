//! `layernorm generate`: generates text with a trained language model.

use crate::failure::Failure;
use crate::{show, study};
use layernorm_lab::language::LanguageModel;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  layernorm train --text --out plays                                train a language model first
  layernorm generate plays/model.layernorm
  layernorm generate plays/model.layernorm --prompt \"HAMLET.\" --length 2000
  layernorm generate plays/model.layernorm --temperature 0.3 --seed 7

The same arguments give the same text.";

/// Generate text with a language model saved by `layernorm train --text`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Language model saved by `layernorm train --text`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Text to continue, with characters of the training text only [default: a line break, not printed]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Number of characters to generate
    #[arg(long, value_name = "N", default_value = "500", allow_negative_numbers = true, value_parser = length)]
    length: usize,
    /// Below 1, probable characters become more probable; 0 always takes the most probable one
    #[arg(long, value_name = "X", default_value = "0.8", allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,
    /// Random seed
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// Upper limit for --length.
const MAX_LENGTH: usize = 10_000_000;

fn length(text: &str) -> Result<usize, String> {
    study::up_to(MAX_LENGTH, text)
}

fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(temperature) if temperature >= 0.0 && temperature.is_finite() => Ok(temperature),
        _ => Err("expected a finite number, 0 or more, such as 0.8".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let model = LanguageModel::load(&args.model).map_err(Failure::bad_input)?;
    let prompt = args.prompt.as_deref().unwrap_or_default();
    let mut writer = model.write(prompt, args.temperature, args.seed).map_err(Failure::bad_input)?;
    show::print_part(prompt)?;
    let mut last = prompt.chars().last();
    for _ in 0..args.length {
        let Some(next) = writer.next() else {
            return Err(Failure::bad_input("the network's output is not finite: its training failed"));
        };
        last = Some(next);
        if !show::print_part(next.encode_utf8(&mut [0; 4]))? {
            return Ok(());
        }
    }
    match last {
        Some('\n') => Ok(()),
        _ => show::print("\n"),
    }
}

//! `layernorm train --text`: trains a language model and saves it.

use super::{Args, MODEL, check_writable, diverged, open, train};
use crate::failure::Failure;
use crate::show;
use layernorm_lab::data::Text;
use layernorm_lab::language::events::Trained;
use layernorm_lab::language::{self, LanguageModel, Outcome};
use layernorm_lab::records::RunFile;
use layernorm_lab::session::Lock;
use serde_json::json;
use std::path::Path;

/// Trains on a file, or on the embedded text.
pub(super) fn run(args: &Args, file: Option<&Path>) -> Result<(), Failure> {
    let text = match file {
        Some(path) => Text::open(path)?,
        None => Text::embedded()?,
    };
    let (spec, vocabulary) = (args.text_spec(&text), text.vocabulary());
    let fits = spec.check(&text).and_then(|()| spec.check_memory(vocabulary.len()));
    fits.map_err(|error| Failure::bad_input(error.to_string()))?;
    let _lock = Lock::take(&args.out)?;
    let mut file = open(args, json!({"spec": spec}))?;
    let model = args.out.join(MODEL);
    if file.record().finished && LanguageModel::load(&model).is_ok() {
        let told = told(&file, None, &model);
        return show::print(&format!("This network has already been trained with the same settings.\n{told}"));
    }
    check_writable(&model)?;
    let outcome = train(&mut file, &args.out, |file, watch| language::run(&spec, &text, file, watch))?;
    if let Some(step) = Trained::read(file.record()).and_then(|trained| trained.diverged) {
        return Err(diverged(step, &args.remedy()));
    }
    let speed = speed(&outcome);
    LanguageModel::new(outcome, &spec, vocabulary).save(&model).map_err(Failure::bad_input)?;
    show::print(&told(&file, speed, &model))
}

/// Characters per second, if there were enough to tell.
fn speed(outcome: &Outcome) -> Option<f64> {
    let seconds = outcome.training_time.as_secs_f64();
    (outcome.characters > 10_000 && seconds > 0.0).then(|| outcome.characters as f64 / seconds)
}

/// The results as text.
fn told(file: &RunFile, speed: Option<f64>, model: &Path) -> String {
    let bits = |bits: Option<f64>| bits.map_or("–".to_owned(), |bits| format!("{bits:.3}"));
    let mut text = String::new();
    if let Some(trained) = Trained::read(file.record()) {
        text += &format!(
            "Bits per character: validation {}, test {} ({} characters).\n",
            bits(trained.last().and_then(|last| last.bits)),
            bits(trained.test.as_ref().and_then(|test| test.bits)),
            show::thousands(trained.spec.test as u64)
        );
        if let Some(speed) = speed {
            text += &format!("Training read {} characters per second.\n", show::thousands(speed as u64));
        }
        if let Some(sample) = trained.sample {
            text += &format!("\nSample:\n{}\n\n", sample.text.trim());
        }
    }
    text + &format!(
        "Records: {}\nModel: {}\n\nNext:\n  layernorm generate {}   generate more text\n",
        file.path().display(),
        model.display(),
        model.display()
    )
}

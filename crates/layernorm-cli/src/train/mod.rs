//! `layernorm train`: trains one network and saves it.
//!
//! ```text
//! arguments → Spec → records (DIR/train.jsonl) and model (DIR/model.layernorm) → accuracy, time per epoch
//! ```

mod args;
mod text;

pub use args::Args;

use crate::failure::Failure;
use crate::show;
use crate::study::{self, View, interrupt};
use layernorm_files::Replacement;
use layernorm_lab::data::Dataset;
use layernorm_lab::records::{Header, RunFile};
use layernorm_lab::session::{Event, Lock, Progress, Watcher};
use layernorm_lab::studies::{self, Observer};
use layernorm_lab::tensorboard;
use layernorm_lab::training::events::Trained;
use layernorm_lab::training::{self, Outcome, SavedModel, Spec};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The name of the run and of its records.
const RUN: &str = "train";
/// The file name of the saved network.
const MODEL: &str = "model.layernorm";

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    args.check()?;
    match &args.text {
        Some(file) => text::run(&args, file.as_deref()),
        None => images(&args),
    }
}

/// Trains a network on images.
fn images(args: &Args) -> Result<(), Failure> {
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::embedded()?,
    };
    let spec = args.spec(&data);
    spec.check(&data).and_then(|()| spec.check_memory(&data)).map_err(|error| Failure::bad_input(error.to_string()))?;
    let _lock = Lock::take(&args.out)?;
    let mut file = open(args, json!({"spec": spec}))?;
    let model = args.out.join(MODEL);
    if file.record().finished && SavedModel::load(&model).is_ok() {
        let told = told(&file, None, &model, args.data.as_deref());
        return show::print(&format!("This network has already been trained with the same settings.\n{told}"));
    }
    check_writable(&model)?;
    let outcome = train(&mut file, &args.out, |file, watch| training::run(&spec, &data, file, watch))?;
    if let Some(step) = Trained::read(file.record()).and_then(|trained| trained.diverged) {
        return Err(diverged(step, &args.remedy()));
    }
    let took = epoch(&outcome, &spec);
    let image = [data.train.rows(), data.train.columns()];
    SavedModel::new(outcome, &spec, image).save(&model).map_err(Failure::bad_input)?;
    show::print(&told(&file, took, &model, args.data.as_deref()))
}

/// Opens the records of a run with these settings, which TensorBoard's event files follow.
fn open(args: &Args, settings: serde_json::Value) -> Result<RunFile, Failure> {
    let header = Header::new("train", RUN, settings);
    let writer = match &args.tensorboard {
        Some(path) => tensorboard::Folder::open(path)?.writer(&tensorboard::name_of_folder(&args.out), &header)?,
        None => None,
    };
    let mut file = RunFile::open(&args.out, header)
        .map_err(|error| Failure::bad_input(format!("{error}; use --out DIR to choose another folder")))?;
    if let (Some(writer), Some(path)) = (writer, &args.tensorboard) {
        file.follow(writer).map_err(|error| Failure::bad_input(error.to_string()))?;
        study::say_tensorboard(path);
    }
    Ok(file)
}

/// Checked before training, so that an unwritable path is reported early.
fn check_writable(model: &Path) -> Result<(), Failure> {
    Replacement::own(model).map(drop).map_err(|error| Failure::bad_input(error.to_string()))
}

fn diverged(step: usize, remedy: &str) -> Failure {
    Failure::failed(format!("training diverged at step {step} and no model was saved: {remedy}"))
}

/// Trains a network and shows progress.
fn train<T>(
    file: &mut RunFile,
    out: &Path,
    run: impl FnOnce(&mut RunFile, &mut dyn Observer) -> Result<T, studies::Error>,
) -> Result<T, Failure> {
    let view = Arc::new(View::new());
    interrupt::listen(&view);
    let resumed = !file.record().events.is_empty();
    let mut watch = Watch { view: &view, begun: Instant::now() };
    view.event(Event::Began { worker: 0, run: RUN, resumed }, &progress(0.0, None));
    let outcome = run(file, &mut watch);
    view.clear();
    outcome.map_err(|error| match error {
        studies::Error::Stopped => Failure::stopped(format!(
            "stopped; run the same command again to continue (progress is in {})",
            out.display()
        )),
        other => Failure::bad_input(other.to_string()),
    })
}

/// The progress of a session with a single run.
fn progress(done: f64, left: Option<std::time::Duration>) -> Progress {
    Progress { ended: 0, total: 1, done, left }
}

struct Watch<'a> {
    view: &'a View,
    begun: Instant,
}

impl Observer for Watch<'_> {
    fn progress(&mut self, done: f64, words: &str) {
        let left = (done > 0.0).then(|| self.begun.elapsed().mul_f64((1.0 - done) / done));
        self.view.event(Event::Progress { worker: 0, run: RUN, done, words }, &progress(done, left));
    }

    fn stop(&self) -> bool {
        Watcher::stop(self.view)
    }
}

/// Seconds per epoch, if there were enough steps to tell.
fn epoch(outcome: &Outcome, spec: &Spec) -> Option<f64> {
    let steps = spec.steps_of_epoch();
    (outcome.steps >= steps.min(100) && outcome.steps > 0)
        .then(|| outcome.training_time.as_secs_f64() / outcome.steps as f64 * steps as f64)
}

/// The results as text.
fn told(file: &RunFile, epoch: Option<f64>, model: &Path, data: Option<&Path>) -> String {
    let trained = Trained::read(file.record());
    let percent = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.2} %", 100.0 * share));
    let mut text = String::new();
    if let Some(trained) = &trained {
        let last = trained.last();
        let test = trained.test.as_ref();
        text += &format!(
            "Validation accuracy {}, test accuracy {} ({} images).\n",
            percent(last.and_then(|last| last.accuracy)),
            percent(test.and_then(|test| test.accuracy)),
            show::thousands(trained.spec.test as u64)
        );
        if let Some(seconds) = epoch {
            let images = show::thousands((trained.spec.steps_of_epoch() * trained.spec.batch_size) as u64);
            text += &format!("Training took {seconds:.1} s per epoch of {images} images.\n");
        }
    }
    let data = data.map_or(String::new(), |folder| format!(" --data {}", folder.display()));
    text + &format!(
        "Records: {}\nModel: {}\n\nNext:\n  layernorm predict {} --test 0{data}   classify a test image\n",
        file.path().display(),
        model.display(),
        model.display()
    )
}

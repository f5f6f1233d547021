//! `layernorm train`: trains one network and saves it.
//!
//! ```text
//! arguments → Spec → records (DIR/train.jsonl) and model (DIR/model.layernorm) → accuracy, time per epoch
//! ```

use crate::failure::Failure;
use crate::show;
use crate::study::{self, View, interrupt};
use clap::ValueEnum;
use layernorm_files::Replacement;
use layernorm_lab::data::Dataset;
use layernorm_lab::models::{Arch, Norm, Reads};
use layernorm_lab::records::{Header, RunFile};
use layernorm_lab::session::{Event, Lock, Progress, Watcher};
use layernorm_lab::studies::{self, Observer};
use layernorm_lab::training::events::Trained;
use layernorm_lab::training::{self, Optimizer, Outcome, SavedModel, Spec};
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The name of the run and of its records.
const RUN: &str = "train";
/// The file name of the saved network.
const MODEL: &str = "model.layernorm";

const EXAMPLES: &str = "\
Examples:
  layernorm train                                     an LSTM with layer norm on the embedded digits
  layernorm train --model cnn --norm batch --epochs 5 --out cnn
  layernorm train --data data/mnist --epochs 3        the LSTM on all of MNIST
  layernorm predict trained/model.layernorm --test 7  classify test image 7

If a run was stopped (Ctrl-C, a crash), run the same command again to continue it. A run that needs more memory than is
available fails before it starts.";

/// Train one network on images and save it.
///
/// The LSTM reads an image row by row, the Transformer all rows at once, and the CNN and MLP the whole image. The same
/// arguments give the same records, bit for bit.
///
/// Exit status: 0 on success, 1 if training diverged, 2 if the arguments or files are invalid, 130 after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Network
    #[arg(long, value_enum, default_value_t = Kind::Lstm)]
    model: Kind,
    /// Normalization: none, batch, layer, rms, group, instance or weight
    #[arg(long, value_name = "NAME", default_value = "layer", value_parser = norm)]
    norm: Norm,
    /// Hidden units of the LSTM or of each MLP layer, width of the Transformer, or channels of the CNN's second layer
    /// [default: 128; MLP 1000, Transformer 64, CNN 32]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = size)]
    size: Option<usize>,
    /// Read 784 pixels one by one instead of 28 rows (LSTM)
    #[arg(long)]
    pixels: bool,
    /// Post-norm: normalize after each residual connection instead of before each sublayer (Transformer)
    #[arg(long)]
    post_norm: bool,
    /// Optimizer
    #[arg(long, value_enum, default_value_t = How::Adam)]
    optimizer: How,
    /// Initial learning rate; decays linearly to a tenth unless --constant-lr is given
    #[arg(long, value_name = "X", default_value = "0.002", allow_negative_numbers = true, value_parser = study::learning_rate)]
    lr: f64,
    /// Keep the learning rate constant
    #[arg(long)]
    constant_lr: bool,
    /// Batch size
    #[arg(long, value_name = "N", default_value = "64", allow_negative_numbers = true, value_parser = study::whole)]
    batch_size: NonZeroUsize,
    /// Number of epochs
    #[arg(long, value_name = "N", default_value = "3", allow_negative_numbers = true, value_parser = study::epochs)]
    epochs: usize,
    /// Random seed for weights and batch order
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Folder with MNIST, Fashion-MNIST or similar idx files [default: 12,000 embedded digits]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Output folder for records and model
    #[arg(long, value_name = "DIR", default_value = "trained")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Mlp,
    Lstm,
    Cnn,
    Transformer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    Adam,
    Sgd,
}

/// Upper limit for --size, far above what these networks need.
const MAX_UNITS: usize = 16_384;
/// Upper limit on the number of validations in a run.
const MAX_EVALUATIONS: usize = 200;
/// Number of attention heads of the Transformer.
const HEADS: usize = 4;

fn size(text: &str) -> Result<usize, String> {
    study::up_to(MAX_UNITS, text)
}

fn norm(name: &str) -> Result<Norm, String> {
    let names = Norm::ALL.map(Norm::name).join(", ");
    Norm::named(name).ok_or_else(|| format!("expected one of {names}"))
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::embedded()?,
    };
    args.check()?;
    let spec = args.spec(&data);
    spec.check(&data).and_then(|()| spec.check_memory(&data)).map_err(|error| Failure::bad_input(error.to_string()))?;
    let _lock = Lock::take(&args.out)?;
    let header = Header::new("train", RUN, json!({"spec": spec}));
    let mut file = RunFile::open(&args.out, header)
        .map_err(|error| Failure::bad_input(format!("{error}; use --out DIR to choose another folder")))?;
    let model = args.out.join(MODEL);
    if file.record().finished && SavedModel::load(&model).is_ok() {
        let told = told(&file, None, &model, args.data.as_deref());
        return show::print(&format!("This network has already been trained with the same settings.\n{told}"));
    }
    // Checked before training, so that an unwritable path is reported early.
    drop(Replacement::own(&model).map_err(|error| Failure::bad_input(error.to_string()))?);
    let outcome = train(&spec, &data, &mut file, &args.out)?;
    if let Some(step) = Trained::read(file.record()).and_then(|trained| trained.diverged) {
        return Err(Failure::failed(format!(
            "training diverged at step {step} and no model was saved: try a smaller --lr, or a norm"
        )));
    }
    let took = epoch(&outcome, &spec);
    let image = [data.train.rows(), data.train.columns()];
    SavedModel::new(outcome, &spec, image).save(&model).map_err(Failure::bad_input)?;
    show::print(&told(&file, took, &model, args.data.as_deref()))
}

impl Args {
    /// Rejects options that do not apply to the network.
    fn check(&self) -> Result<(), Failure> {
        let (lstm, transformer) = (matches!(self.model, Kind::Lstm), matches!(self.model, Kind::Transformer));
        match self.size {
            _ if self.pixels && !lstm => Err(Failure::bad_input("--pixels works only with --model lstm")),
            _ if self.post_norm && !transformer => {
                Err(Failure::bad_input("--post-norm works only with --model transformer"))
            }
            Some(size) if transformer && !size.is_multiple_of(HEADS) => Err(Failure::bad_input(format!(
                "--size: expected a multiple of {HEADS} for a Transformer, found {size}"
            ))),
            _ => Ok(()),
        }
    }

    fn spec(&self, data: &Dataset) -> Spec {
        let size = |usual: usize| self.size.unwrap_or(usual);
        let arch = match self.model {
            Kind::Mlp => Arch::mlp(&[size(1000); 2]),
            Kind::Lstm => {
                Arch::Lstm { hidden: size(128), reads: if self.pixels { Reads::Pixels } else { Reads::Rows } }
            }
            Kind::Cnn => Arch::Cnn { channels: [size(32).div_ceil(2), size(32)] },
            Kind::Transformer => {
                Arch::Transformer { width: size(64), heads: HEADS, blocks: 2, pre_norm: !self.post_norm }
            }
        };
        let mut spec = Spec::new(arch, self.norm, self.seed, &data.label());
        // A twelfth of the training images is held out for validation: 5,000 of MNIST's 60,000.
        spec.validation = (data.train.len() / 12).max(1);
        spec.train = data.train.len() - spec.validation.min(data.train.len());
        spec.test = data.test.len();
        (spec.batch_size, spec.learning_rate) = (self.batch_size.get(), self.lr);
        spec.final_rate = if self.constant_lr { 1.0 } else { 0.1 };
        spec.optimizer = match self.optimizer {
            How::Adam => Optimizer::Adam,
            How::Sgd => Optimizer::Sgd,
        };
        spec.steps = self.epochs.saturating_mul(spec.steps_of_epoch());
        spec.evaluations = self.epochs.saturating_mul(2).min(MAX_EVALUATIONS);
        spec
    }
}

/// Trains the network and shows progress.
fn train(spec: &Spec, data: &Dataset, file: &mut RunFile, out: &Path) -> Result<Outcome, Failure> {
    let view = Arc::new(View::new());
    interrupt::listen(&view);
    let resumed = !file.record().events.is_empty();
    let mut watch = Watch { view: &view, begun: Instant::now() };
    view.event(Event::Began { worker: 0, run: RUN, resumed }, &progress(0.0, None));
    let outcome = training::run(spec, data, file, &mut watch);
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

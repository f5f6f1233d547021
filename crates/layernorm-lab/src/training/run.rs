//! Executes a training run, from the start or from a checkpoint.

use super::adam::Adam;
use super::checkpoint::{self, Progress};
use super::evaluate::{Cases, Preprocessor, attempt, evaluate, loss, numbers, right};
use super::events::{Diverged, Evaluate, finite};
use super::{Optimizer, Spec, probes};
use crate::data::{Batches, Dataset, Digits, Scaling, Split, batches};
use crate::models::{Net, Taps};
use crate::records::RunFile;
use crate::studies::{Error, Observer};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Batch size of evaluations.
const EVALUATION_BATCH: usize = 250;
/// Number of training images used to compute the per-step statistics for inference.
const SETTLED: usize = 1000;
/// Number of validation images that probes use.
const PROBED: usize = 128;
/// Interval between checkpoints, which limits the work lost if a run is killed.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);
/// The random stream for the order of the images, separate from that for the weights.
const ORDER: u64 = 0x6f72_6465_7269_6d67;

/// An image network in training.
pub(super) type Model = checkpoint::Model<Net>;

/// State of a run besides the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Number of completed steps.
    pub(super) step: usize,
    /// Number of events written.
    pub(super) events: usize,
    /// Sum of the losses since the last evaluation, as bits.
    pub(super) loss: u64,
    /// Correct predictions since then.
    pub(super) right: usize,
    /// Number of images since then.
    pub(super) images: usize,
}

impl Progress for Place {
    fn events(&self) -> usize {
        self.events
    }
}

/// Result of a run, besides its records.
#[derive(Debug)]
pub struct Outcome {
    /// The trained network, without autodiff.
    pub net: Net,
    /// The scaling of its pixels.
    pub scaling: Scaling,
    /// Time this call spent on training steps, excluding evaluations and other work.
    pub training_time: Duration,
    /// Number of training steps of this call.
    pub steps: usize,
}

/// Constants of a run.
struct Run<'a> {
    spec: &'a Spec,
    train: Digits,
    validation: Digits,
    test: Cow<'a, Digits>,
    preprocessor: Preprocessor,
    device: Device,
}

/// Executes a run, or the rest of it.
///
/// # Errors
/// [`Error::Run`] if the settings do not fit the data; [`Error::Stopped`] if the observer asked to stop: the same call
/// resumes the run.
pub fn run(spec: &Spec, data: &Dataset, file: &mut RunFile, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    let (run, model) = Run::new(spec, data)?;
    let (mut model, mut place): (Model, Place) = checkpoint::load(file, model);
    file.rewind(place.events)?;
    let mut clock = Clock::default();
    let finished = match run.steps(&mut model, &mut place, file, observer, &mut clock) {
        Ok(true) => run.conclude(&model, &mut place, file, observer),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(Error::Stopped) = finished {
        checkpoint::save(file, &place, &model).map_err(Error::Run)?;
    }
    finished?;
    file.finish()?;
    checkpoint::remove(file);
    let Clock { training_time, steps } = clock;
    Ok(Outcome { net: run.settled(&model.net), scaling: run.preprocessor.scaling, training_time, steps })
}

#[derive(Default)]
struct Clock {
    training_time: Duration,
    steps: usize,
}

impl<'a> Run<'a> {
    fn new(spec: &'a Spec, data: &'a Dataset) -> Result<(Run<'a>, Model), Error> {
        spec.check(data)?;
        let refused = |error: crate::data::Error| Error::Run(error.to_string());
        let (stay, validation) = data.train.split(spec.validation, Split::Last).map_err(refused)?;
        let train = spec.images.apply(&stay.first(spec.train).map_err(refused)?).into_owned();
        let validation = spec.images.apply(&validation).into_owned();
        let test = spec.images.apply(&data.test);
        let scaling = Scaling::standard(&train);
        let preprocessor = Preprocessor { scaling, scale: spec.input_scale, shift: 0.0, blank_rows: 0 };
        let device = Device::flex().autodiff();
        let image = [train.rows(), train.columns()];
        let net = Net::new(&spec.arch, spec.norm, image, &spec.start, &device).map_err(Error::Run)?;
        let optimizer = match spec.optimizer {
            Optimizer::Adam => Adam::new().into(),
            Optimizer::Sgd => SgdConfig::new().init(),
        };
        Ok((Run { spec, train, validation, test, preprocessor, device }, Model { net, optimizer }))
    }

    /// Executes the remaining steps; returns whether the loss stayed finite.
    fn steps(
        &self,
        model: &mut Model,
        place: &mut Place,
        file: &mut RunFile,
        observer: &mut dyn Observer,
        clock: &mut Clock,
    ) -> Result<bool, Error> {
        let evaluations = self.spec.evaluation_steps();
        let mut order: Option<(u64, Batches)> = None;
        let mut saved = Instant::now();
        let mut words = String::new();
        loop {
            let due = evaluations.contains(&place.step);
            if due && self.not_yet(place.step, file) {
                words = self.evaluate(&model.net, place, file)?;
            }
            place.events = file.record().events.len();
            if place.step == self.spec.steps {
                return Ok(true);
            }
            observer.progress(place.step as f64 / self.spec.steps as f64, &words);
            if observer.stop() {
                return Err(Error::Stopped);
            }
            if saved.elapsed() >= CHECKPOINT_EVERY {
                checkpoint::save(file, place, model).map_err(Error::Run)?;
                saved = Instant::now();
            }
            let begun = Instant::now();
            let indices = self.indices(place.step, &mut order);
            let seen = self.step(model, &indices, self.spec.rate(place.step))?;
            clock.training_time += begun.elapsed();
            clock.steps += 1;
            if !seen.loss.is_finite() {
                file.event("diverged", json(&Diverged { step: place.step })?)?;
                return Ok(false);
            }
            place.step += 1;
            place.loss = (f64::from_bits(place.loss) + seen.loss * seen.images as f64).to_bits();
            place.right += seen.right;
            place.images += seen.images;
        }
    }

    /// Whether the evaluation of a step is missing.
    fn not_yet(&self, step: usize, file: &RunFile) -> bool {
        !file.record().named("evaluate").any(|data| data["step"] == step)
    }

    /// The images of a step: complete batches in the epoch's order.
    fn indices(&self, step: usize, order: &mut Option<(u64, Batches)>) -> Vec<usize> {
        let of_epoch = self.spec.steps_of_epoch().max(1);
        let (epoch, number) = ((step / of_epoch) as u64, step % of_epoch);
        if order.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let size = NonZeroUsize::new(self.spec.batch_size).unwrap_or(NonZeroUsize::MIN);
            *order = Some((epoch, batches(self.train.len(), size, self.spec.start.seed ^ ORDER, epoch)));
        }
        order.as_ref().and_then(|(_, batches)| batches.iter().nth(number)).map_or_else(Vec::new, <[usize]>::to_vec)
    }

    fn step(&self, model: &mut Model, indices: &[usize], rate: f64) -> Result<Step, Error> {
        let Cases { images, classes } = self.preprocessor.gather(&self.train, indices, &self.device);
        let logits = model.net.forward(images, &mut Taps::closed());
        let loss = loss(logits.clone(), &classes);
        let value = f64::from(loss.clone().into_scalar::<f32>());
        let right = right(&numbers(logits).map_err(Error::Run)?, &classes);
        if value.is_finite() {
            let gradients = GradientsParams::from_grads(loss.backward(), &model.net);
            model.net = model.optimizer.step(rate, model.net.clone(), gradients);
        }
        Ok(Step { loss: value, right, images: classes.len() })
    }

    /// Writes an evaluation and the probes' results; returns a short status.
    fn evaluate(&self, net: &Net, place: &mut Place, file: &mut RunFile) -> Result<String, Error> {
        let inner = self.device.clone().inner();
        let (digits, count) = (&self.validation, self.validation.len());
        let found = evaluate(&self.settled(net), digits, count, &self.preprocessor, EVALUATION_BATCH, &inner)?;
        let images = (place.images > 0).then_some(place.images as f64);
        let event = Evaluate {
            step: place.step,
            train_loss: images.and_then(|images| finite(f64::from_bits(place.loss) / images)),
            train_accuracy: images.map(|images| place.right as f64 / images),
            loss: found.loss,
            accuracy: found.accuracy,
        };
        if self.spec.probes != Default::default() {
            let probed: Vec<usize> = (0..PROBED.min(self.validation.len())).collect();
            let batch = self.preprocessor.gather(&self.validation, &probed, &self.device);
            probes::look(net, self.spec, place.step, &batch, file)?;
        }
        file.event("evaluate", json(&event)?)?;
        *place = Place { step: place.step, ..Place::default() };
        let percent = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        let loss = event.loss.map_or("–".to_owned(), |loss| format!("{loss:.3}"));
        Ok(format!("loss {loss}, accuracy {}", percent(event.accuracy)))
    }

    /// The network for inference.
    fn settled(&self, net: &Net) -> Net {
        let indices: Vec<usize> = (0..SETTLED.min(self.train.len())).collect();
        net.settled(
            indices
                .chunks(EVALUATION_BATCH)
                .map(|batch| self.preprocessor.gather(&self.train, batch, &self.device).images),
        )
    }

    /// Runs the trials and the test.
    fn conclude(
        &self,
        model: &Model,
        place: &mut Place,
        file: &mut RunFile,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (net, mut saved) = (self.settled(&model.net), Instant::now());
        for trial in self.spec.trials.iter().skip(file.record().named("trial").count()) {
            if observer.stop() {
                return Err(Error::Stopped);
            }
            let asked = if trial.as_in_training { &model.net } else { &net };
            let found = attempt(asked, trial, &self.test, self.spec.test, &self.preprocessor, &self.device)?;
            file.event("trial", json(&found)?)?;
            place.events = file.record().events.len();
            if saved.elapsed() >= CHECKPOINT_EVERY {
                checkpoint::save(file, place, model).map_err(Error::Run)?;
                saved = Instant::now();
            }
        }
        if self.spec.test > 0 && file.record().named("test").next().is_none() {
            let inner = self.device.clone().inner();
            let found = evaluate(&net, &self.test, self.spec.test, &self.preprocessor, EVALUATION_BATCH, &inner)?;
            file.event("test", json(&found)?)?;
        }
        Ok(())
    }
}

/// The result of a step, before the network's update.
struct Step {
    loss: f64,
    right: usize,
    images: usize,
}

pub(crate) fn json(event: &impl Serialize) -> Result<serde_json::Value, Error> {
    serde_json::to_value(event).map_err(|error| Error::Run(error.to_string()))
}

//! Executes a training run, from the start or from a checkpoint.

use super::adam::Adam;
use super::checkpoint::{self, Progress};
use super::evaluate::{Cases, Preprocessor, attempt, evaluate, loss, numbers, right};
use super::events::{Evaluate, finite};
use super::schedule::{ORDER, Order};
use super::steps::{self, CHECKPOINT_EVERY, Steps};
use super::{Optimizer, Spec, Stream, dynamics, probes};
use crate::data::{Dataset, Digits, Scaling, Split};
use crate::models::{Net, Norm, Taps};
use crate::records::RunFile;
use crate::studies::{Error, Observer};
use burn::module::Module;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Batch size of evaluations.
const EVALUATION_BATCH: usize = 250;
/// Number of training images used to compute the per-step statistics for inference.
const SETTLED: usize = 1000;
/// Number of validation images that probes use.
const PROBED: usize = 128;

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
    /// The images of all steps, if they come as a stream.
    stream: Option<Vec<usize>>,
    /// The last network for inference, and the step it is of: it is used up to three times, and costs a reading of
    /// [`SETTLED`] images.
    settled: RefCell<Option<(usize, Net)>>,
}

/// Executes a run, or the rest of it.
///
/// # Errors
/// [`Error::Run`] if the settings do not fit the data; [`Error::Stopped`] if the observer asked to stop: the same call
/// resumes the run.
pub fn run(spec: &Spec, data: &Dataset, file: &mut RunFile, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    let (run, model) = Run::new(spec, data)?;
    let (model, place): (Model, Place) = checkpoint::load(file, model);
    file.rewind(place.events)?;
    let mut state = State { run: &run, model, place, order: run.order(), training_time: Duration::ZERO, steps: 0 };
    let finished = match steps::execute(&mut state, spec.steps, &spec.evaluation_steps(), file, observer) {
        Ok(true) => run.conclude(&state.model, &mut state.place, file, observer),
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(Error::Stopped) = finished {
        state.save(file)?;
    }
    finished?;
    file.finish()?;
    checkpoint::remove(file);
    let State { model, place, training_time, steps, .. } = state;
    Ok(Outcome { net: run.settled(&model.net, place.step), scaling: run.preprocessor.scaling, training_time, steps })
}

/// Seconds per training step, timed for at least `sample` after a step that is not counted. Leaves no trace.
pub(crate) fn step_time(spec: &Spec, data: &Dataset, sample: Duration) -> Result<f64, Error> {
    let (run, mut model) = Run::new(spec, data)?;
    let mut order = run.order();
    let mut step = |number: usize| run.step(&mut model, run.indices(number, &mut order), spec.rate(0));
    step(0)?;
    let (start, mut steps) = (Instant::now(), 0);
    while start.elapsed() < sample || steps == 0 {
        steps += 1;
        step(steps)?;
    }
    Ok(start.elapsed().as_secs_f64() / steps as f64)
}

/// A network in training.
struct State<'a> {
    run: &'a Run<'a>,
    model: Model,
    place: Place,
    order: Order,
    /// Time spent on training steps, and their number.
    training_time: Duration,
    steps: usize,
}

impl Steps for State<'_> {
    fn done(&self) -> usize {
        self.place.step
    }

    fn step(&mut self) -> Result<bool, Error> {
        let State { run, model, place, order, .. } = self;
        let begun = Instant::now();
        let seen = run.step(model, run.indices(place.step, order), run.spec.rate(place.step))?;
        self.training_time += begun.elapsed();
        self.steps += 1;
        if !seen.loss.is_finite() {
            return Ok(false);
        }
        place.step += 1;
        place.loss = (f64::from_bits(place.loss) + seen.loss * seen.images as f64).to_bits();
        place.right += seen.right;
        place.images += seen.images;
        Ok(true)
    }

    fn evaluate(&mut self, file: &mut RunFile) -> Result<String, Error> {
        self.run.evaluate(&self.model, &mut self.place, file)
    }

    fn note_events(&mut self, events: usize) {
        self.place.events = events;
    }

    fn save(&self, file: &RunFile) -> Result<(), Error> {
        checkpoint::save(file, &self.place, &self.model).map_err(Error::Run)
    }
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
        let preprocessor = Preprocessor { scaling, scale: spec.input_scale, shift: 0.0, blank_rows: 0, repeats: 0 };
        let device = Device::flex().autodiff();
        let image = [train.rows(), train.columns()];
        let net = Net::new(&spec.arch, spec.norm, image, &spec.start, &device).map_err(Error::Run)?;
        let optimizer = match spec.optimizer {
            Optimizer::Adam => Adam::new().into(),
            Optimizer::Sgd => SgdConfig::new().init(),
        };
        let order =
            |stream: &Stream| stream.order(train.labels(), spec.steps, spec.batch_size, spec.start.seed ^ ORDER);
        let stream = spec.stream.as_ref().map(order);
        let settled = RefCell::new(None);
        Ok((Run { spec, train, validation, test, preprocessor, device, stream, settled }, Model { net, optimizer }))
    }

    fn order(&self) -> Order {
        Order::new(self.train.len(), self.spec.batch_size, self.spec.start.seed)
    }

    /// The images of a step: the next ones of the stream (after its end, the last ones), or a batch in the epoch's order.
    fn indices<'b>(&'b self, step: usize, order: &'b mut Order) -> &'b [usize] {
        let size = self.spec.batch_size;
        match &self.stream {
            Some(stream) => stream.chunks(size).nth(step.min(self.spec.steps.saturating_sub(1))).unwrap_or_default(),
            None => order.indices(step),
        }
    }

    fn step(&self, model: &mut Model, indices: &[usize], rate: f64) -> Result<Step, Error> {
        // Only batch norm predicts differently in training. A stream is tested before it changes the running statistics.
        let tested = match self.stream.is_some() && self.spec.norm == Norm::Batch {
            true => Some(self.predict(&model.net.valid(), indices)?),
            false => None,
        };
        let Cases { images, classes } = self.preprocessor.gather(&self.train, indices, &self.device);
        let (loss, seen) = judge(model.net.forward(images, &mut Taps::closed()), &classes)?;
        if !seen.loss.is_finite() {
            return Ok(seen);
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model.net);
        model.net = model.optimizer.step(rate, model.net.clone(), gradients);
        Ok(tested.unwrap_or(seen))
    }

    /// The result of a network for inference.
    fn predict(&self, net: &Net, indices: &[usize]) -> Result<Step, Error> {
        let Cases { images, classes } = self.preprocessor.gather(&self.train, indices, &self.device.clone().inner());
        Ok(judge(net.forward(images, &mut Taps::closed()), &classes)?.1)
    }

    /// Writes an evaluation and the probes' results; returns a short status.
    fn evaluate(&self, model: &Model, place: &mut Place, file: &mut RunFile) -> Result<String, Error> {
        let inner = self.device.clone().inner();
        let (digits, count) = (&self.validation, self.validation.len());
        let net = self.settled(&model.net, place.step);
        let found = evaluate(&net, digits, count, &self.preprocessor, EVALUATION_BATCH, &inner)?;
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
            let mut order = self.order();
            let next = self.preprocessor.gather(&self.train, self.indices(place.step, &mut order), &self.device);
            probes::look(model, self.spec, place.step, &batch, &next, file)?;
        }
        file.event("evaluate", json(&event)?)?;
        *place = Place { step: place.step, ..Place::default() };
        let percent = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
        let loss = event.loss.map_or("–".to_owned(), |loss| format!("{loss:.3}"));
        Ok(format!("loss {loss}, accuracy {}", percent(event.accuracy)))
    }

    /// The network for inference, after a number of steps.
    fn settled(&self, net: &Net, step: usize) -> Net {
        if let Some((_, settled)) = self.settled.borrow().as_ref().filter(|(of, _)| *of == step) {
            return settled.clone();
        }
        let indices: Vec<usize> = (0..SETTLED.min(self.train.len())).collect();
        let settled = net.settled(
            indices
                .chunks(EVALUATION_BATCH)
                .map(|batch| self.preprocessor.gather(&self.train, batch, &self.device).images),
        );
        self.settled.replace(Some((step, settled.clone())));
        settled
    }

    /// Runs the trials and the test.
    fn conclude(
        &self,
        model: &Model,
        place: &mut Place,
        file: &mut RunFile,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (net, mut saved) = (self.settled(&model.net, place.step), Instant::now());
        for trial in self.spec.trials.iter().skip(file.record().named("trial").count()) {
            if observer.stop() {
                return Err(Error::Stopped);
            }
            let asked = if trial.as_in_training { &model.net } else { &net };
            let (digits, count) =
                if trial.on_training_images { (&self.train, self.spec.train) } else { (&*self.test, self.spec.test) };
            let found = attempt(asked, trial, digits, count, &self.preprocessor, &self.device)?;
            file.event("trial", json(&found)?)?;
            place.events = file.record().events.len();
            if saved.elapsed() >= CHECKPOINT_EVERY {
                checkpoint::save(file, place, model).map_err(Error::Run)?;
                saved = Instant::now();
            }
        }
        if self.spec.probes.statistics && file.record().named("statistics").next().is_none() {
            file.event("statistics", json(&dynamics::statistics(&net))?)?;
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

/// The loss of logits, and the same as numbers.
fn judge(logits: Tensor<2>, classes: &[u8]) -> Result<(Tensor<1>, Step), Error> {
    let mean = loss(logits.clone(), classes);
    let value = f64::from(mean.clone().into_scalar::<f32>());
    let right = right(&numbers(logits).map_err(Error::Run)?, classes);
    Ok((mean, Step { loss: value, right, images: classes.len() }))
}

pub(crate) fn json(event: &impl Serialize) -> Result<serde_json::Value, Error> {
    serde_json::to_value(event).map_err(|error| Error::Run(error.to_string()))
}

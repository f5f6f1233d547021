//! Executes a DRAW run, from the start or from a checkpoint.

use super::Spec;
use super::binary::{Part, binary, log_odds};
use super::events::{Bound, Digits as Generated, Evaluate};
use super::net::{Loss, Net};
use super::normal::normals;
use crate::data::{Dataset, Digits, Scaling, Split, SplitMix64};
use crate::records::RunFile;
use crate::studies::{Error, Observer};
use crate::training::adam::Adam;
use crate::training::checkpoint::{self, Model, Progress};
use crate::training::events::finite;
use crate::training::json;
use crate::training::schedule::{Order, evaluation_steps};
use crate::training::steps::{self, Steps};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Batch size of evaluations.
const EVALUATION_BATCH: usize = 250;
/// The random streams of the noise in training, in evaluations and of generated digits. The last two are the same at
/// every evaluation, so that a curve shows the network's progress and not the noise.
const TRAINING: u64 = 0x6472_6177_7472_6169;
const EVALUATION: u64 = 0x6472_6177_6576_616c;
const GENERATION: u64 = 0x6472_6177_6765_6e65;
/// The most glimpses of which the canvas is recorded.
const SHOWN: usize = 16;

/// State of a run besides the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Place {
    /// Number of completed steps.
    step: usize,
    /// Number of events written.
    events: usize,
    /// Sums of reconstruction and KL since the last evaluation, as bits.
    sums: [u64; 2],
    /// Number of steps since then.
    summed: usize,
}

impl Progress for Place {
    fn events(&self) -> usize {
        self.events
    }
}

impl Place {
    fn add(&mut self, bound: [f64; 2]) {
        for (sum, nats) in self.sums.iter_mut().zip(bound) {
            *sum = (f64::from_bits(*sum) + nats).to_bits();
        }
        self.step += 1;
        self.summed += 1;
    }

    /// The mean bound since the last evaluation.
    fn mean(&self) -> Option<Bound> {
        let steps = (self.summed > 0).then_some(self.summed as f64)?;
        Some(bound(self.sums.map(|sum| f64::from_bits(sum) / steps)))
    }
}

fn bound([reconstruction, kl]: [f64; 2]) -> Bound {
    Bound { reconstruction: finite(reconstruction), kl: finite(kl) }
}

/// Constants of a run.
struct Run<'a> {
    spec: &'a Spec,
    train: Digits,
    validation: Digits,
    test: Digits,
    device: Device,
}

/// Executes a run, or the rest of it.
///
/// # Errors
/// [`Error::Run`] if the settings do not fit the data; [`Error::Stopped`] if the observer asked to stop: the same call
/// resumes the run.
pub fn run(spec: &Spec, data: &Dataset, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
    let (run, model) = Run::new(spec, data)?;
    let (model, place): (Model<Net>, Place) = checkpoint::load(file, model);
    file.rewind(place.events)?;
    let order = Order::new(run.train.len(), spec.batch_size, spec.seed);
    let mut state = State { run: &run, model, place, order };
    match steps::execute(&mut state, spec.steps, &evaluation_steps(spec.steps, spec.evaluations), file, observer) {
        Ok(true) => run.test(&state.model.net, file)?,
        Ok(false) => {}
        Err(Error::Stopped) => {
            state.save(file)?;
            return Err(Error::Stopped);
        }
        Err(error) => return Err(error),
    }
    file.finish()?;
    checkpoint::remove(file);
    Ok(())
}

/// A network in training.
struct State<'a> {
    run: &'a Run<'a>,
    model: Model<Net>,
    place: Place,
    order: Order,
}

impl Steps for State<'_> {
    fn done(&self) -> usize {
        self.place.step
    }

    fn step(&mut self) -> Result<bool, Error> {
        let bound = self.run.step(&mut self.model, self.order.indices(self.place.step), self.place.step);
        let finite = bound.iter().all(|nats| nats.is_finite());
        if finite {
            self.place.add(bound);
        }
        Ok(finite)
    }

    fn evaluate(&mut self, file: &mut RunFile) -> Result<String, Error> {
        self.run.evaluate(&self.model.net, &mut self.place, file)
    }

    fn note_events(&mut self, events: usize) {
        self.place.events = events;
    }

    fn save(&self, file: &RunFile) -> Result<(), Error> {
        checkpoint::save(file, &self.place, &self.model).map_err(Error::Run)
    }
}

impl<'a> Run<'a> {
    fn new(spec: &'a Spec, data: &Dataset) -> Result<(Run<'a>, Model<Net>), Error> {
        spec.check(data)?;
        let refused = |error: crate::data::Error| Error::Run(error.to_string());
        let all = binary(&spec.images.apply(&data.train), Part::Train);
        let (stay, validation) = all.split(spec.validation, Split::Last).map_err(refused)?;
        let train = stay.first(spec.train).map_err(refused)?;
        let test = binary(&spec.images.apply(&data.test), Part::Test);
        let device = Device::flex().autodiff();
        let net = Net::new(spec, [train.rows(), train.columns()], &log_odds(&train), &device).map_err(Error::Run)?;
        Ok((Run { spec, train, validation, test, device }, Model { net, optimizer: Adam::new().into() }))
    }

    /// One step; returns the bound before it.
    fn step(&self, model: &mut Model<Net>, indices: &[usize], step: usize) -> [f64; 2] {
        let mut random = SplitMix64::stream(self.spec.seed ^ TRAINING, step as u64);
        let loss = self.loss(&model.net, &self.train, indices, &mut random, &self.device);
        let bound = numbers(&loss);
        if bound.iter().all(|nats| nats.is_finite()) {
            let gradients = (loss.reconstruction + loss.kl).backward();
            let gradients = GradientsParams::from_grads(gradients, &model.net);
            model.net = model.optimizer.step(self.spec.learning_rate, model.net.clone(), gradients);
        }
        bound
    }

    /// The bound of some images.
    fn loss(&self, net: &Net, digits: &Digits, indices: &[usize], random: &mut SplitMix64, device: &Device) -> Loss {
        let mut pixels = Vec::new();
        digits.gather(indices, &Scaling::unit(), &mut pixels);
        let x = Tensor::from_data(TensorData::new(pixels, [indices.len(), digits.pixels()]), device);
        net.loss(x, self.noise(indices.len(), random, device))
    }

    /// ε `[T, B, Z]`.
    fn noise(&self, batch: usize, random: &mut SplitMix64, device: &Device) -> Tensor<3> {
        let shape = [self.spec.glimpses, batch, self.spec.latent];
        Tensor::from_data(TensorData::new(normals(random, shape.iter().product()), shape), device)
    }

    /// The mean bound of the first images, without gradients.
    fn bound(&self, net: &Net, digits: &Digits, count: usize) -> Bound {
        let (net, device) = (net.valid(), self.device.clone().inner());
        let (indices, mut sums): (Vec<usize>, [f64; 2]) = ((0..count).collect(), [0.0; 2]);
        for (number, indices) in indices.chunks(EVALUATION_BATCH).enumerate() {
            let mut random = SplitMix64::stream(self.spec.seed ^ EVALUATION, number as u64);
            let nats = numbers(&self.loss(&net, digits, indices, &mut random, &device));
            sums.iter_mut().zip(nats).for_each(|(sum, nats)| *sum += nats * indices.len() as f64);
        }
        bound(sums.map(|sum| sum / count.max(1) as f64))
    }

    /// Writes generated digits and the bounds; returns a short status.
    fn evaluate(&self, net: &Net, place: &mut Place, file: &mut RunFile) -> Result<String, Error> {
        if self.spec.digits > 0 {
            file.event("digits", json(&self.generated(net, place.step)?)?)?;
        }
        let validation = self.bound(net, &self.validation, self.validation.len());
        file.event("evaluate", json(&Evaluate { step: place.step, train: place.mean(), validation })?)?;
        *place = Place { step: place.step, ..Place::default() };
        let nats = validation.total().map_or("–".to_owned(), |nats| format!("{nats:.1}"));
        Ok(format!("bound {nats} nats"))
    }

    /// Generated digits: the final canvas, and at the end of training also earlier ones.
    fn generated(&self, net: &Net, step: usize) -> Result<Generated, Error> {
        let device = self.device.clone().inner();
        let mut random = SplitMix64::stream(self.spec.seed ^ GENERATION, 0);
        let canvases = net.valid().generate(self.noise(self.spec.digits, &mut random, &device));
        let count = if step == self.spec.steps { self.spec.glimpses.min(SHOWN) } else { 1 };
        let glimpses: Vec<usize> = (1..=count).map(|n| n * self.spec.glimpses / count).collect();
        let shown = |&glimpse: &usize| images(canvases[glimpse - 1].clone(), self.spec.digits);
        let images = glimpses.iter().map(shown).collect::<Result<_, Error>>()?;
        Ok(Generated { step, glimpses, images })
    }

    fn test(&self, net: &Net, file: &mut RunFile) -> Result<(), Error> {
        if self.spec.test > 0 {
            file.event("test", json(&self.bound(net, &self.test, self.spec.test))?)?;
        }
        Ok(())
    }
}

fn numbers(loss: &Loss) -> [f64; 2] {
    [&loss.reconstruction, &loss.kl].map(|nats| f64::from(nats.clone().into_scalar::<f32>()))
}

/// The probabilities of canvases as one hexadecimal digit per pixel.
fn images(canvas: Tensor<2>, count: usize) -> Result<Vec<String>, Error> {
    let numbers = crate::training::numbers(sigmoid(canvas)).map_err(Error::Run)?;
    let digit = |&share: &f32| char::from_digit((15.0 * share.clamp(0.0, 1.0)).round() as u32, 16).unwrap_or('0');
    Ok(numbers.chunks((numbers.len() / count).max(1)).map(|image| image.iter().map(digit).collect()).collect())
}

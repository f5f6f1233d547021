//! Executes a run, from the start or from a checkpoint.

use super::batches::{Batch, batch};
use super::clip::clip;
use super::evaluate::{bits, loss, positions};
use super::events::{Evaluate, Sample, Test};
use super::{Spec, Writer};
use crate::data::{Part, Text};
use crate::models::CharacterNet;
use crate::records::RunFile;
use crate::studies::{Error, Observer};
use crate::training::adam::Adam;
use crate::training::checkpoint::{self, Progress};
use crate::training::events::finite;
use crate::training::json;
use crate::training::steps::{self, Steps};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use layernorm_burn::functional::States;
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;
use std::time::{Duration, Instant};

/// Number of characters that the network reads before it generates a sample: the start of the test text.
const PROMPT: usize = 40;
/// Temperature of the sample.
const TEMPERATURE: f64 = 0.8;

type Model = checkpoint::Model<CharacterNet>;

/// State of a run besides the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Place {
    /// Number of completed steps.
    step: usize,
    /// Number of events written.
    events: usize,
    /// Sum of the losses of the characters since the last evaluation, as bits.
    nats: u64,
    /// Number of characters since then.
    characters: usize,
    /// h and c at the end of the last step, as bits; only in a checkpoint.
    states: [Option<Vec<u32>>; 2],
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
    pub net: CharacterNet,
    /// Time this call spent on training steps, excluding evaluations and other work.
    pub training_time: Duration,
    /// Number of characters in these steps.
    pub characters: usize,
}

/// Constants of a run.
struct Run<'a> {
    spec: &'a Spec,
    text: &'a Text,
    device: Device,
}

/// A run in progress.
struct State<'a> {
    run: &'a Run<'a>,
    model: Model,
    place: Place,
    /// h and c at the end of the last step.
    states: States,
    training_time: Duration,
    characters: usize,
}

/// Executes a run, or the rest of it.
///
/// # Errors
/// [`Error::Run`] if the settings do not fit the text; [`Error::Stopped`] if the observer asked to stop: the same call
/// resumes the run.
pub fn run(spec: &Spec, text: &Text, file: &mut RunFile, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    spec.check(text)?;
    let device = Device::flex().autodiff();
    let net = CharacterNet::new(spec.size(text.vocabulary().len()), spec.norm, &spec.start, &device);
    let fresh = Model { net: net.map_err(Error::Run)?, optimizer: Adam::new().into() };
    let (model, place): (Model, Place) = checkpoint::load(file, fresh);
    let run = Run { spec, text, device };
    let states = place.states.clone().map(|bits| bits.and_then(|bits| run.restored(&bits)));
    let mut state = State { run: &run, model, place, states, training_time: Duration::ZERO, characters: 0 };
    file.rewind(state.place.events)?;
    match steps::execute(&mut state, spec.steps, &spec.evaluation_steps(), file, observer) {
        Ok(true) => run.conclude(&state.model.net.valid(), file)?,
        Ok(false) => {}
        Err(error) => {
            if let Error::Stopped = error {
                state.save(file)?;
            }
            return Err(error);
        }
    }
    file.finish()?;
    checkpoint::remove(file);
    let State { model, training_time, characters, .. } = state;
    Ok(Outcome { net: model.net.valid(), training_time, characters })
}

impl Steps for State<'_> {
    fn done(&self) -> usize {
        self.place.step
    }

    fn step(&mut self) -> Result<bool, Error> {
        let (run, begun) = (self.run, Instant::now());
        let batch = batch(run.spec, run.text.part(Part::Train), self.place.step);
        let nats = run.step(self, &batch);
        self.training_time += begun.elapsed();
        self.characters += batch.count();
        if !nats.is_finite() {
            return Ok(false);
        }
        let place = &mut self.place;
        place.step += 1;
        place.nats = (f64::from_bits(place.nats) + nats * batch.count() as f64).to_bits();
        place.characters += batch.count();
        Ok(true)
    }

    fn evaluate(&mut self, file: &mut RunFile) -> Result<String, Error> {
        let run = self.run;
        run.evaluate(self, file)
    }

    fn note_events(&mut self, events: usize) {
        self.place.events = events;
    }

    fn save(&self, file: &RunFile) -> Result<(), Error> {
        let bits = |state: &Tensor<3>| state.clone().into_data().iter::<f32>().map(f32::to_bits).collect();
        let place =
            Place { states: self.states.each_ref().map(|state| state.as_ref().map(bits)), ..self.place.clone() };
        checkpoint::save(file, &place, &self.model).map_err(Error::Run)
    }
}

impl Run<'_> {
    /// A state `[L, B, H]` from a checkpoint; `None` if its size is wrong.
    fn restored(&self, bits: &[u32]) -> Option<Tensor<3>> {
        let shape = [self.spec.layers, self.spec.batch_size, self.spec.hidden];
        let numbers: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        (numbers.len() == shape.iter().product::<usize>())
            .then(|| Tensor::from_data(TensorData::new(numbers, shape), &self.device))
    }

    /// One step; returns the loss before it. A loss that is not finite changes nothing.
    fn step(&self, state: &mut State<'_>, batch: &Batch) -> f64 {
        let Model { net, optimizer } = &mut state.model;
        let carried = std::mem::take(&mut state.states);
        let carried = if batch.continues { carried } else { [None, None] };
        let (logits, last) = net.forward(&batch.inputs, batch.shape, carried, batch.lengths.as_deref(), &self.device);
        let loss = loss(logits, batch);
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if value.is_finite() {
            let mut gradients = GradientsParams::from_grads(loss.backward(), net);
            clip(net, &mut gradients, self.spec.clip);
            *net = optimizer.step(self.spec.rate(state.place.step), net.clone(), gradients);
        }
        state.states = last.map(|state| state.map(Tensor::detach));
        value
    }

    /// Writes an evaluation; returns a short status.
    fn evaluate(&self, state: &mut State<'_>, file: &mut RunFile) -> Result<String, Error> {
        let place = &mut state.place;
        let train = (place.characters > 0).then(|| f64::from_bits(place.nats) / place.characters as f64 / LN_2);
        let validation = &self.text.part(Part::Validation)[..self.spec.validation];
        let event = Evaluate {
            step: place.step,
            train_bits: train.and_then(finite),
            bits: bits(&state.model.net.valid(), validation, &Device::flex()),
        };
        file.event("evaluate", json(&event)?)?;
        *place = Place { step: place.step, ..Place::default() };
        Ok(event.bits.map_or("–".to_owned(), |bits| format!("{bits:.2} bits per character")))
    }

    /// Tests the network and lets it write.
    fn conclude(&self, net: &CharacterNet, file: &mut RunFile) -> Result<(), Error> {
        let (spec, device) = (self.spec, Device::flex());
        let test = self.text.part(Part::Test);
        if spec.positions > 0 {
            let found = positions(net, &test[..spec.test.max(2 * spec.positions)], spec.positions, &device);
            file.event("positions", json(&found)?)?;
        }
        if spec.test > 0 {
            file.event("test", json(&Test { bits: bits(net, &test[..spec.test], &device) })?)?;
        }
        if spec.sample > 0 {
            let vocabulary = self.text.vocabulary();
            let prompt = &test[..PROMPT.min(test.len())];
            let text = Writer::new(net, vocabulary, prompt, TEMPERATURE, spec.start.seed).take(spec.sample).collect();
            let prompt = prompt.iter().filter_map(|&symbol| vocabulary.get(usize::from(symbol))).collect();
            file.event("sample", json(&Sample { prompt, text })?)?;
        }
        Ok(())
    }
}

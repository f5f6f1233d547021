//! A small trainer: an MLP or an LSTM, its optimizer and its data. Gradients are written by hand.

mod cells;
mod data;
mod loss;
mod lstm;
mod mlp;
mod network;
mod norm;
mod observe;
mod optimizer;
pub(crate) mod product;
mod step_norm;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::message::Value;
use crate::options::Options;
use data::{Batches, Samples};
use layernorm::Context;
use loss::{Score, cross_entropy};
use lstm::{Lstm, LstmSpec};
use mlp::{Mlp, MlpSpec};
use network::Network;
use norm::NormKind;
use optimizer::{Method, Optimizer};

/// Largest layer.
const MOST_UNITS: u32 = 1 << 14;

/// Most hidden layers.
const MOST_LAYERS: usize = 64;

/// Most steps of one call.
const MOST_STEPS: u32 = 1_000_000;

/// Most weights.
const MOST_WEIGHTS: usize = 1 << 25;

/// Samples of a batch at inference.
const INFERRED_TOGETHER: usize = 256;

/// Training samples over which statistics for inference are computed, where that is done apart from training.
const SETTLED: usize = 2 * INFERRED_TOGETHER;

/// Training samples after which `predict` computes these statistics again: it is called often, and this keeps them below
/// a tenth of the time. `evaluate` always has those of the network as it is.
const PATIENCE: usize = 8 * SETTLED;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Mlp,
    Lstm,
}

/// A network in training.
#[derive(Debug)]
pub(crate) struct Trainer {
    network: Box<dyn Network<f32>>,
    optimizer: Optimizer<f32>,
    batches: Batches<f32>,
    test: Samples<f32>,
    /// Numbers of a sample.
    width: usize,
    logits: Vec<f32>,
    step: u64,
    /// Samples that it has trained on since the statistics for inference were computed; `None` before the first time.
    unsettled: Option<usize>,
    cx: Context,
}

impl Trainer {
    /// Creates a trainer from the options of `engine.trainer`.
    pub(crate) fn new(options: &mut Options) -> Result<Trainer, Error> {
        let kind = options.choice("network", &[("mlp", Kind::Mlp), ("lstm", Kind::Lstm)])?;
        let norm = options.choice("norm", &NormKind::NAMES)?;
        let steps = options.whole("steps", 1, MOST_UNITS, Some(1))?;
        let inputs = options.whole("inputs", 1, MOST_UNITS, None)?;
        let classes = options.whole("classes", 1, 256, None)?;
        let width = steps * inputs;
        let weight_scale = options.positive("weightScale", 1.0)?;
        let seed = options.seed("seed")?;
        let method = options.choice("optimizer", &Method::NAMES)?;
        let rate = options.positive("learningRate", 0.001)?;
        let size = options.whole("batch", 1, u32::MAX, None)?;
        let mut data = options.inner("data", "data.")?;
        let samples = Samples::read(&mut data, ["x", "labels"], width, classes)?;
        let test = Samples::read(&mut data, ["testX", "testLabels"], width, classes)?;
        data.finish()?;
        let network: Box<dyn Network<f32>> = match kind {
            // The other kind's sizes may be there: a page can keep all settings together.
            Kind::Mlp => {
                options.ignore("hidden");
                let hidden = &hidden_layers(options, width, classes)?;
                Box::new(Mlp::new(&MlpSpec { inputs: width, hidden, classes, norm, weight_scale, seed })?)
            }
            Kind::Lstm => {
                options.ignore("layers");
                let hidden = options.whole("hidden", 1, MOST_UNITS, None)?;
                check_weights("hidden", 4 * hidden * (inputs + hidden))?;
                Box::new(Lstm::new(&LstmSpec { steps, inputs, hidden, classes, norm, weight_scale, seed })?)
            }
        };
        if size > samples.len() {
            return Err(Error::Value {
                option: "batch".to_owned(),
                expected: format!("at most the {} samples", samples.len()),
                found: size.to_string(),
            });
        }
        let mut trainer = Trainer {
            network,
            optimizer: Optimizer::new(Method::Sgd, rate, 0)?,
            batches: Batches::new(samples, size, seed),
            test,
            width,
            logits: Vec::new(),
            step: 0,
            unsettled: None,
            cx: Context::new().with_threads(1)?,
        };
        let parameters = trainer.network.updates().iter().map(|(parameters, _)| parameters.len()).sum();
        trainer.optimizer = Optimizer::new(method, rate, parameters)?;
        Ok(trainer)
    }

    /// Does some steps; returns the means over their batches.
    fn steps(&mut self, count: usize) -> Result<Value, Error> {
        let (mut sum, mut finite) = (Score::default(), true);
        for _ in 0..count {
            let (x, labels) = self.batches.advance();
            self.network.train(x, &mut self.logits)?;
            let score = cross_entropy(&self.cx, &mut self.logits, labels)?;
            self.unsettled = self.unsettled.map(|samples| samples.saturating_add(labels.len()));
            self.network.backward(self.batches.x(), &self.logits)?;
            self.optimizer.step(self.network.updates());
            sum.loss += score.loss;
            sum.accuracy += score.accuracy;
            self.step += 1;
        }
        for (parameters, _) in self.network.updates() {
            finite &= parameters.iter().all(|parameter| parameter.is_finite());
        }
        let mean = |sum: f64| Value::Number(sum / count as f64);
        Ok(Value::object([
            ("step", Value::Number(self.step as f64)),
            ("loss", mean(sum.loss)),
            ("accuracy", mean(sum.accuracy)),
            ("finite", Value::Flag(finite && sum.loss.is_finite())),
        ]))
    }

    /// Computes the statistics for inference, if it has trained on more than `patience` samples with the last ones.
    fn settle(&mut self, patience: usize) -> Result<(), Error> {
        if self.unsettled.is_some_and(|samples| samples <= patience) {
            return Ok(());
        }
        self.unsettled = Some(0);
        let x = self.batches.some(SETTLED);
        let count = x.len() / self.width;
        // Of equal size, because they count equally.
        let together = count.div_ceil(count.div_ceil(INFERRED_TOGETHER));
        for (before, x) in (0..).zip(x.chunks(together * self.width)) {
            if !self.network.settle(x, before)? {
                break;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<Value, Error> {
        self.settle(0)?;
        let (mut loss, mut accuracy) = (0.0, 0.0);
        let together = self.test.x.chunks(INFERRED_TOGETHER * self.width);
        for (x, labels) in together.zip(self.test.labels.chunks(INFERRED_TOGETHER)) {
            self.network.infer(x, &mut self.logits)?;
            let score = cross_entropy(&self.cx, &mut self.logits, labels)?;
            loss += score.loss * labels.len() as f64;
            accuracy += score.accuracy * labels.len() as f64;
        }
        let mean = |sum: f64| Value::Number(sum / self.test.len() as f64);
        Ok(Value::object([("loss", mean(loss)), ("accuracy", mean(accuracy))]))
    }

    fn predict(&mut self, x: &[f32]) -> Result<Value, Error> {
        if !x.len().is_multiple_of(self.width) {
            let shape = format!("samples of {} numbers", self.width);
            let expected = x.len().next_multiple_of(self.width);
            return Err(Error::Length { option: "x", shape, expected, found: x.len() });
        }
        self.settle(PATIENCE)?;
        let mut all = Vec::new();
        for x in x.chunks(INFERRED_TOGETHER * self.width) {
            self.network.infer(x, &mut self.logits)?;
            all.extend_from_slice(&self.logits);
        }
        Ok(Value::Floats(all))
    }

    /// Runs a command of a trainer, without `trainer.` before its name.
    pub(crate) fn run(&mut self, command: &str, options: &mut Options) -> Result<Value, Error> {
        match command {
            "step" => {
                let count = options.whole("count", 1, MOST_STEPS, Some(1))?;
                self.steps(count)
            }
            "evaluate" => self.evaluate(),
            "activations" => {
                let each = self.network.activations().into_iter();
                Ok(Value::List(each.map(|(name, numbers)| observe::distribution(name, numbers)).collect()))
            }
            "gradients" => {
                let each = self.network.gradients().into_iter();
                Ok(Value::List(each.map(|(name, numbers)| observe::length(name, numbers)).collect()))
            }
            "predict" => {
                let x = options.floats("x")?;
                self.predict(&x)
            }
            _ => Err(Error::Command { found: format!("trainer.{command}") }),
        }
    }
}

/// Reads the sizes of the hidden layers of an MLP.
fn hidden_layers(options: &mut Options, inputs: usize, classes: usize) -> Result<Vec<usize>, Error> {
    let hidden = options.sizes("layers")?;
    let wrong = |expected: String, found: String| Err(Error::Value { option: "layers".to_owned(), expected, found });
    if hidden.len() > MOST_LAYERS {
        return wrong(format!("at most {MOST_LAYERS} hidden layers"), hidden.len().to_string());
    }
    if let Some(found) = hidden.iter().find(|units| !(1..=MOST_UNITS as usize).contains(units)) {
        return wrong(format!("1 to {MOST_UNITS} units in a layer"), found.to_string());
    }
    let sizes: Vec<usize> = [inputs].into_iter().chain(hidden.iter().copied()).chain([classes]).collect();
    check_weights(
        "layers",
        sizes.windows(2).map(|pair| pair[0].saturating_mul(pair[1])).fold(0, usize::saturating_add),
    )?;
    Ok(hidden)
}

fn check_weights(option: &str, found: usize) -> Result<(), Error> {
    if found <= MOST_WEIGHTS {
        return Ok(());
    }
    let expected = format!("a network of at most {MOST_WEIGHTS} weights");
    Err(Error::Value { option: option.to_owned(), expected, found: found.to_string() })
}

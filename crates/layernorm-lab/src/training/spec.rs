//! What a training run is.

use crate::data::Dataset;
use crate::memory;
use crate::models::{Arch, Norm, Start};
use crate::studies::Error;
use serde::{Deserialize, Serialize};

/// Everything that decides a training run's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The network.
    pub arch: Arch,
    /// Its norm.
    pub norm: Norm,
    /// How it starts; its seed is also that of the order of the images.
    pub start: Start,
    /// What makes steps of gradients.
    pub optimizer: Optimizer,
    /// How large they are at first.
    pub learning_rate: f64,
    /// The part of it that is left at the end; it falls evenly from step to step. 1: it stays.
    pub final_rate: f64,
    /// Images of a batch.
    pub batch_size: usize,
    /// Steps.
    pub steps: usize,
    /// How often the validation images are looked at, beside the start.
    pub evaluations: usize,
    /// The data's [`Dataset::label`].
    pub data: String,
    /// So many images are trained on, the first ones.
    pub train: usize,
    /// So many images are validated on, the last ones of the training images.
    pub validation: usize,
    /// So many images are tested on, the first ones of the test images.
    pub test: usize,
    /// All images are multiplied by this, after they were brought to mean 0 and variance 1.
    pub input_scale: f64,
    /// What else is looked at.
    pub probes: Probes,
    /// What is tried at the end.
    pub trials: Vec<Trial>,
}

/// What makes steps of gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Adam (Kingma and Ba, 2015) with its authors' constants.
    Adam,
    /// Plain descent.
    Sgd,
}

/// What is looked at with every evaluation, beside the loss. All of them cost little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// The gradient of each layer.
    pub gradients: bool,
    /// The gradient of each time step.
    pub time: bool,
    /// Mean and variance of hidden units.
    pub moments: bool,
    /// Correlations of so many hidden units; 0: none.
    pub correlation: usize,
    /// Hidden units of so many images; 0: none.
    pub activations: usize,
}

/// The test images, shown in another way than the training images were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it is called.
    pub name: String,
    /// Pixels are multiplied by this.
    pub scale: f64,
    /// And this is added.
    pub shift: f64,
    /// So many rows of background come before the image: a longer sequence.
    pub blank_rows: usize,
    /// Images of a batch.
    pub batch: usize,
    /// Whether the network computes as in training: batch norm with the batch's own statistics.
    pub as_in_training: bool,
}

impl Trial {
    /// The test images as they are, many at a time.
    pub fn plain(name: impl Into<String>) -> Trial {
        Trial { name: name.into(), scale: 1.0, shift: 0.0, blank_rows: 0, batch: 250, as_in_training: false }
    }
}

impl Spec {
    /// A run with Adam at 10⁻³ on batches of 64: 2,000 images for 100 steps, 500 to validate and 1,000 to test, ten evaluations.
    pub fn new(arch: Arch, norm: Norm, seed: u64, data: &str) -> Spec {
        Spec {
            arch,
            norm,
            start: Start::new(seed),
            optimizer: Optimizer::Adam,
            learning_rate: 1e-3,
            final_rate: 1.0,
            batch_size: 64,
            steps: 100,
            evaluations: 10,
            data: data.to_owned(),
            train: 2000,
            validation: 500,
            test: 1000,
            input_scale: 1.0,
            probes: Probes::default(),
            trials: Vec::new(),
        }
    }

    /// Steps of an epoch: whole batches of the training images.
    pub fn steps_of_epoch(&self) -> usize {
        self.train.checked_div(self.batch_size).unwrap_or(0)
    }

    /// The learning rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        self.learning_rate * (1.0 - (1.0 - self.final_rate) * step as f64 / self.steps.max(1) as f64)
    }

    /// The step of each evaluation, rising: 0 first, the last step last.
    pub fn evaluation_steps(&self) -> Vec<usize> {
        let count = self.evaluations.clamp(1, self.steps.max(1));
        let mut steps: Vec<usize> = (0..=count).map(|k| self.steps * k / count).collect();
        steps.dedup();
        steps
    }

    /// Bytes of memory that the run takes, about, for this data.
    pub fn memory(&self, data: &Dataset) -> f64 {
        memory::of_run(self, [data.train.rows(), data.train.columns()])
    }

    /// Whether there is memory for the run.
    ///
    /// # Errors
    /// [`Error::Run`], with the bytes that it takes and those that can be had.
    pub fn check_memory(&self, data: &Dataset) -> Result<(), Error> {
        memory::check(self.memory(data), "the run").map_err(Error::Run)
    }

    /// What is wrong with it, for this data: [`super::run`] looks at the same before anything else.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Run(what));
        self.arch.check(self.norm).and_then(|()| self.start.check()).map_err(Error::Run)?;
        self.arch.check_image([data.train.rows(), data.train.columns()]).map_err(Error::Run)?;
        let images = self.train.saturating_add(self.validation);
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return refuse(format!("learning rate: expected a number above 0, found {}", self.learning_rate));
        }
        if !(0.0..=1.0).contains(&self.final_rate) {
            return refuse(format!("final rate: expected a part from 0 to 1, found {}", self.final_rate));
        }
        if !self.input_scale.is_finite() {
            return refuse(format!("input scale: expected a finite number, found {}", self.input_scale));
        }
        if self.train == 0 || self.validation == 0 || images > data.train.len() {
            let (there, train, validation) = (data.train.len(), self.train, self.validation);
            return refuse(format!(
                "training and validation images: expected at least one of each and at most {there} together, \
                 found {train} and {validation}"
            ));
        }
        if self.test > data.test.len() {
            return refuse(format!("test images: expected at most {}, found {}", data.test.len(), self.test));
        }
        if self.batch_size == 0 || self.batch_size > self.train {
            return refuse(format!("batch size: expected 1 to {}, found {}", self.train, self.batch_size));
        }
        if self.data != data.label() {
            return refuse(format!("data: expected {}, found {}", self.data, data.label()));
        }
        if let Some(trial) = self.trials.iter().find(|trial| trial.batch == 0) {
            return refuse(format!("trial {}: expected batches of 1 or more, found 0", trial.name));
        }
        let fixed = !matches!(self.arch, Arch::Lstm { .. });
        if let Some(trial) = self.trials.iter().find(|trial| trial.blank_rows > 0 && fixed) {
            let (trial, rows, arch) = (&trial.name, trial.blank_rows, self.arch.name());
            return refuse(format!(
                "trial {trial}: expected no blank rows for a network of one size, {arch}, found {rows}"
            ));
        }
        Ok(())
    }
}

//! Specification of a training run.

use crate::data::{Dataset, Digits};
use crate::memory;
use crate::models::{Arch, Norm, Start};
use crate::studies::Error;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Everything that determines the results of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The network.
    pub arch: Arch,
    /// The norm.
    pub norm: Norm,
    /// The initialization; its seed also determines the order of the images.
    pub start: Start,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Initial learning rate.
    pub learning_rate: f64,
    /// Final learning rate as a fraction of the initial one; the decay is linear. 1 means constant.
    pub final_rate: f64,
    /// Batch size.
    pub batch_size: usize,
    /// Number of training steps.
    pub steps: usize,
    /// Number of evaluations, besides the one at the start.
    pub evaluations: usize,
    /// The data's [`Dataset::label`].
    pub data: String,
    /// Number of training images, taken from the start.
    pub train: usize,
    /// Number of validation images, taken from the end of the training images.
    pub validation: usize,
    /// Number of test images, taken from the start.
    pub test: usize,
    /// How the images are changed first.
    #[serde(default, skip_serializing_if = "Images::is_original")]
    pub images: Images,
    /// Factor for all images, after standardization to mean 0 and variance 1.
    pub input_scale: f64,
    /// The probes.
    pub probes: Probes,
    /// The trials at the end.
    pub trials: Vec<Trial>,
}

/// Changes of all images, before anything else. The default keeps the originals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Images {
    /// Whether only the middle of the images is used: [`Digits::cropped`].
    pub cropped: bool,
    /// Whether images are reduced to half of their rows and columns: [`Digits::halved`].
    pub halved: bool,
    /// Whether the pixels are in a random order, the same for all images: [`Digits::permuted`].
    pub permuted: bool,
}

impl Images {
    fn is_original(&self) -> bool {
        *self == Images::default()
    }

    /// The changed images.
    pub(crate) fn apply<'a>(&self, digits: &'a Digits) -> Cow<'a, Digits> {
        let mut changed = Cow::Borrowed(digits);
        if self.cropped {
            changed = Cow::Owned(changed.cropped());
        }
        if self.halved {
            changed = Cow::Owned(changed.halved());
        }
        if self.permuted {
            changed = Cow::Owned(changed.permuted(ORDER));
        }
        changed
    }

    /// Rows and columns of the changed images.
    pub fn size(&self, image: [usize; 2]) -> [usize; 2] {
        image.map(|side| {
            let side = if self.cropped { side - 2 * (side / 7) } else { side };
            if self.halved { side.div_ceil(2) } else { side }
        })
    }
}

/// Seed of the order of permuted pixels. It is part of the task, so that all runs have the same.
const ORDER: u64 = 0x7065_726d_7574_6564;

/// The optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Adam (Kingma and Ba, 2015) with its default constants.
    Adam,
    /// Plain gradient descent.
    Sgd,
}

/// What is measured at every evaluation, besides the loss. All probes are cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// The gradient of each layer.
    pub gradients: bool,
    /// The gradient of each time step.
    pub time: bool,
    /// Mean and variance of hidden units.
    pub moments: bool,
    /// Number of hidden units for correlations; 0 for none.
    pub correlation: usize,
    /// Number of images for hidden activations; 0 for none.
    pub activations: usize,
}

/// An evaluation on modified test images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// Factor for the pixels.
    pub scale: f64,
    /// Offset added to them.
    pub shift: f64,
    /// Number of blank rows before the image, which lengthen the sequence.
    pub blank_rows: usize,
    /// Batch size.
    pub batch: usize,
    /// Whether the network runs in training mode: batch norm with the batch's own statistics.
    pub as_in_training: bool,
}

impl Trial {
    /// The unmodified test images, in large batches.
    pub fn plain(name: impl Into<String>) -> Trial {
        Trial { name: name.into(), scale: 1.0, shift: 0.0, blank_rows: 0, batch: 250, as_in_training: false }
    }
}

impl Spec {
    /// The default: Adam at 10⁻³ with batches of 64, 100 steps on 2,000 images, 500 validation and 1,000 test images,
    /// and ten evaluations.
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
            images: Images::default(),
            input_scale: 1.0,
            probes: Probes::default(),
            trials: Vec::new(),
        }
    }

    /// Steps per epoch, counting complete batches only.
    pub fn steps_of_epoch(&self) -> usize {
        self.train.checked_div(self.batch_size).unwrap_or(0)
    }

    /// The learning rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        decayed([self.learning_rate, self.final_rate], step, self.steps)
    }

    /// The steps of the evaluations in increasing order, including 0 and the last step.
    pub fn evaluation_steps(&self) -> Vec<usize> {
        spaced(self.evaluations, self.steps)
    }

    /// Rows and columns of the images that the network reads.
    pub fn image(&self, data: &Dataset) -> [usize; 2] {
        self.images.size([data.train.rows(), data.train.columns()])
    }

    /// Estimated memory of the run for this data, in bytes.
    pub fn memory(&self, data: &Dataset) -> f64 {
        memory::of_run(self, self.image(data))
    }

    /// Checks that there is enough memory for the run.
    ///
    /// # Errors
    /// [`Error::Run`], with the required and the available memory.
    pub fn check_memory(&self, data: &Dataset) -> Result<(), Error> {
        memory::check(self.memory(data), "the run").map_err(Error::Run)
    }

    /// Checks the spec against the data; [`super::run`] does the same first.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Run(what));
        self.arch.check(self.norm).and_then(|()| self.start.check()).map_err(Error::Run)?;
        self.arch.check_image(self.image(data)).map_err(Error::Run)?;
        let images = self.train.saturating_add(self.validation);
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return refuse(format!("learning rate: expected a number above 0, found {}", self.learning_rate));
        }
        if !(0.0..=1.0).contains(&self.final_rate) {
            return refuse(format!("final rate: expected a fraction from 0 to 1, found {}", self.final_rate));
        }
        if !self.input_scale.is_finite() {
            return refuse(format!("input scale: expected a finite number, found {}", self.input_scale));
        }
        if self.train == 0 || self.validation == 0 || images > data.train.len() {
            let (there, train, validation) = (data.train.len(), self.train, self.validation);
            return refuse(format!(
                "training and validation images: expected at least one of each and at most {there} together, found \
                 {train} and {validation}"
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
        let fixed = self.arch.as_recurrent().is_none();
        if let Some(trial) = self.trials.iter().find(|trial| trial.blank_rows > 0 && fixed) {
            let (trial, rows, arch) = (&trial.name, trial.blank_rows, self.arch.name());
            return refuse(format!(
                "trial {trial}: expected no blank rows for a network with fixed input size, {arch}, found {rows}"
            ));
        }
        Ok(())
    }
}

/// The learning rate of a step, counted from 0: it decays linearly to a fraction of the initial one.
pub(crate) fn decayed([initial, fraction]: [f64; 2], step: usize, steps: usize) -> f64 {
    initial * (1.0 - (1.0 - fraction) * step as f64 / steps.max(1) as f64)
}

/// The steps of this many evaluations in increasing order, including 0 and the last step.
pub(crate) fn spaced(evaluations: usize, steps: usize) -> Vec<usize> {
    let count = evaluations.clamp(1, steps.max(1));
    let mut at: Vec<usize> = (0..=count).map(|k| steps * k / count).collect();
    at.dedup();
    at
}

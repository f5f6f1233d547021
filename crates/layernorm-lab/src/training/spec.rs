//! Specification of a training run.

use super::Stream;
use super::schedule::{self, Split, decayed, evaluation_steps};
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
    /// Number of steps in which the learning rate rises linearly from near 0 to its value (warm-up).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warm_up: usize,
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
    /// A stream of images; `None` for epochs in random order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
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
    /// Number of images whose radius and mean are measured in the last hidden layer; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub geometry: usize,
    /// γ and β of each norm.
    #[serde(default, skip_serializing_if = "is_false")]
    pub affine: bool,
    /// The shift of each layer's input caused by the next training step; in an MLP only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shift: bool,
    /// The length of each layer's weights and their angle to the gradient; in an MLP only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub weights: bool,
    /// The states of a recurrent network at each time step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dynamics: bool,
    /// Running statistics of batch norm at each time step, at the end of the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub statistics: bool,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// An evaluation on modified test images, or on the training images.
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
    /// Whether it uses the run's training images instead of the test images.
    #[serde(default, skip_serializing_if = "is_false")]
    pub on_training_images: bool,
    /// How many more times the image is read, which lengthens the sequence.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeats: usize,
    /// Whether batch norm uses the same running statistics at all time steps.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared_statistics: bool,
}

impl Trial {
    /// The unmodified test images, in large batches.
    pub fn plain(name: impl Into<String>) -> Trial {
        Trial {
            name: name.into(),
            scale: 1.0,
            shift: 0.0,
            blank_rows: 0,
            batch: 250,
            as_in_training: false,
            on_training_images: false,
            repeats: 0,
            shared_statistics: false,
        }
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
            warm_up: 0,
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
            stream: None,
        }
    }

    /// Steps per epoch, counting complete batches only.
    pub fn steps_of_epoch(&self) -> usize {
        self.train.checked_div(self.batch_size).unwrap_or(0)
    }

    /// The learning rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        let risen = ((step + 1) as f64 / self.warm_up.max(1) as f64).min(1.0);
        risen * decayed([self.learning_rate, self.final_rate], step, self.steps)
    }

    /// The steps of the evaluations in increasing order, including 0 and the last step.
    pub fn evaluation_steps(&self) -> Vec<usize> {
        evaluation_steps(self.steps, self.evaluations)
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
        if !(0.0..=1.0).contains(&self.final_rate) {
            return refuse(format!("final rate: expected a fraction from 0 to 1, found {}", self.final_rate));
        }
        if !self.input_scale.is_finite() {
            return refuse(format!("input scale: expected a finite number, found {}", self.input_scale));
        }
        let Spec { train, validation, test, batch_size, learning_rate, .. } = *self;
        schedule::check(&Split { train, validation, test, label: &self.data }, batch_size, learning_rate, data)?;
        if let Some(trial) = self.trials.iter().find(|trial| trial.batch == 0) {
            return refuse(format!("trial {}: expected batches of 1 or more, found 0", trial.name));
        }
        if let Some(stream) = &self.stream {
            stream.check(&data.train.labels()[..self.train]).map_err(Error::Run)?;
        }
        let fixed = self.arch.as_recurrent().is_none();
        let longer = |trial: &Trial| [(trial.blank_rows, "blank rows"), (trial.repeats, "repeats")];
        let all = self.trials.iter().flat_map(|trial| longer(trial).map(|(count, what)| (&trial.name, count, what)));
        if let Some((trial, count, what)) = all.into_iter().find(|(_, count, _)| fixed && *count > 0) {
            let arch = self.arch.name();
            return refuse(format!(
                "trial {trial}: expected no {what} for a network with fixed input size, {arch}, found {count}"
            ));
        }
        Ok(())
    }
}

//! Specification of a DRAW run.

use crate::data::Dataset;
use crate::studies::Error;
use crate::training::Images;
use crate::training::schedule::{self, Split};
use serde::{Deserialize, Serialize};

/// Everything that determines the results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Where the LSTMs have layer norm.
    pub norms: Norms,
    /// Seed of the weights, of the order of the images and of the noise.
    pub seed: u64,
    /// T, the number of glimpses.
    pub glimpses: usize,
    /// H, the units of each LSTM.
    pub hidden: usize,
    /// The size of z_t.
    pub latent: usize,
    /// N of read and of write; `None` means no attention.
    pub attention: Option<[usize; 2]>,
    /// How the images are changed before they are made binary.
    pub images: Images,
    /// Adam's learning rate.
    pub learning_rate: f64,
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
    /// Number of digits to generate at each evaluation.
    pub digits: usize,
}

/// Where an LSTM has layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norms {
    /// Nowhere.
    None,
    /// On the cell: h = o∘tanh(LN(c)), as in section 6.4 of the paper.
    Cell,
    /// On the gates and the cell: the paper's LSTM.
    All,
}

impl Norms {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Norms::None => "none",
            Norms::Cell => "cell",
            Norms::All => "all",
        }
    }
}

impl Spec {
    /// Steps per epoch, counting complete batches only.
    pub fn steps_of_epoch(&self) -> usize {
        self.train.checked_div(self.batch_size).unwrap_or(0)
    }

    /// Rows and columns of the images that the network draws.
    pub fn image(&self, data: &Dataset) -> [usize; 2] {
        self.images.size([data.train.rows(), data.train.columns()])
    }

    /// Checks the spec against the data; [`super::run`] does the same first.
    ///
    /// # Errors
    /// [`Error::Run`], with the number that does not fit.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Run(what));
        for (what, found) in [("glimpses", self.glimpses), ("hidden units", self.hidden), ("latent size", self.latent)]
        {
            if found == 0 {
                return refuse(format!("{what}: expected 1 or more, found 0"));
            }
        }
        let [rows, columns] = self.image(data);
        let most = rows.min(columns);
        if let Some(found) = self.attention.into_iter().flatten().find(|filters| !(2..=most).contains(filters)) {
            return refuse(format!("attention: expected 2 to {most} filters, found {found}"));
        }
        let Spec { train, validation, test, batch_size, learning_rate, .. } = *self;
        schedule::check(&Split { train, validation, test, label: &self.data }, batch_size, learning_rate, data)
    }

    /// Estimated bytes of the run; errs on the high side.
    pub fn memory(&self, data: &Dataset) -> f64 {
        let pixels = self.image(data).iter().product();
        crate::memory::of_numbers(self.parameters(pixels), self.batch_size as f64 * self.activations(pixels))
    }

    /// Number of parameters for images with this many pixels, without those of the norms.
    pub(crate) fn parameters(&self, pixels: usize) -> f64 {
        let [hidden, latent] = [self.hidden, self.latent].map(|size| size as f64);
        let [read, write] = self.patches(pixels).map(|numbers| numbers as f64);
        let lstm = |inputs: f64| 4.0 * hidden * (inputs + hidden + 1.0);
        let windows = if self.attention.is_some() { 10.0 * (hidden + 1.0) } else { 0.0 };
        lstm(read + hidden) + lstm(latent) + (hidden + 1.0) * (2.0 * latent + write) + windows + pixels as f64
    }

    /// Numbers of r and of what is written.
    pub(super) fn patches(&self, pixels: usize) -> [usize; 2] {
        match self.attention {
            Some([read, write]) => [2 * read * read, write * write],
            None => [2 * pixels, pixels],
        }
    }

    /// Numbers saved per image for the backward pass.
    fn activations(&self, pixels: usize) -> f64 {
        let [hidden, latent] = [self.hidden, self.latent].map(|size| size as f64);
        let patches = self.patches(pixels).iter().sum::<usize>() as f64;
        let (pixels, filters) =
            (pixels as f64, self.attention.map_or(0, |filters| filters.iter().sum::<usize>()) as f64);
        // Gates and states of both LSTMs, q and z, canvases and error images, what is read and written, and filters.
        let glimpse = 48.0 * hidden + 8.0 * latent + 8.0 * pixels + 4.0 * patches + 16.0 * filters * pixels.sqrt();
        self.glimpses as f64 * glimpse
    }
}

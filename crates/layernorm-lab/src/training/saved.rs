//! A trained network in one file: specification, pixel scaling and parameters.

use super::evaluate::{best, numbers as numbers_of};
use super::tensors::{self, Entry};
use super::{Outcome, Spec, container};
use crate::data::Digits;
use crate::language;
use crate::memory;
use crate::models::{Net, Taps, numbers};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The format's name in the file.
pub(crate) const FORMAT: &str = "layernorm model";

/// A trained network.
#[derive(Debug)]
pub struct SavedModel {
    net: Net,
    head: Head,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    spec: Spec,
    rows: usize,
    columns: usize,
    /// The input value for each grey value.
    pixels: Vec<f32>,
}

/// Header of the file.
#[derive(Serialize, Deserialize)]
struct FileHead {
    #[serde(flatten)]
    head: Head,
    /// The parameters.
    tensors: Vec<Entry>,
}

/// A network's prediction for an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The class.
    pub class: usize,
    /// Probability of each class.
    pub probabilities: Vec<f32>,
}

impl SavedModel {
    /// The network of a finished run, for images that have `[rows, columns]` before [`Spec::images`] changes them.
    pub fn new(outcome: Outcome, spec: &Spec, [rows, columns]: [usize; 2]) -> SavedModel {
        // Bit-identical to training.
        let scaled = |pixel: u8| outcome.scaling.of(pixel) * spec.input_scale as f32;
        let pixels = (0..=u8::MAX).map(scaled).collect();
        SavedModel { net: outcome.net, head: Head { spec: spec.clone(), rows, columns, pixels } }
    }

    /// Writes the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let (tensors, blob) = tensors::join(&numbers::numbers(&self.net).map_err(|error| words(&error))?);
        let head = FileHead { head: self.head.clone(), tensors };
        container::write(path, FORMAT, &head, &[&blob]).map_err(|error| error.to_string())
    }

    /// Reads the file. The error names it.
    pub fn load(path: &Path) -> Result<SavedModel, String> {
        let bytes = layernorm_files::read(path).map_err(|error| error.to_string());
        bytes.and_then(|bytes| Self::read(&bytes)).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Decodes a file. Sizes are checked against the bytes before the network is created.
    fn read(bytes: &[u8]) -> Result<SavedModel, String> {
        if container::format_of(bytes).is_some_and(|format| format == language::FORMAT) {
            return Err("expected a network for images, found a language model: use `layernorm generate`".to_owned());
        }
        let (head, blob) = container::parse_one(bytes, FORMAT)?;
        let FileHead { head, tensors } = FileHead::deserialize(&head).map_err(|error| format!("header: {error}"))?;
        if head.pixels.len() != 256 {
            return Err(format!("expected 256 grey values, found {}", head.pixels.len()));
        }
        let Spec { arch, norm, start, images, .. } = &head.spec;
        let image = images.size([head.rows, head.columns]);
        memory::fits_file(arch, *norm, image, blob.len())?;
        let tensors = tensors::split(tensors, blob)?;
        let net = numbers::with_numbers(Net::new(arch, *norm, image, start, &Device::flex())?, tensors)?;
        Ok(SavedModel { net, head })
    }

    /// The training run's specification.
    pub fn spec(&self) -> &Spec {
        &self.head.spec
    }

    /// Rows and columns of its images, before [`Spec::images`] changes them.
    pub fn image(&self) -> [usize; 2] {
        [self.head.rows, self.head.columns]
    }

    /// Classifies an image of grey values, row by row; 0 is the background.
    pub fn predict(&self, image: &[u8]) -> Result<Prediction, String> {
        let Head { rows, columns, pixels, spec } = &self.head;
        let wrong = |_| format!("image: expected {rows}×{columns} pixels, found {}", image.len());
        let seen = Digits::new(*rows, *columns, image.to_vec(), vec![0]).map_err(wrong)?;
        let seen = spec.images.apply(&seen);
        let numbers_in: Vec<f32> = seen.images().iter().map(|&pixel| pixels[usize::from(pixel)]).collect();
        let shape = [1, seen.rows(), seen.columns()];
        let image = Tensor::<3>::from_data(TensorData::new(numbers_in, shape), &Device::flex());
        let logits = self.net.forward(image, &mut Taps::closed());
        let probabilities = numbers_of(softmax(logits, 1))?;
        match best(&probabilities) {
            class if class < probabilities.len() => Ok(Prediction { class, probabilities }),
            _ => Err("the network's output is not finite: its training failed".to_owned()),
        }
    }
}

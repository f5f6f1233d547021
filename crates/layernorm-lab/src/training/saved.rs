//! A trained network in one file: what it is, how pixels become numbers, and its parameters.

use super::evaluate::{best, numbers};
use super::tensors::{self, Entry};
use super::{Outcome, Spec, container};
use crate::memory;
use crate::models::{Net, Taps};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::path::Path;

const FORMAT: &str = "layernorm model";

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
    /// What each grey value becomes.
    pixels: Vec<f32>,
}

/// What stands in a file before the numbers.
#[derive(Serialize, Deserialize)]
struct FileHead {
    #[serde(flatten)]
    head: Head,
    /// The parameters.
    tensors: Vec<Entry>,
}

/// What a network says of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The class.
    pub class: usize,
    /// How likely each class is.
    pub probabilities: Vec<f32>,
}

impl SavedModel {
    /// What a run gave, for images of `[rows, columns]`.
    pub fn new(outcome: Outcome, spec: &Spec, [rows, columns]: [usize; 2]) -> SavedModel {
        // As in training, to the bit.
        let scaled = |pixel: u8| outcome.scaling.of(pixel) * spec.input_scale as f32;
        let pixels = (0..=u8::MAX).map(scaled).collect();
        SavedModel { net: outcome.net, head: Head { spec: spec.clone(), rows, columns, pixels } }
    }

    /// Writes it; there is never half a file.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let (tensors, blob) = tensors::join(&self.net.numbers().map_err(|error| words(&error))?);
        let head = FileHead { head: self.head.clone(), tensors };
        container::write(path, FORMAT, &head, &[&blob]).map_err(|error| error.to_string())
    }

    /// Reads it. The error names the file.
    pub fn load(path: &Path) -> Result<SavedModel, String> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string());
        bytes.and_then(|bytes| Self::read(&bytes)).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What is in a file. Sizes are held against the bytes before a network of such sizes is made.
    fn read(bytes: &[u8]) -> Result<SavedModel, String> {
        let (head, blobs) = container::parse(bytes, FORMAT)?;
        let FileHead { head, tensors } = FileHead::deserialize(&head).map_err(|error| format!("header: {error}"))?;
        let [blob] =
            <[&[u8]; 1]>::try_from(blobs).map_err(|blobs| format!("expected 1 blob, found {}", blobs.len()))?;
        if head.pixels.len() != 256 {
            return Err(format!("expected 256 grey values, found {}", head.pixels.len()));
        }
        let Spec { arch, norm, start, .. } = &head.spec;
        let image = [head.rows, head.columns];
        memory::fits_file(arch, *norm, image, blob.len())?;
        let tensors = tensors::split(tensors, blob)?;
        let net = Net::new(arch, *norm, image, start, &Device::flex())?.with_numbers(tensors)?;
        Ok(SavedModel { net, head })
    }

    /// What was trained, and how.
    pub fn spec(&self) -> &Spec {
        &self.head.spec
    }

    /// Rows and columns of its images.
    pub fn image(&self) -> [usize; 2] {
        [self.head.rows, self.head.columns]
    }

    /// The class of an image of grey values, 0 being background, row by row.
    pub fn predict(&self, image: &[u8]) -> Result<Prediction, String> {
        let Head { rows, columns, pixels, .. } = &self.head;
        if image.len() != rows * columns {
            return Err(format!("image: expected {rows}×{columns} pixels, found {}", image.len()));
        }
        let numbers_in: Vec<f32> = image.iter().map(|&pixel| pixels[usize::from(pixel)]).collect();
        let image = Tensor::<3>::from_data(TensorData::new(numbers_in, [1, *rows, *columns]), &Device::flex());
        let logits = self.net.forward(image, &mut Taps::closed());
        let probabilities = numbers(softmax(logits, 1))?;
        match best(&probabilities) {
            class if class < probabilities.len() => Ok(Prediction { class, probabilities }),
            _ => Err("the network's answer is not a number: its training went wrong".to_owned()),
        }
    }
}

//! Loss and accuracy on images.

use super::Trial;
use super::checkpoint::copy;
use super::events::{Test, finite};
use crate::data::{Digits, Scaling};
use crate::models::{Net, Taps};
use crate::studies::Error;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Images and their classes, as tensors.
pub(super) struct Cases {
    /// `[B, rows, columns]`.
    pub(super) images: Tensor<3>,
    pub(super) classes: Vec<u8>,
}

/// Input transformation: pixels are scaled, then multiplied by `scale` and shifted by `shift`.
#[derive(Clone, Debug)]
pub(super) struct Preprocessor {
    pub(super) scaling: Scaling,
    pub(super) scale: f64,
    pub(super) shift: f64,
    /// Number of blank rows before the image.
    pub(super) blank_rows: usize,
    /// How many more times the image is read.
    pub(super) repeats: usize,
}

impl Preprocessor {
    /// Gathers the images with these indices.
    pub(super) fn gather(&self, digits: &Digits, indices: &[usize], device: &Device) -> Cases {
        let mut pixels = Vec::new();
        digits.gather(indices, &self.scaling, &mut pixels);
        let columns = digits.columns();
        let rows = (digits.rows() + self.blank_rows) * (1 + self.repeats);
        if self.blank_rows > 0 {
            let blank = vec![self.scaling.of(0); self.blank_rows * columns];
            pixels = pixels.chunks(digits.pixels()).flat_map(|image| [&blank[..], image].concat()).collect();
        }
        if self.repeats > 0 {
            let once = pixels.len() / indices.len().max(1);
            pixels = pixels.chunks(once.max(1)).flat_map(|image| image.repeat(1 + self.repeats)).collect();
        }
        if (self.scale, self.shift) != (1.0, 0.0) {
            let (scale, shift) = (self.scale as f32, self.shift as f32);
            pixels.iter_mut().for_each(|pixel| *pixel = *pixel * scale + shift);
        }
        let images = Tensor::from_data(TensorData::new(pixels, [indices.len(), rows, columns]), device);
        Cases { images, classes: indices.iter().map(|&index| digits.labels()[index]).collect() }
    }
}

/// Cross-entropy loss: −log softmax of the correct class, averaged over the samples.
pub(super) fn loss(logits: Tensor<2>, classes: &[u8]) -> Tensor<1> {
    let numbers: Vec<i32> = classes.iter().map(|&class| i32::from(class)).collect();
    let own = Tensor::<2, Int>::from_data(TensorData::new(numbers, [classes.len(), 1]), &logits.device());
    log_softmax(logits, 1).gather(1, own).mean().neg()
}

/// Number of samples whose largest logit is that of the correct class. NaN is never the largest.
pub(super) fn right(logits: &[f32], classes: &[u8]) -> usize {
    let count = logits.len().checked_div(classes.len()).unwrap_or(1).max(1);
    logits.chunks(count).zip(classes).filter(|(logits, class)| best(logits) == usize::from(**class)).count()
}

/// Index of the largest number.
pub(super) fn best(logits: &[f32]) -> usize {
    let mut best = (f32::NEG_INFINITY, logits.len());
    for (place, &logit) in logits.iter().enumerate() {
        if logit > best.0 {
            best = (logit, place);
        }
    }
    best.1
}

/// The numbers of a tensor. Fails if they are not f32; the error includes the shape.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, String> {
    let data = tensor.into_data();
    let (dtype, shape) = (data.dtype(), data.shape().clone());
    let found = |error| format!("numbers of a tensor: expected f32, found {dtype:?} of shape {shape:?}: {error:?}");
    data.try_into_vec_as::<f32>().map_err(found)
}

/// Loss and accuracy on the first `count` images, in batches.
pub(super) fn evaluate(
    net: &Net,
    digits: &Digits,
    count: usize,
    preprocessor: &Preprocessor,
    batch: usize,
    device: &Device,
) -> Result<Test, Error> {
    let indices: Vec<usize> = (0..count).collect();
    let (mut sum, mut good) = (0.0, 0);
    for indices in indices.chunks(batch.max(1)) {
        let cases = preprocessor.gather(digits, indices, device);
        let logits = net.forward(cases.images, &mut Taps::closed());
        sum += f64::from(loss(logits.clone(), &cases.classes).into_scalar::<f32>()) * indices.len() as f64;
        good += right(&numbers(logits).map_err(Error::Run)?, &cases.classes);
    }
    let count = count.max(1) as f64;
    Ok(Test { name: String::new(), loss: finite(sum / count), accuracy: Some(good as f64 / count) })
}

/// Runs a trial on the test images. `net` is the training network if the trial uses training mode, else the one for
/// inference.
pub(super) fn attempt(
    net: &Net,
    trial: &Trial,
    digits: &Digits,
    count: usize,
    preprocessor: &Preprocessor,
    device: &Device,
) -> Result<Test, Error> {
    let preprocessor = Preprocessor {
        scale: preprocessor.scale * trial.scale,
        shift: preprocessor.shift * trial.scale + trial.shift,
        blank_rows: trial.blank_rows,
        repeats: trial.repeats,
        ..preprocessor.clone()
    };
    let found = if trial.as_in_training {
        evaluate(&copy(net), digits, count, &preprocessor, trial.batch, device)?
    } else {
        let shared = trial.shared_statistics.then(|| net.clone().with_shared_statistics());
        let net = shared.as_ref().unwrap_or(net);
        evaluate(net, digits, count, &preprocessor, trial.batch, &device.clone().inner())?
    };
    Ok(Test { name: trial.name.clone(), ..found })
}

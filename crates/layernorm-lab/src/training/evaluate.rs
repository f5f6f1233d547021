//! Loss and accuracy of images.

use super::Trial;
use super::events::{Test, finite};
use crate::data::{Digits, Scaling};
use crate::models::{Net, Taps};
use crate::studies::Error;
use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Images and their classes, as tensors.
pub(super) struct Cases {
    /// `[B, rows, columns]`.
    pub(super) images: Tensor<3>,
    pub(super) classes: Vec<u8>,
}

/// How pixels become numbers: scaled, and then times `scale` plus `shift`.
#[derive(Clone, Debug)]
pub(super) struct Eye {
    pub(super) scaling: Scaling,
    pub(super) scale: f64,
    pub(super) shift: f64,
    /// So many rows of background before the image.
    pub(super) blank_rows: usize,
}

impl Eye {
    /// The images of these numbers.
    pub(super) fn see(&self, digits: &Digits, indices: &[usize], device: &Device) -> Cases {
        let mut pixels = Vec::new();
        digits.gather(indices, &self.scaling, &mut pixels);
        let (rows, columns) = (digits.rows() + self.blank_rows, digits.columns());
        if self.blank_rows > 0 {
            let blank = vec![self.scaling.of(0); self.blank_rows * columns];
            pixels = pixels.chunks(digits.pixels()).flat_map(|image| [&blank[..], image].concat()).collect();
        }
        if (self.scale, self.shift) != (1.0, 0.0) {
            let (scale, shift) = (self.scale as f32, self.shift as f32);
            pixels.iter_mut().for_each(|pixel| *pixel = *pixel * scale + shift);
        }
        let images = Tensor::from_data(TensorData::new(pixels, [indices.len(), rows, columns]), device);
        Cases { images, classes: indices.iter().map(|&index| digits.labels()[index]).collect() }
    }
}

/// The loss of each case's own class: −log softmax, the mean over the cases.
pub(super) fn loss(logits: Tensor<2>, classes: &[u8]) -> Tensor<1> {
    let numbers: Vec<i32> = classes.iter().map(|&class| i32::from(class)).collect();
    let own = Tensor::<2, Int>::from_data(TensorData::new(numbers, [classes.len(), 1]), &logits.device());
    log_softmax(logits, 1).gather(1, own).mean().neg()
}

/// How many cases have their largest logit at their class. A logit that is not a number is never the largest.
pub(super) fn right(logits: &[f32], classes: &[u8]) -> usize {
    let count = logits.len().checked_div(classes.len()).unwrap_or(1).max(1);
    logits.chunks(count).zip(classes).filter(|(logits, class)| best(logits) == usize::from(**class)).count()
}

/// The place of the largest number.
pub(super) fn best(logits: &[f32]) -> usize {
    let mut best = (f32::NEG_INFINITY, logits.len());
    for (place, &logit) in logits.iter().enumerate() {
        if logit > best.0 {
            best = (logit, place);
        }
    }
    best.1
}

/// The numbers of a tensor. The error says that they are no f32, and of what shape the tensor is.
pub(super) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, String> {
    let data = tensor.into_data();
    let (dtype, shape) = (data.dtype(), data.shape().clone());
    let found = |error| format!("numbers of a tensor: expected f32, found {dtype:?} of shape {shape:?}: {error:?}");
    data.try_into_vec_as::<f32>().map_err(found)
}

/// Loss and accuracy of the first `count` images in batches.
pub(super) fn evaluate(
    net: &Net,
    digits: &Digits,
    count: usize,
    eye: &Eye,
    batch: usize,
    device: &Device,
) -> Result<Test, Error> {
    let indices: Vec<usize> = (0..count).collect();
    let (mut sum, mut good) = (0.0, 0);
    for indices in indices.chunks(batch.max(1)) {
        let cases = eye.see(digits, indices, device);
        let logits = net.forward(cases.images, &mut Taps::closed());
        sum += f64::from(loss(logits.clone(), &cases.classes).into_scalar::<f32>()) * indices.len() as f64;
        good += right(&numbers(logits).map_err(Error::Run)?, &cases.classes);
    }
    let count = count.max(1) as f64;
    Ok(Test { name: String::new(), loss: finite(sum / count), accuracy: Some(good as f64 / count) })
}

/// The network, with running statistics of its own: clones share theirs.
pub(super) fn copy(net: &Net) -> Net {
    net.valid().train()
}

/// A trial on the test images. `net` is the network in training if the trial is as in training, else that for inference.
pub(super) fn attempt(
    net: &Net,
    trial: &Trial,
    digits: &Digits,
    count: usize,
    eye: &Eye,
    device: &Device,
) -> Result<Test, Error> {
    let eye = Eye {
        scale: eye.scale * trial.scale,
        shift: eye.shift * trial.scale + trial.shift,
        blank_rows: trial.blank_rows,
        ..eye.clone()
    };
    let found = if trial.as_in_training {
        evaluate(&copy(net), digits, count, &eye, trial.batch, device)?
    } else {
        evaluate(net, digits, count, &eye, trial.batch, &device.clone().inner())?
    };
    Ok(Test { name: trial.name.clone(), ..found })
}

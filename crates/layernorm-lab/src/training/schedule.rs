//! Parts that all training runs have in common: when they evaluate, the order of the images, and checks of the data.

use crate::data::{Batches, Dataset, batches};
use crate::studies::Error;
use std::num::NonZeroUsize;

/// The random stream for the order of the images, separate from that for the weights.
pub(super) const ORDER: u64 = 0x6f72_6465_7269_6d67;

/// The steps of the evaluations in increasing order, including 0 and the last step.
pub(crate) fn evaluation_steps(steps: usize, evaluations: usize) -> Vec<usize> {
    let count = evaluations.clamp(1, steps.max(1));
    let mut all: Vec<usize> = (0..=count).map(|k| steps * k / count).collect();
    all.dedup();
    all
}

/// The learning rate of a step, counted from 0: it decays linearly to a fraction of the initial one.
pub(crate) fn decayed([initial, fraction]: [f64; 2], step: usize, steps: usize) -> f64 {
    initial * (1.0 - (1.0 - fraction) * step as f64 / steps.max(1) as f64)
}

/// The images of every step: complete batches, in an order of each epoch that depends on the seed.
pub(crate) struct Order {
    images: usize,
    size: NonZeroUsize,
    seed: u64,
    /// The batches of the current epoch.
    epoch: Option<(u64, Batches)>,
}

impl Order {
    pub(crate) fn new(images: usize, batch_size: usize, seed: u64) -> Order {
        let size = NonZeroUsize::new(batch_size).unwrap_or(NonZeroUsize::MIN);
        Order { images, size, seed: seed ^ ORDER, epoch: None }
    }

    /// The indices of a step's images.
    pub(crate) fn indices(&mut self, step: usize) -> &[usize] {
        let of_epoch = (self.images / self.size).max(1);
        let (epoch, number) = ((step / of_epoch) as u64, step % of_epoch);
        if self.epoch.as_ref().is_none_or(|(of, _)| *of != epoch) {
            self.epoch = Some((epoch, batches(self.images, self.size, self.seed, epoch)));
        }
        self.epoch.as_ref().and_then(|(_, batches)| batches.iter().nth(number)).unwrap_or_default()
    }
}

/// Which images a run uses.
pub(crate) struct Split<'a> {
    pub(crate) train: usize,
    pub(crate) validation: usize,
    pub(crate) test: usize,
    /// The data's [`Dataset::label`].
    pub(crate) label: &'a str,
}

/// Checks what every training run needs of its data and numbers.
pub(crate) fn check(split: &Split<'_>, batch_size: usize, learning_rate: f64, data: &Dataset) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::Run(what));
    let &Split { train, validation, test, label } = split;
    if !(learning_rate.is_finite() && learning_rate > 0.0) {
        return refuse(format!("learning rate: expected a number above 0, found {learning_rate}"));
    }
    if train == 0 || validation == 0 || train.saturating_add(validation) > data.train.len() {
        let there = data.train.len();
        return refuse(format!(
            "training and validation images: expected at least one of each and at most {there} together, found {train} \
             and {validation}"
        ));
    }
    if test > data.test.len() {
        return refuse(format!("test images: expected at most {}, found {test}", data.test.len()));
    }
    if batch_size == 0 || batch_size > train {
        return refuse(format!("batch size: expected 1 to {train}, found {batch_size}"));
    }
    if label != data.label() {
        return refuse(format!("data: expected {label}, found {}", data.label()));
    }
    Ok(())
}

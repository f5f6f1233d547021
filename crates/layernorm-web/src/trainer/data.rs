//! The data of a trainer, and the order of its batches.

use crate::error::Error;
use crate::options::Options;
use layernorm::Float;
use layernorm::parts::SplitMix64;

/// Samples with labels.
#[derive(Debug)]
pub(super) struct Samples<A> {
    pub(super) x: Vec<A>,
    pub(super) labels: Vec<u8>,
    /// Numbers of a sample.
    width: usize,
}

impl Samples<f32> {
    /// Reads samples of this width.
    pub(super) fn read(
        options: &mut Options,
        [x, labels]: [&'static str; 2],
        width: usize,
        classes: usize,
    ) -> Result<Self, Error> {
        let numbers = options.floats(x)?;
        let classified = options.bytes(labels)?;
        let count = classified.len();
        if numbers.len() != count.saturating_mul(width) {
            let shape = format!("[samples, numbers of a sample] = [{count}, {width}]");
            let option = if x == "x" { "data.x" } else { "data.testX" };
            return Err(Error::Length { option, shape, expected: count.saturating_mul(width), found: numbers.len() });
        }
        if let Some(at) = classified.iter().position(|&label| usize::from(label) >= classes) {
            return Err(Error::Value {
                option: format!("data.{labels}[{at}]"),
                expected: format!("a class from 0 to {}", classes - 1),
                found: classified[at].to_string(),
            });
        }
        Ok(Samples { x: numbers, labels: classified, width })
    }
}

impl<A: Float> Samples<A> {
    #[cfg(test)]
    pub(super) fn new(x: Vec<A>, labels: Vec<u8>) -> Self {
        let width = x.len() / labels.len();
        Samples { x, labels, width }
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    fn sample(&self, at: usize) -> &[A] {
        &self.x[at * self.width..][..self.width]
    }
}

/// Batches in a random order: a new one in each epoch, without the incomplete batch at its end.
#[derive(Debug)]
pub(super) struct Batches<A> {
    samples: Samples<A>,
    size: usize,
    seed: u64,
    epoch: u64,
    order: Vec<usize>,
    next: usize,
    x: Vec<A>,
    labels: Vec<u8>,
}

impl<A: Float> Batches<A> {
    /// The size is 1 to the number of samples.
    pub(super) fn new(samples: Samples<A>, size: usize, seed: u64) -> Batches<A> {
        Batches { samples, size, seed, epoch: 0, order: Vec::new(), next: 0, x: Vec::new(), labels: Vec::new() }
    }

    /// Returns the next batch.
    pub(super) fn advance(&mut self) -> (&[A], &[u8]) {
        if self.next + self.size > self.order.len() {
            self.epoch += 1;
            // Stream 1 is that of the initial weights.
            self.order = SplitMix64::stream(self.seed, 1 + self.epoch).permutation(self.samples.len());
            self.next = 0;
        }
        self.x.clear();
        self.labels.clear();
        for &at in &self.order[self.next..][..self.size] {
            self.x.extend_from_slice(self.samples.sample(at));
            self.labels.push(self.samples.labels[at]);
        }
        self.next += self.size;
        (&self.x, &self.labels)
    }

    /// Returns some of the samples, at most `count`, chosen at random: the same at every call.
    pub(super) fn some(&self, count: usize) -> Vec<A> {
        let order = SplitMix64::stream(self.seed, 0).permutation(self.samples.len());
        order.iter().take(count).flat_map(|&at| self.samples.sample(at)).copied().collect()
    }

    /// Returns the last batch's samples.
    pub(super) fn x(&self) -> &[A] {
        &self.x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_every_sample_once() {
        let samples = Samples::new((0..12).map(f64::from).collect(), (0..6).collect());
        let mut batches = Batches::new(samples, 2, 3);
        let mut orders = Vec::new();
        for _ in 0..2 {
            let mut labels = Vec::new();
            for _ in 0..3 {
                let (x, of) = batches.advance();
                for (x, &label) in x.chunks(2).zip(of) {
                    assert_eq!(x, [2.0 * f64::from(label), 2.0 * f64::from(label) + 1.0]);
                }
                labels.extend_from_slice(of);
            }
            orders.push(labels.clone());
            labels.sort_unstable();
            assert_eq!(labels, [0, 1, 2, 3, 4, 5]);
        }
        assert_ne!(orders[0], orders[1]);
        let some = batches.some(4);
        assert_eq!((some.len(), &some), (8, &batches.some(4)));
        assert_eq!(batches.some(9).len(), 12);
    }
}

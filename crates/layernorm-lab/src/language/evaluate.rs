//! Bits per character of a network.

use super::batches::Batch;
use super::events::Positions;
use crate::models::CharacterNet;
use crate::training::events::finite;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use layernorm_burn::functional::States;
use std::f64::consts::LN_2;

/// Number of streams of an evaluation, which run side by side.
const STREAMS: usize = 16;
/// Number of characters of each stream at a time.
const CHUNK: usize = 128;
/// Distance between the starts of test sequences. It shares no divisor with the ranges of positions, which are powers of
/// 2, so that every range meets all parts of the text.
const STRIDE: usize = 29;
/// Largest number of test sequences in a batch.
const SEQUENCES: usize = 64;

/// −ln p of every target, `[B·T, 1]`.
pub(super) fn nats(logits: Tensor<2>, targets: &[u16]) -> Tensor<2> {
    let numbers: Vec<i32> = targets.iter().map(|&target| i32::from(target)).collect();
    let own = Tensor::<2, Int>::from_data(TensorData::new(numbers, [targets.len(), 1]), &logits.device());
    log_softmax(logits, 1).gather(1, own).neg()
}

/// The mean of [`nats`] over the characters of a batch, without padding.
pub(super) fn loss(logits: Tensor<2>, batch: &Batch) -> Tensor<1> {
    let nats = nats(logits, &batch.targets);
    let Some(lengths) = &batch.lengths else { return nats.mean() };
    let [sequences, steps] = batch.shape;
    let valid = |&length: &usize| (0..steps).map(move |step| f32::from(u8::from(step < length)));
    let valid: Vec<f32> = lengths.iter().flat_map(valid).collect();
    let mask = Tensor::<2>::from_data(TensorData::new(valid, [sequences * steps, 1]), &nats.device());
    (nats * mask).sum().div_scalar(batch.count() as f32)
}

/// Bits per character in a text, read as a few contiguous streams, each from a state of zero. `None` if they are not
/// finite.
pub(super) fn bits(net: &CharacterNet, text: &[u16], device: &Device) -> Option<f64> {
    let streams = STREAMS.min(text.len() - 1);
    let long = (text.len() - 1) / streams;
    let (mut states, mut sum): (States, f64) = ([None, None], 0.0);
    for from in (0..long).step_by(CHUNK) {
        let starts = (0..streams).map(|stream| stream * long + from);
        let batch = Batch::of(text, starts, CHUNK.min(long - from));
        let (logits, last) = net.forward(&batch.inputs, batch.shape, states, None, device);
        states = last;
        sum += f64::from(nats(logits, &batch.targets).sum().into_scalar::<f32>());
    }
    finite(sum / (streams * long) as f64 / LN_2)
}

/// Bits per character by position in sequences of `long` characters, each from a state of zero: positions 1 to 8, 9 to
/// 16, 17 to 32, and so on. Only characters that can occur at every position count, so that all positions are measured
/// on the same text.
pub(super) fn positions(net: &CharacterNet, text: &[u16], long: usize, device: &Device) -> Positions {
    let starts: Vec<usize> = (0..text.len() - long).step_by(STRIDE).collect();
    let counts = long - 1..text.len() - long;
    let mut sums = vec![(0f64, 0usize); long];
    for starts in starts.chunks(SEQUENCES) {
        let batch = Batch::of(text, starts.iter().copied(), long);
        let (logits, _) = net.forward(&batch.inputs, batch.shape, [None, None], None, device);
        let nats: Vec<f32> = nats(logits, &batch.targets).into_data().iter::<f32>().collect();
        for (start, nats) in starts.iter().zip(nats.chunks(long)) {
            for (position, (sum, &nats)) in sums.iter_mut().zip(nats).enumerate() {
                if counts.contains(&(start + position)) {
                    *sum = (sum.0 + f64::from(nats), sum.1 + 1);
                }
            }
        }
    }
    let mut ends: Vec<usize> = (3..).map(|power| 1 << power).take_while(|&end| end < long).collect();
    ends.push(long);
    let from = std::iter::once(0).chain(ends.iter().copied());
    let mean = |(from, &to): (usize, &usize)| {
        let (sum, count) = sums[from..to].iter().fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        finite(sum / count as f64 / LN_2)
    };
    Positions { bits: from.zip(&ends).map(mean).collect(), ends, sequences: starts.len() }
}

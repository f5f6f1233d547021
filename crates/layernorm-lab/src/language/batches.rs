//! Which characters a step reads.

use super::{Sampling, Spec};
use crate::data::SplitMix64;

/// The random stream for the order of the characters, separate from that for the weights.
const ORDER: u64 = 0x6c61_6e67_7561_6765;

/// Sequences of characters, `[B, T]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) shape: [usize; 2],
    /// The characters read.
    pub(super) inputs: Vec<u16>,
    /// The next character of each.
    pub(super) targets: Vec<u16>,
    /// Number of characters of each sequence, if they differ; the rest is padding.
    pub(super) lengths: Option<Vec<usize>>,
    /// Whether the sequences continue those of the step before.
    pub(super) continues: bool,
}

impl Batch {
    /// Sequences of `steps` characters from these places.
    pub(super) fn of(text: &[u16], starts: impl ExactSizeIterator<Item = usize> + Clone, steps: usize) -> Batch {
        let all =
            |from: usize| starts.clone().flat_map(|start| text[start + from..][..steps].iter().copied()).collect();
        Batch { shape: [starts.len(), steps], inputs: all(0), targets: all(1), lengths: None, continues: false }
    }

    /// Number of predicted characters.
    pub(super) fn count(&self) -> usize {
        self.lengths.as_ref().map_or(self.targets.len(), |lengths| lengths.iter().sum())
    }
}

/// The batch of a step.
pub(super) fn batch(spec: &Spec, text: &[u16], step: usize) -> Batch {
    match spec.sampling {
        Sampling::Streams { segment } => stream(spec, text, segment, step),
        Sampling::Pieces { shortest, longest } => pieces(spec, text, [shortest, longest], step),
    }
}

/// The next segment of every stream. The seed determines the first segment, so that short runs with different seeds read
/// different characters.
fn stream(spec: &Spec, text: &[u16], segment: usize, step: usize) -> Batch {
    let (long, segments) = ((text.len() - 1) / spec.batch_size, spec.steps_of_epoch(text.len()).max(1));
    let first = SplitMix64::new(spec.start.seed ^ ORDER).below(segments as u64) as usize;
    let number = (first + step) % segments;
    let starts = (0..spec.batch_size).map(|stream| stream * long + number * segment);
    Batch { continues: step > 0 && number > 0, ..Batch::of(text, starts, segment) }
}

/// Pieces of random lengths at random places.
fn pieces(spec: &Spec, text: &[u16], [shortest, longest]: [usize; 2], step: usize) -> Batch {
    let mut random = SplitMix64::stream(spec.start.seed ^ ORDER, step as u64);
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let starts: Vec<usize> = (0..spec.batch_size).map(|_| below(text.len() - longest)).collect();
    let lengths = starts.iter().map(|_| shortest + below(longest - shortest + 1)).collect();
    Batch { lengths: Some(lengths), ..Batch::of(text, starts.into_iter(), longest) }
}

//! Streams: images in the order in which they arrive, with classes that change over time.
//!
//! A stream has phases of equal length; in each of them only some classes occur. Every image comes once, until all
//! images of a phase's classes have come. Each image is first predicted, then learned (prequential evaluation), so the
//! training loss and accuracy of a run on a stream are those of predictions made before the image was learned, in
//! inference mode.

use crate::data::SplitMix64;
use serde::{Deserialize, Serialize};

/// A stream of training images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// The classes that occur in each phase.
    pub phases: Vec<Vec<u8>>,
}

impl Stream {
    /// The first step of each phase, and the number of steps: one more than there are phases.
    pub fn boundaries(&self, steps: usize) -> Vec<usize> {
        let count = self.phases.len().max(1);
        (0..=count).map(|phase| steps * phase / count).collect()
    }

    /// Checks that there are phases and that every phase has images.
    pub(super) fn check(&self, labels: &[u8]) -> Result<(), String> {
        if self.phases.is_empty() {
            return Err("stream: expected at least one phase, found none".to_owned());
        }
        match self.phases.iter().position(|classes| !labels.iter().any(|label| classes.contains(label))) {
            Some(phase) => {
                let classes = &self.phases[phase];
                Err(format!("phase {}: expected training images of the classes {classes:?}, found none", phase + 1))
            }
            None => Ok(()),
        }
    }

    /// The images of all steps, `batch` of them per step, by index.
    pub(super) fn order(&self, labels: &[u8], steps: usize, batch: usize, seed: u64) -> Vec<usize> {
        let shuffled = SplitMix64::stream(seed, 0).permutation(labels.len());
        let mut come = vec![false; labels.len()];
        let mut order = Vec::with_capacity(steps * batch);
        for (classes, bounds) in self.phases.iter().zip(self.boundaries(steps).windows(2)) {
            let end = order.len() + (bounds[1] - bounds[0]) * batch;
            let own: Vec<usize> = shuffled.iter().copied().filter(|&index| classes.contains(&labels[index])).collect();
            while order.len() < end && !own.is_empty() {
                let fresh = own.iter().copied().filter(|&index| !come[index]);
                let next: Vec<usize> = fresh.take(end - order.len()).collect();
                next.iter().for_each(|&index| come[index] = true);
                if order.len() + next.len() < end {
                    own.iter().for_each(|&index| come[index] = false);
                }
                order.extend(next);
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream { phases: vec![vec![0, 1], vec![2], vec![0, 1]] }
    }

    #[test]
    fn phases_have_their_classes_and_every_image_comes_once() {
        let labels: Vec<u8> = (0..60).map(|n| n % 3).collect();
        let order = stream().order(&labels, 9, 4, 1);
        assert_eq!(stream().boundaries(9), [0, 3, 6, 9]);
        let class = |index: &usize| labels[*index];
        assert!(order[..12].iter().map(class).all(|class| class < 2) && order[24..].iter().map(class).all(|c| c < 2));
        assert!(order[12..24].iter().map(class).all(|class| class == 2));
        let mut seen = order.clone();
        seen.sort_unstable();
        assert!(seen.len() == 36 && seen.windows(2).all(|pair| pair[0] < pair[1]), "{order:?}");
        assert_ne!(order, stream().order(&labels, 9, 4, 2));
    }

    #[test]
    fn images_come_again_only_after_all_others() {
        let labels: Vec<u8> = vec![0, 1, 2];
        let order = stream().order(&labels, 12, 1, 1);
        assert_eq!(order[4..8], [2; 4]);
        for pair in order[..4].chunks(2).chain(order[8..].chunks(2)) {
            assert!(pair.contains(&0) && pair.contains(&1), "{order:?}");
        }
    }

    #[test]
    fn a_phase_without_images_is_refused() {
        assert!(stream().check(&[0, 2]).is_ok());
        assert!(
            stream().check(&[0, 1]).unwrap_err().starts_with("phase 2: expected training images of the classes [2]")
        );
        assert!(Stream { phases: vec![] }.check(&[0]).is_err());
    }
}

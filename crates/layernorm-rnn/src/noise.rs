//! Counter-based random numbers: the n-th number of a stream does not depend on which others were requested. So a
//! backward pass reproduces the masks of its forward pass without storing them, on any number of threads.

use crate::config::Noise;
use layernorm::parts::SplitMix64;

/// Kind of random mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// [`Noise::dropout`] of a layer's input `[T, B, I]`; its direction is 0.
    Dropout,
    /// [`Noise::recurrent_dropout`] of h `[B, P]`.
    RecurrentDropout,
    /// [`Noise::drop_connect`] of U `[G·H, P]`.
    DropConnect,
    /// [`Noise::zoneout_hidden`] of h `[T, B, P]`.
    ZoneoutHidden,
    /// [`Noise::zoneout_cell`] of c `[T, B, H]`.
    ZoneoutCell,
}

impl Noise {
    /// Returns which of `count` elements the noise affects in a training pass with this seed: dropped or, with zoneout,
    /// kept. For code that reimplements the same network.
    pub fn hits(&self, mask: Mask, seed: u64, layer: usize, direction: usize, count: usize) -> Vec<bool> {
        let (purpose, rate) = match mask {
            Mask::Dropout => (Purpose::Dropout, self.dropout),
            Mask::RecurrentDropout => (Purpose::Recurrent, self.recurrent_dropout),
            Mask::DropConnect => (Purpose::DropConnect, self.drop_connect),
            Mask::ZoneoutHidden => (Purpose::ZoneoutHidden, self.zoneout_hidden),
            Mask::ZoneoutCell => (Purpose::ZoneoutCell, self.zoneout_cell),
        };
        let random = NoiseStream::new(seed, purpose, layer, direction);
        (0..count).map(|index| random.hits(index, rate)).collect()
    }
}

/// Purpose of a stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Init,
    Dropout,
    Recurrent,
    DropConnect,
    ZoneoutHidden,
    ZoneoutCell,
}

/// Random numbers for one purpose in one cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoiseStream {
    key: u64,
}

impl NoiseStream {
    /// Creates the stream for a purpose in a layer and direction (or any two numbers that distinguish streams).
    pub(crate) fn new(seed: u64, purpose: Purpose, layer: usize, direction: usize) -> NoiseStream {
        let stream = (purpose as u64) << 48 | (layer as u64) << 8 | direction as u64;
        let seed = SplitMix64::mix(seed.wrapping_add(SplitMix64::GOLDEN));
        NoiseStream { key: SplitMix64::mix(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93)) }
    }

    fn bits(&self, index: usize) -> u64 {
        SplitMix64::mix(
            SplitMix64::mix(self.key.wrapping_add((index as u64).wrapping_mul(SplitMix64::GOLDEN))) ^ self.key,
        )
    }

    /// Returns a uniform number in 0..1, with 53 bits.
    pub(crate) fn uniform(&self, index: usize) -> f64 {
        (self.bits(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability p.
    pub(crate) fn hits(&self, index: usize, p: f64) -> bool {
        self.uniform(index) < p
    }

    /// Returns a standard normal number (Box and Muller).
    pub(crate) fn normal(&self, index: usize) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(2 * index)).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform(2 * index + 1)).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_random_and_streams_differ() {
        let n = 100_000;
        for (layer, seed) in [(0, 1), (1, 1), (0, 2)] {
            let random = NoiseStream::new(seed, Purpose::Init, layer, 0);
            let mean = (0..n).map(|i| random.uniform(i)).sum::<f64>() / n as f64;
            // Five standard deviations of a mean of uniform numbers.
            assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt(), "{mean}");
            let square = (0..n).map(|i| random.normal(i).powi(2)).sum::<f64>() / n as f64;
            assert!((square - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{square}");
            let hits = (0..n).filter(|&i| random.hits(i, 0.3)).count() as f64 / n as f64;
            assert!((hits - 0.3).abs() < 5.0 * (0.21 / n as f64).sqrt(), "{hits}");
        }
        let first = |seed, purpose, layer, direction| NoiseStream::new(seed, purpose, layer, direction).uniform(0);
        let mut firsts = [
            first(1, Purpose::Init, 0, 0),
            first(1, Purpose::Dropout, 0, 0),
            first(1, Purpose::Init, 1, 0),
            first(1, Purpose::Init, 0, 1),
            first(2, Purpose::Init, 0, 0),
        ];
        firsts.sort_by(f64::total_cmp);
        assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_mask_is_its_stream_at_its_rate() {
        let noise = Noise { dropout: 0.3, zoneout_hidden: 0.3, ..Noise::default() };
        let dropped = noise.hits(Mask::Dropout, 7, 1, 0, 1000);
        let random = NoiseStream::new(7, Purpose::Dropout, 1, 0);
        assert!(dropped.iter().enumerate().all(|(i, &hit)| hit == random.hits(i, 0.3)));
        assert_ne!(dropped, noise.hits(Mask::ZoneoutHidden, 7, 1, 0, 1000));
        assert!(noise.hits(Mask::DropConnect, 7, 1, 0, 1000).iter().all(|&hit| !hit));
    }
}

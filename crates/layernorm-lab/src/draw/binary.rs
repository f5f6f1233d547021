//! Binary images: each pixel is 1 with its grey value as probability, sampled once for all runs, as in the fixed
//! binarization of MNIST (Larochelle and Murray, 2011).

use crate::data::{Digits, SplitMix64};

/// Seed of the samples. It is part of the task, so that all runs have the same images.
const SAMPLE: u64 = 0x6269_6e61_7269_7a65;

/// Which images are sampled; each part has its own random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Training and validation images.
    Train,
    /// Test images.
    Test,
}

/// The images with pixels 0 and 255. An image's sample depends on its part and its index only.
pub(super) fn binary(digits: &Digits, part: Part) -> Digits {
    let seed = match part {
        Part::Train => SAMPLE,
        Part::Test => SAMPLE ^ 1,
    };
    let images = (0..digits.len()).flat_map(|index| {
        let mut random = SplitMix64::stream(seed, index as u64);
        digits.image(index).iter().map(move |&grey| if random.below(255) < u64::from(grey) { 255 } else { 0 })
    });
    let labels = digits.labels().to_vec();
    Digits::new(digits.rows(), digits.columns(), images.collect(), labels).expect("as many pixels as before")
}

/// The log-odds of each pixel over the images, with one image added that has it and one that does not.
pub(super) fn log_odds(binary: &Digits) -> Vec<f64> {
    let mut ones = vec![0usize; binary.pixels()];
    for index in 0..binary.len() {
        ones.iter_mut().zip(binary.image(index)).for_each(|(ones, &pixel)| *ones += usize::from(pixel > 0));
    }
    let odds = |ones: usize| (ones + 1) as f64 / (binary.len() - ones + 1) as f64;
    ones.into_iter().map(|ones| odds(ones).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_is_one_as_often_as_it_is_bright() {
        let (rows, columns) = (100, 100);
        let images = [0u8, 51, 255].iter().flat_map(|&grey| vec![grey; rows * columns]).collect();
        let digits = Digits::new(rows, columns, images, vec![0, 1, 2]).unwrap();
        let sampled = binary(&digits, Part::Train);
        let ones = |index| sampled.image(index).iter().filter(|&&pixel| pixel == 255).count();
        assert!(sampled.images().iter().all(|&pixel| pixel == 0 || pixel == 255));
        assert_eq!((ones(0), ones(2)), (0, 10_000));
        // Five standard deviations around 10,000/5.
        assert!(ones(1).abs_diff(2_000) < 200, "{}", ones(1));
        assert_eq!(sampled, binary(&digits, Part::Train));
        assert_ne!(sampled, binary(&digits, Part::Test));
        // Fewer images have the same samples.
        assert_eq!(binary(&digits.first(2).unwrap(), Part::Train).image(1), sampled.image(1));
    }

    #[test]
    fn log_odds_are_those_of_the_counts() {
        let digits = Digits::new(1, 3, vec![0, 255, 255, 0, 0, 255], vec![1, 2]).unwrap();
        // (0 + 1)/(2 + 1), (1 + 1)/(1 + 1) and (2 + 1)/(0 + 1).
        assert_eq!(log_odds(&digits), [(1f64 / 3.0).ln(), 0.0, 3f64.ln()]);
    }
}

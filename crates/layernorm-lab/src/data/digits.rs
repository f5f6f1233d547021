//! Images with their labels.

use super::error::{Error, Problem};
use super::idx::Idx;
use super::random::SplitMix64;
use super::scaling::Scaling;

/// Number of classes; labels are smaller.
pub const CLASSES: usize = 10;

/// One or more images of equal size, each with a label below [`CLASSES`].
#[derive(Clone, PartialEq, Eq)]
pub struct Digits {
    rows: usize,
    columns: usize,
    images: Vec<u8>,
    labels: Vec<u8>,
}

/// Which images a split takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The last ones.
    Last,
    /// Random ones; both parts keep the original order.
    Shuffled {
        /// The random seed.
        seed: u64,
    },
}

impl Digits {
    /// Images `[N, rows, columns]` in row-major order, and labels `[N]`.
    ///
    /// The error concerns the labels, unless there are no pixels or incomplete images.
    pub fn new(rows: usize, columns: usize, images: Vec<u8>, labels: Vec<u8>) -> Result<Self, Problem> {
        let expected = rows.saturating_mul(columns).saturating_mul(labels.len());
        if expected == 0 {
            return Err(Problem::Empty { shape: vec![labels.len(), rows, columns] });
        }
        if images.len() != expected {
            return Err(Problem::Truncated { expected: expected as u64, found: images.len() as u64 });
        }
        if let Some(index) = labels.iter().position(|&label| usize::from(label) >= CLASSES) {
            return Err(Problem::Label { index, found: labels[index], largest: CLASSES as u8 - 1 });
        }
        Ok(Self { rows, columns, images, labels })
    }

    /// Number of images, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always an image")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Rows of an image: 28 in MNIST.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of an image: 28 in MNIST.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Pixels of an image: 784 in MNIST.
    pub fn pixels(&self) -> usize {
        self.rows * self.columns
    }

    /// All images, `[N, rows, columns]`.
    pub fn images(&self) -> &[u8] {
        &self.images
    }

    /// One image, `[rows, columns]`. Panics if the index is out of range.
    pub fn image(&self, index: usize) -> &[u8] {
        &self.images[index * self.pixels()..][..self.pixels()]
    }

    /// All labels, `[N]`.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Writes the scaled pixels of these images, `[B, rows · columns]`, to `out`, replacing its contents. Panics if an
    /// index is out of range.
    pub fn gather(&self, indices: &[usize], scaling: &Scaling, out: &mut Vec<f32>) {
        out.clear();
        out.reserve(indices.len() * self.pixels());
        indices.iter().for_each(|&index| scaling.extend(out, self.image(index)));
    }

    /// The first images, for a shorter run.
    pub fn first(&self, count: usize) -> Result<Self, Error> {
        if count == 0 || count > self.len() {
            return Err(Error::TooFew { asked: count, there: self.len() });
        }
        Ok(self.select(0..count))
    }

    /// Splits off images, for validation. Returns the rest and the images taken; both have at least one image.
    pub fn split(&self, count: usize, which: Split) -> Result<(Self, Self), Error> {
        if count == 0 || count >= self.len() {
            return Err(Error::TooFew { asked: count, there: self.len() });
        }
        let stay = self.len() - count;
        let mut order: Vec<usize> = match which {
            Split::Last => (0..self.len()).collect(),
            Split::Shuffled { seed } => SplitMix64::new(seed).permutation(self.len()),
        };
        let (left, right) = order.split_at_mut(stay);
        left.sort_unstable();
        right.sort_unstable();
        Ok((self.select(left.iter().copied()), self.select(right.iter().copied())))
    }

    /// Images of half the height and width: each pixel is the mean of 2×2 pixels, rounded half up. Images with an odd
    /// number of rows or columns are extended by background (0).
    pub fn halved(&self) -> Self {
        let (rows, columns) = (self.rows.div_ceil(2), self.columns.div_ceil(2));
        let mut images = Vec::with_capacity(self.len() * rows * columns);
        for index in 0..self.len() {
            let image = self.image(index);
            let pixel = |row: usize, column: usize| {
                let inside = row < self.rows && column < self.columns;
                if inside { u32::from(image[row * self.columns + column]) } else { 0 }
            };
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (2 * row, 2 * column))) {
                let sum =
                    pixel(row, column) + pixel(row, column + 1) + pixel(row + 1, column) + pixel(row + 1, column + 1);
                images.push(((sum + 2) / 4) as u8);
            }
        }
        Self { rows, columns, images, labels: self.labels.clone() }
    }

    /// Images without the outer seventh of their rows and columns on each side: of 28×28 pixels, the 20×20 in the middle,
    /// into which the digits of MNIST were scaled. No row of them is blank in all images.
    pub fn cropped(&self) -> Self {
        let (top, left) = (self.rows / 7, self.columns / 7);
        let (rows, columns) = (self.rows - 2 * top, self.columns - 2 * left);
        let row = |index: usize, row: usize| &self.image(index)[(top + row) * self.columns + left..][..columns];
        let images = (0..self.len()).flat_map(|index| (0..rows).flat_map(move |number| row(index, number)));
        Self { rows, columns, images: images.copied().collect(), labels: self.labels.clone() }
    }

    /// The images with their pixels in a random order that is the same for all of them and depends only on the seed.
    pub fn permuted(&self, seed: u64) -> Self {
        let order = SplitMix64::new(seed).permutation(self.pixels());
        let images = (0..self.len()).flat_map(|index| order.iter().map(move |&place| self.image(index)[place]));
        Self { images: images.collect(), labels: self.labels.clone(), ..*self }
    }

    fn select(&self, indices: impl Iterator<Item = usize> + Clone) -> Self {
        Self {
            rows: self.rows,
            columns: self.columns,
            images: indices.clone().flat_map(|index| self.image(index)).copied().collect(),
            labels: indices.map(|index| self.labels[index]).collect(),
        }
    }
}

/// Checks that an array holds images; returns N, rows and columns.
pub(super) fn images_of(array: &Idx) -> Result<(usize, usize, usize), Problem> {
    match array.shape[..] {
        [_, rows, columns] if array.bytes.is_empty() || rows == 0 || columns == 0 => {
            Err(Problem::Empty { shape: array.shape.clone() })
        }
        [count, rows, columns] => Ok((count, rows, columns)),
        _ => Err(Problem::Dimensions { expected: 3, found: array.shape.len() }),
    }
}

/// Checks that an array holds labels; returns N.
pub(super) fn labels_of(array: &Idx) -> Result<usize, Problem> {
    match array.shape[..] {
        [count] => Ok(count),
        _ => Err(Problem::Dimensions { expected: 1, found: array.shape.len() }),
    }
}

impl std::fmt::Debug for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digits({} of {}×{})", self.len(), self.rows, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> Digits {
        Digits::new(1, 2, (0..20).collect(), (0..10).collect()).unwrap()
    }

    #[test]
    fn checks_what_it_is_made_of() {
        assert!(matches!(Digits::new(2, 2, vec![0; 7], vec![1, 2]), Err(Problem::Truncated { expected: 8, found: 7 })));
        assert!(matches!(Digits::new(usize::MAX, 2, vec![0; 7], vec![1]), Err(Problem::Truncated { .. })));
        assert!(matches!(Digits::new(0, 2, vec![], vec![1]), Err(Problem::Empty { .. })));
        assert!(matches!(Digits::new(2, 2, vec![], vec![]), Err(Problem::Empty { .. })));
        let error = Digits::new(1, 1, vec![0; 3], vec![1, 26, 2]).unwrap_err();
        assert_eq!(error.to_string(), "label 1: expected 0 to 9, found 26");
    }

    #[test]
    fn splits_keep_images_with_their_labels() {
        let digits = ten();
        let (rest, last) = digits.split(3, Split::Last).unwrap();
        assert_eq!((rest.labels(), last.labels()), (&[0, 1, 2, 3, 4, 5, 6][..], &[7, 8, 9][..]));
        let split = Split::Shuffled { seed: 3 };
        let (rest, taken) = digits.split(4, split).unwrap();
        assert_eq!((rest.len(), taken.len()), (6, 4));
        assert_ne!(taken.labels(), [6, 7, 8, 9]);
        assert_eq!(digits.split(4, split).unwrap(), (rest.clone(), taken.clone()));
        let mut all = [rest.labels(), taken.labels()].concat();
        all.sort_unstable();
        assert_eq!(all, digits.labels());
        for part in [rest, taken] {
            for (index, &label) in part.labels().iter().enumerate() {
                assert_eq!(part.image(index), [2 * label, 2 * label + 1]);
            }
        }
    }

    #[test]
    fn no_side_of_a_split_is_empty() {
        assert!(matches!(ten().split(10, Split::Last), Err(Error::TooFew { asked: 10, there: 10 })));
        assert!(ten().split(0, Split::Last).is_err());
        assert!(ten().first(11).is_err() && ten().first(0).is_err());
        assert_eq!(ten().first(10).unwrap(), ten());
    }

    #[test]
    fn halved_images_are_means_of_two_by_two_pixels() {
        let digits = Digits::new(3, 2, vec![0, 1, 1, 0, 9, 9, 255, 255, 255, 255, 0, 3], vec![4, 7]).unwrap();
        let halved = digits.halved();
        assert_eq!((halved.rows(), halved.columns(), halved.labels()), (2, 1, &[4, 7][..]));
        // (0 + 1 + 1 + 0)/4 = 0.5 and (0 + 3)/4 = 0.75 round up; below the last row is background.
        assert_eq!(halved.images(), [1, 5, 255, 1]);
    }

    #[test]
    fn cropped_images_are_the_middle() {
        let digits = Digits::new(8, 7, (0..112).collect(), vec![4, 7]).unwrap();
        let cropped = digits.cropped();
        assert_eq!((cropped.rows(), cropped.columns(), cropped.labels()), (6, 5, &[4, 7][..]));
        assert_eq!(cropped.image(0)[..6], [8, 9, 10, 11, 12, 15]);
        assert_eq!((cropped.image(0)[29], cropped.image(1)[0]), (47, 64));
    }

    #[test]
    fn permuted_images_share_one_order() {
        let digits = Digits::new(4, 4, (0..32).collect(), vec![1, 2]).unwrap();
        let permuted = digits.permuted(5);
        assert_ne!(permuted.image(0), digits.image(0));
        assert!(permuted.image(1).iter().zip(permuted.image(0)).all(|(second, first)| *second == first + 16));
        let mut sorted = permuted.image(0).to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, digits.image(0));
        assert_ne!(permuted, digits.permuted(6));
    }

    #[test]
    fn gathers_in_the_order_of_the_indices() {
        let mut out = vec![9.0];
        ten().gather(&[3, 0], &Scaling::unit(), &mut out);
        assert_eq!(out, [6.0, 7.0, 0.0, 1.0].map(|v: f32| v / 255.0));
    }
}

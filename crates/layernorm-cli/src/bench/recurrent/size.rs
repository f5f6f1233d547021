//! The sizes of a measurement: B sequences of T steps, I inputs, H hidden units.

use crate::bench::shape::Shape;
use crate::failure::Failure;
use serde::Serialize;
use std::fmt;

/// B, T, I and H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// B: sequences.
    pub batch: usize,
    /// T: steps.
    pub steps: usize,
    /// I: input size.
    pub input: usize,
    /// H: hidden size.
    pub hidden: usize,
}

impl Size {
    /// The default sizes: small images row by row, one and many at a time; speech; text.
    pub const DEFAULT: [Size; 4] = [
        Size::new(64, 28, 28, 128),
        Size::new(1, 28, 28, 128),
        Size::new(32, 100, 128, 256),
        Size::new(64, 100, 256, 512),
    ];

    /// These sizes.
    pub const fn new(batch: usize, steps: usize, input: usize, hidden: usize) -> Self {
        Size { batch, steps, input, hidden }
    }

    /// Parses shapes of the command line: `64x28x28x128`, or `64,28,28,128`, which arrives as four shapes of one dimension.
    pub fn from_shapes(shapes: &[Shape]) -> Result<Vec<Self>, Failure> {
        let sizes: Vec<&[usize]> = shapes.iter().map(Shape::sizes).collect();
        let bad = || {
            let found: Vec<_> = shapes.iter().map(Shape::to_string).collect();
            let found = found.join(", ");
            Failure::bad_input(format!("--shapes: expected sizes B, T, I and H, as in 64x28x28x128, found {found}"))
        };
        let of = |sizes: &[usize]| match *sizes {
            [batch, steps, input, hidden] => Ok(Size::new(batch, steps, input, hidden)),
            _ => Err(bad()),
        };
        if sizes.iter().all(|sizes| sizes.len() == 1) {
            return sizes.concat().chunks(4).map(of).collect();
        }
        sizes.into_iter().map(of).collect()
    }

    /// Multiplications and additions of the matrix products of one forward pass with G gates; the rest is small.
    pub fn operations(&self, gates: usize) -> f64 {
        2.0 * (self.batch * self.steps) as f64 * (gates * self.hidden) as f64 * (self.input + self.hidden) as f64
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}×{}×{}", self.batch, self.steps, self.input, self.hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_ways() {
        let shapes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Shape>>();
        let expected = vec![Size::new(2, 3, 4, 5), Size::new(6, 7, 8, 9)];
        assert_eq!(Size::from_shapes(&shapes(&["2x3x4x5", "6x7x8x9"])).unwrap(), expected);
        assert_eq!(Size::from_shapes(&shapes(&["2", "3", "4", "5", "6", "7", "8", "9"])).unwrap(), expected);
        for bad in [&["2x3"][..], &["2", "3", "4"], &["2", "3", "4", "5x6"], &["2x3x4x5", "6"]] {
            assert!(Size::from_shapes(&shapes(bad)).unwrap_err().message.contains("64x28x28x128"), "{bad:?}");
        }
    }
}

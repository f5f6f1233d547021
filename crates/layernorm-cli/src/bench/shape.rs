//! Shapes on the command line, such as `1024x768`.

use crate::failure::Failure;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The dimensions of a tensor; the last one is the row length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A tensor of `rows` rows of `n` elements.
    pub fn new(rows: usize, n: usize) -> Self {
        Shape(vec![rows, n])
    }

    /// Row length.
    pub fn n(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions except the last.
    pub fn rows(&self) -> usize {
        self.len() / self.n()
    }

    /// The dimensions.
    pub fn sizes(&self) -> &[usize] {
        &self.0
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.iter().product()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&sizes.join("×"))
    }
}

impl FromStr for Shape {
    type Err = Failure;
    fn from_str(text: &str) -> Result<Self, Failure> {
        let expected =
            || Failure::bad_input(format!("expected sizes of 1 or more joined by x, as in 1024x768, found {text:?}"));
        let sizes: Vec<usize> =
            text.split(['x', '×']).map(|size| size.trim().parse().map_err(|_| expected())).collect::<Result<_, _>>()?;
        let count = sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size)).unwrap_or(usize::MAX);
        match count {
            0 => Err(expected()),
            // 2⁴⁸ elements exceed the memory of any machine; below that, byte counts do not overflow.
            n if n >> 48 != 0 => Err(Failure::bad_input(format!("expected fewer than 2⁴⁸ elements, found {text:?}"))),
            _ => Ok(Shape(sizes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_and_bad_ones_refused() {
        let shape: Shape = "8x128×768".parse().unwrap();
        assert_eq!((shape.rows(), shape.n(), shape.to_string().as_str()), (1024, 768, "8×128×768"));
        for bad in ["", "x", "3x", "3x0", "3x-1", "a", "99999999999999999999", "4294967296x4294967296"] {
            assert!(bad.parse::<Shape>().unwrap_err().message.contains("expected"), "{bad}");
        }
    }
}

//! The axes that form a row.

use crate::error::Error;
use crate::view::MAX_RANK;

/// Axes that form a row. Axes count from the front; negative ones from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes<'a> {
    /// This many trailing axes, like PyTorch's `normalized_shape`.
    Last(usize),
    /// These axes, in any order.
    These(&'a [isize]),
}

impl Axes<'_> {
    /// Returns for each axis of a tensor whether it belongs to the row.
    pub(crate) fn mask(&self, rank: usize) -> Result<[bool; MAX_RANK], Error> {
        let mut mask = [false; MAX_RANK];
        match *self {
            Axes::Last(count) if count > rank => {
                return Err(Error::TooFewDimensions { what: "input", min: count, found: rank });
            }
            Axes::Last(count) => mask[rank - count..rank].fill(true),
            Axes::These(axes) => {
                for &axis in axes {
                    let at = if axis < 0 { axis.checked_add_unsigned(rank) } else { Some(axis) };
                    let at = at
                        .and_then(|at| usize::try_from(at).ok())
                        .filter(|&at| at < rank)
                        .ok_or(Error::Axis { axis, rank })?;
                    if std::mem::replace(&mut mask[at], true) {
                        return Err(Error::RepeatedAxis { axis: at });
                    }
                }
            }
        }
        Ok(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_checked() {
        let mask = |axes: &[isize]| Axes::These(axes).mask(3);
        assert_eq!(mask(&[-1, 0]).unwrap()[..3], [true, false, true]);
        assert_eq!(mask(&[3]), Err(Error::Axis { axis: 3, rank: 3 }));
        assert_eq!(mask(&[-4]), Err(Error::Axis { axis: -4, rank: 3 }));
        assert_eq!(mask(&[isize::MIN]), Err(Error::Axis { axis: isize::MIN, rank: 3 }));
        assert_eq!(mask(&[2, -1]), Err(Error::RepeatedAxis { axis: 2 }));
        assert!(matches!(Axes::Last(4).mask(3), Err(Error::TooFewDimensions { min: 4, .. })));
    }
}

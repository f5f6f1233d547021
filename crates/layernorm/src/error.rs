//! Errors, with the expected and the actual values.

use crate::arch::{ISA_VARIABLE, Isa};
use std::fmt;

/// Reason why a call was rejected. When an error is returned, nothing has been written. The one exception: if memory
/// runs out while rows are recomputed by rule 6 of the contract, results may be partly written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A slice is too short (or too long) for its shape.
    Length {
        /// Which argument.
        what: &'static str,
        /// Elements that the shape requires.
        expected: usize,
        /// Elements in the slice.
        found: usize,
    },
    /// An argument does not have the shape that the operation requires.
    Shape {
        /// Which argument.
        what: &'static str,
        /// Required shape.
        expected: Vec<usize>,
        /// Actual shape.
        found: Vec<usize>,
    },
    /// The shape has more elements than fit in memory.
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Memory for the call could not be allocated.
    OutOfMemory {
        /// Bytes requested; `usize::MAX` if the number does not fit in a `usize`.
        bytes: usize,
    },
    /// A tensor has too many dimensions.
    Rank {
        /// Largest number supported.
        max: usize,
        /// Actual number.
        found: usize,
    },
    /// A tensor has too few dimensions for the operation.
    TooFewDimensions {
        /// Which argument.
        what: &'static str,
        /// Smallest number required.
        min: usize,
        /// Actual number.
        found: usize,
    },
    /// Shape and strides have different lengths.
    StrideCount {
        /// Dimensions of the shape.
        expected: usize,
        /// Number of strides.
        found: usize,
    },
    /// A strided view reaches beyond its memory.
    OutOfBounds {
        /// Lowest element that the view would touch.
        first: isize,
        /// Highest element that the view would touch.
        last: isize,
        /// Number of elements in the memory.
        len: usize,
    },
    /// Two elements of a mutable view occupy the same memory.
    Overlap {
        /// Shape of the view.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<isize>,
    },
    /// An axis does not exist in the tensor.
    Axis {
        /// The axis.
        axis: isize,
        /// Dimensions of the tensor.
        rank: usize,
    },
    /// An axis is listed twice.
    RepeatedAxis {
        /// The axis.
        axis: usize,
    },
    /// ε is negative, infinite or NaN.
    Epsilon {
        /// The value of ε.
        found: f64,
    },
    /// The number of groups does not divide the number of channels.
    Groups {
        /// Number of groups.
        groups: usize,
        /// Number of channels.
        channels: usize,
    },
    /// Batch norm's momentum is not between 0 and 1.
    Momentum {
        /// The momentum.
        found: f64,
    },
    /// Batch norm in training got a single value per channel, whose variance is meaningless.
    SingleValue {
        /// Shape of the tensor.
        shape: Vec<usize>,
    },
    /// The number of threads is 0.
    Threads,
    /// No instruction set has this name.
    UnknownIsa {
        /// The name.
        name: String,
    },
    /// This machine lacks the requested instruction set.
    MissingIsa {
        /// Requested instruction set.
        isa: Isa,
        /// Instruction sets that the machine has.
        available: Vec<Isa>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Length { what, expected, found } => {
                write!(f, "{what}: expected {expected} elements, found {found}")
            }
            Error::Shape { what, expected, found } => write!(f, "{what}: expected shape {expected:?}, found {found:?}"),
            Error::TooLarge { shape } => write!(f, "shape {shape:?} has more elements than memory can hold"),
            Error::OutOfMemory { bytes: usize::MAX } => {
                write!(f, "out of memory: more bytes are needed than can be addressed")
            }
            Error::OutOfMemory { bytes } => write!(f, "out of memory: {bytes} bytes could not be allocated"),
            Error::Rank { max, found } => write!(f, "expected at most {max} dimensions, found {found}"),
            Error::TooFewDimensions { what, min, found } => {
                write!(f, "{what}: expected at least {min} dimensions, found {found}")
            }
            Error::StrideCount { expected, found } => {
                write!(f, "expected {expected} strides, one per dimension, found {found}")
            }
            Error::OutOfBounds { first, last, len } => {
                write!(f, "the view covers elements {first} to {last}, but the memory has {len}")
            }
            Error::Overlap { shape, strides } => {
                write!(f, "elements of the output overlap: shape {shape:?} with strides {strides:?}")
            }
            Error::Axis { axis, rank } => write!(f, "axis {axis} does not exist in a tensor of {rank} dimensions"),
            Error::RepeatedAxis { axis } => write!(f, "axis {axis} is listed twice"),
            Error::Epsilon { found } => write!(f, "eps: expected a finite number, 0 or more, found {found}"),
            Error::Groups { groups, channels } => {
                write!(f, "groups: expected a divisor of the {channels} channels, found {groups}")
            }
            Error::Momentum { found } => write!(f, "momentum: expected a number from 0 to 1, found {found}"),
            Error::SingleValue { shape } => {
                write!(f, "batch norm in training: expected more than one value per channel, found shape {shape:?}")
            }
            Error::Threads => write!(f, "threads: expected 1 or more, found 0"),
            Error::UnknownIsa { name } => {
                let names = Isa::ALL.map(Isa::name).join(", ");
                write!(f, "instruction set: expected one of {names}, found {name:?} ({ISA_VARIABLE} can also set it)")
            }
            Error::MissingIsa { isa, available } => {
                let names: Vec<_> = available.iter().map(|isa| isa.name()).collect();
                write!(f, "instruction set {isa} is not available on this machine, which has {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}

/// Returns `Ok` if the shapes are equal, otherwise an error that names the argument.
pub(crate) fn same_shape(what: &'static str, expected: &[usize], found: &[usize]) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() })
    }
}

//! What can be wrong with a call, with what was expected and what came.

use crate::arch::{ISA_VARIABLE, Isa};
use std::fmt;

/// Why a call was refused. Nothing has been written when an error is returned; only where memory is missing for rows that rule 6
/// of the contract does again, results may be written in part.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A slice is too short (or too long) for the shape it was given with.
    Length {
        /// Which argument.
        what: &'static str,
        /// Elements that the shape needs.
        expected: usize,
        /// Elements that came.
        found: usize,
    },
    /// An argument has another shape than the operation needs.
    Shape {
        /// Which argument.
        what: &'static str,
        /// The shape needed.
        expected: Vec<usize>,
        /// The shape that came.
        found: Vec<usize>,
    },
    /// The number of elements of a shape does not fit into memory.
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Memory that the call needs is not to be had.
    OutOfMemory {
        /// Bytes asked for; `usize::MAX` if they are more than can be counted.
        bytes: usize,
    },
    /// A tensor has too many dimensions.
    Rank {
        /// The most that are possible.
        max: usize,
        /// The number that came.
        found: usize,
    },
    /// A tensor has too few dimensions for the operation.
    TooFewDimensions {
        /// Which argument.
        what: &'static str,
        /// The least number needed.
        min: usize,
        /// The number that came.
        found: usize,
    },
    /// Shape and strides have different lengths.
    StrideCount {
        /// Dimensions of the shape.
        expected: usize,
        /// Strides that came.
        found: usize,
    },
    /// A strided view reaches outside its memory.
    OutOfBounds {
        /// The lowest element that the view would touch.
        first: isize,
        /// The highest element that the view would touch.
        last: isize,
        /// Elements of the memory.
        len: usize,
    },
    /// Two elements of a view for writing lie in the same place.
    Overlap {
        /// The shape of the view.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<isize>,
    },
    /// An axis does not exist in the tensor.
    Axis {
        /// The axis that came.
        axis: isize,
        /// Dimensions of the tensor.
        rank: usize,
    },
    /// An axis was named twice.
    RepeatedAxis {
        /// The axis.
        axis: usize,
    },
    /// ε is negative, infinite or NaN.
    Epsilon {
        /// The ε that came.
        found: f64,
    },
    /// The number of groups does not divide the channels.
    Groups {
        /// Groups asked for.
        groups: usize,
        /// Channels there are.
        channels: usize,
    },
    /// Batch norm's momentum is not in 0..=1.
    Momentum {
        /// The momentum that came.
        found: f64,
    },
    /// Batch norm in training got a single value a channel: its variance says nothing.
    SingleValue {
        /// The shape of the tensor.
        shape: Vec<usize>,
    },
    /// The number of threads is 0.
    Threads,
    /// No instruction set has this name.
    UnknownIsa {
        /// The name that came.
        name: String,
    },
    /// This machine lacks the instruction set that was asked for.
    MissingIsa {
        /// The one asked for.
        isa: Isa,
        /// Those that the machine has.
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
                write!(f, "out of memory: more bytes are needed than an address can count")
            }
            Error::OutOfMemory { bytes } => write!(f, "out of memory: {bytes} bytes could not be allocated"),
            Error::Rank { max, found } => write!(f, "expected at most {max} dimensions, found {found}"),
            Error::TooFewDimensions { what, min, found } => {
                write!(f, "{what}: expected at least {min} dimensions, found {found}")
            }
            Error::StrideCount { expected, found } => {
                write!(f, "expected {expected} strides, one a dimension, found {found}")
            }
            Error::OutOfBounds { first, last, len } => {
                write!(f, "the view reaches elements {first} to {last} of memory that has {len}")
            }
            Error::Overlap { shape, strides } => {
                write!(f, "elements of the output overlap: shape {shape:?} with strides {strides:?}")
            }
            Error::Axis { axis, rank } => write!(f, "axis {axis} does not exist in a tensor of {rank} dimensions"),
            Error::RepeatedAxis { axis } => write!(f, "axis {axis} is named twice"),
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
                write!(f, "instruction set: expected one of {names}, found {name:?} (also set by {ISA_VARIABLE})")
            }
            Error::MissingIsa { isa, available } => {
                let names: Vec<_> = available.iter().map(|isa| isa.name()).collect();
                write!(f, "instruction set {isa} is not on this machine, which has {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}

/// `Ok` if the shapes are equal, else an error that names the argument.
pub(crate) fn same_shape(what: &'static str, expected: &[usize], found: &[usize]) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() })
    }
}

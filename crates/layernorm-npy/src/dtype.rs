//! The element types: their names, storage and byte representation.

use std::fmt;

use half::f16;

/// The type of an array's elements. Displays as its NumPy name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// `float16`, IEEE 754 binary16
    F16,
    /// `float32`
    F32,
    /// `float64`
    F64,
    /// `int32`
    I32,
    /// `int64`
    I64,
    /// `uint8`
    U8,
}

impl DType {
    /// All types, in the order in which messages list them.
    pub const ALL: [Self; 6] = [Self::F16, Self::F32, Self::F64, Self::I32, Self::I64, Self::U8];

    /// NumPy's name: `float16`, `float32`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
            Self::U8 => 1,
        }
    }

    /// The type code in a header, after the byte order: `f4`.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::F16 => "f2",
            Self::F32 => "f4",
            Self::F64 => "f8",
            Self::I32 => "i4",
            Self::I64 => "i8",
            Self::U8 => "u1",
        }
    }

    /// The type as written to a header: little-endian, without a byte order for one-byte types.
    pub(crate) const fn descr(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Elements of one of the supported types, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// `float16`
    F16(Vec<f16>),
    /// `float32`
    F32(Vec<f32>),
    /// `float64`
    F64(Vec<f64>),
    /// `int32`
    I32(Vec<i32>),
    /// `int64`
    I64(Vec<i64>),
    /// `uint8`
    U8(Vec<u8>),
}

/// Evaluates one expression over the elements of a [`Data`], whatever their type.
macro_rules! with_elements {
    ($data:expr, $values:ident => $result:expr) => {
        match $data {
            $crate::Data::F16($values) => $result,
            $crate::Data::F32($values) => $result,
            $crate::Data::F64($values) => $result,
            $crate::Data::I32($values) => $result,
            $crate::Data::I64($values) => $result,
            $crate::Data::U8($values) => $result,
        }
    };
}
pub(crate) use with_elements;

impl Data {
    /// The elements' type.
    pub const fn dtype(&self) -> DType {
        match self {
            Self::F16(_) => DType::F16,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
            Self::U8(_) => DType::U8,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        with_elements!(self, values => values.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A Rust type for elements of `.npy` files: [`struct@f16`], `f32`, `f64`, `i32`, `i64` and `u8`.
///
/// Sealed: the types are those of [`DType`].
pub trait Scalar: Copy + bytes::Bytes {
    /// The [`DType`] of this type.
    const DTYPE: DType;

    /// Wraps elements of this type as [`Data`].
    fn wrap(values: Vec<Self>) -> Data;

    /// The elements, if they have this type.
    fn slice(data: &Data) -> Option<&[Self]>;

    /// The elements by value, if they have this type; otherwise `data` unchanged.
    fn take(data: Data) -> Result<Vec<Self>, Data>;
}

/// Private, so that no other type can be a [`Scalar`].
pub(crate) mod bytes {
    /// Converts from and to the bytes of a file, a piece at a time.
    pub trait Bytes: Sized {
        /// Appends the elements that `bytes` holds; bytes after the last whole element are ignored.
        fn decode(bytes: &[u8], big_endian: bool, out: &mut Vec<Self>);

        /// Appends the little-endian bytes of `values`.
        fn encode(values: &[Self], out: &mut Vec<u8>);
    }
}

macro_rules! scalar {
    ($type:ty, $variant:ident) => {
        impl Scalar for $type {
            const DTYPE: DType = DType::$variant;

            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }

            fn slice(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn take(data: Data) -> Result<Vec<Self>, Data> {
                match data {
                    Data::$variant(values) => Ok(values),
                    other => Err(other),
                }
            }
        }

        impl bytes::Bytes for $type {
            fn decode(bytes: &[u8], big_endian: bool, out: &mut Vec<Self>) {
                let (elements, _) = bytes.as_chunks::<{ size_of::<Self>() }>();
                // Two loops, so that each is a plain copy or a plain byte swap.
                if big_endian {
                    out.extend(elements.iter().map(|bytes| Self::from_be_bytes(*bytes)));
                } else {
                    out.extend(elements.iter().map(|bytes| Self::from_le_bytes(*bytes)));
                }
            }

            fn encode(values: &[Self], out: &mut Vec<u8>) {
                for value in values {
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
    };
}

scalar!(f16, F16);
scalar!(f32, F32);
scalar!(f64, F64);
scalar!(i32, I32);
scalar!(i64, I64);
scalar!(u8, U8);

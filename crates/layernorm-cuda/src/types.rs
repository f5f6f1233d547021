//! Types of the public calls: element types, rows in device memory, parameters, statistics.

use crate::error::Error;
use crate::layout::device_struct;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// IEEE single precision, 32 bits.
    F32,
    /// IEEE half precision: 16 bits, 5 of them exponent.
    F16,
    /// bfloat16: 16 bits, 8 of them exponent.
    Bf16,
    /// IEEE double precision, 64 bits.
    F64,
}

impl Type {
    /// All element types.
    pub const ALL: [Type; 4] = [Type::F32, Type::F16, Type::Bf16, Type::F64];

    /// Bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            Type::F32 => 4,
            Type::F16 | Type::Bf16 => 2,
            Type::F64 => 8,
        }
    }

    /// Bytes of the arithmetic type, which is also the type of the statistics.
    pub fn accumulator_bytes(self) -> usize {
        if self == Type::F64 { 8 } else { 4 }
    }

    /// Bytes of a scaled row's statistics, as the kernels store them: three numbers and an exponent.
    pub(crate) fn line_bytes(self) -> usize {
        4 * self.accumulator_bytes()
    }

    /// Elements per 16-byte vector.
    pub(crate) fn per_vector(self) -> usize {
        16 / self.bytes()
    }

    /// The value of `ELEM` in the kernels.
    pub(crate) fn number(self) -> u32 {
        match self {
            Type::F32 => 0,
            Type::F16 => 1,
            Type::Bf16 => 2,
            Type::F64 => 3,
        }
    }
}

/// Asserts the size of `Line` in the kernels.
pub(crate) fn lines_assertion() -> String {
    let size = |element: Type| {
        format!("static_assert(sizeof(Line) == {}, \"Line: size differs from the host's\");\n", element.line_bytes())
    };
    format!("#if ELEM == F64\n{}#else\n{}#endif\n", size(Type::F64), size(Type::F32))
}

/// Rows in device memory: the address of element 0 of row 0, and the stride from row to row. The elements of a row are
/// contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Device address.
    pub address: u64,
    /// Stride from row to row, in elements.
    pub stride: i64,
}

/// γ, β or one of their gradients: contiguous, in the input's type or f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Device address.
    pub address: u64,
    /// Whether it is f32; otherwise it has the input's type.
    pub f32: bool,
}

/// The value of `GAIN` and `BIAS` in the kernels: 0 absent, 1 the input's type, 2 f32.
pub(crate) fn kind(param: Option<Param>, element: Type) -> u32 {
    match param {
        None => 0,
        Some(param) if param.f32 && element != Type::F32 => 2,
        Some(_) => 1,
    }
}

pub(crate) fn address(param: Option<Param>) -> u64 {
    param.map_or(0, |param| param.address)
}

/// γ and β, each optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affine {
    /// γ.
    pub gain: Option<Param>,
    /// β.
    pub bias: Option<Param>,
    /// Whether the gain is 1 + γ (zero-centered).
    pub zero_centered: bool,
}

/// Device addresses of m, δ and r, one of each per row (batch norm: per channel), in the arithmetic type. For RMS norm,
/// `m` and `delta` may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The rounded mean m.
    pub m: u64,
    /// δ, the rounding error of m.
    pub delta: u64,
    /// r = 1/σ.
    pub rstd: u64,
}

/// Scratch device memory provided by the caller. Its contents need not be kept between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Device address, a multiple of 16.
    pub address: u64,
    /// Size in bytes.
    pub bytes: usize,
}

impl Workspace {
    /// No workspace.
    pub const NONE: Workspace = Workspace { address: 0, bytes: 0 };

    pub(crate) fn check(&self, expected: usize) -> Result<(), Error> {
        if self.bytes < expected {
            return Err(Error::Workspace { expected, found: self.bytes });
        }
        if expected > 0 && !self.address.is_multiple_of(16) {
            let why = format!("its address {:#x} is not a multiple of 16", self.address);
            return Err(Error::Operand { what: "workspace", why });
        }
        Ok(())
    }
}

device_struct! {
    /// N or M in the arithmetic type, and its inverse if that is exact, else 0.
    pub(crate) struct Count<A> as "Count" {
        n: A,
        inverse: A,
    }
}

/// The two arithmetic types, f32 and f64.
pub(crate) trait Accumulator: Copy {
    fn from_f64(value: f64) -> Self;
    /// ε, with −0 turned into 0: sqrt(−0) is −0, which would flip every sign.
    fn eps(value: f64) -> Self {
        Self::from_f64(value + 0.0)
    }
    fn count(n: usize) -> Count<Self>;
}

/// Calls a method that is generic over the arithmetic type, with the one of an element type.
macro_rules! with_accumulator {
    ($element:expr, $self:ident.$method:ident($($argument:expr),* $(,)?)) => {
        match $element {
            $crate::types::Type::F64 => $self.$method::<f64>($($argument),*),
            _ => $self.$method::<f32>($($argument),*),
        }
    };
}
pub(crate) use with_accumulator;

impl Accumulator for f32 {
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    fn count(n: usize) -> Count<f32> {
        Count { n: n as f32, inverse: if n.is_power_of_two() { 1.0 / n as f32 } else { 0.0 } }
    }
}

impl Accumulator for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }
    fn count(n: usize) -> Count<f64> {
        Count { n: n as f64, inverse: if n.is_power_of_two() { 1.0 / n as f64 } else { 0.0 } }
    }
}

/// The product, or `usize::MAX` on overflow. No memory is that large, so the call is rejected.
pub(crate) fn product(factors: &[usize]) -> usize {
    // A factor of 0 makes the product 0, even if the others would overflow before it is reached.
    if factors.contains(&0) { 0 } else { factors.iter().fold(1, |product, &factor| product.saturating_mul(factor)) }
}

/// Bytes rounded up to 16, the alignment of the parts of a workspace.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(16).unwrap_or(usize::MAX)
}

/// The product of sizes. Fails if the kernels, which count elements and bytes in signed 64-bit integers, could
/// overflow.
pub(crate) fn counted(what: &str, factors: &[usize]) -> Result<usize, Error> {
    /// No element takes more than 64 bytes, over all tensors and saved values.
    const MOST: usize = (i64::MAX / 64) as usize;
    let product = product(factors);
    if product <= MOST { Ok(product) } else { Err(Error::Shape { why: format!("{what}: {factors:?} is too large") }) }
}

/// Checks that ε is finite and 0 or more in the arithmetic type.
pub(crate) fn check_eps(eps: f64, element: Type) -> Result<(), Error> {
    let rounded = if element == Type::F64 { eps } else { f64::from(eps as f32) };
    if eps >= 0.0 && rounded.is_finite() { Ok(()) } else { Err(Error::Epsilon { found: eps }) }
}

/// Checks that an operand's address is not null and is aligned to its element size.
pub(crate) fn check_address(what: &'static str, address: u64, bytes: usize) -> Result<(), Error> {
    if address == 0 {
        return Err(Error::Operand { what, why: "the address is null".into() });
    }
    if !address.is_multiple_of(bytes as u64) {
        let why = format!("its address {address:#x} is not a multiple of {bytes}, the size of an element");
        return Err(Error::Operand { what, why });
    }
    Ok(())
}

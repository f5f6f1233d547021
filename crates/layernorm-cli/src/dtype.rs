//! The four element types by name, and what the checks need to know about each.

use clap::ValueEnum;
use layernorm::{Element, bf16, f16};
use serde::Serialize;
use std::fmt;

/// An element type by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit float
    F32,
    /// 64-bit float
    F64,
    /// 16-bit IEEE 754 float
    F16,
    /// 16-bit brain float, the upper half of a 32-bit float
    Bf16,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
        })
    }
}

/// Access to the bits of a number.
pub trait Bits: Copy {
    /// The bits; all NaNs map to the same ones.
    fn bits(self) -> u64;
}

/// An element type whose bits and precision are known.
pub trait Type: Element<Acc: Bits> + Bits {
    /// Its name.
    const DTYPE: Dtype;
    /// Half a unit in the last place of 1: the largest relative error of rounding to this type.
    const ROUNDOFF: f64;
    /// The same for the type that arithmetic is done in.
    const ARITHMETIC: f64;
    /// The smallest positive number: the rounding error where the relative bound does not apply.
    const TINY: f64;
    /// A value near the upper end of the range, whose square overflows the arithmetic type if that is possible at all.
    const HUGE: f64;
}

macro_rules! types {
    ($($t:ty, $dtype:expr, digits $digits:expr, arithmetic $arithmetic:expr, tiny $tiny:expr, huge $huge:expr;)*) => {$(
        impl Type for $t {
            const DTYPE: Dtype = $dtype;
            const ROUNDOFF: f64 = 1.0 / (1u64 << $digits) as f64;
            const ARITHMETIC: f64 = 1.0 / (1u64 << $arithmetic) as f64;
            const TINY: f64 = $tiny;
            const HUGE: f64 = $huge;
        }

        impl Bits for $t {
            fn bits(self) -> u64 {
                if self.is_nan() { u64::MAX } else { u64::from(self.to_bits()) }
            }
        }
    )*};
}

types! {
    f32, Dtype::F32, digits 24, arithmetic 24, tiny 1.5e-45, huge 3e38;
    f64, Dtype::F64, digits 53, arithmetic 53, tiny 5e-324, huge 1.7e308;
    f16, Dtype::F16, digits 11, arithmetic 24, tiny 6e-8, huge 6e4;
    bf16, Dtype::Bf16, digits 8, arithmetic 24, tiny 1e-40, huge 3e38;
}

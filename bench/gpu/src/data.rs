//! Inputs: plain ones, and rows that broke other libraries or overflow.

use half::{bf16, f16};
use layernorm::Element;
use layernorm::parts::SplitMix64;
use layernorm_cuda::Type;
use layernorm_cuda::memory::Plain;

/// An element type, on the CPU and the GPU.
pub trait Number: Element<Acc: Plain> + Plain {
    /// The element type on the GPU.
    const TYPE: Type;
    /// A magnitude near the end of the range. Except for f16, sums of its squares overflow the arithmetic type.
    const HUGE: f64;
    /// Rounds to nearest.
    fn from_f64(value: f64) -> Self;
    /// All bits, with every NaN mapped to the same value.
    fn bits(self) -> u64;
}

macro_rules! number {
    ($t:ty, $kind:expr, $huge:expr, $from:expr) => {
        impl Number for $t {
            const TYPE: Type = $kind;
            const HUGE: f64 = $huge;
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            fn bits(self) -> u64 {
                #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
                if self != self { u64::MAX } else { self.to_bits() as u64 }
            }
        }
    };
}

number!(f32, Type::F32, 1e37, |value| value as f32);
number!(f64, Type::F64, 1e307, |value| value);
number!(f16, Type::F16, 6e4, f16::from_f64);
number!(bf16, Type::Bf16, 1e37, bf16::from_f64);

/// Pseudorandom numbers from a seed.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678))
    }

    /// Approximately normal: the sum of four uniform numbers, mean 0, variance 1/3.
    pub fn normal(&mut self) -> f64 {
        let bits = self.0.next_u64();
        (0..4).map(|i| f64::from((bits >> (16 * i)) as u16) / 65536.0 - 0.5).sum()
    }
}

/// What the rows are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Normally distributed numbers.
    Plain,
    /// Each row of a different kind: large means, constants, overflow, subnormals, NaN, infinity.
    Hard,
    /// So large that the sums for γ and β overflow; no NaN.
    Large,
    /// As [`Mood::Hard`], but all finite and with plain gradients. For long rows, where recomputing sums for γ and β is
    /// slow.
    Long,
    /// Some rows whose sums overflow, although no sum down a column does. For gradients.
    Steep,
    /// Rows whose squares underflow, constant rows of every magnitude, and plain gradients. For an ε that is 0 or tiny.
    Small,
}

/// Rows of a mood.
pub fn rows<T: Number>(rows: usize, n: usize, mood: Mood, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(rows * n);
    for row in 0..rows {
        let kind = match mood {
            Mood::Plain => 0,
            Mood::Hard => (row * 7 + seed as usize) % 13,
            Mood::Large => 3 * (row % 2),
            Mood::Steep => 13 * usize::from(row % 29 == 5),
            Mood::Small => [14, 15, 0, 16, 8, 9, 17, 10, 4][(row + seed as usize) % 9],
            Mood::Long => [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12][(row + seed as usize) % 11],
        };
        for i in 0..n {
            let z = random.normal();
            let value = match kind {
                1 => 1e6 + z,
                2 => 100.0 + 0.01 * z,
                3 => T::HUGE * (1.0 + 2.0 * z),
                4 => 1.5,
                5 => 1e-30 * z,
                6 if i == n / 2 => f64::NAN,
                7 if i == n / 3 => f64::INFINITY,
                8 => 0.0,
                9 => -T::HUGE * 3.0,
                10 => 1e-42 * (z * 1e3).round(),
                11 => T::HUGE * if i % 2 == 0 { 9.9 } else { -9.9 },
                12 => 40000.0 + i as f64,
                13 => T::HUGE * 0.2 * (1.0 + 2.0 * z),
                14 => T::HUGE.powf(-0.65) * z,
                15 => 0.01 / T::HUGE * (1.0 + z),
                16 => -T::HUGE.powf(-0.8),
                17 => T::HUGE.powf(-0.5) * (1.0 + z),
                _ => z,
            };
            out.push(T::from_f64(value));
        }
    }
    out
}

/// Parameters: around one, some of them hard.
pub fn params<T: Number>(n: usize, mood: Mood, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed ^ 0x5555);
    let value = |i: usize, z: f64| match (mood, i % 11) {
        (Mood::Hard, 3) => T::HUGE * z,
        (Mood::Hard, 5) => 1e-38 * z,
        (Mood::Hard, 7) => 0.0,
        _ => 1.0 + 0.3 * z,
    };
    (0..n).map(|i| T::from_f64(value(i, random.normal()))).collect()
}

/// Reports the first place where the two differ.
pub fn difference<T: Number>(what: &str, ours: &[T], cpu: &[T]) -> Result<(), String> {
    let count = ours.iter().zip(cpu).filter(|(a, b)| a.bits() != b.bits()).count();
    match ours.iter().zip(cpu).position(|(a, b)| a.bits() != b.bits()) {
        None => Ok(()),
        Some(at) => {
            Err(format!("{what}: {count} of {} differ, first at {at}: {:?}, CPU {:?}", cpu.len(), ours[at], cpu[at]))
        }
    }
}

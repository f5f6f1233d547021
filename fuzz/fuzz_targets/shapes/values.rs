//! Values of the elements.

use crate::bytes::Bytes;
use layernorm::parts::SplitMix64;
use layernorm::{Element, Float};

/// Numbers at the limits of the arithmetic, in f16, f32 and f64.
const EXTREMES: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    65504.0,
    6e-8,
    f32::MAX as f64,
    f32::MIN as f64,
    f32::MIN_POSITIVE as f64,
    1e-45,
    1.5e19,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    1e154,
];

/// Returns a generator of a tensor's numbers, called once per element.
pub fn values<T: Element>(bytes: &mut Bytes) -> impl FnMut() -> T + use<T> {
    let narrow = |value: f64| T::narrow(T::Acc::from_f64(value));
    let mut random = Random(SplitMix64::new(bytes.word()));
    let pool: [T; 8] = match bytes.below(8) {
        // Arbitrary bits: every NaN, infinity and subnormal number of the type.
        0 => std::array::from_fn(|_| narrow(any_bits::<T>(bytes.word()))),
        1 => std::array::from_fn(|_| narrow(bytes.of(&EXTREMES))),
        2 => [narrow(any_bits::<T>(bytes.word())); 8],
        _ => std::array::from_fn(|_| narrow(random.uniform())),
    };
    let smooth = bytes.below(2) == 0;
    let range = if size_of::<T::Acc>() == 8 { 1000 } else { 120 };
    let power = |byte: u8| 2f64.powi((i32::from(byte) - 128) * range / 128);
    let (mean, scale) = match bytes.below(4) {
        0 => (power(bytes.byte()), power(bytes.byte())),
        1 => (0.0, power(bytes.byte())),
        2 => (1000.0, 1.0),
        _ => (0.0, 1.0),
    };
    move || if smooth { narrow(mean + scale * random.uniform()) } else { pool[random.word() as usize % 8] }
}

fn any_bits<T: Element>(word: u64) -> f64 {
    if size_of::<T::Acc>() == 8 { f64::from_bits(word) } else { f64::from(f32::from_bits(word as u32)) }
}

/// Random numbers of a tensor.
struct Random(SplitMix64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in −1..1.
    fn uniform(&mut self) -> f64 {
        (self.word() >> 10) as f64 / (1u64 << 53) as f64 - 1.0
    }
}

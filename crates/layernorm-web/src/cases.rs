//! Random cases, and a checksum over the bits of their results: two machines that print the same checksum compute the
//! same numbers.
//!
//! A case depends on the seed and its number alone. Five in eight are norms, forward and backward, two are recurrent
//! cells, and one is a chain of fused multiply-adds of arbitrary bits. Inputs are made with integers and exact
//! multiplications only, so that they are the same everywhere. A NaN counts as one value, because its sign and payload
//! are not specified.

use crate::cells::{self, Sequence};
use crate::error::Error;
use crate::norms::{Kind, Norm};
use layernorm::Context;
use layernorm::parts::SplitMix64;
use layernorm_rnn::{Config, Runner, Variant};

/// Runs cases.
#[derive(Debug)]
pub struct Cases {
    context: Context,
    runner: Runner<f32>,
}

/// Computes the checksum of the cases 0 to `count` of a seed.
pub fn checksum(seed: u64, count: u64) -> Result<u64, Error> {
    let mut cases = Cases::new()?;
    let mut sum = Hash::new();
    for number in 0..count {
        sum.add(cases.hash(seed, number)?);
    }
    Ok(sum.finish())
}

impl Cases {
    /// Prepares to run cases.
    pub fn new() -> Result<Cases, Error> {
        Ok(Cases { context: Context::new().with_threads(1)?, runner: cells::runner()? })
    }

    /// Runs one case and returns a hash of the bits of its results.
    pub fn hash(&mut self, seed: u64, number: u64) -> Result<u64, Error> {
        let mut random = SplitMix64::stream(seed, number);
        let mut hash = Hash::new();
        match random.below(8) {
            0..5 => self.norm(&mut random, &mut hash)?,
            5 | 6 => self.cell(&mut random, &mut hash)?,
            _ => self.fused(&mut random, &mut hash)?,
        }
        Ok(hash.finish())
    }

    fn norm(&mut self, random: &mut SplitMix64, hash: &mut Hash) -> Result<(), Error> {
        let norm = random_norm(random);
        let forward = norm.forward(&mut self.context)?;
        let dy = tensor(random, norm.x.len(), norm.shape[norm.shape.len() - 1], true);
        let backward = norm.backward(&dy, &forward.saved, &mut self.context)?;
        let saved = &forward.saved;
        for numbers in [&forward.y, &saved.m, &saved.delta, &saved.rstd, &backward.dx, &backward.dgain, &backward.dbias]
        {
            hash.floats(numbers);
        }
        Ok(())
    }

    fn cell(&mut self, random: &mut SplitMix64, hash: &mut Hash) -> Result<(), Error> {
        let (_, kind) = pick(random, &cells::KINDS);
        let variants: Vec<_> = Variant::all(kind).collect();
        let config = Config::new(*pick(random, &variants), 1 + below(random, 9), 1 + below(random, 24));
        let (steps, batch) = (1 + below(random, 5), 1 + below(random, 4));
        let count = layernorm_rnn::Params::<f32>::zeros(&config)?.values().len();
        let state = batch * config.hidden;
        let x = tensor(random, steps * batch * config.input, config.input, false);
        let parameters = (0..count).map(|_| 2.0 * signed(random)).collect();
        let h0 = coin(random).then(|| (0..state).map(|_| signed(random)).collect());
        let c0 = (config.has_cell() && coin(random)).then(|| (0..state).map(|_| 3.0 * signed(random)).collect());
        self.sequence(&Sequence { config, steps, batch, x, parameters, h0, c0 }, hash)
    }

    /// a·b + c in every unit of an RNN: W has the rows `[c, a]` and the input is `[1, b]`, so the product is the chain
    /// fma(a, b, fma(c, 1, 0)). The activation is max(0, z), and half of the units have the signs of a and c reversed.
    fn fused(&mut self, random: &mut SplitMix64, hash: &mut Hash) -> Result<(), Error> {
        let variant = Variant::named(layernorm_rnn::Kind::Rnn, "none-relu")?;
        let config = Config::new(variant, 2, 2 * (1 + below(random, 20)));
        let mut parameters = vec![0.0; layernorm_rnn::Params::<f32>::zeros(&config)?.values().len()];
        // A third of the products lie next to a power of two, so that sums lie next to the middle between two numbers.
        let (b, d) = if random.below(3) == 0 { near_power(random) } else { (finite(random), 0) };
        // W is the first parameter.
        for rows in parameters[..2 * config.hidden].chunks_mut(4) {
            let (a, c) = if d == 0 { any_factors(random, b) } else { near_tie(random, b, d) };
            rows.copy_from_slice(&[c, a, -c, -a]);
        }
        let sequence = Sequence { config, steps: 1, batch: 1, x: vec![1.0, b], parameters, h0: None, c0: None };
        self.sequence(&sequence, hash)
    }

    fn sequence(&mut self, sequence: &Sequence, hash: &mut Hash) -> Result<(), Error> {
        let states = sequence.run(&mut self.runner)?;
        hash.floats(&states.h);
        hash.floats(&states.c);
        Ok(())
    }
}

fn random_norm(random: &mut SplitMix64) -> Norm {
    let (_, kind) = pick(random, &Kind::NAMES);
    let mut groups = 1;
    let shape = match kind {
        Kind::Layer | Kind::Rms | Kind::Weight => vec![1 + below(random, 6), width(random)],
        Kind::Batch => vec![1 + width(random) / 8, 1 + below(random, 20)],
        Kind::Group | Kind::Instance => {
            let each = 1 + below(random, 4);
            let channels = 1 + below(random, 4);
            groups = if kind == Kind::Group { channels } else { 1 };
            vec![1 + below(random, 3), channels * each, 1 + width(random) / 8]
        }
    };
    let x = tensor(random, shape.iter().product(), shape[shape.len() - 1], true);
    let eps = pick(random, &[1e-5, 0.0, 1e-12, 1e-3, 1.0]);
    let mut norm = Norm { kind, x, shape, gain: None, bias: None, eps, groups };
    let count = norm.parameters();
    let mut parameter = || coin(random).then(|| (0..count).map(|_| 2.0 * signed(random)).collect());
    (norm.gain, norm.bias) = (parameter(), parameter());
    norm.bias = norm.bias.filter(|_| kind != Kind::Weight);
    norm
}

/// Returns the length of a row: mostly short, sometimes beyond the blocks in which sums are taken.
fn width(random: &mut SplitMix64) -> usize {
    let most = pick(random, &[40, 40, 40, 40, 300, 300, 300, 1500]);
    1 + below(random, most)
}

/// Returns numbers in rows, of which each has its own difficulty.
fn tensor(random: &mut SplitMix64, count: usize, width: usize, hard: bool) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let row = width.min(count - numbers.len());
        let start = numbers.len();
        // Half of the rows are ordinary; in cells, where a NaN stays in the state, seven of eight.
        match random.below(if hard { 20 } else { 80 }) {
            0 => numbers.extend((0..row).map(|_| 1e6 + signed(random))),
            1 => numbers.extend((0..row).map(|_| 1.0 + signed(random) * 1e-6)),
            2 => numbers.extend((0..row).map(|_| 1e30 * signed(random))),
            3 => numbers.extend((0..row).map(|_| f32::from_bits(random.next_u64() as u32 & 0x807F_FFFF))),
            4 => numbers.extend((0..row).map(|_| 1e-30 * signed(random))),
            5 => numbers.extend((0..row).map(|_| finite(random))),
            6 => numbers.resize(start + row, signed(random)),
            7 => numbers.extend((0..row).map(|_| if coin(random) { 0.0 } else { -0.0 })),
            8 => {
                numbers.extend((0..row).map(|_| signed(random)));
                numbers[start + below(random, row)] = pick(random, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
            }
            9 => numbers.extend((0..row).map(|_| f32::MAX * signed(random))),
            _ => numbers.extend((0..row).map(|_| 3.0 * signed(random))),
        }
    }
    numbers
}

/// Returns a and c of a·b + c with a = any number and c any number, near −a·b, or much larger than a·b.
fn any_factors(random: &mut SplitMix64, b: f32) -> (f32, f32) {
    let a = finite(random);
    let product = a * b;
    let c = match random.below(3) {
        0 => finite(random),
        1 => f32::from_bits((-product).to_bits().wrapping_add(random.below(9) as u32).wrapping_sub(4)),
        _ => product * power(20 + below(random, 10) as i32) * signed(random),
    };
    (a, if c.is_finite() { c } else { finite(random) })
}

/// Returns b = (1 + d·2⁻²³)·2^e, and d, which is not 0.
fn near_power(random: &mut SplitMix64) -> (f32, i32) {
    let d = pick(random, &[-3, -2, -1, 1, 2, 3]);
    ((1.0 + d as f32 * f32::EPSILON) * power(below(random, 200) as i32 - 100), d)
}

/// Returns a and c such that a·b = ±(1 − d²·2⁻⁴⁶) times a power of two is half a unit of c, or half of the smallest
/// subnormal: a·b + c is nearer to the middle between two numbers than an f64 can tell.
fn near_tie(random: &mut SplitMix64, b: f32, d: i32) -> (f32, f32) {
    let of_b = (b.to_bits() >> 23) as i32 - 127 + i32::from(d < 0);
    let subnormal = coin(random);
    // The exponents of a and c.
    let of_a = if subnormal {
        (-150 - of_b).clamp(-126, 126)
    } else {
        (below(random, 100) as i32 - 50).clamp(-120 - of_b, 100 - of_b)
    };
    let a = (1.0 - d as f32 * f32::EPSILON) * power(of_a.clamp(-126, 126));
    let mantissa = 1.0 + (random.next_u64() >> 41) as f32 * f32::EPSILON;
    let c = if subnormal {
        f32::from_bits(random.below(1 << 25) as u32)
    } else {
        mantissa * power((of_a + of_b + 24).clamp(-126, 127))
    };
    (if coin(random) { a } else { -a }, c)
}

/// Returns 2^e of a normal number.
fn power(e: i32) -> f32 {
    f32::from_bits(((127 + e) as u32) << 23)
}

/// Returns arbitrary bits of a finite number.
fn finite(random: &mut SplitMix64) -> f32 {
    loop {
        let number = f32::from_bits(random.next_u64() as u32);
        if number.is_finite() {
            return number;
        }
    }
}

/// Returns a uniform number in −1..1, with 24 bits.
fn signed(random: &mut SplitMix64) -> f32 {
    (random.next_u64() >> 39) as f32 / (1u32 << 24) as f32 - 1.0
}

fn below(random: &mut SplitMix64, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn coin(random: &mut SplitMix64) -> bool {
    random.below(2) == 0
}

fn pick<T: Copy>(random: &mut SplitMix64, from: &[T]) -> T {
    from[below(random, from.len())]
}

/// FNV-1a over 32-bit words, with a final mix.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u32) {
        self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
    }

    fn add(&mut self, bits: u64) {
        self.word(bits as u32);
        self.word((bits >> 32) as u32);
    }

    fn floats(&mut self, floats: &[f32]) {
        self.word(floats.len() as u32);
        floats.iter().for_each(|float| self.word(if float.is_nan() { 0x7FC0_0000 } else { float.to_bits() }));
    }

    fn finish(self) -> u64 {
        SplitMix64::mix(self.0)
    }
}

//! exp, sigmoid and tanh: their errors in units in the last place, the same bits on every instruction set, and special numbers.
//!
//! f32 is measured against std's f64 functions (good to a unit or two of f64, 2⁻²⁹ of one of f32), f64 against the functions
//! below, in numbers of 106 bits.
//!
//! Every f32, not only each 97th (`step_by(1)`, a minute): exp 1.059, sigmoid 2.481, tanh 2.498 units.

#[path = "common/sample.rs"]
mod sample;

use layernorm::{Context, Isa};
use layernorm_reference::units::unit;
use layernorm_reference::wide::Wide;
use layernorm_rnn::{Error, Real, functions};
use sample::Rng;

/// Largest errors that src/functions.rs promises, in units in the last place: of exp, sigmoid and tanh.
const BOUNDS: [f64; 3] = [1.5, 2.5, 3.5];
const NAMES: [&str; 3] = ["exp", "sigmoid", "tanh"];

type Function<A> = fn(&Context, &mut [A]) -> Result<(), Error>;

fn all<A: Real>() -> [Function<A>; 3] {
    [functions::exp::<A>, functions::sigmoid::<A>, functions::tanh::<A>]
}

fn map<A: Real>(function: Function<A>, isa: Isa, x: &[A]) -> Vec<A> {
    let mut y = x.to_vec();
    function(&Context::new().with_isa(isa).unwrap(), &mut y).unwrap();
    y
}

fn one<A: Real>(function: Function<A>, x: A) -> A {
    map(function, Isa::detect().unwrap(), &[x])[0]
}

/// Calls `f` with blocks of every 97th f32 whose size is at most `limit`, of both signs.
fn blocks(limit: f32, mut f: impl FnMut(&[f32])) {
    let mut block = Vec::with_capacity(1 << 16);
    for bits in (0..=limit.to_bits()).step_by(97) {
        block.extend([f32::from_bits(bits), -f32::from_bits(bits)]);
        if block.len() >= 1 << 16 {
            f(&block);
            block.clear();
        }
    }
    f(&block);
}

#[test]
fn errors_in_f32() {
    let truths: [fn(f64) -> f64; 3] = [f64::exp, |x| 1.0 / (1.0 + (-x).exp()), f64::tanh];
    // As far as each promises an error; beyond, tanh is ±1 and the others stay what they are.
    let limits = [87.0, 87.0, 20.0];
    for (which, function) in all::<f32>().into_iter().enumerate() {
        let mut worst = (0.0, 0.0);
        blocks(limits[which], |x| {
            let y = map(function, Isa::detect().unwrap(), x);
            for (x, y) in x.iter().zip(y) {
                let truth = truths[which](f64::from(*x));
                let error = (f64::from(y) - truth).abs() / unit(truth);
                if error > worst.0 {
                    worst = (error, *x);
                }
            }
        });
        println!("f32 {}: at most {:.3} units in the last place, at {:e}", NAMES[which], worst.0, worst.1);
        assert!(worst.0 <= BOUNDS[which], "{}: {worst:?}", NAMES[which]);
    }
}

/// ln 2 to 106 bits.
const LN2: Wide = Wide::new(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);

/// (n, exp(r) − 1) with x = n·ln 2 + r, by Taylor's series: |r| < 0.35, so that 30 terms leave less than 2⁻¹⁵⁰.
fn reduced(x: Wide) -> (f64, Wide) {
    let n = (x.to_f64() / std::f64::consts::LN_2).round();
    let r = x - LN2 * Wide::from(n);
    let (mut sum, mut term) = (Wide::ZERO, Wide::ONE);
    for k in 1..=30 {
        term = term * r / Wide::from(f64::from(k));
        sum = sum + term;
    }
    (n, sum)
}

fn power_of_two(n: f64) -> f64 {
    f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

fn exp(x: Wide) -> Wide {
    let (n, p) = reduced(x);
    (p + 1.0).scale(power_of_two(n))
}

fn sigmoid(x: f64) -> Wide {
    // exp of a large number is beyond what Wide can multiply: σ(x) is exp(x) there, but for exp(2x).
    if x < -300.0 {
        return exp(x.into());
    }
    Wide::ONE / (exp(Wide::from(-x)) + 1.0)
}

fn tanh(x: f64) -> Wide {
    let (n, p) = reduced(Wide::from(2.0 * x));
    let power = power_of_two(n);
    // exp(2x) − 1 = 2ⁿ·p + (2ⁿ − 1), without loss where n is 0.
    let e = p.scale(power) + (Wide::from(power) - Wide::ONE);
    e / (e + 2.0)
}

fn unit64(truth: f64) -> f64 {
    let exponent = (truth.to_bits() >> 52 & 0x7FF).max(53);
    f64::from_bits((exponent - 52) << 52)
}

/// Numbers of all sizes up to a limit, and many around 1 and at multiples of ln 2 / 2, where the reduction changes.
fn numbers(limit: f64, count: usize) -> Vec<f64> {
    let mut rng = Rng(23);
    let mut x = Vec::new();
    let wide = |rng: &mut Rng| (rng.bits() as f64 + rng.bits() as f64 / (1u64 << 31) as f64) / (1u64 << 31) as f64;
    for _ in 0..count {
        let uniform = wide(&mut rng);
        x.push(uniform * limit);
        x.push(uniform * 2.0);
        x.push(uniform * 2f64.powi(-(rng.below(60) as i32)));
        let near = (rng.below(40) as f64 + 0.5) * std::f64::consts::LN_2 / 2.0;
        x.push(near * (1.0 + (uniform - 0.5) * 1e-3));
    }
    x.retain(|x| x.abs() <= limit);
    let negative: Vec<f64> = x.iter().map(|x| -x).collect();
    x.extend(negative);
    x
}

#[test]
fn the_arithmetic_of_twice_the_precision_is_right() {
    // e, e⁻¹ and powers of two to 32 digits, as (nearest f64, the rest).
    let known = [
        (exp(Wide::ONE), (std::f64::consts::E, 1.445_646_891_729_250_2e-16)),
        (exp(-Wide::ONE), (0.367_879_441_171_442_33, -1.242_875_367_278_836_3e-17)),
        (LN2 + LN2, LN2.scale(2.0).parts()),
        (exp(LN2), (2.0, 0.0)),
        (exp(LN2.scale(-16.0)), (2f64.powi(-16), 0.0)),
    ];
    for (found, (high, low)) in known {
        let error = (found - Wide::new(high, low)).to_f64().abs() / high;
        assert!(error < 1e-30, "{found:?}, expected {high:e} {low:e}");
    }
    // tanh(x) = (1 − exp(−2x))/(1 + exp(−2x)) and σ(x) + σ(−x) = 1, where nothing cancels.
    for x in [0.4, 1.0, 3.3, 17.0] {
        let e = exp(Wide::from(-2.0 * x));
        let other = (Wide::ONE - e) / (Wide::ONE + e);
        let difference = (tanh(x) - other).to_f64();
        assert!((difference / other.to_f64()).abs() < 1e-29, "tanh {x}: {difference:e}");
        let rest = (sigmoid(x) + sigmoid(-x) - Wide::ONE).to_f64();
        assert!(rest.abs() < 1e-30, "sigmoid {x}: {rest:e}");
    }
}

#[test]
fn errors_in_f64() {
    let truths: [fn(f64) -> Wide; 3] = [|x| exp(x.into()), sigmoid, tanh];
    // A Wide of less than 2⁻⁹⁰⁰ has no second part: exp and σ are measured down to −620.
    let limits = [620.0, 620.0, 25.0];
    for (which, function) in all::<f64>().into_iter().enumerate() {
        let x = numbers(limits[which], 40_000);
        let y = map(function, Isa::detect().unwrap(), &x);
        let mut worst = (0.0, 0.0);
        for (x, y) in x.iter().zip(y) {
            let (truth, rest) = truths[which](*x).parts();
            let error = ((y - truth) - rest).abs() / unit64(truth);
            if error > worst.0 {
                worst = (error, *x);
            }
        }
        println!(
            "f64 {}: at most {:.3} units in the last place of {} numbers, at {:e}",
            NAMES[which],
            worst.0,
            x.len(),
            worst.1
        );
        assert!(worst.0 <= BOUNDS[which], "{}: {worst:?}", NAMES[which]);
    }
}

/// Finite, infinite, none, tiny and huge numbers.
fn specials() -> Vec<f64> {
    let mut x =
        vec![0.0, f64::MIN_POSITIVE, 5e-324, 1e-310, 1e-45, 1e-40, f64::from(f32::MIN_POSITIVE), 1.0, 9.999, 10.0];
    x.extend([
        10.001, 19.99, 20.0, 20.01, 86.99, 87.0, 87.01, 88.0, 89.0, 104.0, 707.0, 708.0, 708.01, 709.9, 746.0, 1e30,
    ]);
    x.extend([f64::from(f32::MAX), f64::MAX, f64::INFINITY, f64::NAN]);
    let negative: Vec<f64> = x.iter().map(|x| -x).collect();
    x.extend(negative);
    x
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let isas = Isa::available();
    println!("compared: {isas:?}");
    let mut rng = Rng(9);
    let mut wide = specials();
    wide.extend((0..20_000).map(|_| f64::from_bits(rng.bits() << 33 ^ rng.bits() << 10 ^ rng.bits())));
    wide.extend(numbers(720.0, 2000));
    for (which, name) in NAMES.into_iter().enumerate() {
        // Any 32 bits, and those of the interesting range.
        let check = |x: &[f32]| {
            let bits = |isa| map(all::<f32>()[which], isa, x).iter().map(|y| canonical(*y)).collect::<Vec<_>>();
            let scalar = bits(Isa::Scalar);
            isas.iter().for_each(|&isa| assert_eq!(bits(isa), scalar, "f32 {} {isa:?}", name));
        };
        check(&wide.iter().map(|&x| x as f32).collect::<Vec<_>>());
        (0..64u32).for_each(|block| {
            let start = block.wrapping_mul(0x0400_0000);
            check(&(0..4096u32).map(|i| f32::from_bits(start + i * 16_381)).collect::<Vec<_>>());
        });
        let bits = |isa| map(all::<f64>()[which], isa, &wide).iter().map(|y| canonical64(*y)).collect::<Vec<_>>();
        let scalar = bits(Isa::Scalar);
        isas.iter().for_each(|&isa| assert_eq!(bits(isa), scalar, "f64 {} {isa:?}", name));
        // A number's place among others does not matter, nor how many there are.
        let long = map(all::<f64>()[which], isas[isas.len() - 1], &wide[..61]);
        for (i, y) in long.iter().enumerate() {
            assert_eq!(canonical64(one(all::<f64>()[which], wide[i])), canonical64(*y), "{} alone", name);
        }
    }
}

/// Bits, with one NaN for all.
fn canonical(y: f32) -> u32 {
    if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() }
}

fn canonical64(y: f64) -> u64 {
    if y.is_nan() { f64::NAN.to_bits() } else { y.to_bits() }
}

#[test]
fn special_numbers() {
    fn hold<A: Real + Into<f64>>(from: fn(f64) -> A, limit: f64, tiny: f64) {
        let [exp, sigmoid, tanh] = all::<A>();
        let of = |function: Function<A>, x: f64| -> f64 { one(function, from(x)).into() };
        for zero in [0.0, -0.0] {
            assert_eq!(of(exp, zero), 1.0);
            assert_eq!(of(sigmoid, zero), 0.5);
            assert_eq!(of(tanh, zero), 0.0);
        }
        for function in [exp, sigmoid, tanh] {
            assert!(of(function, f64::NAN).is_nan(), "a NaN stays a NaN");
        }
        for infinite in [f64::INFINITY, 1e30] {
            assert_eq!(of(tanh, infinite), 1.0);
            assert_eq!(of(tanh, -infinite), -1.0);
            assert_eq!(of(sigmoid, infinite), 1.0);
            // Beyond the limit exp and σ stay what they are there.
            assert_eq!(of(sigmoid, -infinite), of(sigmoid, -limit));
            assert_eq!(of(exp, infinite), of(exp, limit));
            assert_eq!(of(exp, -infinite), of(exp, -limit));
            assert!(of(sigmoid, -infinite) > 0.0 && of(sigmoid, -infinite) <= tiny);
        }
        for x in specials().into_iter().filter(|x| !x.is_nan()) {
            let (s, t): (f64, f64) = (of(sigmoid, x), of(tanh, x));
            assert!((0.0..=1.0).contains(&s), "σ({x:e}) = {s:e}");
            assert!((-1.0..=1.0).contains(&t), "tanh({x:e}) = {t:e}");
            let back: f64 = from(x).into();
            if x.abs() < 1e-9 {
                assert_eq!(t, back, "tanh of a tiny number is the number");
            }
        }
    }
    hold::<f32>(|x| x as f32, 87.0, 2f64.powi(-125));
    hold::<f64>(|x| x, 708.0, 2f64.powi(-1021));
}

#[test]
fn results_stay_within_their_range() {
    for limit in [20.0, 200.0] {
        blocks(limit, |x| {
            let x = &x[..x.len().min(1 << 12)];
            let isa = Isa::detect().unwrap();
            assert!(map(functions::tanh::<f32>, isa, x).iter().all(|y| y.abs() <= 1.0));
            assert!(map(functions::sigmoid::<f32>, isa, x).iter().all(|y| (0.0..=1.0).contains(y)));
        });
    }
}

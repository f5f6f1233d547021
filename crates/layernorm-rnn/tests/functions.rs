//! exp, sigmoid and tanh: their errors in units in the last place, and special numbers.
//!
//! f32 is measured against std's f64 functions (good to a unit or two of f64, 2⁻²⁹ of one of f32), f64 against the functions
//! below, in numbers of 106 bits.
//!
//! Every f32, not only each 97th (`step_by(1)`, a minute): exp 1.059, sigmoid 2.481, tanh 2.498 units.

#[path = "common/functions.rs"]
mod common;
#[path = "common/sample.rs"]
mod sample;

use common::{Function, NAMES, all, canonical64, map, numbers, specials};
use layernorm::Isa;
use layernorm_reference::units::unit;
use layernorm_reference::wide::Wide;
use layernorm_rnn::{Real, functions};

/// Largest errors that src/functions.rs promises, in units in the last place: of exp, sigmoid and tanh.
const BOUNDS: [f64; 3] = [1.5, 2.5, 3.5];

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

/// A number's place among others does not matter, nor how many there are.
#[test]
fn a_number_alone_gives_the_same_bits() {
    for (function, name) in all::<f64>().into_iter().zip(NAMES) {
        let x = [specials(), numbers(20.0, 3)].concat();
        let together = map(function, Isa::detect().unwrap(), &x);
        for (&x, together) in x.iter().zip(together) {
            assert_eq!(canonical64(one(function, x)), canonical64(together), "{name} of {x:e} alone");
        }
    }
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

//! Norms computed by hand, and the unit of errors.

use layernorm_reference::norm::{backward, forward, normalize};
use layernorm_reference::units::{unit, units};

fn x_hat(x: &[f32], centered: bool, eps: f64) -> Vec<f64> {
    let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    normalize(&x, centered, eps).x_hat.iter().map(|x| x.to_f64()).collect()
}

#[test]
fn rows_computed_by_hand() {
    // Mean 10⁴ + 1, deviations −1, 0, 1, variance 2/3.
    let y = x_hat(&[10_000.0, 10_001.0, 10_002.0], true, 0.0);
    assert!((y[2] - 1.5f64.sqrt()).abs() < 1e-15 && y[1] == 0.0 && y[0] == -y[2]);
    assert!(x_hat(&[0.1; 1000], true, 1e-5).iter().all(|&y| y == 0.0));
    assert_eq!(x_hat(&[3e38, -3e38], true, 1e-5), [1.0, -1.0]);
    assert_eq!(x_hat(&[3.0, -3.0], false, 0.0), [1.0, -1.0]);
    assert_eq!(forward(&[4.0, 8.0], |i| [2.0, 3.0][i], |i| [10.0, 20.0][i], true, 0.0), [8.0, 23.0]);
}

/// Central differences are accurate to about the square of their step, 10⁻¹⁰, in f64.
#[test]
fn gradients_are_slopes() {
    let (x, dy, gain) = ([0.5, -1.0, 2.5, 0.25], [1.0, -0.5, 0.75, 2.0], [1.5, 0.5, -2.0, 1.0]);
    for centered in [true, false] {
        let loss = |x: &[f64]| {
            let y = forward(x, |i| gain[i], |_| 0.0, centered, 1e-3);
            y.iter().zip(dy).map(|(y, dy)| y * dy).sum::<f64>()
        };
        for (i, dx) in backward(&x, &dy, |i| gain[i], centered, 1e-3).into_iter().enumerate() {
            let moved = |by: f64| {
                let mut x = x;
                x[i] += by;
                loss(&x)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((dx - slope).abs() < 1e-8, "dx[{i}], centered {centered}: {dx}, slope {slope}");
        }
    }
}

#[test]
fn units_are_those_of_the_last_place() {
    assert_eq!(unit(1.0), f64::from(f32::EPSILON));
    assert_eq!(unit(0.999), f64::from(f32::EPSILON) / 2.0);
    assert_eq!(unit(0.0), f64::from(f32::from_bits(1)));
    let next = |x: f32, n: u32| f32::from_bits(x.to_bits() + n);
    assert_eq!(units(&[next(1.5, 3), -1.0], &[1.5, -1.0]), 3.0);
    // The unit of a small element is that of a tenth of the largest, here 0.15.
    assert_eq!(units(&[1.5, 1e-3], &[1.5, f64::from(1e-3f32)]), 0.0);
    assert_eq!(units(&[1.5, 2f32.powi(-26)], &[1.5, 0.0]), 1.0);
    assert_eq!(units(&[0.0, -0.0], &[0.0, 0.0]), 0.0);
}

#[test]
fn rows_that_are_completely_wrong() {
    for (y, reference) in [([0.0, 0.0], [1.0, -1.0]), ([0.0, 1e-20], [0.0, 0.0]), ([0.0, f32::NAN], [1.0, -1.0])] {
        assert_eq!(units(&y, &reference), f64::INFINITY);
    }
    assert_eq!(units(&[1.0, -1.0], &[1.0, f64::NAN]), f64::INFINITY);
}

//! Textbook norms are right on easy rows.

use layernorm_reference::norm::forward;
use layernorm_reference::textbook::{self, RowNorm};
use layernorm_reference::units::units;

#[test]
fn all_agree_on_easy_rows() {
    let all: [RowNorm; 5] =
        [textbook::three_loops, textbook::two_pass, textbook::squares, textbook::welford, |x, eps, y| {
            textbook::columns(x, x.len(), eps, y)
        }];
    for n in [1, 2, 15, 16, 17, 31, 32, 33, 100, 255, 257, 3000] {
        let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * 2.0 + 0.1).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let reference = forward(&wide, |_| 1.0, |_| 0.0, true, f64::from(1e-5f32));
        for (which, norm) in all.iter().enumerate() {
            let mut y = vec![f32::NAN; n];
            norm(&x, 1e-5, &mut y);
            // Each sum has at most N rounding errors, which enter y with their relative size.
            assert!(units(&y, &reference) <= 8.0 + n as f64, "number {which}, N = {n}");
        }
    }
}

#[test]
fn rows_are_normalized_one_by_one() {
    let x: Vec<f32> = (0..12).map(|i| (i * i) as f32).collect();
    let (mut y, mut row) = (vec![0.0; 12], vec![0.0; 4]);
    textbook::columns(&x, 4, 1e-5, &mut y);
    for (x, y) in x.chunks(4).zip(y.chunks(4)) {
        textbook::columns(x, 4, 1e-5, &mut row);
        assert_eq!(row, y);
    }
}

//! The arithmetic of 106 bits.

use layernorm_reference::wide::Wide;

/// |a − b| as a multiple of 2⁻¹⁰⁰ of b.
fn error(a: Wide, b: Wide) -> f64 {
    ((a - b).to_f64() / b.to_f64()).abs() * 2f64.powi(100)
}

#[test]
fn operations_undo_each_other() {
    let third = Wide::ONE / Wide::from(3.0);
    assert!(error(third + third + third, Wide::ONE) < 1.0);
    for x in [2.0, 3.0, 1e-5, 7.25e76] {
        let x = Wide::from(x) + Wide::from(x) * third;
        assert!(error(x.sqrt() * x.sqrt(), x) < 1.0);
        assert!(error(x / third * third, x) < 1.0);
        assert_eq!(x.scale(2.0), x + x);
        assert_eq!(x - x, Wide::ZERO);
    }
    assert_eq!(Wide::ZERO.sqrt(), Wide::ZERO);
}

#[test]
fn sums_keep_what_f64_loses() {
    // From 10²⁰ (67 bits) down to 2⁻³⁰: 97 bits in all.
    let sum = Wide::from(1e20) + 1.0 + 2f64.powi(-30) - Wide::from(1e20);
    assert_eq!(sum.to_f64(), 1.0 + 2f64.powi(-30));
    assert_eq!((Wide::ONE + 2f64.powi(-80)).parts(), (1.0, 2f64.powi(-80)));
}

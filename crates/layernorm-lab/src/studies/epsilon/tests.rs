use super::*;
use crate::report::Picture;
use crate::studies::tools::{events, testing};

#[test]
fn epsilon_bounds_values_and_gradients() {
    let settings = Settings { seeds: Some(2), ..Settings::default() };
    let records = testing::records(&Epsilon, &settings);
    let spreads: Vec<Spread> = events(&records, "spread");
    assert_eq!(spreads.len(), 2 * EPS.len() * spreads_count());
    for spread in &spreads {
        let expected = spread.sigma / (spread.sigma * spread.sigma + spread.eps).sqrt();
        assert!((spread.output / expected - 1.0).abs() < 1e-5, "{spread:?}");
        // Two directions of a gradient are removed, so it grows slightly less than the bound.
        assert!(spread.gradient <= 1.0 / spread.eps.sqrt() && spread.gradient * spread.sigma <= 1.0, "{spread:?}");
        assert!(spread.gap < 1e-4 && spread.error < 8.0, "{spread:?}");
    }
    let story = Epsilon.story(&records);
    assert!(story.findings.len() == 5 && testing::all_supported(&story), "{:?}", story.findings);
    assert_eq!(story.charts.len(), 5);
}

fn spreads_count() -> usize {
    super::spreads().len()
}

#[test]
fn constant_rows_give_the_bias() {
    let records = testing::run_all(&Epsilon, &testing::settings());
    let constants: Vec<Constant> = events(&records, "constant");
    assert_eq!(constants.len(), 5 * (2 * 3 + 3 * 4 + 1));
    for constant in &constants {
        assert_eq!(constant.off, (constant.eps > 0.0).then_some(0.0), "{constant:?}");
    }
    let halves: Vec<Half> = events(&records, "half");
    assert!(halves.iter().all(|half| half.ours.is_some()), "{halves:?}");
    let lost = |eps: f64, sigma: f64| halves.iter().any(|h| (h.eps, h.sigma) == (eps, sigma) && h.plain.is_none());
    assert!(lost(1e-8, 0.0) && lost(1e-12, 0.0) && !lost(1e-5, 0.0));
    let story = Epsilon.story(&records);
    assert!(story.charts.iter().any(|chart| matches!(chart.picture, Picture::Table(_))));
}

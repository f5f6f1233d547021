use super::bits::{Bits, Neighbours};
use super::statistics::{Single, Stream, settled};
use super::*;
use crate::studies::tools::{events, testing};

#[test]
fn layer_norm_has_one_computation_and_batch_norm_two() {
    let settings = Settings { seeds: Some(2), ..Settings::default() };
    let records = testing::records(&TrainTest, &settings);
    let bits: Vec<Bits> = events(&records, "bits");
    assert_eq!(bits.len(), 4 * 6);
    assert!(bits.iter().all(|of| [of.batch, of.order, of.training, of.gradient] == [0; 4]), "{bits:?}");
    let neighbours: Vec<Neighbours> = events(&records, "neighbours");
    assert!(neighbours.iter().all(|n| n.differ * 100 > n.numbers * 99 && n.largest > 0.1), "{neighbours:?}");
    let streams: Vec<Stream> = events(&records, "stream");
    for size in [16, 64, 256] {
        let end = settled(streams.iter().filter(|s| s.batch == size).map(|s| &s.batch_norm)).unwrap();
        let expected = (1.5 / size as f64).sqrt();
        // The running statistics fluctuate too (momentum 0.1: 5 % more variance), and √(1.5/B) is only the first term.
        assert!((0.95..1.2).contains(&(end / expected)), "batches of {size}: {end} {expected}");
    }
    assert!(streams.iter().all(|s| s.layer_norm.iter().all(|&apart| apart == 0.0)));
    assert!(streams.iter().all(|s| s.batch_norm.len() == 201 && s.batch_norm[0] > 1.0));
    let singles: Vec<Single> = events(&records, "single");
    assert!(singles.iter().all(|s| s.refusal.is_some() && s.own == 0.0 && (s.layer - 1.0).abs() < 1e-3));
    assert_eq!(TrainTest.story(&records).as_expected, None, "some of the runs are not enough for a verdict");
    let trained = testing::trained(&TrainTest, &testing::settings(), 40, |run| run.contains("asked"));
    assert_eq!(trained.len(), 2);
    let story = TrainTest.story(&[records, trained].concat());
    assert_eq!(story.as_expected, Some(true), "{}", story.answer);
}

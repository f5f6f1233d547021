use super::*;
use crate::report::{Picture, Tone, Verdict};
use crate::studies::tools::{events, testing};

#[test]
fn every_cell_of_table_1() {
    let settings = Settings { seeds: Some(3), ..Settings::default() };
    let records = testing::records(&Invariance, &settings);
    let seen: Vec<Seen> = events(&records, "change");
    assert_eq!(seen.len(), 3 * cases().len());
    for seen in &seen {
        let (deviation, bound) = (seen.deviation.unwrap(), seen.bound.unwrap());
        assert_eq!(seen.invariant(), table::paper(seen.case.norm, seen.case.change), "{seen:?}");
        // The verdict must be clear: the bound may neither hide a real change nor be reached by rounding.
        if seen.invariant() {
            assert!(deviation < bound && bound < 2e-3, "{seen:?}");
        } else {
            assert!(deviation > 20.0 * bound && deviation > 1e-2, "{seen:?}");
        }
    }
    let story = Invariance.story(&records);
    assert!(story.findings.len() == 3 && testing::all_supported(&story), "{:?}", story.findings);
    assert!(story.answer.starts_with("36 of 36"), "{}", story.answer);
    let Picture::Grid { cells, .. } = &story.charts[0].picture else { panic!("a grid") };
    let good = |row: usize| cells[row].iter().map(|tile| tile.tone == Tone::Good).collect::<Vec<_>>();
    assert_eq!(good(0), [true, false, true, true, true, false]);
    assert_eq!(good(1), [true, false, true, false, false, false]);
    assert_eq!(good(2), [true, true, false, true, false, true]);
}

#[test]
fn a_disagreement_is_reported() {
    let mut records = testing::run_all(&Invariance, &testing::settings());
    records[0].events[0].data["deviation"] = 1.0.into();
    let story = Invariance.story(&records);
    assert_eq!(testing::verdict(&story, "batch-norm"), Verdict::Contradicted);
    assert_eq!(testing::verdict(&story, "layer-norm"), Verdict::Supported);
    assert!(story.answer.starts_with("35 of 36") && story.notes.len() == 4, "{}", story.answer);
}

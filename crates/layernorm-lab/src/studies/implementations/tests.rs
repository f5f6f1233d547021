use super::*;
use crate::studies::tools::{events, testing};

#[test]
fn the_library_is_accurate_where_others_are_not() {
    let records = testing::records(&Implementations, &Settings::default());
    let wrongs: Vec<Wrong> = events(&records, "error");
    assert_eq!(wrongs.len(), SHAPES.len() * INPUTS.len() * Way::ALL.len());
    for wrong in wrongs.iter().filter(|wrong| wrong.way == Way::Ours) {
        assert!(wrong.units.is_some_and(|units| units < 8.0), "{wrong:?}");
    }
    // On easy input all are accurate: each sum has at most N roundings of random sign.
    for wrong in wrongs.iter().filter(|wrong| (wrong.mean, wrong.spread) == (0.0, 1.0)) {
        assert!(wrong.units.is_some_and(|units| units < 8.0 + (wrong.elements as f64).sqrt()), "{wrong:?}");
    }
    let far = |way: Way| wrongs.iter().filter(move |wrong| wrong.way == way && wrong.mean == 1e6);
    assert!(far(Way::Squares).all(|wrong| wrong.units.is_none_or(|units| units > 1e5)));
    assert!(far(Way::TwoPass).all(|wrong| wrong.units.is_none_or(|units| units > 1e3)));
    let story = Implementations.story(&records);
    assert!(story.findings.len() == 3 && testing::all_supported(&story), "{:?}", story.findings);
}

#[test]
fn times_are_stored_beside_the_records_and_added_to_the_story() {
    let folder = tempfile::tempdir().unwrap();
    let mut story = Implementations.story(&[]);
    Implementations.add_measured(&mut story, folder.path());
    Implementations.add_measured(&mut story, &folder.path().join("missing"));
    assert_eq!(story.charts.len(), 0);
    let plan = &Implementations.plan(&Settings::default())[0];
    let mut file = RunFile::open(folder.path(), plan.header().clone()).unwrap();
    plan.execute(testing::data(), &mut file, &mut testing::Patience(usize::MAX)).unwrap();
    std::fs::write(folder.path().join("implementations-broken.times.json"), "no JSON").unwrap();
    let before = Implementations.story(std::slice::from_ref(file.record()));
    let mut story = before.clone();
    Implementations.add_measured(&mut story, folder.path());
    testing::check(&story);
    let chart = |id: &str| story.charts.iter().any(|chart| chart.id == id);
    assert!(
        chart("time") && chart("python-time") == folder.path().join(format!("{}.python.json", plan.run())).exists()
    );
    assert!(story.answer.contains("times as long as this library"), "{}", story.answer);
    assert!(story.findings.len() > before.findings.len(), "the time is a question if it was measured");
    assert!(folder.path().join(format!("{}.times.json", plan.run())).exists());
    let python = usize::from(folder.path().join(format!("{}.python.json", plan.run())).exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3 + python, "no other files are left");
}

#[test]
fn inputs_are_those_of_the_python_package() {
    // The same numbers are in python/tests/test_implementations.py.
    let x = input((0.0, 1.0), 1, 64, 1);
    assert_eq!(
        x[..4].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        [0x3f60_6428, 0xbf44_b3f8, 0xbed0_aae7, 0xbc4f_c214]
    );
}

#[test]
fn a_faster_rival_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (elements, two_pass) in [(64, 0.2), (1024, 0.5)] {
        let time = |way, ns: f64| serde_json::json!({"way": way, "nanoseconds_per_element": ns});
        let ways = [time("ours", 0.25), time("two-pass", two_pass), time("plain", 2.0)];
        let times = serde_json::json!({"rows": 16, "elements": elements, "instruction_set": "x", "ways": ways});
        std::fs::write(folder.path().join(format!("implementations-16x{elements}.times.json")), times.to_string())
            .unwrap();
    }
    let mut story = Implementations.story(&[]);
    Implementations.add_measured(&mut story, folder.path());
    assert!(story.answer.contains("took 0.8 to 2 times as long as this library"), "{}", story.answer);
    let found = &story.findings[0];
    assert_eq!(found.result, "1 of 2 shapes (not at 16 × 64, where two passes takes 0.8 times as long)");
    assert_eq!(found.verdict, crate::report::Verdict::Undecided);
}

use super::*;
use crate::report::{Evidence, Verdict};
use crate::studies::tools::testing::{self, evaluations, verdict};

#[test]
fn only_the_deepest_post_norm_networks_warm_up() {
    let plans = Depth.plan(&Settings::default());
    for plan in &plans {
        let spec = plan.spec().unwrap();
        assert_eq!(spec.warm_up > 0, plan.run().contains("warm-up"), "{}", plan.run());
        assert!(spec.warm_up == 0 || (spec.rate(0) < 0.1 * RATE && spec.rate(spec.warm_up) == RATE));
    }
    assert_eq!(plans.iter().filter(|plan| plan.spec().unwrap().warm_up > 0).count(), tools::SEEDS);
}

#[test]
fn the_story_of_short_runs_is_whole() {
    let settings = Settings { learning_rate: Some(0.02), ..testing::settings() };
    let records = testing::trained(&Depth, &settings, 4, |run| run.contains("-2-"));
    let story = Depth.story(&records);
    assert_eq!(story.charts.len(), 2);
    assert_eq!(story.findings.iter().map(|finding| &*finding.id).collect::<Vec<_>>(), ["pre-2"]);
    assert_eq!(story.numbers.unwrap().rows.len(), 3);
    assert_eq!(story.reproduce, "layernorm study depth --seeds 1 --lr 0.02");
}

#[test]
fn the_questions_are_about_depth_and_warm_up() {
    let records = testing::synthetic(&Depth, |run, spec| {
        let wobble = 0.001 * spec.start.seed as f64;
        let failed = run.contains("post-12-0.01") && !run.contains("warm-up");
        let (loss, error) = match failed {
            // The best rate of post-norm.
            false if run.contains("post-12-0.001") => (0.4 + wobble, 0.2),
            true => (2.3, 0.9),
            false if run.contains("none") => (0.3, 0.1),
            false if run.contains("pre-2-") => (0.6 + wobble, 0.2),
            false => (0.5 + wobble, 0.2),
        };
        evaluations(spec, loss, error + wobble)
    });
    let story = Depth.story(&records);
    testing::check(&story);
    use Verdict::*;
    let expected = [
        ("pre-2", Contradicted),
        ("pre-4", Undecided),
        ("pre-8", Undecided),
        ("pre-12", Supported),
        ("post-fails", Supported),
        ("pre-trains", Supported),
        ("warm-up", Supported),
        ("pre-none", Contradicted),
        ("pre-low-rate", Undecided),
        ("pre-best", Contradicted),
        ("pre-none-best", Contradicted),
    ];
    assert_eq!(story.findings.len(), expected.len());
    for (id, expected) in expected {
        assert_eq!(verdict(&story, id), expected, "{id}");
    }
    let best = story.findings.iter().find(|finding| finding.id == "pre-best").unwrap();
    let Evidence::Paired(paired) = &best.evidence else { panic!("{best:?}") };
    // Of equal losses, the lowest rate counts.
    assert!(paired.what.ends_with("pre-norm at 0.001 − post-norm at 0.001"), "{}", paired.what);
    assert!(story.answer.contains("20.3 % (20.1 to 20.5) with post-norm at 0.001"), "{}", story.answer);
    assert_eq!(story.charts.len(), 3);
}

#[test]
fn every_run_must_fail_or_train() {
    let errors = |failed: u64| {
        let records = testing::synthetic(&Depth, |run, spec| {
            let error = if run.contains("post") && spec.start.seed <= failed { 0.9 } else { 0.2 };
            evaluations(spec, 1.0, error)
        });
        let story = Depth.story(&records);
        testing::check(&story);
        ["post-fails", "pre-trains"].map(|id| verdict(&story, id))
    };
    use Verdict::*;
    assert_eq!([0, 3, 5].map(errors), [[Contradicted, Supported], [Undecided, Supported], [Supported, Supported]]);
}

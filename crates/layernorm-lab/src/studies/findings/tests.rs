use super::*;
use crate::studies::compare::Compare;
use crate::studies::tools::testing::{self, diverged, evaluations};
use crate::studies::trained::read;

fn pair(ours: &[(u64, f64)], other: &[(u64, f64)], step: f64) -> Pair {
    let all = |of: &[(u64, f64)]| of.iter().copied().collect::<BySeed>();
    Pair { what: "a − b".into(), unit: "units", step, ours: all(ours), other: all(other) }
}

const WHY: &str = "It is not known why.";

/// The finding for these differences, claimed to be negative.
fn lower(differences: &[f64], step: f64) -> Finding {
    let seeds = 1..=differences.len() as u64;
    let ours: Vec<(u64, f64)> = seeds.clone().zip(differences.iter().copied()).collect();
    let other: Vec<(u64, f64)> = seeds.map(|seed| (seed, 0.0)).collect();
    Claim::new("id", "It is lower").source("C1").reason(WHY).lower(pair(&ours, &other, step)).unwrap()
}

fn paired(finding: &Finding) -> &Paired {
    match &finding.evidence {
        Evidence::Paired(paired) => paired,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_interval_decides() {
    // Mean 3, half-width 1.9632: entirely above 0.
    let above = [1.0, 2.0, 3.0, 4.0, 5.0];
    let finding = lower(&above, 0.0);
    assert_eq!(finding.verdict, Verdict::Contradicted);
    assert_eq!(
        finding.explanation.as_deref(),
        Some("The difference has the opposite sign in 5 of 5 seeds. It is not known why.")
    );
    assert_eq!(finding.result, "+3 units (+1.04 to +4.96)");
    let finding = lower(&above.map(|d| -d), 0.0);
    assert_eq!((finding.verdict, finding.explanation.as_deref()), (Verdict::Supported, None));
    assert_eq!((finding.result.as_str(), finding.source.as_deref()), ("−3 units (−4.96 to −1.04)", Some("C1")));
    let higher = |d: [f64; 5]| {
        let ours: Vec<(u64, f64)> = (1..).zip(d).collect();
        let other: Vec<(u64, f64)> = ours.iter().map(|pair| (pair.0, 0.0)).collect();
        Claim::new("id", "It is higher").reason(WHY).higher(pair(&ours, &other, 0.0))
    };
    assert_eq!(higher(above).unwrap().verdict, Verdict::Supported);
    assert_eq!(higher(above.map(|d| -d)).unwrap().verdict, Verdict::Contradicted);
}

#[test]
fn an_undecided_claim_says_how_many_seeds_would_decide() {
    // Mean −1, deviation 1.58, half-width 1.96; 13 seeds: 2.1788·1.58/√13 = 0.955, 12 seeds: 1.005.
    let finding = lower(&[-3.0, -2.0, -1.0, 0.0, 1.0], 0.0);
    assert_eq!(finding.verdict, Verdict::Undecided);
    let explanation = finding.explanation.unwrap();
    assert!(explanation.ends_with("it would just exclude 0 with 13 seeds."), "{explanation}");
    let explanation = lower(&[-1.0, 1.0, -1.0, 1.1, -0.1], 0.0).explanation.unwrap();
    assert!(explanation.ends_with("it would do so even with 100 seeds."), "{explanation}");
}

#[test]
fn equal_differences_decide_only_beyond_their_rounding() {
    assert_eq!(lower(&[-1.0; 5], 0.0).verdict, Verdict::Supported);
    assert_eq!(paired(&lower(&[-1.0; 5], 0.0)).interval, Some([-1.0, -1.0]));
    // 2.7764·(1/√6)/√5 = 0.507.
    assert_eq!(lower(&[-1.0; 5], 1.0).verdict, Verdict::Supported);
    assert_eq!(lower(&[-0.5; 5], 1.0).verdict, Verdict::Undecided);
    for step in [0.0, 1.0] {
        let finding = lower(&[0.0; 5], step);
        assert_eq!(finding.verdict, Verdict::Undecided, "no difference is neither lower nor higher");
        assert!(finding.explanation.unwrap().contains("even with 100 seeds"));
    }
}

#[test]
fn few_seeds_decide_nothing_and_none_asks_nothing() {
    let finding = lower(&[-1.0], 0.0);
    assert_eq!((finding.verdict, paired(&finding).interval), (Verdict::Undecided, None));
    assert_eq!(finding.explanation.as_deref(), Some("Only 1 seed has both results; at least 5 are needed."));
    assert_eq!(finding.result, "−1 units");
    let finding = lower(&[-1.0; 4], 0.0);
    assert_eq!((finding.verdict, paired(&finding).interval), (Verdict::Undecided, Some([-1.0, -1.0])));
    assert_eq!(finding.explanation.as_deref(), Some("Only 4 seeds have both results; at least 5 are needed."));
    assert_eq!(Claim::new("id", "It is lower").reason(WHY).lower(pair(&[], &[(1, 2.0)], 0.0)), None);
}

#[test]
fn seeds_are_paired_and_a_missing_one_does_not_count() {
    let finding = Claim::new("id", "It is lower")
        .reason(WHY)
        .lower(pair(&[(1, 1.0), (2, 2.0), (4, 9.0)], &[(2, 5.0), (1, 4.5), (3, 0.0)], 0.0))
        .unwrap();
    assert_eq!(paired(&finding).differences, [-3.5, -3.0]);
    let all = collect([(1, Some(f64::NAN)), (2, None), (3, Some(f64::INFINITY)), (4, Some(1.0))]);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(4, 1.0)], "never NaN");
    let cases = [BySeed::from([(1, 1.0), (2, 5.0)]), BySeed::from([(2, 3.0), (3, 9.0)])];
    assert_eq!(combined(&cases, most), BySeed::from([(2, 5.0)]));
    assert_eq!(combined(&[], most), BySeed::new());
}

#[test]
fn exact_results_and_counts() {
    let claim = || Claim::new("id", "No bit differs");
    assert_eq!(claim().exact(true, "0 bits", "0 bits").verdict, Verdict::Supported);
    let finding = claim().exact(false, "3 bits", "0 bits");
    assert_eq!((finding.verdict, finding.result.as_str()), (Verdict::Contradicted, "3 bits"));
    assert_eq!(finding.explanation.as_deref(), Some("The result is 3 bits, not 0 bits."));
    let count = |count, of| claim().reason(WHY).count(count, of, "shapes");
    assert_eq!(
        [count(3, 3), count(0, 3), count(1, 3), count(0, 0)].map(|finding| finding.verdict),
        [Verdict::Supported, Verdict::Contradicted, Verdict::Undecided, Verdict::Undecided]
    );
    assert_eq!(count(1, 3).explanation.as_deref(), Some("It holds for 1 of 3 shapes."));
    assert_eq!(count(0, 3).explanation.as_deref(), Some("It holds for 0 of 3 shapes. It is not known why."));
}

#[test]
fn a_diverged_run_has_the_worst_result() {
    let records = testing::synthetic(&Compare, |run, spec| match run {
        "compare-mlp-none-1" => diverged(),
        "compare-mlp-none-2" => {
            // Half of the evaluations before it diverged, with a loss of 1.
            let mut events = evaluations(spec, 1.0, 0.4);
            events.truncate(1 + spec.evaluations / 2);
            events.into_iter().chain(diverged().pop()).collect()
        }
        "compare-mlp-layer-1" => evaluations(spec, 50.0, 0.9),
        "compare-mlp-layer-2" => evaluations(spec, 1.0, 0.4),
        _ => Vec::new(),
    });
    let runs = read(&records);
    let of = |case: &str| runs.iter().filter(|ran| ran.case == case).collect::<Vec<&Ran>>();
    let [none, layer] = ["mlp-none", "mlp-layer"].map(of);
    assert_eq!(by_seed(&none, |ran| ran.trained.error()), BySeed::from([(1, 1.0), (2, 1.0)]));
    let close = |found: BySeed, expected: [f64; 2]| {
        found.len() == 2 && found.values().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12)
    };
    assert!(close(by_seed(&none, mean_loss), [GUESSING, (1.0 + GUESSING) / 2.0]));
    assert!(close(by_seed(&layer, mean_loss), [GUESSING, 1.0]), "no loss is worse than guessing");
    let pair = errors("layer norm − no norm", &layer, &none);
    assert_eq!((pair.unit, pair.step), (POINTS, 0.2));
    assert!((pair.ours[&2] - pair.other[&2] + 60.0).abs() < 1e-9);
}

//! Claims and what decides them: paired differences over seeds, exact results, and counts.
//!
//! ```text
//! d    difference between two conditions with the same seed, so with the same weights, batches and data
//! d̄    mean over the n seeds that have both results
//! s    standard deviation of d, divisor n − 1
//!
//! interval       d̄ ± t·s/√n      t: 97.5 % quantile of Student's t with n − 1 degrees of freedom
//! supported      the interval lies entirely on the claimed side of 0
//! contradicted   the interval lies entirely on the other side
//! undecided      otherwise, and with fewer than five seeds
//! ```
//!
//! The interval is not a percentile bootstrap: resampled means of five values cannot reach beyond the smallest and the
//! largest of them, and with so few values they vary too little (by the factor √((n − 1)/n), and without the wider tails
//! of t), so such an interval covers the true mean in clearly fewer than 95 % of cases.
//!
//! Results are rounded to a step r: an error rate to one image, a range of learning rates to one tested rate. Rounding
//! two of them adds a variance of r²/6 to d. s is therefore at least r/√6; otherwise two seeds with the same rounded
//! difference would decide anything.
//!
//! A diverged run has a result, the worst possible one: an error of 100 % and, at every later evaluation, the loss of
//! guessing ([`GUESSING`]). A run that is missing or unfinished has none, and its seed does not count.

pub(crate) mod student;
#[cfg(test)]
mod tests;

use super::tools::short;
use super::trained::Ran;
use crate::report::{Evidence, Finding, Paired, Side, Verdict};
use std::collections::BTreeMap;
use student::{deviation, half_width, two_sided};

/// The loss of guessing among ten classes, ln 10. Larger losses, and those after divergence, count as this one.
pub(crate) const GUESSING: f64 = std::f64::consts::LN_10;

/// Fewer seeds than this decide nothing: their spread is hardly known.
const FEWEST_SEEDS: usize = 5;

/// No statement about the number of seeds goes beyond this.
const MOST_SEEDS: usize = 100;

/// One result per seed.
pub(crate) type BySeed = BTreeMap<u64, f64>;

/// The results of runs that differ only in the seed. Runs without a finite result are left out.
pub(crate) fn by_seed<'a>(runs: impl IntoIterator<Item = &'a &'a Ran>, value: impl Fn(&Ran) -> Option<f64>) -> BySeed {
    collect(runs.into_iter().map(|ran| (ran.trained.spec.start.seed, value(ran))))
}

/// Pairs of seed and result; those without a finite result are left out.
pub(crate) fn collect(pairs: impl IntoIterator<Item = (u64, Option<f64>)>) -> BySeed {
    pairs.into_iter().filter_map(|(seed, value)| Some((seed, value.filter(|value| value.is_finite())?))).collect()
}

/// Combines the results of several cases for each seed that has all of them.
pub(crate) fn combined(cases: &[BySeed], of: impl Fn(&[f64]) -> f64) -> BySeed {
    let Some(first) = cases.first() else { return BySeed::new() };
    let all = |seed: &u64| cases.iter().map(|case| case.get(seed).copied()).collect::<Option<Vec<f64>>>();
    collect(first.keys().map(|seed| (*seed, all(seed).map(|values| of(&values)))))
}

/// The largest of some results.
pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Two conditions with the same seeds.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The quantity and the conditions, such as `validation error, layer norm − no norm`.
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    /// The step to which a result is rounded; 0 if it is not.
    pub(crate) step: f64,
    pub(crate) ours: BySeed,
    pub(crate) other: BySeed,
}

/// A claim that waits for its evidence. A paired difference can contradict it, so it needs a reason first: [`Claim::reason`].
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    id: String,
    text: String,
    source: Option<&'static str>,
    reason: Option<String>,
}

impl Claim {
    /// A claim, as a sentence without a full stop. `id` must never change.
    pub(crate) fn new(id: impl Into<String>, text: impl Into<String>) -> Claim {
        Claim { id: id.into(), text: text.into(), source: None, reason: None }
    }

    /// Its number in the list of claims.
    pub(crate) fn source(self, number: &'static str) -> Claim {
        Claim { source: Some(number), ..self }
    }

    /// A sentence that is added to the explanation if the claim is contradicted.
    pub(crate) fn reason(self, sentence: impl Into<String>) -> Explained {
        Explained(Claim { reason: Some(sentence.into()), ..self })
    }

    /// A result that does not depend on chance.
    pub(crate) fn exact(self, holds: bool, found: impl Into<String>, expected: impl Into<String>) -> Finding {
        let (found, expected) = (found.into(), expected.into());
        let explanation = format!("The result is {found}, not {expected}.");
        let verdict = if holds { Verdict::Supported } else { Verdict::Contradicted };
        self.finding(Evidence::Exact { found, expected }, verdict, (!holds).then_some(explanation))
    }

    /// The number of cases in which the claim holds: supported if it holds in all of them, contradicted if in none.
    pub(crate) fn count(self, count: usize, of: usize, what: &str) -> Finding {
        let verdict = match count {
            _ if of == 0 => Verdict::Undecided,
            0 => Verdict::Contradicted,
            count if count == of => Verdict::Supported,
            _ => Verdict::Undecided,
        };
        let explanation = match verdict {
            Verdict::Supported => None,
            _ => Some(format!("It holds for {count} of {of} {what}.")),
        };
        self.finding(Evidence::Count { count, of, what: what.to_owned() }, verdict, explanation)
    }

    fn finding(self, evidence: Evidence, verdict: Verdict, explanation: Option<String>) -> Finding {
        let Claim { id, text: claim, source, reason } = self;
        let reason = reason.filter(|_| verdict == Verdict::Contradicted).map(|reason| format!(" {reason}"));
        let explanation = explanation.map(|text| text + reason.as_deref().unwrap_or_default());
        let result = in_words(&evidence);
        Finding { id, claim, source: source.map(str::to_owned), evidence, result, verdict, explanation }
    }
}

/// A claim with the reason that is given if it is contradicted.
#[derive(Clone, Debug)]
pub(crate) struct Explained(Claim);

impl Explained {
    /// The first condition has lower results than the second. `None` if no seed has both.
    pub(crate) fn lower(self, pair: Pair) -> Option<Finding> {
        self.paired(pair, Side::Below)
    }

    /// The first condition has higher results than the second. `None` if no seed has both.
    pub(crate) fn higher(self, pair: Pair) -> Option<Finding> {
        self.paired(pair, Side::Above)
    }

    fn paired(self, pair: Pair, claimed: Side) -> Option<Finding> {
        let Pair { what, unit, step, ours, other } = pair;
        let differences: Vec<f64> = ours.iter().filter_map(|(seed, ours)| Some(ours - other.get(seed)?)).collect();
        if differences.is_empty() {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let spread = deviation(&differences).max(step / 6f64.sqrt());
        let half = half_width(spread, differences.len());
        let interval = half.is_finite().then_some([mean - half, mean + half]);
        let enough = differences.len() >= FEWEST_SEEDS;
        let verdict = if enough { decide(interval, claimed) } else { Verdict::Undecided };
        let explanation = match verdict {
            Verdict::Supported => None,
            Verdict::Contradicted => Some(opposite(&differences, claimed)),
            Verdict::Undecided => Some(open(mean, spread, differences.len())),
        };
        let unit = unit.to_owned();
        let evidence = Evidence::Paired(Paired {
            p: p_value(mean, spread, differences.len()),
            what,
            unit,
            differences,
            mean,
            interval,
            claimed,
        });
        Some(self.0.finding(evidence, verdict, explanation))
    }

    /// As [`Claim::count`].
    pub(crate) fn count(self, count: usize, of: usize, what: &str) -> Finding {
        self.0.count(count, of, what)
    }
}

/// The probability of such a mean by chance; `None` for fewer than two differences.
fn p_value(mean: f64, spread: f64, count: usize) -> Option<f64> {
    match (count, mean == 0.0) {
        (0 | 1, _) => None,
        (_, true) => Some(1.0),
        (_, false) => Some(two_sided(mean * (count as f64).sqrt() / spread, count - 1)),
    }
}

fn in_words(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Paired(Paired { mean, unit, interval, .. }) => {
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let range = |[low, high]: [f64; 2]| format!(" ({} to {})", signed(low), signed(high));
            format!("{}{unit}{}", signed(*mean), interval.map_or(String::new(), range))
        }
        Evidence::Exact { found, .. } => found.clone(),
        Evidence::Count { count, of, what } => format!("{count} of {of} {what}"),
    }
}

/// A difference, with its sign.
fn signed(difference: f64) -> String {
    format!("{}{}", if difference > 0.0 { "+" } else { "" }, short(difference))
}

fn decide(interval: Option<[f64; 2]>, claimed: Side) -> Verdict {
    match (interval, claimed) {
        (Some([_, high]), Side::Below) if high < 0.0 => Verdict::Supported,
        (Some([low, _]), Side::Above) if low > 0.0 => Verdict::Supported,
        (Some([low, _]), Side::Below) if low > 0.0 => Verdict::Contradicted,
        (Some([_, high]), Side::Above) if high < 0.0 => Verdict::Contradicted,
        _ => Verdict::Undecided,
    }
}

/// Explains a contradicted claim.
fn opposite(differences: &[f64], claimed: Side) -> String {
    let against = |d: &&f64| if claimed == Side::Below { **d > 0.0 } else { **d < 0.0 };
    let (count, all) = (differences.iter().filter(against).count(), differences.len());
    format!("The difference has the opposite sign in {count} of {all} seeds.")
}

/// Explains an undecided claim: how many seeds would make half the interval smaller than the mean.
fn open(mean: f64, spread: f64, count: usize) -> String {
    if count < FEWEST_SEEDS {
        let seeds = if count == 1 { "Only 1 seed has" } else { &format!("Only {count} seeds have") };
        return format!("{seeds} both results; at least {FEWEST_SEEDS} are needed.");
    }
    match (count + 1..=MOST_SEEDS).find(|&count| half_width(spread, count) < mean.abs()) {
        Some(needed) => {
            format!("The interval contains 0. At this mean and spread, it would just exclude 0 with {needed} seeds.")
        }
        None => {
            format!("The interval contains 0. At this mean and spread, it would do so even with {MOST_SEEDS} seeds.")
        }
    }
}

/// Final validation errors of two conditions, in percentage points.
pub(crate) fn errors(what: impl Into<String>, ours: &[&Ran], other: &[&Ran]) -> Pair {
    let error = |ran: &Ran| Some(100.0 * ran.trained.error()?);
    let images = ours.iter().chain(other).map(|ran| ran.trained.spec.validation).min();
    let what = format!("validation error, {}", what.into());
    Pair { what, unit: POINTS, step: one_image(images), ours: by_seed(ours, error), other: by_seed(other, error) }
}

/// Unit of differences between error rates.
pub(crate) const POINTS: &str = "percentage points";

/// One of this many images, in percent.
pub(crate) fn one_image(images: Option<usize>) -> f64 {
    100.0 / images.unwrap_or(1).max(1) as f64
}

/// Test errors of two conditions in percent, on this many images.
pub(crate) fn test_errors(what: &str, images: Option<usize>, ours: BySeed, other: BySeed) -> Pair {
    Pair { what: format!("test error, {what}"), unit: POINTS, step: one_image(images), ours, other }
}

/// The mean of a run's validation losses during training, each at most [`GUESSING`]: the lower, the faster it learned.
/// `None` if there are none, or if one is missing although the run did not diverge.
pub(crate) fn mean_loss(ran: &Ran) -> Option<f64> {
    let trained = &ran.trained;
    let planned = trained.spec.evaluations;
    let seen = trained.evaluations.iter().filter(|evaluation| evaluation.step > 0);
    let mut losses: Vec<f64> = match trained.diverged {
        None => seen.map(|evaluation| evaluation.loss).collect::<Option<_>>()?,
        Some(_) => seen.map(|evaluation| evaluation.loss.unwrap_or(GUESSING)).collect(),
    };
    if trained.diverged.is_some() {
        losses.resize(losses.len().max(planned), GUESSING);
    }
    let sum: f64 = losses.iter().map(|loss| loss.min(GUESSING)).sum();
    (!losses.is_empty()).then(|| sum / losses.len() as f64)
}

/// Mean validation losses during training of two conditions.
pub(crate) fn mean_losses(what: impl Into<String>, ours: &[&Ran], other: &[&Ran]) -> Pair {
    let what = format!("mean validation loss during training, {}", what.into());
    Pair { what, unit: "nats", step: 0.0, ours: by_seed(ours, mean_loss), other: by_seed(other, mean_loss) }
}

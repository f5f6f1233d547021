//! A shard: one of N parts of a session's runs, for N processes or machines that do not know of each other.
//!
//! The parts depend on the plan alone, so every machine computes the same ones. They are balanced by the runs' costs: the
//! most expensive run first, each to the part with the lowest cost so far.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Part I of N, such as `3/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: usize,
    count: NonZeroUsize,
}

/// Maximum number of shards, far above the number of runs of any study.
const MAX_SHARDS: usize = 1_000_000;

impl Shard {
    /// Part `number` of `count`, from 1; `None` if there is no such part.
    pub fn new(number: usize, count: usize) -> Option<Shard> {
        let count = NonZeroUsize::new(count).filter(|count| count.get() <= MAX_SHARDS)?;
        (1..=count.get()).contains(&number).then(|| Shard { index: number - 1, count })
    }

    /// Which of the runs with these costs belong to this part.
    pub(super) fn select(self, efforts: &[f64]) -> Vec<bool> {
        parts(efforts, self.count).into_iter().map(|part| part == self.index).collect()
    }
}

/// The part, from 0, of each of the runs with these costs.
pub(super) fn parts(efforts: &[f64], count: NonZeroUsize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..efforts.len()).collect();
    order.sort_by(|&a, &b| efforts[b].total_cmp(&efforts[a]).then(a.cmp(&b)));
    let mut loads = vec![(0.0_f64, 0_usize); count.get().min(efforts.len().max(1))];
    let mut parts = vec![0; efforts.len()];
    for run in order {
        // Ties go to the part with fewer runs, then to the first, so that runs without cost are spread too.
        let lightest = loads.iter().enumerate().min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some(part) = lightest.map(|(part, _)| part) else { break };
        loads[part] = (loads[part].0 + efforts[run].max(0.0), loads[part].1 + 1);
        parts[run] = part;
    }
    parts
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text.split_once('/').and_then(|(number, count)| {
            let whole = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
            Shard::new(whole(number)?, whole(count)?)
        });
        parsed.ok_or_else(|| format!("expected I/N with I from 1 to N, such as 3/8, and N up to {MAX_SHARDS}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SplitMix64;

    fn selected(efforts: &[f64], count: usize) -> Vec<Vec<bool>> {
        (1..=count).map(|number| Shard::new(number, count).unwrap().select(efforts)).collect()
    }

    #[test]
    fn every_run_belongs_to_one_part() {
        let mut random = SplitMix64::new(1);
        for (runs, count) in [(0, 1), (0, 3), (1, 4), (7, 3), (100, 8), (5, 100)] {
            let efforts: Vec<f64> = (0..runs).map(|_| random.uniform()).collect();
            let parts = selected(&efforts, count);
            for run in 0..runs {
                assert_eq!(parts.iter().filter(|part| part[run]).count(), 1, "run {run} of {runs} in {count} parts");
            }
        }
    }

    #[test]
    fn parts_cost_about_the_same() {
        // A few expensive runs and many cheap ones: no part exceeds the mean by more than the most expensive run.
        let efforts: Vec<f64> = (0..200).map(|run| if run % 20 == 0 { 50.0 } else { 1.0 }).collect();
        let mean = efforts.iter().sum::<f64>() / 8.0;
        for part in selected(&efforts, 8) {
            let cost: f64 = efforts.iter().zip(part).filter(|(_, own)| *own).map(|(effort, _)| effort).sum();
            assert!(cost <= mean + 50.0 && cost >= mean - 50.0, "{cost} of {mean}");
        }
        // Equal costs are divided evenly, and so are runs without any.
        for effort in [3.0, 0.0] {
            for part in selected(&[effort; 12], 4) {
                assert_eq!(part.iter().filter(|own| **own).count(), 3);
            }
        }
    }

    #[test]
    fn shards_are_written_as_read() {
        for text in ["1/1", "3/8", "1000000/1000000"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        for text in ["", "3", "0/8", "9/8", "3/0", "a/b", "3/8/1", "-1/2", "+1/2", " 1/2", "1/1000001"] {
            assert!(text.parse::<Shard>().unwrap_err().contains("expected I/N"), "{text}");
        }
    }
}

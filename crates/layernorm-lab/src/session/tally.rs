//! Progress of a session and its estimated remaining time.
//!
//! Each run has a cost e. Let d be the completed fraction of a run and d₀ the fraction completed before this session.
//! In the elapsed time t the session has done Σe·(d − d₀), so the rest, Σe·(1 − d), takes t·Σe·(1 − d) / Σe·(d − d₀).

use std::time::Duration;

/// Earlier than this, the estimate is too unreliable to show.
const SETTLED: Duration = Duration::from_secs(2);

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Ended runs, including those of earlier sessions.
    pub ended: usize,
    /// All runs.
    pub total: usize,
    /// The completed fraction of the work, from 0 to 1.
    pub done: f64,
    /// Estimated remaining time, once it is known.
    pub left: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Run {
    effort: f64,
    done: f64,
    /// Fraction completed before this session; unknown until a resumed run reports its progress.
    before: Option<f64>,
    ended: bool,
}

pub(super) struct Tally {
    runs: Vec<Run>,
    kept: usize,
}

impl Tally {
    /// `efforts` are the costs of the runs to execute; `kept` runs were finished before.
    pub(super) fn new(efforts: impl IntoIterator<Item = f64>, kept: usize) -> Tally {
        let sound = |effort: f64| if effort.is_finite() && effort > 0.0 { effort } else { 1.0 };
        let run = |effort| Run { effort: sound(effort), done: 0.0, before: Some(0.0), ended: false };
        Tally { runs: efforts.into_iter().map(run).collect(), kept }
    }

    /// Marks a run as resumed.
    pub(super) fn resumed(&mut self, run: usize) {
        self.runs[run].before = None;
    }

    pub(super) fn progress(&mut self, run: usize, done: f64) {
        let run = &mut self.runs[run];
        run.done = if done.is_nan() { run.done } else { done.clamp(0.0, 1.0) };
        run.before.get_or_insert(run.done);
    }

    /// Marks a run as ended, finished or not.
    pub(super) fn ended(&mut self, run: usize) {
        let run = &mut self.runs[run];
        run.before.get_or_insert(run.done);
        (run.done, run.ended) = (1.0, true);
    }

    /// The progress after the elapsed time.
    pub(super) fn overall(&self, elapsed: Duration) -> Progress {
        let sum = |part: fn(&Run) -> f64| self.runs.iter().map(|run| run.effort * part(run)).sum::<f64>();
        let (all, rest, fresh) =
            (sum(|_| 1.0), sum(|run| 1.0 - run.done), sum(|run| run.done - run.before.unwrap_or(run.done)));
        // Finished runs of earlier sessions count as average ones, since their costs are unknown.
        let earlier = self.kept as f64 * all / self.runs.len().max(1) as f64;
        let done = if self.runs.is_empty() { 1.0 } else { 1.0 - rest / (all + earlier) };
        let known = elapsed >= SETTLED && fresh > 0.01 * all;
        Progress {
            ended: self.kept + self.runs.iter().filter(|run| run.ended).count(),
            total: self.kept + self.runs.len(),
            done,
            left: known.then(|| elapsed.mul_f64(rest / fresh)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn the_rest_takes_as_long_as_its_effort_says() {
        let mut tally = Tally::new([1.0, 3.0], 0);
        assert_eq!(tally.overall(TEN), Progress { ended: 0, total: 2, done: 0.0, left: None });
        tally.ended(0);
        assert_eq!(tally.overall(TEN), Progress { ended: 1, total: 2, done: 0.25, left: Some(TEN * 3) });
        tally.progress(1, 1.0 / 3.0);
        assert_eq!(tally.overall(TEN), Progress { ended: 1, total: 2, done: 0.5, left: Some(TEN) });
        tally.ended(1);
        assert_eq!(tally.overall(TEN), Progress { ended: 2, total: 2, done: 1.0, left: Some(Duration::ZERO) });
        assert_eq!(tally.overall(Duration::from_millis(10)).left, None, "too early to say");
    }

    #[test]
    fn what_was_done_before_does_not_count_as_fast() {
        let mut tally = Tally::new([1.0], 1);
        tally.resumed(0);
        tally.progress(0, 0.5);
        assert_eq!(tally.overall(TEN), Progress { ended: 1, total: 2, done: 0.75, left: None });
        tally.progress(0, 0.75);
        assert_eq!(tally.overall(TEN).left, Some(TEN));
    }

    #[test]
    fn nothing_to_do_is_done_and_bad_numbers_do_no_harm() {
        assert_eq!(Tally::new([], 3).overall(TEN), Progress { ended: 3, total: 3, done: 1.0, left: None });
        let mut tally = Tally::new([f64::NAN, -1.0], 0);
        tally.progress(0, f64::NAN);
        tally.progress(1, 7.0);
        assert_eq!(tally.overall(TEN), Progress { ended: 0, total: 2, done: 0.5, left: Some(TEN) });
    }
}

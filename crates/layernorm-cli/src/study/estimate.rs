//! The estimated time of a session, before it starts.

use super::view::about;
use crate::show;
use layernorm_lab::session::{Estimate, Session};
use std::time::Duration;

/// Sessions that take longer than this say so before they start; those of full-size studies always do.
const WORTH_SAYING: Duration = Duration::from_secs(60);
/// An estimate by another machine's speed is this far off at most. Below, nothing is measured.
const DOUBT: u32 = 3;

/// The estimate to show before the runs start, if any.
pub fn before(session: &Session, full: bool) -> Option<String> {
    let rough = session.rough_estimate();
    if rough.runs() == 0 || (!full && rough.time < WORTH_SAYING / DOUBT) {
        return None;
    }
    let estimate = session.estimate();
    (full || estimate.time > WORTH_SAYING).then(|| words(&estimate))
}

/// The estimate as a line, and as a table if there are several studies.
pub fn words(estimate: &Estimate) -> String {
    let runs = estimate.runs();
    let all = format!(
        "{} will take about {} on this machine, {} at a time (estimated from timed training steps)",
        show::count(runs, "run"),
        about(estimate.time),
        estimate.workers
    );
    if estimate.studies.len() < 2 {
        return all;
    }
    let width = estimate.studies.iter().map(|study| study.study.len()).max().unwrap_or(0).max("study".len());
    let line = |study: &str, runs: &str, time: &str| format!("  {study:width$}  {runs:>6}  {time:>12}\n");
    let mut text = line("study", "runs", "time");
    for study in &estimate.studies {
        text += &line(&study.study, &study.runs.to_string(), &about(study.time));
    }
    text + &all
}

#[cfg(test)]
mod tests {
    use super::*;
    use layernorm_lab::session::StudyEstimate;
    use std::num::NonZeroUsize;

    fn study(study: &str, runs: usize, seconds: u64) -> StudyEstimate {
        StudyEstimate { study: study.to_owned(), runs, time: Duration::from_secs(seconds) }
    }

    #[test]
    fn one_study_is_a_line_and_several_are_a_table() {
        let workers = NonZeroUsize::new(2).unwrap();
        let time = Duration::from_secs(7260);
        let one = Estimate { studies: vec![study("epsilon", 1, 7260)], time, workers };
        let line = "1 run will take about 2 h 1 min on this machine, 2 at a time (estimated from timed training steps)";
        assert_eq!(words(&one), line);
        let two = Estimate { studies: vec![study("epsilon", 5, 60), study("compare", 175, 7200)], time, workers };
        let table =
            "  study      runs          time\n  epsilon       5         1 min\n  compare     175     2 h 0 min\n";
        assert_eq!(words(&two), format!("{table}180{}", line.replace("1 run will", " runs will")));
    }
}

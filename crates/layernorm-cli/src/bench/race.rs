//! Measures several contestants in turn over many rounds, so that noise on the machine affects all of them alike.

use std::time::{Duration, Instant};

/// The minimum duration of a timed stretch: shorter calls are timed several at once.
const STRETCH: Duration = Duration::from_micros(50);

/// The minimum number of rounds, however long they take.
const MIN_ROUNDS: usize = 3;

/// The time of one call.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The best of all rounds, in seconds.
    pub best: f64,
    /// The median of all rounds, in seconds.
    pub median: f64,
    /// Number of rounds.
    pub rounds: usize,
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Number of contestants.
    pub contestants: usize,
    /// Total seconds for all contestants.
    pub seconds: f64,
    /// Whether an untimed call precedes each timed stretch, so that whatever fits into the cache is in it.
    pub warm: bool,
}

/// Times `call(contestant)` for each contestant.
pub fn race<E>(rules: Rules, mut call: impl FnMut(usize) -> Result<(), E>) -> Result<Vec<Timing>, E> {
    let Rules { contestants, seconds, warm } = rules;
    let mut calls = vec![1; contestants];
    for (contestant, calls) in calls.iter_mut().enumerate() {
        call(contestant)?;
        let once = time(1, || call(contestant))?;
        *calls = ((STRETCH.as_secs_f64() / once.max(1e-9)).ceil() as usize).max(1);
    }
    let mut times = vec![Vec::new(); contestants];
    let start = Instant::now();
    let mut round = 0;
    while round < MIN_ROUNDS || start.elapsed().as_secs_f64() < seconds {
        for turn in 0..contestants {
            // Each round starts with a different contestant.
            let contestant = (turn + round) % contestants;
            if warm {
                call(contestant)?;
            }
            times[contestant].push(time(calls[contestant], || call(contestant))?);
        }
        round += 1;
    }
    Ok(times.into_iter().map(summary).collect())
}

/// Seconds per call, averaged over several calls.
fn time<E>(calls: usize, mut call: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() / calls as f64)
}

fn summary(mut times: Vec<f64>) -> Timing {
    times.sort_by(f64::total_cmp);
    // Guards against a later division by zero if the clock does not advance.
    let at = |i: usize| times[i].max(1e-10);
    Timing { best: at(0), median: at(times.len() / 2), rounds: times.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_gets_as_many_rounds_and_the_slow_one_is_slower() {
        let rules = Rules { contestants: 2, seconds: 0.02, warm: true };
        let pause = [Duration::from_micros(20), Duration::from_millis(2)];
        let timings = race(rules, |i| {
            std::thread::sleep(pause[i]);
            Ok::<(), ()>(())
        })
        .unwrap();
        assert!(timings[0].rounds == timings[1].rounds && timings[0].rounds >= MIN_ROUNDS);
        assert!(timings[1].best >= 2e-3 && timings.iter().all(|t| t.best <= t.median));
    }

    #[test]
    fn an_error_ends_the_race() {
        let rules = Rules { contestants: 3, seconds: 10.0, warm: false };
        assert_eq!(race(rules, |i| if i == 2 { Err("no") } else { Ok(()) }).unwrap_err(), "no");
    }
}

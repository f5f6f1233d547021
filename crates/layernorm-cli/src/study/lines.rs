//! Progress without a terminal: a line for every run that ends, and now and then a line on the progress of the others.

use super::view::{so_far, time};
use crate::show;
use layernorm_lab::session::{Ending, Event, Progress};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The minimum time between a line and the next progress line.
const PAUSE: Duration = Duration::from_secs(10);

/// Progress lines on stderr.
pub struct Lines {
    last: Mutex<Instant>,
}

impl Lines {
    pub fn new() -> Lines {
        Lines { last: Mutex::new(Instant::now()) }
    }

    pub fn event(&self, event: Event<'_>, progress: &Progress) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = !matches!(event, Event::Progress { .. }) || last.elapsed() >= PAUSE;
        if due && let Some(line) = line(event, progress) {
            show::say(&line);
            *last = Instant::now();
        }
    }
}

fn line(event: Event<'_>, progress: &Progress) -> Option<String> {
    let width = progress.total.to_string().len();
    let count = format!("[{:width$}/{}]", progress.ended, progress.total);
    match event {
        Event::Began { .. } => None,
        Event::Progress { run, done, words, .. } => {
            let words = if words.is_empty() { String::new() } else { format!(", {words}") };
            Some(format!("{}; {run}: {:.0} %{words}", so_far(progress), 100.0 * done))
        }
        Event::Ended { run, ending: Ending::Finished, took, .. } => Some(format!("{count} {run}: {}", time(took))),
        Event::Ended { run, ending: Ending::Stopped, .. } => Some(format!("{run}: stopped")),
        Event::Ended { run, ending: Ending::Failed(what), .. } => Some(format!("{count} {run}: failed: {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_happened() {
        let session = Progress { ended: 3, total: 12, done: 0.3, left: Some(Duration::from_secs(100)) };
        let (worker, run) = (0, "a-1");
        let progress = |words| line(Event::Progress { worker, run, done: 0.256, words }, &session).unwrap();
        assert_eq!(progress("loss 0.1"), "3 of 12 runs, about 2 min left; a-1: 26 %, loss 0.1");
        assert_eq!(progress(""), "3 of 12 runs, about 2 min left; a-1: 26 %");
        let ended = |ending| {
            line(Event::Ended { worker, run, ending: &ending, took: Duration::from_secs(12) }, &session).unwrap()
        };
        assert_eq!(ended(Ending::Finished), "[ 3/12] a-1: 12 s");
        assert_eq!(ended(Ending::Failed("why".into())), "[ 3/12] a-1: failed: why");
        assert_eq!(ended(Ending::Stopped), "a-1: stopped");
        assert_eq!(line(Event::Began { worker, run, resumed: true }, &session), None);
    }
}

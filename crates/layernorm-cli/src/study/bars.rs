//! Progress on a terminal: one bar for the session and one below it for each active run.

use super::view::so_far;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use layernorm_lab::session::{Ending, Event, Progress};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The length of a bar, in thousandths.
const LENGTH: u64 = 1000;
const SESSION: &str = "{elapsed_precise} {bar:30} {percent:>3} % {wide_msg}";
const RUN: &str = "  {prefix:32!} {bar:20.dim} {percent:>3} % {wide_msg:.dim}";

/// Progress bars on stderr.
pub struct Bars {
    all: MultiProgress,
    session: ProgressBar,
    /// One per worker, created when it starts its first run.
    runs: Mutex<Vec<ProgressBar>>,
}

impl Bars {
    pub fn new() -> Bars {
        let all = MultiProgress::new();
        let session = all.add(ProgressBar::new(LENGTH).with_style(style(SESSION)));
        Bars { all, session, runs: Mutex::new(Vec::new()) }
    }

    pub fn event(&self, event: Event<'_>, progress: &Progress) {
        self.session.set_position(thousandths(progress.done));
        self.session.set_message(so_far(progress));
        match event {
            Event::Began { worker, run, resumed } => self.begin(worker, run, resumed),
            Event::Progress { worker, done, words, .. } => {
                let bar = self.bar(worker);
                bar.set_message(words.to_owned());
                bar.set_position(thousandths(done));
            }
            Event::Ended { worker, run, ending, .. } => match ending {
                Ending::Finished => self.bar(worker).set_position(LENGTH),
                Ending::Stopped => self.bar(worker).set_message("stopped"),
                Ending::Failed(what) => self.say(&format!("{run}: failed: {what}")),
            },
        }
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: &str) {
        // This line may be lost, so a failure to write it is ignored.
        let _ = self.all.println(line);
    }

    pub fn clear(&self) {
        let _ = self.all.clear();
    }

    fn begin(&self, worker: usize, run: &str, resumed: bool) {
        // Ticks keep the clock moving while a run reports nothing.
        self.session.enable_steady_tick(Duration::from_secs(1));
        let bar = self.bar(worker);
        bar.set_prefix(run.to_owned());
        bar.set_message(if resumed { "resumed" } else { "" });
        bar.set_position(0);
    }

    fn bar(&self, worker: usize) -> ProgressBar {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        while runs.len() <= worker {
            runs.push(self.all.add(ProgressBar::new(LENGTH).with_style(style(RUN))));
        }
        runs[worker].clone()
    }
}

fn thousandths(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * LENGTH as f64) as u64
}

/// The style for a template; an invalid template gives a plain bar, and fails a test.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▌·")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        assert!([SESSION, RUN].iter().all(|template| ProgressStyle::with_template(template).is_ok()));
        assert_eq!([f64::NAN, -1.0, 0.5, 2.0].map(thousandths), [0, 0, 500, 1000]);
    }
}

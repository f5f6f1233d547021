//! The progress of a session: bars on a terminal, lines elsewhere.

use super::bars::Bars;
use super::lines::Lines;
use crate::show;
use layernorm_lab::session::{Event, Progress, Watcher};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The view of a session on stderr.
pub struct View {
    shown: Shown,
    stop: AtomicBool,
}

enum Shown {
    Bars(Bars),
    Lines(Lines),
}

/// Whether stderr is a file, a pipe, or a terminal that cannot move its cursor.
pub fn plain() -> bool {
    !std::io::stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

impl View {
    /// An empty view.
    pub fn new() -> View {
        let shown = if plain() { Shown::Lines(Lines::new()) } else { Shown::Bars(Bars::new()) };
        View { shown, stop: AtomicBool::new(false) }
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: &str) {
        match &self.shown {
            Shown::Bars(bars) => bars.say(line),
            Shown::Lines(_) => show::say(line),
        }
    }

    /// Removes the bars.
    pub fn clear(&self) {
        if let Shown::Bars(bars) = &self.shown {
            bars.clear();
        }
    }

    /// Asks the runs to stop; returns whether they had already been asked.
    pub fn ask_to_stop(&self) -> bool {
        self.stop.swap(true, Ordering::SeqCst)
    }
}

impl Watcher for View {
    fn event(&self, event: Event<'_>, progress: &Progress) {
        match &self.shown {
            Shown::Bars(bars) => bars.event(event, progress),
            Shown::Lines(lines) => lines.event(event, progress),
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// A time in words: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        _ if time.as_secs_f64() < 9.95 => format!("{:.1} s", time.as_secs_f64()),
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The progress of the session as text.
pub fn so_far(progress: &Progress) -> String {
    let left = progress.left.filter(|_| progress.ended < progress.total);
    let left = left.map_or_else(String::new, |left| format!(", about {} left", about(left)));
    format!("{} of {}{left}", progress.ended, show::count(progress.total, "run"))
}

/// An estimated time, without meaningless digits.
pub fn about(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..60 => format!("{} s", seconds.max(1)),
        seconds @ 60..3600 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_words() {
        for (seconds, words) in
            [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 0 s"), (3661.0, "1 h 1 min")]
        {
            assert_eq!(time(Duration::from_secs_f64(seconds)), words);
        }
        for (seconds, words) in [(0, "1 s"), (59, "59 s"), (89, "1 min"), (90, "2 min"), (7260, "2 h 1 min")] {
            assert_eq!(about(Duration::from_secs(seconds)), words);
        }
        let progress = |ended| Progress { ended, total: 2, done: 1.0, left: Some(Duration::ZERO) };
        assert_eq!([1, 2].map(|ended| so_far(&progress(ended))), ["1 of 2 runs, about 1 s left", "2 of 2 runs"]);
    }
}

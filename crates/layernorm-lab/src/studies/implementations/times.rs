//! Times of the implementations, stored beside the records because they differ from run to run.

use super::ways::Way;
use crate::report::{Axis, Bars, Picture, Story};
use crate::studies::findings::Claim;
use crate::studies::tools::{categories, chart, log_axis, refused, short};
use crate::studies::{Error, Observer};
use layernorm::Context;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Extension of the file.
const ENDING: &str = "times.json";
/// Measuring time per shape, for all implementations together.
const BUDGET: Duration = Duration::from_millis(300);
/// Minimum duration of a timed interval: shorter calls are repeated within one interval.
const STRETCH: Duration = Duration::from_micros(50);
const LEAST_ROUNDS: usize = 3;

/// Contents of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Times {
    rows: usize,
    elements: usize,
    instruction_set: String,
    ways: Vec<Time>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Time {
    way: Way,
    nanoseconds_per_element: f64,
}

/// Measures all implementations on one thread and writes the file beside the run's. An existing file is kept.
pub(super) fn measure(run: &Path, x: &[f32], n: usize, observer: &mut dyn Observer) -> Result<(), Error> {
    let path = run.with_extension(ENDING);
    if path.is_file() {
        return Ok(());
    }
    if observer.stop() {
        return Err(Error::Stopped);
    }
    let mut cx = Context::new().with_threads(1).map_err(refused)?;
    let best = race(x, n, &mut cx).map_err(refused)?;
    let each = |(&way, &seconds): (&Way, &f64)| Time { way, nanoseconds_per_element: seconds * 1e9 / x.len() as f64 };
    let times = Times {
        rows: x.len() / n,
        elements: n,
        instruction_set: cx.isa().map_err(refused)?.to_string(),
        ways: Way::ALL.iter().zip(&best).map(each).collect(),
    };
    let text = serde_json::to_string_pretty(&times).map_err(|error| Error::Run(error.to_string()))?;
    let put = layernorm_files::replace_own(&path, |file| file.write_all((text + "\n").as_bytes()));
    put.map_err(|error: io::Error| Error::Run(error.to_string()))
}

/// The best time per call of each implementation, in seconds. Implementations take turns over many rounds, so that
/// noise affects all of them alike.
fn race(x: &[f32], n: usize, cx: &mut Context) -> Result<Vec<f64>, layernorm::Error> {
    let mut y = vec![0.0; x.len()];
    let mut time = |way: Way, calls: usize| {
        let start = Instant::now();
        (0..calls).try_for_each(|_| way.run(x, n, std::hint::black_box(&mut y), cx))?;
        Ok(start.elapsed().as_secs_f64() / calls as f64)
    };
    let mut calls = Vec::new();
    for way in Way::ALL {
        time(way, 1)?;
        calls.push(((STRETCH.as_secs_f64() / time(way, 1)?.max(1e-9)).ceil() as usize).max(1));
    }
    let mut best = vec![f64::INFINITY; Way::ALL.len()];
    let (start, mut round) = (Instant::now(), 0);
    while round < LEAST_ROUNDS || start.elapsed() < BUDGET {
        for turn in 0..Way::ALL.len() {
            let way = (turn + round) % Way::ALL.len();
            best[way] = best[way].min(time(Way::ALL[way], calls[way])?);
        }
        round += 1;
    }
    Ok(best)
}

/// Contents of the files of a folder that belong to this study and end like this, sorted by name.
pub(super) fn files(folder: &Path, ending: &str) -> impl Iterator<Item = Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| {
        let name = entry.file_name();
        let named = name.to_str().is_some_and(|name| name.starts_with("implementations-") && name.ends_with(ending));
        named && entry.path().is_file()
    });
    let mut paths: Vec<_> = wanted.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| std::fs::read(path).ok())
}

/// The readable times of a folder, sorted by row size.
fn read(folder: &Path) -> Vec<Times> {
    let mut times: Vec<Times> = files(folder, ENDING).filter_map(|bytes| serde_json::from_slice(&bytes).ok()).collect();
    times.sort_by_key(|times| (times.elements, times.rows));
    times
}

impl Times {
    fn of(&self, way: Way) -> Option<f64> {
        self.ways.iter().find(|time| time.way == way).map(|time| time.nanoseconds_per_element)
    }

    fn shape(&self) -> String {
        format!("{} × {}", self.rows, self.elements)
    }

    /// The fastest of the others, and its time relative to this library's.
    fn fastest_rival(&self) -> Option<(Way, f64)> {
        let rivals = Way::ALL.into_iter().filter(|&way| way != Way::Ours).filter_map(|way| Some((way, self.of(way)?)));
        let (way, time) = rivals.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some((way, time / self.of(Way::Ours)?))
    }
}

/// Two numbers as a range.
pub(super) fn range(least: f64, most: f64) -> String {
    if short(least) == short(most) { short(most) } else { format!("{} to {}", short(least), short(most)) }
}

/// What was counted, with the exceptions named.
pub(super) fn except(what: &str, exceptions: &[String]) -> String {
    if exceptions.is_empty() { what.to_owned() } else { format!("{what} (not {})", exceptions.join("; ")) }
}

/// Adds the times stored in a folder of records to the story; without any, the story is unchanged.
pub(super) fn add(story: &mut Story, folder: &Path) {
    let times = read(folder);
    let Some(first) = times.first() else { return };
    add_finding(story, &times);
    let bars = |way: Way| Bars {
        name: way.name().to_owned(),
        values: times.iter().map(|times| times.of(way)).collect(),
        ..Bars::default()
    };
    story.charts.push(chart(
        "time",
        "Time per element",
        "Lower is faster. The first bar of each group is this library. The last one is the plain loop, which cannot be \
         vectorized; the others are.",
        Picture::Bars {
            x: categories("rows × elements", times.iter().map(Times::shape)),
            y: Axis { unit: Some("ns".to_owned()), ..log_axis("time per element") },
            series: Way::ALL.map(bars).to_vec(),
        },
    ));
    story.notes.push(format!(
        "Times: one thread, the best of many interleaved rounds, measured during the runs; they are not part of the \
         records. Instruction set {}, for which the compiler vectorized the others. \
         This library makes one more pass over a row, for the rounding error of its mean; in rows that stay in the cache \
         that costs time.",
        first.instruction_set
    ));
}

/// Compares this library with the fastest of the others.
fn add_finding(story: &mut Story, times: &[Times]) {
    let rivals: Vec<(String, Way, f64)> = times
        .iter()
        .filter_map(|times| times.fastest_rival().map(|(way, ratio)| (times.shape(), way, ratio)))
        .collect();
    if rivals.is_empty() {
        return;
    }
    let ratios = || rivals.iter().map(|(.., ratio)| *ratio);
    let range = range(ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let slower = rivals.iter().filter(|(.., ratio)| *ratio <= 1.0);
    let slower: Vec<String> = slower
        .map(|(shape, way, ratio)| format!("at {shape}, where {} takes {} times as long", way.name(), short(*ratio)))
        .collect();
    story.answer += &format!(" On one thread, the fastest of the others took {range} times as long as this library.");
    if !slower.is_empty() {
        story.answer += &format!(" Not faster: {}.", slower.join("; "));
    }
    story.findings.push(
        Claim::new("time", "On one thread, this library is faster than the fastest vectorized textbook version")
            .source("C19")
            .reason(
                "This library reads each row once more, to correct the rounding error of the mean; the textbook versions do not, and \
                 lose half of their digits or more on some inputs.",
            )
            .count(rivals.len() - slower.len(), rivals.len(), &except("shapes", &slower)),
    );
}

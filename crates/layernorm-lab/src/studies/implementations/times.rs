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

/// The readable files of a folder, sorted by row size.
fn read(folder: &Path) -> Vec<Times> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| {
        let name = entry.file_name();
        let named = name.to_str().is_some_and(|name| name.starts_with("implementations-") && name.ends_with(ENDING));
        named && entry.path().is_file()
    });
    let mut times: Vec<Times> =
        wanted.filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok()).collect();
    times.sort_by_key(|times| (times.elements, times.rows));
    times
}

/// Adds the times stored in a folder of records to the story; without any, the story is unchanged.
pub(super) fn add(story: &mut Story, folder: &Path) {
    let times = read(folder);
    let Some(first) = times.first() else { return };
    let of =
        |times: &Times, way: Way| times.ways.iter().find(|time| time.way == way).map(|t| t.nanoseconds_per_element);
    let bars = |way: Way| Bars {
        name: way.name().to_owned(),
        values: times.iter().map(|times| of(times, way)).collect(),
        ..Bars::default()
    };
    let ratios: Vec<f64> = times
        .iter()
        .flat_map(|times| {
            let others = Way::ALL.into_iter().filter(|&way| way != Way::Ours).filter_map(|way| of(times, way));
            Some(others.min_by(f64::total_cmp)? / of(times, Way::Ours)?)
        })
        .collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    if !ratios.is_empty() {
        let range =
            if short(least) == short(most) { short(most) } else { format!("{} to {}", short(least), short(most)) };
        story.answer += &format!(
            " On one thread, the fastest of the others took {range} times as long as this library. They are plain \
             loops that add one element at a time; this library uses SIMD."
        );
        let faster = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
        story.findings.push(
            Claim::new("time", "On one thread, this library is faster than the plain loops").source("C19").count(
                faster,
                ratios.len(),
                "shapes",
            ),
        );
    }
    story.charts.push(chart(
        "time",
        "Time per element",
        "Lower is faster. The first bar of each group is this library; the last one accesses memory column by column.",
        Picture::Bars {
            x: categories("rows × elements", times.iter().map(|times| format!("{} × {}", times.rows, times.elements))),
            y: Axis { unit: Some("ns".to_owned()), ..log_axis("time per element") },
            series: Way::ALL.map(bars).to_vec(),
        },
    ));
    story.notes.push(
        "The others are textbook code that sums in a single chain of additions, which compilers may not vectorize. \
         `layernorm bench --implementations` compares the same formulas with 16 parallel partial sums."
            .to_owned(),
    );
    story.notes.push(format!(
        "Times: one thread, instruction set {}, the best of many interleaved rounds, measured during the runs; they \
         are not part of the records.",
        first.instruction_set
    ));
}

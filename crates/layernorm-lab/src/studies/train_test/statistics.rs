//! Batch norm's two computations over a stream of batches: each batch is normalized with its own statistics, as in
//! training, and with the running statistics so far, as at inference.
//!
//! The mean of a batch of size B deviates by σ/√B, and its standard deviation by σ/√(2B). The two outputs therefore
//! differ by about √(1.5/B), however many batches the running statistics have seen.

use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::{Cell, Finding, Picture, Series, Story, Table};
use crate::studies::findings::{Claim, Pair, collect};
use crate::studies::tools::{axis, chart, each, events, largest, narrow, normal, normals, refused, rms, short};
use crate::studies::tools::{uniform, wide};
use crate::studies::{Common, Computation, Error, Observer};
use layernorm::batch_norm::{self, BatchConfig};
use layernorm::{BatchNorm, Context, LayerNorm, Saved, View, ViewMut};
use serde::{Deserialize, Serialize};

const CHANNELS: usize = 64;
const BATCH_SIZES: [usize; 4] = [4, 16, 64, 256];

/// A stream of batches of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stream {
    pub(super) batch: usize,
    /// After 0, 1, 2, … batches: the RMS difference between y computed with the next batch's own statistics and y
    /// computed with the running ones. y has standard deviation 1.
    pub(super) batch_norm: Vec<f64>,
    /// The same for layer norm, with and without saving statistics for training.
    pub(super) layer_norm: Vec<f64>,
}

/// A batch of one sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Single {
    /// The error of training with running statistics; `None` if it succeeds.
    pub(super) refusal: Option<String>,
    /// The largest |y| computed with the batch's own statistics, without running statistics.
    pub(super) own: f64,
    /// The standard deviation of layer norm's y.
    pub(super) layer: f64,
}

/// Settings of a run.
#[derive(Debug, Serialize)]
pub(super) struct FollowStatistics {
    pub(super) seed: u64,
    pub(super) batches: usize,
}

impl Computation for FollowStatistics {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        let FollowStatistics { seed, batches } = *self;
        each("stream", &BATCH_SIZES, 0.0..0.9, file, observer, |&size| stream(size, batches, seed).map_err(refused))?;
        each("single", &[seed], 0.9..1.0, file, observer, |&seed| single(seed).map_err(refused))?;
        Ok(file.finish()?)
    }
}

/// Batches whose channels have different means and standard deviations.
struct Source {
    channels: Vec<(f64, f64)>,
    random: SplitMix64,
}

impl Source {
    fn new(seed: u64, stream: u64) -> Source {
        let random = &mut SplitMix64::stream(seed, 0);
        let channels = (0..CHANNELS).map(|_| (2.0 * normal(random), 0.5 + 2.0 * uniform(random))).collect();
        Source { channels, random: SplitMix64::stream(seed, stream) }
    }

    fn batch(&mut self, cases: usize) -> Vec<f32> {
        let z = normals(&mut self.random, cases * CHANNELS);
        let placed = z.iter().enumerate().map(|(i, z)| {
            let (mean, spread) = self.channels[i % CHANNELS];
            mean + spread * z
        });
        narrow(&placed.collect::<Vec<_>>())
    }
}

fn apart(a: &[f32], b: &[f32]) -> f64 {
    rms(a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)))
}

fn stream(size: usize, batches: usize, seed: u64) -> Result<Stream, layernorm::Error> {
    let mut source = Source::new(seed, size as u64);
    let (mut batch_norm, layer_norm) = (BatchNorm::<f32>::new(CHANNELS), LayerNorm::<f32>::new([CHANNELS]));
    let mut seen = Stream { batch: size, batch_norm: Vec::new(), layer_norm: Vec::new() };
    for _ in 0..=batches {
        let (x, shape) = (source.batch(size), [size, CHANNELS]);
        let inference = batch_norm.forward(&x, &shape)?;
        let (training, _) = batch_norm.forward_train(&x, &shape)?;
        seen.batch_norm.push(apart(&training, &inference));
        seen.layer_norm.push(apart(&layer_norm.forward_train(&x)?.0, &layer_norm.forward(&x)?));
    }
    Ok(seen)
}

fn single(seed: u64) -> Result<Single, layernorm::Error> {
    let (x, shape) = (Source::new(seed, 1).batch(1), [1, CHANNELS]);
    let refusal = BatchNorm::<f32>::new(CHANNELS).forward_train(&x, &shape).err().map(|error| error.to_string());
    let (mut y, mut saved) = (vec![0.0; CHANNELS], Saved::new(CHANNELS));
    let to = ViewMut::new(&mut y, &shape)?;
    batch_norm::forward(View::new(&x, &shape)?, to, saved.as_mut(), &BatchConfig::default(), &mut Context::new())?;
    let own = wide(&y).iter().fold(0.0, |max: f64, y| max.max(y.abs()));
    let layer = rms(wide(&LayerNorm::<f32>::new([CHANNELS]).forward(&x)?).into_iter());
    Ok(Single { refusal, own, layer })
}

/// The mean of several curves, with their minimum and maximum.
fn band(name: String, curves: &[&Vec<f64>]) -> Series {
    let length = curves.iter().map(|curve| curve.len()).min().unwrap_or(0);
    let at = |i: usize| curves.iter().map(move |curve| curve[i]);
    let each = |of: &dyn Fn(usize) -> f64| (0..length).map(|i| Some(of(i))).collect::<Vec<_>>();
    Series {
        name,
        x: (0..length).map(|i| i as f64).collect(),
        y: each(&|i| at(i).sum::<f64>() / curves.len() as f64),
        lo: Some(each(&|i| at(i).fold(f64::INFINITY, f64::min))),
        hi: Some(each(&|i| at(i).fold(f64::NEG_INFINITY, f64::max))),
        dashed: false,
    }
}

/// The mean over the second half of the curves.
pub(super) fn settled<'a>(curves: impl Iterator<Item = &'a Vec<f64>>) -> Option<f64> {
    let ends: Vec<f64> = curves.flat_map(|curve| curve[curve.len() / 2..].iter().copied()).collect();
    (!ends.is_empty()).then(|| ends.iter().sum::<f64>() / ends.len() as f64)
}

/// Adds charts and findings; returns the answer.
pub(super) fn tell(story: &mut Story, records: &[Record]) -> Option<String> {
    let streams: Vec<Stream> = events(records, "stream");
    let singles: Vec<Single> = events(records, "single");
    if streams.is_empty() {
        return None;
    }
    let (mut series, mut rows, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for size in BATCH_SIZES {
        let curves: Vec<&Vec<f64>> = streams.iter().filter(|s| s.batch == size).map(|s| &s.batch_norm).collect();
        let Some(end) = settled(curves.iter().copied()) else { continue };
        series.push(band(format!("batch norm, batches of {size}"), &curves));
        rows.push(vec![Cell::Number(size as f64), end.into(), (1.5 / size as f64).sqrt().into(), 0.0.into()]);
        ends.push((size, end));
    }
    let layer: Vec<&Vec<f64>> = streams.iter().map(|stream| &stream.layer_norm).collect();
    let layer_apart = layer.iter().flat_map(|curve| curve.iter()).fold(0.0, |max: f64, &apart| max.max(apart));
    rows.iter_mut().for_each(|row| row[3] = layer_apart.into());
    series.push(band("layer norm".to_owned(), &layer));
    story.charts.push(chart(
        "statistics",
        "Difference between training and inference",
        "Batch norm's curves fall while the running statistics converge and then level off: the smaller the batch, the \
         higher the level. Layer norm is the line at the bottom.",
        Picture::Lines {
            x: axis("batches seen by the running statistics"),
            y: axis("RMS difference of the outputs"),
            series,
            scrub: true,
        },
    ));
    let columns = ["batch size", "batch norm, after convergence", "√(1.5/B)", "layer norm"];
    story.numbers = Some(Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes: vec![
            "Root mean square difference between the outputs in training and at inference. The outputs have standard \
             deviation 1."
                .into(),
        ],
    });
    let apart: Vec<String> = ends.iter().map(|(size, end)| format!("{} (batches of {size})", short(*end))).collect();
    let words = format!(
        "Batch norm's outputs in training and at inference differed by {} (RMS); layer norm's by {}.",
        apart.join(", "),
        short(layer_apart)
    );
    if let Some(single) = singles.first() {
        let answer = single.refusal.as_ref().map_or("succeeded".to_owned(), |words| format!("failed ({words})"));
        story.notes.push(format!(
            "A batch of one sample: training batch norm {answer}; with the batch's own statistics every output is β, \
             so all information about the sample is lost (largest |y − β| = {}). Layer norm's output has standard deviation {}.",
            short(single.own),
            short(single.layer)
        ));
    }
    story.findings.extend(findings(records, layer_apart, &singles));
    Some(words)
}

/// The questions: the difference between training and inference, and batches of one sample.
fn findings(records: &[Record], layer_apart: f64, singles: &[Single]) -> Vec<Finding> {
    let [small, .., large] = BATCH_SIZES;
    let level = |size: usize| {
        let of = |record: &Record| {
            let streams: Vec<Stream> = events(std::slice::from_ref(record), "stream");
            Some((
                Common::read(record).seed?,
                settled(streams.iter().filter(|s| s.batch == size).map(|s| &s.batch_norm)),
            ))
        };
        collect(records.iter().filter_map(of))
    };
    let text = format!(
        "Batch norm's outputs differ more between training and inference with batches of {small} than with batches of \
         {large}"
    );
    let pair = Pair {
        what: format!("RMS difference of the outputs, batches of {small} − batches of {large}"),
        unit: "standard deviations of y",
        step: 0.0,
        ours: level(small),
        other: level(large),
    };
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(Claim::new("running-statistics", text).source("C4").reason(LAG).higher(pair));
    findings.push(
        Claim::new(
            "layer-norm-apart",
            "Layer norm's outputs do not differ between training and inference on any batch",
        )
        .source("C4")
        .exact(layer_apart == 0.0, format!("largest RMS difference {}", short(layer_apart)), "0"),
    );
    if !singles.is_empty() {
        let lost = largest(singles.iter().map(|single| single.own));
        let kept = singles.iter().map(|single| single.layer).fold(f64::INFINITY, f64::min);
        findings.push(
            Claim::new(
                "single-sample",
                "With a batch of one sample, batch norm's output is β and layer norm's still has standard deviation 1",
            )
            .source("C3")
            // ε = 10⁻⁵ lowers the standard deviation by less than one in a thousand.
            .exact(
                lost == 0.0 && (kept - 1.0).abs() < 1e-3,
                format!("largest |y − β| {} and standard deviation {}", short(lost), short(kept)),
                "0 and 1 ± 0.001",
            ),
        );
    }
    findings
}

/// Why small batches may not differ more.
const LAG: &str = "A possible reason, not tested: running statistics that lag behind differ from those of any batch, \
    large or small.";

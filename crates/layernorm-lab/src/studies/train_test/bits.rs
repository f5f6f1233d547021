//! Layer norm of 64 samples together and one at a time, with and without saving statistics for training: are the bits
//! equal?

use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::{Cell, Picture, Story, Table};
use crate::studies::findings::Claim;
use crate::studies::tools::{chart, each, events, largest, narrow, normals, refused, short, wide};
use crate::studies::{Computation, Error, Observer};
use layernorm::{BatchNorm, Element, LayerNorm, bf16, f16};
use serde::{Deserialize, Serialize};

/// Batch size.
const CASES: usize = 64;
/// Size of the smaller batch for batch norm.
const FEW: usize = 4;
/// Layer widths: below, at and above those of SIMD vectors and of the kernels' blocks.
const WIDTHS: [usize; 6] = [1, 5, 64, 100, 768, 1025];
const WIDE: [usize; 2] = [4096, 12288];

/// Layer norm in one type and width.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bits {
    pub(super) kind: String,
    pub(super) width: usize,
    /// Number of compared outputs and gradients.
    pub(super) numbers: usize,
    /// Bits of y that differ between a batch of 64 and batches of 1.
    pub(super) batch: u64,
    /// Bits of y that differ when the batch is in a different order.
    pub(super) order: u64,
    /// Bits of y that differ between training (which saves statistics) and inference.
    pub(super) training: u64,
    /// Bits of the input's gradient that differ between a batch of 64 and batches of 1.
    pub(super) gradient: u64,
}

/// Batch norm in training: the same samples in a batch of 64 and in a batch of 4.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Neighbours {
    pub(super) width: usize,
    pub(super) numbers: usize,
    /// Number of outputs that differ.
    pub(super) differ: usize,
    /// The largest difference.
    pub(super) largest: f64,
}

/// Settings of the run.
#[derive(Debug, Serialize)]
pub(super) struct CompareBits {
    pub(super) data_seed: u64,
    pub(super) full: bool,
}

impl Computation for CompareBits {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        let CompareBits { data_seed: seed, full } = *self;
        let widths: Vec<usize> = WIDTHS.into_iter().chain(WIDE.into_iter().filter(|_| full)).collect();
        let all: Vec<(&str, usize)> = ["f16", "bf16", "f32", "f64"]
            .into_iter()
            .flat_map(|kind| widths.iter().map(move |&width| (kind, width)))
            .collect();
        let compare = |&(kind, width): &(&str, usize)| match kind {
            "f16" => layer_norm::<f16>(width, seed),
            "bf16" => layer_norm::<bf16>(width, seed),
            "f32" => layer_norm::<f32>(width, seed),
            _ => layer_norm::<f64>(width, seed),
        };
        each("bits", &all, 0.0..0.8, file, observer, |of| compare(of).map_err(refused))?;
        each("neighbours", &widths, 0.8..1.0, file, observer, |&width| batch_norm(width, seed).map_err(refused))?;
        Ok(file.finish()?)
    }
}

/// Number of differing bits, counted after converting to f64, which is exact.
fn differing<T: Element>(a: &[T], b: &[T]) -> u64 {
    let pairs = wide(a).into_iter().zip(wide(b));
    pairs.map(|(a, b)| u64::from((a.to_bits() ^ b.to_bits()).count_ones())).sum()
}

fn layer_norm<T: Element>(width: usize, seed: u64) -> Result<Bits, layernorm::Error> {
    let random = &mut SplitMix64::stream(seed, width as u64);
    let mut layer = LayerNorm::<T>::new([width]);
    (layer.weight, layer.bias) = (Some(narrow(&normals(random, width))), Some(narrow(&normals(random, width))));
    let x: Vec<T> = narrow(&normals(random, CASES * width).iter().map(|z| 3.0 + z).collect::<Vec<_>>());
    let dy: Vec<T> = narrow(&normals(random, CASES * width));
    let (y, saved) = layer.forward_train(&x)?;
    let dx = layer.backward(&x, &dy, &saved)?.input;
    let (mut alone, mut dx_alone) = (Vec::new(), Vec::new());
    for (x, dy) in x.chunks(width).zip(dy.chunks(width)) {
        let (y, saved) = layer.forward_train(x)?;
        alone.extend(y);
        dx_alone.extend(layer.backward(x, dy, &saved)?.input);
    }
    let turned: Vec<T> = x.chunks(width).rev().flatten().copied().collect();
    let turned: Vec<T> = layer.forward(&turned)?.chunks(width).rev().flatten().copied().collect();
    Ok(Bits {
        kind: T::NAME.to_owned(),
        width,
        numbers: 4 * y.len(),
        batch: differing(&y, &alone),
        order: differing(&y, &turned),
        training: differing(&y, &layer.forward(&x)?),
        gradient: differing(&dx, &dx_alone),
    })
}

fn batch_norm(width: usize, seed: u64) -> Result<Neighbours, layernorm::Error> {
    let x: Vec<f32> = narrow(&normals(&mut SplitMix64::stream(seed, width as u64), CASES * width));
    let mut layer = BatchNorm::<f32>::new(width);
    let few = FEW * width;
    let among_many = wide(&layer.forward_train(&x, &[CASES, width])?.0[..few]);
    let among_few = wide(&layer.forward_train(&x[..few], &[FEW, width])?.0);
    let apart: Vec<f64> = among_many.iter().zip(&among_few).map(|(a, b)| a - b).collect();
    let differ = apart.iter().filter(|&&apart| apart != 0.0).count();
    Ok(Neighbours { width, numbers: few, differ, largest: largest(apart) })
}

/// Adds charts and findings; returns the answer.
pub(super) fn tell(story: &mut Story, records: &[Record]) -> Option<String> {
    let bits: Vec<Bits> = events(records, "bits");
    let neighbours: Vec<Neighbours> = events(records, "neighbours");
    if bits.is_empty() {
        return None;
    }
    let kinds = ["f16", "bf16", "f32", "f64"];
    let row = |kind: &str| -> Vec<Cell> {
        let sum = |of: fn(&Bits) -> u64| {
            Cell::Number(bits.iter().filter(|bits| bits.kind == kind).map(of).sum::<u64>() as f64)
        };
        let counts = [sum(|b| b.numbers as u64), sum(|b| b.batch), sum(|b| b.order), sum(|b| b.training)];
        [kind.into()].into_iter().chain(counts).chain([sum(|b| b.gradient)]).collect()
    };
    let columns =
        ["type", "numbers", "batch of 64 or 1", "other order", "training or inference", "gradient, batch of 64 or 1"];
    let mut widths: Vec<usize> = bits.iter().map(|bits| bits.width).collect();
    widths.sort_unstable();
    widths.dedup();
    story.charts.push(chart(
        "bits",
        "Layer norm: differing bits",
        "0 means bit-identical results: for a single sample or a batch of 64, at any position in the batch, in \
         training or at inference.",
        Picture::Table(Table {
            columns: columns.map(str::to_owned).to_vec(),
            rows: kinds.map(row).to_vec(),
            notes: vec![format!("Sums over layers of widths {widths:?}, {CASES} samples each.")],
        }),
    ));
    let total: u64 = bits.iter().map(|of| of.batch + of.order + of.training + of.gradient).sum();
    let numbers: usize = bits.iter().map(|of| of.numbers).sum();
    let words = format!(
        "Layer norm: {total} bits differed in {} numbers compared between batches of 64 and 1, between orders, and \
         between training and inference.",
        short(numbers as f64)
    );
    let (differ, of) = neighbours.iter().fold((0, 0), |sum, n| (sum.0 + n.differ, sum.1 + n.numbers));
    if of > 0 {
        story.notes.push(format!(
            "Batch norm in training: {} of {} outputs differed by up to {} when the same samples were in a batch of \
             {FEW} instead of {CASES}.",
            short(differ as f64),
            short(of as f64),
            short(neighbours.iter().map(|n| n.largest).fold(0.0, f64::max))
        ));
    }
    let differ = |of: fn(&Bits) -> u64| bits.iter().map(of).sum::<u64>();
    let [training, batch] = [differ(|b| b.training), differ(|b| b.batch + b.order + b.gradient)];
    let none = "0 bits differ";
    story.findings.extend([
        Claim::new("same-computation", "Layer norm's outputs have the same bits in training and at inference")
            .source("C4")
            .exact(training == 0, format!("{training} bits differ"), none),
        Claim::new(
            "same-batch",
            "Layer norm's outputs and gradients have the same bits alone and in a batch of 64, in any order",
        )
        .source("C4")
        .exact(batch == 0, format!("{batch} bits differ"), none),
    ]);
    Some(words)
}

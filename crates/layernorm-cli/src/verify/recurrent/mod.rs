//! Recurrent networks: checks for the same bits along every path, and the error of f32 against f64.

mod case;

use crate::dtype::Dtype;
use crate::failure::Failure;
use crate::recurrent::Cell;
use crate::show::{self, Progress, Table};
use case::{Case, Counts, Number};
use layernorm::{Isa, bf16, f16};
use layernorm_rnn::{Config, Direction, Variant};
use serde::Serialize;

/// The variants of a quick check: norms of both sides, of the sum, of each gate, and none.
const QUICK: [(Cell, &str); 6] = [
    (Cell::Lstm, "paper"),
    (Cell::Lstm, "tflite"),
    (Cell::Gru, "paper"),
    (Cell::Gru, "dreamer"),
    (Cell::Gru, "none-reset-before"),
    (Cell::Rnn, "paper"),
];

/// T, B, I and H, around the widths of vectors and tiles.
const SIZES: [(usize, usize, usize, usize); 3] = [(4, 3, 1, 1), (6, 5, 7, 9), (3, 9, 17, 40)];

/// Further sizes for each cell, in f32 (and f64 unless quick): one with enough work for threads to share the sequences, and one
/// with so few sequences and such large weights that they share each step. One layer, forward, without plain Rust, which would
/// take long and is covered by the sizes above.
fn team_sizes(cell: Cell) -> [(usize, usize, usize, usize); 2] {
    match cell {
        Cell::Lstm => [(8, 64, 16, 80), (2, 3, 16, 264)],
        Cell::Gru => [(8, 64, 16, 96), (2, 3, 16, 304)],
        Cell::Rnn => [(8, 64, 16, 160), (2, 3, 16, 520)],
    }
}

/// Hidden size above which plain Rust is skipped.
const WIDE: usize = 64;

/// The largest error allowed for y in f32, in units of 2⁻²⁴. Each step adds a few units to the error of the steps before, and a
/// norm multiplies it by its gain over the standard deviation of its row. The largest measured over all variants is 50.
const LIMIT: f64 = 128.0;

/// What was compared, and the result.
#[derive(Debug, Serialize)]
pub struct Recurrent {
    /// Whether no bit differs and no error is above the limit.
    pub ok: bool,
    /// Outputs compared, over all paths.
    pub outputs_compared: u64,
    /// Bits that differ.
    pub differing_bits: u64,
    /// The largest error allowed for y in f32, in units of 2⁻²⁴.
    pub limit: f64,
    /// The variants.
    pub variants: Vec<String>,
    /// The counts by type and cell.
    pub groups: Vec<Group>,
}

/// The counts of one type and cell.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The element type.
    pub dtype: Dtype,
    /// The cell.
    pub cell: Cell,
    /// Number of values of y and final states compared.
    pub forward: u64,
    /// Number of gradients compared.
    pub backward: u64,
    /// Number of values of y and final states compared, step by step.
    pub streaming: u64,
    /// Bits that differ.
    pub differing_bits: u64,
    /// The largest difference of y from the result in f64, in units of 2⁻²⁴ (f32 only).
    pub largest_error: Option<f64>,
}

impl Recurrent {
    /// Compares everything; `quick` skips some variants.
    pub fn new(quick: bool, progress: &Progress) -> Result<Self, Failure> {
        let mut groups = Vec::new();
        for cell in Cell::ALL {
            groups.push(group::<f32>(cell, quick, progress)?);
            groups.push(group::<f64>(cell, quick, progress)?);
            groups.push(group::<f16>(cell, quick, progress)?);
            groups.push(group::<bf16>(cell, quick, progress)?);
        }
        let differing_bits = groups.iter().map(|group| group.differing_bits).sum();
        let name = |(cell, variant): (Cell, &Variant)| format!("{cell} {}", variant.name);
        Ok(Recurrent {
            ok: differing_bits == 0 && groups.iter().filter_map(|group| group.largest_error).all(|e| e <= LIMIT),
            outputs_compared: groups.iter().map(|group| group.forward + group.backward + group.streaming).sum(),
            differing_bits,
            limit: LIMIT,
            variants: Cell::ALL.iter().flat_map(|&c| variants(c, quick).map(move |v| (c, v))).map(name).collect(),
            groups,
        })
    }

    /// The report as text.
    pub fn render(&self) -> String {
        let headings = ["cell", "type", "forward: y, h, c", "backward", "step by step", "differing bits", "error"];
        let mut table = Table::new(2, headings);
        for group in &self.groups {
            table.row([
                group.cell.to_string(),
                group.dtype.to_string(),
                show::thousands(group.forward),
                show::thousands(group.backward),
                show::thousands(group.streaming),
                show::thousands(group.differing_bits),
                group.largest_error.map_or(String::new(), show::significant),
            ]);
        }
        let sizes: Vec<_> = SIZES.iter().map(|(t, b, i, h)| format!("{t}×{b}×{i}×{h}")).collect();
        format!(
            "Recurrent networks: outputs compared with those of one thread for the whole batch (plain Rust if the network is\n\
             small), over the same instruction sets and thread counts: the whole batch, each sequence alone, the batch in\n\
             reverse order, and step by step; with activations stored and recomputed. One layer, and two bidirectional\n\
             layers with sequences of different lengths. T×B×I×H: {}; and\n\
             larger sizes at which threads share sequences or steps. Variants: {}.\n\
             error: the largest difference of y in f32 from the same network in f64, in units of 2⁻²⁴.\n\n{}\n\
             {} outputs compared, {} differing bits; errors are {} {} units.\n",
            sizes.join(", "),
            self.variants.join(", "),
            table.render(),
            show::thousands(self.outputs_compared),
            show::thousands(self.differing_bits),
            if self.groups.iter().filter_map(|g| g.largest_error).all(|e| e <= self.limit) {
                "within"
            } else {
                "NOT within"
            },
            self.limit,
        )
    }
}

fn variants(cell: Cell, quick: bool) -> impl Iterator<Item = &'static Variant> {
    Variant::all(cell.kind()).filter(move |variant| !quick || QUICK.contains(&(cell, variant.name)))
}

/// Checks all networks of one cell and type.
fn group<T: Number>(cell: Cell, quick: bool, progress: &Progress) -> Result<Group, Failure> {
    let (mut counts, mut error) = (Counts::default(), None::<f64>);
    let shared = T::DTYPE == Dtype::F32 || T::DTYPE == Dtype::F64 && !quick;
    let team = team_sizes(cell).into_iter().filter(|_| shared).map(|size| (size, false));
    let sizes: Vec<_> = SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]).chain(team).collect();
    let all = Isa::available();
    // Plain Rust is the first one, and on some machines the only one.
    let wide = all.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&all);
    for variant in variants(cell, quick) {
        progress.say(&format!("recurrent: {} {cell} {}", T::DTYPE, variant.name));
        for ((steps, batch, input, hidden), ragged) in sizes.iter().copied() {
            let one = Config::new(*variant, input, hidden);
            let config = if ragged { one.with_layers(2).with_direction(Direction::Both) } else { one };
            let case = Case::<T>::new(config, steps, batch, ragged)?;
            case.check(if hidden > WIDE { wide } else { &all }, &mut counts)?;
            if T::DTYPE == Dtype::F32 {
                error = Some(error.unwrap_or(0.0).max(case.error()? / T::ROUNDOFF));
            }
        }
    }
    let Counts { forward, backward, streaming } = counts;
    Ok(Group {
        dtype: T::DTYPE,
        cell,
        forward: forward.outputs,
        backward: backward.outputs,
        streaming: streaming.outputs,
        differing_bits: forward.bits + backward.bits + streaming.bits,
        largest_error: error,
    })
}

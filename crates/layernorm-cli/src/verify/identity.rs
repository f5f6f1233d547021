//! Checks that every path gives the same bits: instruction sets, thread counts, and the batch whole, in pieces and row by row.

use super::case::{Case, Count, Counts, Split, THREADS};
use crate::dtype::{Dtype, Type};
use crate::norm::RowNorm;
use crate::show::Progress;
use layernorm::{Error, Isa, bf16, f16};
use serde::Serialize;

/// Rows and row lengths around the sizes of vectors (16), lanes (256), blocks (1024) and chunks of rows (64). The last shape
/// has enough work for five threads.
const SHAPES: [(usize, usize); 6] = [(1, 1), (3, 5), (64, 15), (65, 17), (130, 257), (85, 1025)];

/// Shapes with more and longer rows.
const FURTHER_SHAPES: [(usize, usize); 3] = [(1000, 96), (25, 4099), (3, 40_001)];

/// Bytes of a tensor so large that outputs are written with non-temporal stores; checked with the whole batch only.
const LARGE_BYTES: usize = 9 << 20;

/// Row length of that tensor.
const LARGE_ROW: usize = 1000;

/// The passes to compare, with their outputs.
pub const PASSES: [&str; 3] = ["forward: y, m, δ, r", "with residual: h, y, m, δ, r", "backward: dx, dγ, dβ"];

/// What was compared, and the result.
#[derive(Debug, Serialize)]
pub struct Identity {
    /// Whether no bit differs.
    pub ok: bool,
    /// Outputs compared, over all paths.
    pub outputs_compared: u64,
    /// Bits that differ.
    pub differing_bits: u64,
    /// The instruction sets compared.
    pub isas: Vec<&'static str>,
    /// Supported instruction sets that this machine lacks.
    pub skipped_isas: Vec<&'static str>,
    /// The thread counts compared.
    pub threads: Vec<usize>,
    /// How the batch was split.
    pub splits: Vec<&'static str>,
    /// The shapes.
    pub shapes: Vec<String>,
    /// The counts by type, norm and pass.
    pub groups: Vec<Group>,
}

/// The counts of one type, norm and pass.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The element type.
    pub dtype: Dtype,
    /// Layer norm or RMS norm.
    pub norm: &'static str,
    /// One of [`PASSES`].
    pub pass: &'static str,
    /// Outputs compared.
    pub outputs_compared: u64,
    /// Bits that differ.
    pub differing_bits: u64,
}

impl Identity {
    /// Compares everything; `quick` skips the larger shapes.
    pub fn new(quick: bool, progress: &Progress) -> Result<Self, Error> {
        let mut groups = Vec::new();
        of_type::<f32>(quick, progress, &mut groups)?;
        of_type::<f64>(quick, progress, &mut groups)?;
        of_type::<f16>(quick, progress, &mut groups)?;
        of_type::<bf16>(quick, progress, &mut groups)?;
        let mut shapes: Vec<_> = shapes(quick).map(|(rows, n)| format!("{rows}×{n}")).collect();
        if !quick {
            shapes.push(format!("and {} MiB in rows of {LARGE_ROW}, whole", LARGE_BYTES >> 20));
        }
        let differing_bits = groups.iter().map(|group| group.differing_bits).sum();
        let names = |available| {
            Isa::ALL.into_iter().filter(move |isa| isa.is_available() == available).map(Isa::name).collect()
        };
        Ok(Identity {
            ok: differing_bits == 0,
            outputs_compared: groups.iter().map(|group| group.outputs_compared).sum(),
            differing_bits,
            isas: names(true),
            skipped_isas: names(false),
            threads: THREADS.to_vec(),
            splits: Split::ALL.map(Split::name).to_vec(),
            shapes,
            groups,
        })
    }
}

fn shapes(quick: bool) -> impl Iterator<Item = (usize, usize)> {
    SHAPES.into_iter().chain(FURTHER_SHAPES.into_iter().filter(move |_| !quick))
}

/// Compares all shapes of one type.
fn of_type<T: Type>(quick: bool, progress: &Progress, groups: &mut Vec<Group>) -> Result<(), Error> {
    for (norm, name) in [(RowNorm::Layer, "layer norm"), (RowNorm::Rms, "RMS norm")] {
        let mut counts = Counts::default();
        let mut check = |rows: usize, n: usize, splits: &[Split]| {
            progress.say(&format!("bits: {} {name} {rows}×{n}", T::DTYPE));
            Case::<T>::new(norm, rows, n).check(splits, &mut counts)
        };
        for (rows, n) in shapes(quick) {
            check(rows, n, &Split::ALL)?;
        }
        if !quick {
            check(LARGE_BYTES / LARGE_ROW / size_of::<T>(), LARGE_ROW, &[Split::Whole])?;
        }
        let Counts { forward, residual, backward } = counts;
        for (pass, Count { outputs, bits }) in PASSES.into_iter().zip([forward, residual, backward]) {
            groups.push(Group { dtype: T::DTYPE, norm: name, pass, outputs_compared: outputs, differing_bits: bits });
        }
    }
    Ok(())
}

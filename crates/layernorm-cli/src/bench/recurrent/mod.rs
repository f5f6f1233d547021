//! `layernorm bench --op lstm`, `gru` and `rnn`: compares a variant with the plain cell, or all variants with each other.

mod proof;
mod report;
mod size;
mod work;

use super::race::{Rules, race};
use super::shape::Shape;
use super::{BEYOND_CACHE, check_memory};
use crate::dtype::Dtype;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::recurrent::Cell;
use crate::show::{self, Progress};
use layernorm::{Context, Isa, bf16, f16};
use layernorm_rnn::Variant;
use report::{Proved, Report, SizeReport};
use size::Size;
use work::{Entrant, Number, Pass, Work};

/// What to measure.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// The cell.
    pub(super) cell: Cell,
    /// A variant's name, or `all`.
    pub(super) variant: &'a str,
    /// Sizes; empty for the default.
    pub(super) shapes: &'a [Shape],
    /// The element type.
    pub(super) dtype: Dtype,
    /// Number of threads.
    pub(super) threads: usize,
    /// The instruction set.
    pub(super) isa: Option<Isa>,
    /// Seconds per size.
    pub(super) seconds: f64,
    /// Whether to print JSON.
    pub(super) json: bool,
}

impl Job<'_> {
    /// The variants to compare; they always include the plain one.
    fn variants(&self) -> Result<Vec<Variant>, Failure> {
        if self.variant == "all" {
            return Ok(Variant::all(self.cell.kind()).copied().collect());
        }
        let mut variants = vec![self.cell.variant(self.variant)?];
        if self.variant != "none" {
            variants.push(self.cell.variant("none")?);
        }
        Ok(variants)
    }

    fn sizes(&self) -> Result<Vec<Size>, Failure> {
        match self.shapes {
            [] if self.variant == "all" => Ok(Size::DEFAULT[..1].to_vec()),
            [] => Ok(Size::DEFAULT.to_vec()),
            shapes => Size::from_shapes(shapes),
        }
    }

    fn context(&self) -> Result<Context, Failure> {
        let cx = Context::new().with_threads(self.threads)?;
        match self.isa {
            Some(isa) => Ok(cx.with_isa(isa)?),
            None => Ok(cx),
        }
    }
}

/// Verifies and times every size.
pub(super) fn run(job: &Job) -> Result<(), Failure> {
    let (variants, sizes) = (job.variants()?, job.sizes()?);
    let progress = Progress::new();
    let machine = Machine::new(&job.context()?)?;
    let mut shapes = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        progress.say(&format!("measuring {} {size} {} ({} of {})", job.cell, job.dtype, i + 1, sizes.len()));
        shapes.push(match job.dtype {
            Dtype::F32 => measure::<f32>(job, &variants, *size),
            Dtype::F64 => measure::<f64>(job, &variants, *size),
            Dtype::F16 => measure::<f16>(job, &variants, *size),
            Dtype::Bf16 => measure::<bf16>(job, &variants, *size),
        }?);
    }
    progress.clear();
    let (op, dtype, seconds_per_shape) = (job.cell, job.dtype, job.seconds);
    let report = Report { command: "bench", machine, op, dtype, seconds_per_shape, shapes };
    if job.json { show::print_json(&report) } else { show::print(&report.render()) }
}

fn measure<T: Number>(job: &Job, variants: &[Variant], size: Size) -> Result<SizeReport, Failure> {
    let bytes = Work::<T>::bytes(&size);
    check_memory(&size, bytes.saturating_mul(variants.len() as u64))?;
    let mut work = Work::<T>::new(size)?;
    let (mut entrants, mut proofs) = (Vec::new(), Vec::new());
    for variant in variants {
        let mut entrant = Entrant::new(*variant, &size, || job.context())?;
        proofs.push(Proved { variant: variant.name, proof: proof::prove(&mut work, &mut entrant)? });
        entrants.push(entrant);
    }
    let rules =
        Rules { contestants: Pass::ALL.len() * entrants.len(), seconds: job.seconds, warm: bytes < BEYOND_CACHE };
    let count = entrants.len();
    let timings = race(rules, |i| work.call(&mut entrants[i % count], Pass::ALL[i / count]))?;
    let gates: Vec<usize> = variants.iter().map(|variant| variant.gates().len()).collect();
    Ok(SizeReport::new(size, proofs, &gates, &timings))
}

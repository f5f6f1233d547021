//! `layernorm bench`: measures speed relative to memory bandwidth. Results are verified before they are timed.

mod buffer;
mod implementations;
mod proof;
mod race;
mod recurrent;
mod report;
mod shape;
mod work;

use crate::dtype::{Dtype, Type};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::norm::RowNorm;
use crate::recurrent::Cell;
use crate::show::{self, Progress};
use clap::ValueEnum;
use layernorm::{Context, Isa, bf16, f16};
use race::{Rules, race};
use report::{Report, ShapeReport};
use serde::Serialize;
use shape::Shape;
use work::{Contestant, Work};

const EXAMPLES: &str = "\
Examples:
  layernorm bench                                  layer norm on eight shapes, compared with memcpy
  layernorm bench --op rms-norm --dtype bf16 --threads 2
  layernorm bench --op lstm                        the paper's LSTM and the plain one at four sizes
  layernorm bench --op gru --variant all           all GRUs at one size
  layernorm bench --op lstm --variant keras --shapes 64x28x28x128,1x28x28x128";

/// Measure speed: norms against copying the same memory, recurrent networks against the plain cell.
///
/// For each shape, many rounds alternate between memcpy, y = a·x and z = a·x + y over the same number of bytes, and the
/// norm, forward and backward, into preallocated memory. The table shows the best and the median time, the throughput
/// (counting only bytes that must move), and the ratios to the copy and to the loop that moves the same tensors.
///
/// With --op lstm, gru or rnn, a variant and the plain cell take turns: forward, a training step (forward and backward), and a
/// single step as in streaming. The table shows times, operations per second and the ratio to the plain cell.
///
/// Results are verified against a slow reference before they are timed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Operation to measure
    #[arg(long, value_enum, default_value_t = Op::LayerNorm)]
    op: Op,
    /// Variant of a recurrent network, or all of them at one size (lstm, gru, rnn) [default: paper]
    #[arg(long, value_name = "NAME|all")]
    variant: Option<String>,
    /// Shapes, separated by commas; the last dimension is the row length
    /// [default: 64x128,4096x64,1024x768,8192x1024,4096x4096,512x16384,64x262144,65536x256].
    /// For recurrent networks BxTxIxH: sequences, steps, inputs, hidden units
    /// [default: 64x28x28x128,1x28x28x128,32x100x128x256,64x100x256x512]
    #[arg(long, value_delimiter = ',', value_name = "SHAPES")]
    shapes: Vec<Shape>,
    /// Element type
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Number of threads, also for the plain loops
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = threads)]
    threads: usize,
    /// Instruction set: scalar, avx2, avx512 or neon [default: the widest available]
    #[arg(long)]
    isa: Option<Isa>,
    /// Measuring time per shape, in seconds
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true, value_parser = seconds)]
    seconds: f64,
    /// Compare the speed and error of common implementations of layer norm (f32, one thread)
    #[arg(long, conflicts_with_all = ["op", "dtype", "threads"])]
    implementations: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The operation to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Layer normalization, forward and backward
    LayerNorm,
    /// RMS normalization, forward and backward
    RmsNorm,
    /// Layer normalization of x + residual in one step, compared with the plain forward pass
    Residual,
    /// An LSTM: forward, a training step, and one step as in streaming
    Lstm,
    /// A GRU, measured the same way
    Gru,
    /// A simple recurrent network, measured the same way
    Rnn,
}

impl Op {
    /// The recurrent cell, if the operation is one.
    fn cell(self) -> Option<Cell> {
        match self {
            Op::Lstm => Some(Cell::Lstm),
            Op::Gru => Some(Cell::Gru),
            Op::Rnn => Some(Cell::Rnn),
            Op::LayerNorm | Op::RmsNorm | Op::Residual => None,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Op::LayerNorm => "Layer norm",
            Op::RmsNorm => "RMS norm",
            Op::Residual => "Layer norm with a residual",
            Op::Lstm | Op::Gru | Op::Rnn => "Recurrent network",
        }
    }

    fn norm(self) -> RowNorm {
        if self == Op::RmsNorm { RowNorm::Rms } else { RowNorm::Layer }
    }

    fn contestants(self) -> [Contestant; 5] {
        let last = if self == Op::Residual { Contestant::Residual } else { Contestant::Backward };
        [Contestant::Copy, Contestant::Scale, Contestant::Triad, Contestant::Forward, last]
    }
}

/// The default shapes: number of rows and row length.
const DEFAULT_SHAPES: [(usize, usize); 8] =
    [(64, 128), (4096, 64), (1024, 768), (8192, 1024), (4096, 4096), (512, 16384), (64, 262_144), (65_536, 256)];

/// A tensor of this size is too large for the caches to help the next call.
const BEYOND_CACHE: u64 = 32 << 20;

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if threads > 0 => Ok(threads),
        _ => Err("expected a whole number, 1 or more".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected a number of seconds above 0 and up to 86400".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if let Some(cell) = args.op.cell() {
        return recurrent::run(&recurrent::Job {
            cell,
            variant: args.variant.as_deref().unwrap_or("paper"),
            shapes: &args.shapes,
            dtype: args.dtype,
            threads: args.threads,
            isa: args.isa,
            seconds: args.seconds,
            json: args.json,
        });
    }
    if args.variant.is_some() {
        return Err(Failure::bad_input("--variant: expected --op lstm, gru or rnn, found another operation"));
    }
    let cx = Context::new().with_threads(args.threads)?;
    let mut cx = match args.isa {
        Some(isa) => cx.with_isa(isa)?,
        None => cx,
    };
    if args.implementations {
        return implementations::run(args.shapes, args.seconds, args.json, &mut cx);
    }
    let shapes =
        if args.shapes.is_empty() { DEFAULT_SHAPES.map(|(rows, n)| Shape::new(rows, n)).to_vec() } else { args.shapes };
    let report = measure(args.op, args.dtype, shapes, args.seconds, &mut cx)?;
    if args.json { show::print_json(&report) } else { show::print(&report.render()) }
}

/// Verifies and times every shape.
fn measure(op: Op, dtype: Dtype, shapes: Vec<Shape>, seconds: f64, cx: &mut Context) -> Result<Report, Failure> {
    let progress = Progress::new();
    let machine = Machine::new(cx)?;
    let count = shapes.len();
    let mut reports = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        progress.say(&format!("measuring {shape} {dtype} ({} of {count})", i + 1));
        reports.push(match dtype {
            Dtype::F32 => measure_shape::<f32>(op, shape, seconds, cx),
            Dtype::F64 => measure_shape::<f64>(op, shape, seconds, cx),
            Dtype::F16 => measure_shape::<f16>(op, shape, seconds, cx),
            Dtype::Bf16 => measure_shape::<bf16>(op, shape, seconds, cx),
        }?);
    }
    Ok(Report { command: "bench", machine, op, dtype, memory: "given", seconds_per_shape: seconds, shapes: reports })
}

fn measure_shape<T: Type>(op: Op, shape: Shape, seconds: f64, cx: &mut Context) -> Result<ShapeReport, Failure> {
    let bytes = (shape.len() * size_of::<T>()) as u64;
    check_memory(&shape, Work::<T>::bytes(&shape))?;
    let mut work = Work::<T>::new(op.norm(), &shape)?;
    let contestants = op.contestants();
    let proof = proof::prove(&mut work, &contestants, cx)?;
    let rules = Rules { contestants: contestants.len(), seconds, warm: bytes < BEYOND_CACHE };
    let timings = race(rules, |i| work.call(contestants[i], cx))?;
    Ok(ShapeReport::new(shape, bytes, proof, &contestants, &timings))
}

/// Fails, before anything is allocated, if not enough memory is available.
fn check_memory(shape: &impl std::fmt::Display, need: u64) -> Result<(), Failure> {
    match layernorm_lab::memory::available() {
        Some(available) if need > available => Err(Failure::bad_input(format!(
            "shape {shape}: expected {} MB of memory for its tensors, found {} MB available",
            need / 1_000_000,
            available / 1_000_000
        ))),
        _ => Ok(()),
    }
}

/// A short measurement for `layernorm tour`: its table, and the worst ratio of forward to y = a·x.
pub fn short() -> Result<(String, f64), Failure> {
    let mut cx = Context::new().with_threads(1)?;
    let shapes = [(1024, 768), (8192, 1024)].map(|(rows, n)| Shape::new(rows, n)).to_vec();
    let report = measure(Op::LayerNorm, Dtype::F32, shapes, 1.0, &mut cx)?;
    let ratios = report.shapes.iter().filter_map(|shape| shape.result(Contestant::Forward)?.times_peer);
    Ok((report.render(), ratios.fold(0.0, f64::max)))
}

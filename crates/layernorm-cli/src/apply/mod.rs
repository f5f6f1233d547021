//! `layernorm apply`: a normalization of a tensor in a file, forward and backward.
//!
//! Options checked → files read → the operation, by element type → every result written.

mod args;
mod channels;
mod files;
mod results;
mod rows;

pub use args::Args;

use crate::failure::Failure;
use args::Op;
use files::{Input, Inputs, Number};
use layernorm::{Context, f16};
use layernorm_npy::DType;

/// Computes everything that was asked for, then writes it.
pub fn run(args: Args) -> Result<(), Failure> {
    args.check()?;
    results::check_places(&args.outputs())?;
    let x = Input::read("--input", &args.input)?;
    match x.dtype() {
        DType::F16 => apply::<f16>(&args, x),
        DType::F32 => apply::<f32>(&args, x),
        DType::F64 => apply::<f64>(&args, x),
        found => Err(x.wrong_type("float16, float32 or float64", found)),
    }
}

fn apply<T: Number>(args: &Args, x: Input) -> Result<(), Failure> {
    let inputs = Inputs::read::<T>(args, x)?;
    let mut cx = context(args)?;
    let results = match args.op {
        Op::Layer | Op::Rms => rows::run::<T>(args, &inputs, &mut cx)?,
        Op::Batch | Op::Group | Op::Instance => channels::run::<T>(args, &inputs, &mut cx)?,
    };
    results.write(args)
}

/// How to run: what the options say, else all cores and the machine's widest instruction set.
fn context(args: &Args) -> Result<Context, Failure> {
    let mut cx = Context::new();
    if let Some(threads) = args.threads {
        cx = cx.with_threads(threads)?;
    }
    if let Some(isa) = args.isa {
        cx = cx.with_isa(isa)?;
    }
    Ok(cx)
}

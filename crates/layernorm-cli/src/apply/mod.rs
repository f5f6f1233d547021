//! `layernorm apply`: runs a normalization or a recurrent network on a tensor in a file.
//!
//! Check options → read files → run the operation for the element type → write all results.

mod args;
mod channels;
mod files;
mod recurrent;
mod results;
mod rows;

pub use results::check_places;

use crate::failure::Failure;
use args::Op;
use files::{Input, Inputs, Number};
use layernorm::{Context, Isa, f16};
use layernorm_npy::DType;

const EXAMPLES: &str = "\
Examples:
  Layer norm of the last axis, with the statistics of every row:
    layernorm apply layer-norm --input x.npy --weight w.npy --bias b.npy --output y.npy \\
      --mean-output mean.npy --rstd-output rstd.npy
  Its gradients, given the gradient of the output:
    layernorm apply layer-norm --input x.npy --weight w.npy --bias b.npy --grad-output dy.npy \\
      --grad-input dx.npy --grad-weight dw.npy --grad-bias db.npy
  RMS norm of x + r over the last two axes:
    layernorm apply rms-norm --axes -2,-1 --input x.npy --residual r.npy --residual-output h.npy --output y.npy
  Group norm of [N, C, ...] with 8 groups of channels:
    layernorm apply group-norm --groups 8 --input x.npy --output y.npy
  Batch norm at inference:
    layernorm apply batch-norm --input x.npy --running-mean m.npy --running-var v.npy --output y.npy
  A recurrent network (see layernorm apply lstm --help):
    layernorm apply lstm --weights w.safetensors --input x.npy --output y.npy";

/// Apply a normalization, forward or backward, or a recurrent network to the tensor in an .npy file.
///
/// Files hold float16, float32 or float64, in C or Fortran order. Results have the input's type and are in C order.
/// All results are computed before any file is written; files are then renamed into place together.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(subcommand_help_heading = "Recurrent networks", subcommand_value_name = "lstm|gru|rnn")]
pub struct Args {
    #[command(flatten)]
    norm: Option<args::Args>,
    #[command(subcommand)]
    recurrent: Option<recurrent::Command>,
}

/// Computes all results, then writes them.
pub fn run(args: Args) -> Result<(), Failure> {
    match (args.recurrent, args.norm) {
        (Some(command), _) => recurrent::run(command),
        (None, Some(args)) => normalize(&args),
        (None, None) => Err(Failure::bad_input("apply: expected an operation, found none")),
    }
}

fn normalize(args: &args::Args) -> Result<(), Failure> {
    args.check()?;
    check_places(&args.outputs())?;
    let x = Input::read("--input", &args.input)?;
    match x.dtype() {
        DType::F16 => apply::<f16>(args, x),
        DType::F32 => apply::<f32>(args, x),
        DType::F64 => apply::<f64>(args, x),
        found => Err(x.wrong_type(FLOATS, found)),
    }
}

/// The types an input may have.
const FLOATS: &str = "float16, float32 or float64";

fn apply<T: Number>(args: &args::Args, x: Input) -> Result<(), Failure> {
    let inputs = Inputs::read::<T>(args, x)?;
    let mut cx = context(args.threads, args.isa)?;
    let results = match args.op {
        Op::Layer | Op::Rms => rows::run::<T>(args, &inputs, &mut cx)?,
        Op::Batch | Op::Group | Op::Instance => channels::run::<T>(args, &inputs, &mut cx)?,
    };
    results.write(args)
}

/// The context for these options; by default all cores and the widest available instruction set.
fn context(threads: Option<usize>, isa: Option<Isa>) -> Result<Context, Failure> {
    let mut cx = Context::new();
    if let Some(threads) = threads {
        cx = cx.with_threads(threads)?;
    }
    if let Some(isa) = isa {
        cx = cx.with_isa(isa)?;
    }
    Ok(cx)
}

//! The options of `layernorm apply lstm`, `gru` and `rnn`.

use crate::failure::Failure;
use crate::recurrent::{Cell, formats};
use layernorm::Isa;
use layernorm_rnn::weights::Format;
use std::path::{Path, PathBuf};

/// The options. Letters in shapes: T steps, B sequences, I input, H hidden, P projection (H if none), L layers, D directions.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Weights of the network: a safetensors file from `layernorm weights init` or from another library (required)
    #[arg(long, value_name = "W.safetensors")]
    pub(super) weights: Option<PathBuf>,
    /// Input x, [T, B, I], or [T, I] for a single sequence: float16, float32 or float64 (required)
    #[arg(long, value_name = "X.npy")]
    pub(super) input: Option<PathBuf>,
    /// Output file for y, [T, B, D·P], or [T, D·P] for a single sequence: h of the last layer at every step, in the
    /// input's type
    #[arg(long, value_name = "Y.npy")]
    pub(super) output: Option<PathBuf>,
    /// x and y are [B, T, …]
    #[arg(long)]
    pub(super) batch_first: bool,
    /// Number of valid steps of each sequence, [B]: int32, int64 or uint8, 1 to T. y is 0 after them
    #[arg(long, value_name = "N.npy")]
    pub(super) lengths: Option<PathBuf>,

    /// Variant, such as paper or none; `list` lists them. Not needed for native files, or if only one variant fits the
    /// tensors
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(super) variant: Option<String>,
    /// Format of the file [default: detected from the tensor names]
    #[arg(long, value_parser = formats(), help_heading = "Network")]
    pub(super) format: Option<Format>,
    /// Use only the tensors whose names start with this prefix
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "Network")]
    pub(super) prefix: String,
    /// ε of all norms [default: the variant's, or the one stored in a native file]
    #[arg(long, allow_hyphen_values = true, value_name = "E", help_heading = "Network")]
    pub(super) eps: Option<f64>,
    /// Run backward in time, from the last valid step to the first (Keras's go_backwards, ONNX's direction=reverse)
    #[arg(long, help_heading = "Network")]
    pub(super) reverse: bool,

    /// Initial h, [L·D, B, P], in the input's type or the arithmetic type [default: zeros]
    #[arg(long, value_name = "H0.npy", help_heading = "States")]
    pub(super) h0: Option<PathBuf>,
    /// Initial c, [L·D, B, H], in the same types (lstm) [default: zeros]
    #[arg(long, value_name = "C0.npy", help_heading = "States")]
    pub(super) c0: Option<PathBuf>,
    /// Output file for h after the last step of each sequence, [L·D, B, P], or [L·D, P] for a single sequence: float32, or
    /// float64 for float64 input
    #[arg(long, value_name = "HN.npy", help_heading = "States")]
    pub(super) final_h: Option<PathBuf>,
    /// Output file for c after the last step of each sequence, [L·D, B, H], or [L·D, H] for a single sequence, in the
    /// same type (lstm)
    #[arg(long, value_name = "CN.npy", help_heading = "States")]
    pub(super) final_c: Option<PathBuf>,

    /// Maximum number of threads [default: number of cores]. Does not affect results
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub(super) threads: Option<usize>,
    /// Instruction set: scalar, avx2, avx512 or neon [default: the widest available]. Does not affect results
    #[arg(long, value_name = "ISA", help_heading = "Machine")]
    pub(super) isa: Option<Isa>,
}

impl Args {
    /// Checks everything about the options that does not depend on the files. Returns the paths of weights and input.
    pub(super) fn check(&self, cell: Cell) -> Result<(&Path, &Path), Failure> {
        for (option, given) in [("--c0", self.c0.is_some()), ("--final-c", self.final_c.is_some())] {
            if given && cell != Cell::Lstm {
                return Err(Failure::bad_input(format!(
                    "{option} does not apply to {cell}, which has no c: expected lstm"
                )));
            }
        }
        let needed = |option: &str, path| {
            let missing = || Failure::bad_input(format!("apply {cell}: expected {option}, found none"));
            Option::ok_or_else(path, missing)
        };
        let files = (needed("--weights", self.weights.as_deref())?, needed("--input", self.input.as_deref())?);
        if self.outputs().is_empty() {
            let states = if cell == Cell::Lstm { "--final-h or --final-c" } else { "or --final-h" };
            let comma = if cell == Cell::Lstm { "," } else { "" };
            return Err(Failure::bad_input(format!("apply {cell}: expected --output{comma} {states}, found none")));
        }
        Ok(files)
    }

    /// Every output file, with its option.
    pub(super) fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let places = [("--output", &self.output), ("--final-h", &self.final_h), ("--final-c", &self.final_c)];
        places.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?))).collect()
    }
}

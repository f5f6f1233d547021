//! The options of `layernorm apply lstm`, `gru` and `rnn`.

use crate::failure::Failure;
use crate::recurrent::{Cell, formats};
use layernorm::Isa;
use layernorm_rnn::weights::Format;
use std::path::{Path, PathBuf};

/// The options; shapes use the letters T steps, B sequences, I input, H hidden, P projection (else H), L layers, D directions.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The network: a safetensors file of this program (`layernorm weights init`) or of another library. Needed.
    #[arg(long, value_name = "W.safetensors")]
    pub(super) weights: Option<PathBuf>,
    /// x, [T, B, I], or [T, I] for a single sequence: float16, float32 or float64. Needed.
    #[arg(long, value_name = "X.npy")]
    pub(super) input: Option<PathBuf>,
    /// Where y goes, [T, B, D·P], or [T, D·P] for a single sequence: h of the last layer at every step, of the input's type.
    #[arg(long, value_name = "Y.npy")]
    pub(super) output: Option<PathBuf>,
    /// x and y are [B, T, …].
    #[arg(long)]
    pub(super) batch_first: bool,
    /// The valid steps of each sequence, [B]: int32, int64 or uint8, 1 to T. y is 0 behind them.
    #[arg(long, value_name = "N.npy")]
    pub(super) lengths: Option<PathBuf>,

    /// The variant, such as paper or none; `list` lists them. A native file says it itself, and where only one fits the
    /// tensors it need not be given.
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(super) variant: Option<String>,
    /// Whose tensors the file has [default: seen from their names].
    #[arg(long, value_parser = formats(), help_heading = "Network")]
    pub(super) format: Option<Format>,
    /// Only look at tensors whose names begin with this, and use all of them.
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "Network")]
    pub(super) prefix: String,
    /// ε of all norms [default: the variant's, or what a native file says].
    #[arg(long, allow_hyphen_values = true, value_name = "E", help_heading = "Network")]
    pub(super) eps: Option<f64>,
    /// From the last valid step to the first (Keras's go_backwards, ONNX's direction=reverse).
    #[arg(long, help_heading = "Network")]
    pub(super) reverse: bool,

    /// The first h, [L·D, B, P], of the input's type or the arithmetic's; zeros if absent.
    #[arg(long, value_name = "H0.npy", help_heading = "States")]
    pub(super) h0: Option<PathBuf>,
    /// The first c, [L·D, B, H] (lstm).
    #[arg(long, value_name = "C0.npy", help_heading = "States")]
    pub(super) c0: Option<PathBuf>,
    /// Where h after each sequence's last step goes, [L·D, B, P], or [L·D, P] for a single sequence: float32, or float64
    /// for float64 input.
    #[arg(long, value_name = "HN.npy", help_heading = "States")]
    pub(super) final_h: Option<PathBuf>,
    /// Where c goes, [L·D, B, H], in the same way (lstm).
    #[arg(long, value_name = "CN.npy", help_heading = "States")]
    pub(super) final_c: Option<PathBuf>,

    /// At most so many threads; by default as many as there are cores. It changes no bit.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub(super) threads: Option<usize>,
    /// The instruction set: scalar, avx2, avx512 or neon; by default the machine's widest. It changes no bit.
    #[arg(long, value_name = "ISA", help_heading = "Machine")]
    pub(super) isa: Option<Isa>,
}

impl Args {
    /// Everything that is wrong with the options whatever the files hold. The files of weights and input, if all is well.
    pub(super) fn check(&self, cell: Cell) -> Result<(&Path, &Path), Failure> {
        for (option, given) in [("--c0", self.c0.is_some()), ("--final-c", self.final_c.is_some())] {
            if given && cell != Cell::Lstm {
                return Err(Failure::bad_input(format!(
                    "{option} does not fit {cell}, which has no c: expected with lstm"
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

    /// Every file that is to be written, with its option.
    pub(super) fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let places = [("--output", &self.output), ("--final-h", &self.final_h), ("--final-c", &self.final_c)];
        places.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?))).collect()
    }
}

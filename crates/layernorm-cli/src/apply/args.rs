//! The options of `layernorm apply` for normalizations, and which of them can be combined.

use crate::failure::Failure;
use clap::ValueEnum;
use layernorm::Isa;
use std::fmt;
use std::path::{Path, PathBuf};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// Layer norm: normalize the chosen axes to mean 0 and variance 1
    #[value(name = "layer-norm")]
    Layer,
    /// RMS norm: divide the chosen axes by their root mean square
    #[value(name = "rms-norm")]
    Rms,
    /// Batch norm: normalize each channel of [N, C, ...] over the batch, or with running statistics
    #[value(name = "batch-norm")]
    Batch,
    /// Group norm: normalize each group of channels of each sample of [N, C, ...]
    #[value(name = "group-norm")]
    Group,
    /// Instance norm: normalize each channel of each sample of [N, C, ...]
    #[value(name = "instance-norm")]
    Instance,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// The options of the normalizations.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Operation
    #[arg(value_enum)]
    pub(super) op: Op,
    /// Input x, the tensor to normalize
    #[arg(long, value_name = "X.npy")]
    pub(super) input: PathBuf,
    /// Output file for y; required unless --grad-output is given
    #[arg(long, value_name = "Y.npy")]
    pub(super) output: Option<PathBuf>,
    /// Axes that are normalized together, such as -1 or 1,2 [default: the last] (layer-norm, rms-norm)
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_name = "AXES")]
    pub(super) axes: Option<Vec<isize>>,
    /// Number of channel groups (group-norm)
    #[arg(long, value_name = "G")]
    pub(super) groups: Option<usize>,
    /// γ, in the input's type or float32: shaped like the normalized axes (ascending), or one value per channel
    #[arg(long, value_name = "W.npy")]
    pub(super) weight: Option<PathBuf>,
    /// β, in the input's type or float32: shaped like the normalized axes (ascending), or one value per channel
    #[arg(long, value_name = "B.npy")]
    pub(super) bias: Option<PathBuf>,
    /// ε, added to the variance or the mean square: finite, 0 or more
    #[arg(long, default_value = "1e-5", allow_hyphen_values = true, value_name = "E")]
    pub(super) eps: f64,
    /// Use 1 + γ as the gain instead of γ
    #[arg(long)]
    pub(super) zero_centered: bool,
    /// Residual r: normalize h = x + r, rounded to the type (layer-norm, rms-norm)
    #[arg(long, value_name = "R.npy")]
    pub(super) residual: Option<PathBuf>,
    /// Output file for h = x + r
    #[arg(long, value_name = "H.npy")]
    pub(super) residual_output: Option<PathBuf>,

    /// Output file for the means: float32, or float64 for float64 input (not rms-norm, which has none)
    #[arg(long, value_name = "M.npy", help_heading = "Statistics")]
    pub(super) mean_output: Option<PathBuf>,
    /// Output file for 1/sqrt(variance + ε) or 1/sqrt(mean square + ε): float32, or float64 for float64 input
    #[arg(long, value_name = "S.npy", help_heading = "Statistics")]
    pub(super) rstd_output: Option<PathBuf>,
    /// Mean of each channel, used instead of the batch's (batch-norm, with --running-var)
    #[arg(long, value_name = "RM.npy", help_heading = "Statistics")]
    pub(super) running_mean: Option<PathBuf>,
    /// Variance of each channel, used instead of the batch's (batch-norm, with --running-mean)
    #[arg(long, value_name = "RV.npy", help_heading = "Statistics")]
    pub(super) running_var: Option<PathBuf>,

    /// Gradient of y, from which the other gradients are computed
    #[arg(long, value_name = "DY.npy", help_heading = "Backward")]
    pub(super) grad_output: Option<PathBuf>,
    /// Gradient of h from its other uses, added to the gradient of the input (with --residual)
    #[arg(long, value_name = "DH.npy", help_heading = "Backward")]
    pub(super) grad_residual_output: Option<PathBuf>,
    /// Output file for the gradient of x; with a residual, for the gradient of h
    #[arg(long, value_name = "DX.npy", help_heading = "Backward")]
    pub(super) grad_input: Option<PathBuf>,
    /// Output file for the gradient of γ, in γ's type
    #[arg(long, value_name = "DW.npy", help_heading = "Backward")]
    pub(super) grad_weight: Option<PathBuf>,
    /// Output file for the gradient of β, in β's type
    #[arg(long, value_name = "DB.npy", help_heading = "Backward")]
    pub(super) grad_bias: Option<PathBuf>,

    /// Maximum number of threads [default: number of cores]. Does not affect results
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub(super) threads: Option<usize>,
    /// Instruction set: scalar, avx2, avx512 or neon [default: the widest available]. Does not affect results
    #[arg(long, value_name = "ISA", help_heading = "Machine")]
    pub(super) isa: Option<Isa>,
}

impl Args {
    /// Checks everything about the options that does not depend on the files.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_operation()?;
        self.check_companions()?;
        match (self.op, self.groups) {
            (Op::Group, None) => Err(Failure::bad_input("group-norm: expected --groups, found none")),
            _ => Ok(()),
        }
    }

    /// Fails if an option does not apply to the operation.
    fn check_operation(&self) -> Result<(), Failure> {
        const ROWS: &[Op] = &[Op::Layer, Op::Rms];
        const CENTERED: &[Op] = &[Op::Layer, Op::Batch, Op::Group, Op::Instance];
        let fits: [(&str, bool, &[Op]); 8] = [
            ("--axes", self.axes.is_some(), ROWS),
            ("--residual", self.residual.is_some(), ROWS),
            ("--residual-output", self.residual_output.is_some(), ROWS),
            ("--grad-residual-output", self.grad_residual_output.is_some(), ROWS),
            ("--groups", self.groups.is_some(), &[Op::Group]),
            ("--running-mean", self.running_mean.is_some(), &[Op::Batch]),
            ("--running-var", self.running_var.is_some(), &[Op::Batch]),
            ("--mean-output", self.mean_output.is_some(), CENTERED),
        ];
        match fits.into_iter().find(|(_, given, ops)| *given && !ops.contains(&self.op)) {
            Some((option, _, ops)) => {
                let names: Vec<_> = ops.iter().map(Op::to_string).collect();
                let message = format!("{option} does not apply to {}: expected {}", self.op, names.join(" or "));
                Err(Failure::bad_input(message))
            }
            None => Ok(()),
        }
    }

    /// Fails if an option is given without the one it needs.
    fn check_companions(&self) -> Result<(), Failure> {
        let backward = self.grad_output.is_some();
        let gradients = [&self.grad_input, &self.grad_weight, &self.grad_bias].map(Option::is_some);
        let residual = self.residual.is_some();
        let (mean, var) = (self.running_mean.is_some(), self.running_var.is_some());
        let needs = [
            ("--grad-input", gradients[0], "--grad-output", backward),
            ("--grad-weight", gradients[1], "--grad-output", backward),
            ("--grad-bias", gradients[2], "--grad-output", backward),
            ("--grad-residual-output", self.grad_residual_output.is_some(), "--grad-output", backward),
            ("--grad-residual-output", self.grad_residual_output.is_some(), "--residual", residual),
            ("--residual-output", self.residual_output.is_some(), "--residual", residual),
            ("--running-mean", mean, "--running-var", var),
            ("--running-var", var, "--running-mean", mean),
            ("--grad-output", backward, "--grad-input, --grad-weight or --grad-bias", gradients.contains(&true)),
            ("apply", !backward, "--output or --grad-output", self.output.is_some()),
        ];
        match needs.into_iter().find(|(_, given, _, present)| *given && !present) {
            Some((option, _, companion, _)) => {
                Err(Failure::bad_input(format!("{option}: expected {companion}, found none")))
            }
            None => Ok(()),
        }
    }

    /// Every output file, with its option.
    pub(super) fn outputs(&self) -> Vec<(&'static str, &Path)> {
        let places = [
            ("--output", &self.output),
            ("--residual-output", &self.residual_output),
            ("--mean-output", &self.mean_output),
            ("--rstd-output", &self.rstd_output),
            ("--grad-input", &self.grad_input),
            ("--grad-weight", &self.grad_weight),
            ("--grad-bias", &self.grad_bias),
        ];
        places.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?))).collect()
    }
}

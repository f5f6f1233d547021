//! The options of `layernorm apply` with a normalization, and which of them go together.

use crate::failure::Failure;
use clap::ValueEnum;
use layernorm::Isa;
use std::fmt;
use std::path::{Path, PathBuf};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// The chosen axes to mean 0 and variance 1.
    #[value(name = "layer-norm")]
    Layer,
    /// The chosen axes divided by their root mean square.
    #[value(name = "rms-norm")]
    Rms,
    /// Each channel of [N, C, ...] over the whole batch, or by running statistics.
    #[value(name = "batch-norm")]
    Batch,
    /// Each group of channels of each sample of [N, C, ...].
    #[value(name = "group-norm")]
    Group,
    /// Each channel of each sample of [N, C, ...].
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
    /// The operation.
    #[arg(value_enum)]
    pub(super) op: Op,
    /// x, the tensor to normalize.
    #[arg(long, value_name = "X.npy")]
    pub(super) input: PathBuf,
    /// Where y goes. Needed unless --grad-output is given.
    #[arg(long, value_name = "Y.npy")]
    pub(super) output: Option<PathBuf>,
    /// The axes that are normalized together, such as -1 or 1,2; by default the last (layer-norm, rms-norm).
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_name = "AXES")]
    pub(super) axes: Option<Vec<isize>>,
    /// The number of groups that the channels are cut into (group-norm).
    #[arg(long, value_name = "G")]
    pub(super) groups: Option<usize>,
    /// γ: of the input's type or float32; the shape of the axes in ascending order, or one per channel.
    #[arg(long, value_name = "W.npy")]
    pub(super) weight: Option<PathBuf>,
    /// β: of the input's type or float32; the shape of the axes in ascending order, or one per channel.
    #[arg(long, value_name = "B.npy")]
    pub(super) bias: Option<PathBuf>,
    /// ε, added to the variance or the mean square: finite, 0 or more.
    #[arg(long, default_value = "1e-5", allow_hyphen_values = true, value_name = "E")]
    pub(super) eps: f64,
    /// The gain is 1 + γ instead of γ.
    #[arg(long)]
    pub(super) zero_centered: bool,
    /// r: the norm is that of h = x + r, rounded to the type (layer-norm, rms-norm).
    #[arg(long, value_name = "R.npy")]
    pub(super) residual: Option<PathBuf>,
    /// Where h = x + r goes.
    #[arg(long, value_name = "H.npy")]
    pub(super) residual_output: Option<PathBuf>,

    /// Where the means go: float32, or float64 for float64 input (not rms-norm, which has none).
    #[arg(long, value_name = "M.npy", help_heading = "Statistics")]
    pub(super) mean_output: Option<PathBuf>,
    /// Where 1/sqrt(variance + ε) goes, or 1/sqrt(mean square + ε): float32, or float64 for float64 input.
    #[arg(long, value_name = "S.npy", help_heading = "Statistics")]
    pub(super) rstd_output: Option<PathBuf>,
    /// The mean of each channel, instead of the batch's own (batch-norm, with --running-var).
    #[arg(long, value_name = "RM.npy", help_heading = "Statistics")]
    pub(super) running_mean: Option<PathBuf>,
    /// The variance of each channel, instead of the batch's own (batch-norm, with --running-mean).
    #[arg(long, value_name = "RV.npy", help_heading = "Statistics")]
    pub(super) running_var: Option<PathBuf>,

    /// The gradient of y, from which the others are computed.
    #[arg(long, value_name = "DY.npy", help_heading = "Backward")]
    pub(super) grad_output: Option<PathBuf>,
    /// The gradient of h from its other users, added to the gradient of the input (with --residual).
    #[arg(long, value_name = "DH.npy", help_heading = "Backward")]
    pub(super) grad_residual_output: Option<PathBuf>,
    /// Where the gradient of x goes; with a residual, that of h.
    #[arg(long, value_name = "DX.npy", help_heading = "Backward")]
    pub(super) grad_input: Option<PathBuf>,
    /// Where the gradient of γ goes, of γ's type.
    #[arg(long, value_name = "DW.npy", help_heading = "Backward")]
    pub(super) grad_weight: Option<PathBuf>,
    /// Where the gradient of β goes, of β's type.
    #[arg(long, value_name = "DB.npy", help_heading = "Backward")]
    pub(super) grad_bias: Option<PathBuf>,

    /// At most so many threads; by default as many as there are cores. It changes no bit.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub(super) threads: Option<usize>,
    /// The instruction set: scalar, avx2, avx512 or neon; by default the machine's widest. It changes no bit.
    #[arg(long, value_name = "ISA", help_heading = "Machine")]
    pub(super) isa: Option<Isa>,
}

impl Args {
    /// Everything that is wrong with the options whatever the files hold.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_operation()?;
        self.check_companions()?;
        match (self.op, self.groups) {
            (Op::Group, None) => Err(Failure::bad_input("group-norm: expected --groups, found none")),
            _ => Ok(()),
        }
    }

    /// Each option with the operations that it is for.
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
                let message = format!("{option} does not fit {}: expected with {}", self.op, names.join(" or "));
                Err(Failure::bad_input(message))
            }
            None => Ok(()),
        }
    }

    /// Each option with the one that it makes no sense without.
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
                Err(Failure::bad_input(format!("{option}: expected {companion} with it, found none")))
            }
            None => Ok(()),
        }
    }

    /// Every file that is to be written, with its option.
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

//! `layernorm tour`: a short verify and a short bench on this machine, with an explanation.

use crate::failure::Failure;
use crate::{bench, show, verify};

/// Runs both, prints the tables and explains them.
pub fn run() -> Result<(), Failure> {
    let report = verify::Report::new(true)?;
    show::print(&format!("{}\n", report.render()))?;
    report.verdict()?;
    let (table, ratio) = bench::short()?;
    show::print(&format!(
        "{table}\n\
         What this shows. Accuracy: where the mean of a row is large relative to its spread, or its sums overflow, the\n\
         error stays within 4 units in the last place, while common implementations lose most or all digits.\n\
         Reproducibility: the instruction set, the number of threads and the rest of the batch do not affect a row, so\n\
         results can be compared with ==. Speed: on one thread, forward takes at most {ratio:.2} times as long as\n\
         multiplying the tensor by a constant.\n\n\
         Next:\n  \
         layernorm bench                     all shapes, against copy, scale and triad (under a minute)\n  \
         layernorm bench --implementations   speed and error of common implementations of layer norm\n  \
         layernorm verify                    the full check, including large tensors\n  \
         layernorm apply --help              normalize the arrays in your files\n  \
         layernorm bench --op lstm           the paper's LSTM compared with the plain one (under a minute)\n  \
         layernorm weights --help            create, inspect and convert weights of recurrent networks\n  \
         layernorm study                     what normalization does to networks trained on real digits\n"
    ))
}

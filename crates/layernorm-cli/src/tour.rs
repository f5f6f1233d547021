//! `layernorm tour`: what the library promises, shown on this machine in a few seconds.

use crate::failure::Failure;
use crate::{bench, show, verify};

/// Verifies, measures, and says what it shows.
pub fn run() -> Result<(), Failure> {
    let report = verify::Report::new(true)?;
    show::print(&format!("{}\n", report.render()))?;
    report.verdict()?;
    let (table, ratio) = bench::short()?;
    show::print(&format!(
        "{table}\n\
         What this shows. Accuracy: rows whose mean is large beside their spread, or whose sums overflow, come out right to\n\
         the last digits, where the usual ways lose most or all of them. Bits: instruction set, thread count and the batch\n\
         around a row change nothing, so a result can be compared by ==. Speed: on one thread, forward takes at most {ratio:.2}\n\
         times as long as multiplying the tensor by a constant.\n\n\
         Next:\n  \
         layernorm bench                     all shapes, against copy, scale and triad (under a minute)\n  \
         layernorm bench --implementations   the textbook ways, in speed and in error\n  \
         layernorm verify                    the full check, large tensors too\n  \
         layernorm apply --help              normalize the arrays in your files\n  \
         layernorm bench --op lstm           the paper's LSTM beside the plain one (under a minute)\n  \
         layernorm weights --help            recurrent networks: make, look at and convert their weights\n  \
         layernorm study                     what normalization does to networks, on real digits\n"
    ))
}

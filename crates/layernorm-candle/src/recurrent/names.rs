//! Names of parameters in a checkpoint: those of PyTorch and candle-nn where they have the parameter, otherwise those
//! of our Python package, so that checkpoints can be exchanged.

use layernorm_rnn::{Config, Direction, Entry, Slot};

/// `weight_ih_l0`, `weight_ih_l0_reverse` for the cell that runs backward in time, and so on.
pub(super) fn name(config: &Config, entry: &Entry) -> String {
    let reverse = entry.direction == 1 || config.direction == Direction::Reverse;
    let reverse = if reverse { "_reverse" } else { "" };
    format!("{}_l{}{reverse}", stem(entry.slot), entry.layer)
}

fn stem(slot: Slot) -> &'static str {
    match slot {
        Slot::InputWeight => "weight_ih",
        Slot::RecurrentWeight => "weight_hh",
        Slot::InputBias => "bias_ih",
        Slot::RecurrentBias => "bias_hh",
        Slot::Bias => "bias_gates",
        Slot::InputNormGain => "norm_ih_weight",
        Slot::InputNormBias => "norm_ih_bias",
        Slot::RecurrentNormGain => "norm_hh_weight",
        Slot::RecurrentNormBias => "norm_hh_bias",
        Slot::SumNormGain => "norm_weight",
        Slot::SumNormBias => "norm_bias",
        Slot::CellNormGain => "norm_c_weight",
        Slot::CellNormBias => "norm_c_bias",
        Slot::Peephole => "weight_c",
        Slot::Projection => "weight_hr",
        Slot::ProjectionBias => "bias_hr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_python_package() {
        let python = include_str!("_names.py");
        for slot in Slot::ALL {
            let line = format!("\"{}\": \"{}\",", slot.name(), stem(slot));
            assert!(python.contains(&line), "expected {line} in the table of python/layernorm/_names.py");
        }
    }
}

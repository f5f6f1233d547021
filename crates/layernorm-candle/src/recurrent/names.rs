//! What parameters are called in a checkpoint: as PyTorch and candle-nn call those that they have.

use layernorm_rnn::{Config, Direction, Entry, Slot};

/// `weight_ih_l0`, `weight_ih_l0_reverse` for the cell that goes backward in time, and so on.
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
        Slot::Bias => "bias",
        Slot::InputNormGain => "input_norm_weight",
        Slot::InputNormBias => "input_norm_bias",
        Slot::RecurrentNormGain => "recurrent_norm_weight",
        Slot::RecurrentNormBias => "recurrent_norm_bias",
        Slot::SumNormGain => "sum_norm_weight",
        Slot::SumNormBias => "sum_norm_bias",
        Slot::CellNormGain => "cell_norm_weight",
        Slot::CellNormBias => "cell_norm_bias",
        Slot::Peephole => "peephole",
        Slot::Projection => "weight_hr",
        Slot::ProjectionBias => "bias_hr",
    }
}

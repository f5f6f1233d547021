//! Trains a layer-normalized LSTM, followed by a layer norm and a linear layer, to add the two marked numbers of a
//! sequence. Takes seconds.
//!
//! `cargo run --release --example train`, in the crate's folder: the crate is a workspace of its own.

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{AdamW, Linear, Optimizer, VarBuilder, VarMap, linear};
use layernorm::parts::SplitMix64;
use layernorm_candle::{LayerNorm, Lstm, RecurrentConfig, layer_norm, lstm};

const STEPS: usize = 20;
const BATCH: usize = 64;
const HIDDEN: usize = 32;

/// The whole network.
struct Adder {
    lstm: Lstm,
    norm: LayerNorm,
    head: Linear,
}

impl Adder {
    fn new(vb: VarBuilder) -> Result<Adder> {
        let config = RecurrentConfig { seed: Some(1), ..RecurrentConfig::from("paper") };
        Ok(Adder {
            lstm: lstm(2, HIDDEN, config, vb.pp("lstm"))?,
            norm: layer_norm(HIDDEN, 1e-5, vb.pp("norm"))?,
            head: linear(HIDDEN, 1, vb.pp("head"))?,
        })
    }

    /// Maps sequences `[B, T, 2]` to sums `[B]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (_, state) = self.lstm.forward(x, None)?;
        self.head.forward(&self.norm.forward(&state.h.squeeze(0)?)?)?.squeeze(1)
    }
}

/// Sequences `[B, T, 2]` of numbers between 0 and 1, two of which are marked, and the sums `[B]` of those two.
fn batch(random: &mut impl FnMut() -> f32) -> Result<(Tensor, Tensor)> {
    let mut x = vec![0.0; BATCH * STEPS * 2];
    let mut sums = vec![0.0; BATCH];
    for (sequence, sum) in x.chunks_mut(STEPS * 2).zip(&mut sums) {
        sequence.iter_mut().step_by(2).for_each(|number| *number = random());
        let half = STEPS / 2;
        for first in [0, half] {
            let place = first + (random() * half as f32) as usize;
            sequence[2 * place + 1] = 1.0;
            *sum += sequence[2 * place];
        }
    }
    Ok((Tensor::from_vec(x, (BATCH, STEPS, 2), &Device::Cpu)?, Tensor::from_vec(sums, BATCH, &Device::Cpu)?))
}

fn main() -> Result<()> {
    let variables = VarMap::new();
    let model = Adder::new(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    let mut optimizer = AdamW::new_lr(variables.all_vars(), 0.005)?;
    let mut bits = SplitMix64::new(1);
    let mut random = || (bits.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
    for step in 0..=600 {
        let (x, sums) = batch(&mut random)?;
        let loss = (model.forward(&x)? - sums)?.sqr()?.mean_all()?;
        if step % 100 == 0 {
            // Always answering 1 gives a mean squared error of 1/6.
            println!("step {step:>4}: mean squared error {:.5}", loss.to_scalar::<f32>()?);
        }
        optimizer.backward_step(&loss)?;
    }
    Ok(())
}

//! Adam in one pass over each parameter, bit-identical to Burn's.
//!
//! ```text
//! m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        (0 before the first step)
//! s = √(1 − β₂ᵗ)/(1 − β₁ᵗ)      w ← w − η·(s·m/(√v + ε·√(1 − β₂ᵗ)))
//! ```
//!
//! Burn evaluates these formulas with one tensor operation for each of their thirteen steps. Here every element goes
//! through the same thirteen roundings in the same order, but the numbers are read and written once, which matters most
//! with small batches. The state is Burn's own, and so is its format in checkpoints.

use burn::optim::{AdamState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor, TensorData};

/// Adam (Kingma and Ba, 2015) with Burn's default constants.
#[derive(Clone, Debug)]
pub(crate) struct Adam {
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
}

impl Adam {
    pub(crate) const fn new() -> Adam {
        Adam { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5 }
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        weight: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let (shape, device) = (weight.dims(), weight.device());
        let tensor = |numbers: Vec<f32>| Tensor::from_data(TensorData::new(numbers, shape), &device);
        let (mut weight, gradient) = (numbers(weight), numbers(gradient));
        let (time, mut first, mut second) = match state.map(|state| state.momentum) {
            Some(state) => (state.time + 1, numbers(state.moment_1), numbers(state.moment_2)),
            // β·0 + x has the bits of x, except that −0 becomes 0, which then changes nothing.
            None => (1, vec![0.0; weight.len()], vec![0.0; weight.len()]),
        };
        self.update(rate as f32, time, &mut weight, &gradient, &mut first, &mut second);
        let momentum = AdaptiveMomentumState::new(time, tensor(first), tensor(second));
        (tensor(weight), Some(AdamState::new(momentum)))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState::new(state.momentum.to_device(device))
    }
}

impl Adam {
    fn update(&self, rate: f32, time: usize, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let Adam { beta_1, beta_2, epsilon } = *self;
        let (keep_1, keep_2) = (1.0 - beta_1, 1.0 - beta_2);
        let root = (1.0 - beta_2.powi(time as i32)).sqrt();
        let (scale, floor) = (root / (1.0 - beta_1.powi(time as i32)), epsilon * root);
        for (((w, &g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            *m = *m * beta_1 + g * keep_1;
            *v = *v * beta_2 + g * g * keep_2;
            *w -= *m * scale / (v.sqrt() + floor) * rate;
        }
    }
}

/// A tensor's numbers in row-major order, without a copy if nothing else uses them.
fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec_as::<f32>().expect("parameters, gradients and moments are f32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SplitMix64;
    use burn::optim::AdamConfig;

    #[test]
    fn every_step_has_the_bits_of_burns_adam() {
        let device = Device::flex();
        let mut random = SplitMix64::new(3);
        let mut draw = |scale: f64| -> Vec<f32> {
            // Zeros of both signs and numbers of very different sizes occur in gradients.
            let number = |random: &mut SplitMix64| match random.next_u64() % 8 {
                0 => 0.0,
                1 => -0.0,
                size => (scale * (random.uniform() - 0.5) * 10f64.powi(-(size as i32))) as f32,
            };
            (0..37 * 5).map(|_| number(&mut random)).collect()
        };
        let tensor = |numbers: Vec<f32>| Tensor::<2>::from_data(TensorData::new(numbers, [37, 5]), &device);
        let (ours, theirs) = (Adam::new(), AdamConfig::new().build());
        let start = draw(1.0);
        let (mut a, mut b) = (tensor(start.clone()), tensor(start));
        let (mut state_a, mut state_b) = (None, None);
        for step in 0..200 {
            let gradient = draw(10f64.powi(step % 7 - 3));
            let rate = 1e-3 * f64::from(1 + step);
            (a, state_a) = ours.step(rate, a, tensor(gradient.clone()), state_a);
            (b, state_b) = theirs.step(rate, b, tensor(gradient), state_b);
            let bits = |tensor: &Tensor<2>| numbers(tensor.clone()).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&a), bits(&b), "step {step}");
        }
        let (a, b) = (state_a.unwrap().momentum, state_b.unwrap().momentum);
        assert_eq!((a.time, numbers(a.moment_2)), (b.time, numbers(b.moment_2)));
    }
}

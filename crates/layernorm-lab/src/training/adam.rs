//! Adam in one pass over each parameter, with the bits of Burn's for all weights that are not tiny.
//!
//! ```text
//! m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        (0 before the first step)
//! s = √(1 − β₂ᵗ)/(1 − β₁ᵗ)      w ← w − η·(s·m/(√v + ε·√(1 − β₂ᵗ)))
//! ```
//!
//! Burn evaluates these formulas with one tensor operation for each of their thirteen steps. Here every element goes
//! through the same thirteen roundings in the same order, but the numbers are read and written once, which matters most
//! with small batches. The state is Burn's own, and so is its format in checkpoints.
//!
//! Moments below [`f32::MIN_POSITIVE`] become 0. Where a gradient stays 0, as at a dead ReLU, m decays to a subnormal number
//! and remains there, because β₁·m rounds to m; arithmetic with such numbers makes a step several times as long. The change
//! of w that this omits is at most η·s·2⁻¹²⁶/(ε·√(1 − β₂ᵗ)) < 10⁻³¹·η, which is below half a unit in the last place of
//! every |w| > 10⁻²³·η; a subnormal v changes √v + ε·√(1 − β₂ᵗ) not at all.

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
            *m = normal_or_zero(*m * beta_1 + g * keep_1);
            *v = normal_or_zero(*v * beta_2 + g * g * keep_2);
            *w -= *m * scale / (v.sqrt() + floor) * rate;
        }
    }
}

/// The number, or 0 if it is subnormal. NaN stays NaN.
fn normal_or_zero(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
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

    #[test]
    fn moments_end_at_zero_where_gradients_end() {
        let device = Device::flex();
        let tensor = |number: f32| Tensor::<1>::from_data(TensorData::new(vec![number; 3], [3]), &device);
        let (ours, theirs) = (Adam::new(), AdamConfig::new().build());
        let (mut a, mut b, mut state_a, mut state_b) = (tensor(0.5), tensor(0.5), None, None);
        for step in 0..1200 {
            let gradient = if step < 3 { 0.1 } else { 0.0 };
            (a, state_a) = ours.step(1e-2, a, tensor(gradient), state_a);
            (b, state_b) = theirs.step(1e-2, b, tensor(gradient), state_b);
        }
        // Burn's m is stuck at a few units of the smallest number, which moves no weight any more.
        let moment = |state: Option<AdamState<1>>| numbers(state.unwrap().momentum.moment_1)[0];
        let (ours, theirs) = (moment(state_a), moment(state_b));
        assert!(ours == 0.0 && theirs.is_subnormal(), "{ours:e}, {theirs:e}");
        assert_eq!(numbers(a), numbers(b));
    }
}

//! Pseudorandom numbers, tensors made from them, and bitwise comparison.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var, WithDType};
use candle_nn::{VarBuilder, VarMap};
use layernorm::parts::SplitMix64;
use layernorm::{Element, Float};

pub const CPU: Device = Device::Cpu;

/// Numbers within ±1 from a seed; every seventh is 30 times as large.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let mut next = || (random.next_u64() >> 40) as f64 / (1u64 << 23) as f64 - 1.0;
    (0..count).map(|i| if i % 7 == 3 { 30.0 * next() } else { next() }).collect()
}

pub fn random<T: Element>(seed: u64, count: usize) -> Vec<T> {
    numbers(seed, count).into_iter().map(|x| T::narrow(<T::Acc as Float>::from_f64(x))).collect()
}

/// A constant.
pub fn tensor<T: WithDType>(numbers: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(numbers, shape, &CPU).unwrap()
}

/// A variable.
pub fn var<T: WithDType>(numbers: &[T], shape: &[usize]) -> Var {
    Var::from_tensor(&tensor(numbers, shape)).unwrap()
}

/// The numbers of a tensor, which must have this type.
pub fn values<T: WithDType>(tensor: &Tensor) -> Vec<T> {
    assert_eq!(tensor.dtype(), T::DTYPE);
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Asserts that the bits are equal.
pub fn same<T: WithDType>(what: &str, tensor: &Tensor, expected: &[T]) {
    compare(what, tensor, expected, |x| x);
}

/// Asserts that the bits are equal, except for the sign of zeros: Candle adds every gradient to a 0, and −0 + 0 is 0.
pub fn same_gradient<T: WithDType>(what: &str, gradients: &GradStore, of: &Tensor, expected: &[T]) {
    let gradient = gradients.get(of).unwrap_or_else(|| panic!("{what}: no gradient"));
    assert_eq!(gradient.dims(), of.dims(), "{what}");
    compare(what, gradient, expected, |x| x + 0.0);
}

fn compare<T: WithDType>(what: &str, tensor: &Tensor, expected: &[T], seen: impl Fn(f64) -> f64) {
    let found = values::<T>(tensor);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (seen(found.to_f64()), seen(expected.to_f64()));
        assert_eq!(found.to_bits(), expected.to_bits(), "{what}, element {i}: {found:?}, expected {expected:?}");
    }
}

/// A loss whose gradient with respect to y is dy: Σ y·dy.
pub fn loss(y: &Tensor, dy: &Tensor) -> Tensor {
    (y * dy).unwrap().sum_all().unwrap()
}

/// A map of variables, and its builder.
pub fn builder(dtype: DType) -> (VarMap, VarBuilder<'static>) {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, dtype, &CPU);
    (map, vb)
}

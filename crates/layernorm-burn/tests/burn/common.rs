//! Pseudorandom numbers, tensors made from them, and bitwise comparison.

use burn::tensor::{Device, Element, Tensor, TensorData};
use layernorm::parts::SplitMix64;

/// Numbers within ±1 from a seed; every seventh is 30 times as large.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let mut next = || (random.next_u64() >> 40) as f64 / (1u64 << 23) as f64 - 1.0;
    (0..count).map(|i| if i % 7 == 3 { 30.0 * next() } else { next() }).collect()
}

/// The numbers converted to a type.
pub fn of<T: layernorm::Element>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|&x| T::narrow(<T::Acc as layernorm::Float>::from_f64(x))).collect()
}

pub fn random<T: layernorm::Element>(seed: u64, count: usize) -> Vec<T> {
    of(&numbers(seed, count))
}

/// A tensor of these numbers, in their own type.
pub fn tensor<T: Element, const D: usize>(numbers: &[T], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), shape), (device, T::dtype()))
}

/// A leaf tensor that requires a gradient.
pub fn leaf<T: Element, const D: usize>(numbers: &[T], shape: [usize; D], device: &Device) -> Tensor<D> {
    tensor(numbers, shape, device).require_grad()
}

/// The numbers of a tensor, which must have this type.
pub fn values<T: Element, const D: usize>(tensor: &Tensor<D>) -> Vec<T> {
    assert_eq!(tensor.dtype(), T::dtype());
    tensor.to_data().try_to_vec().unwrap()
}

/// Asserts that the bits are equal.
pub fn same<T: Element, const D: usize>(what: &str, tensor: &Tensor<D>, expected: &[T]) {
    let found = values::<T, D>(tensor);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let bits = |x: &T| x.to_f64().to_bits();
        assert_eq!(bits(found), bits(expected), "{what}, element {i}: {found:?}, expected {expected:?}");
    }
}

pub fn cpu() -> Device {
    Device::flex()
}

pub fn training() -> Device {
    Device::flex().autodiff()
}

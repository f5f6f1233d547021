//! Plain Rust, for any machine. A vector is an array, and the compiler may vectorize it: it cannot reorder or
//! contract any of the operations. `mul_add` is a true fused multiply-add everywhere (in software if necessary).

use crate::element::{Element, Float};
use crate::kernels::vector::{Simd, Vector};
use half::{bf16, f16};

/// The instruction set available on every machine.
#[derive(Clone, Copy)]
pub struct Scalar;

/// Lanes of the scalar vectors.
const LANES: usize = 8;

/// An array used as a vector.
#[derive(Clone, Copy)]
pub struct Array<A>([A; LANES]);

impl<A: Float> Array<A> {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(A, A) -> A) -> Self {
        Array(std::array::from_fn(|i| f(self.0[i], b.0[i])))
    }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl<A: Float> Vector for Array<A> {
    type Elem = A;
    const LANES: usize = LANES;

    #[inline(always)]
    fn splat(x: A) -> Self {
        Array([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const A) -> Self {
        // SAFETY: the caller guarantees LANES valid elements; an array requires no more alignment than an element.
        Array(unsafe { *p.cast::<[A; LANES]>() })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const A, n: usize) -> Self {
        // SAFETY: only the first n elements are read.
        Array(std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { A::ZERO }))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut A) {
        // SAFETY: the caller guarantees LANES valid elements.
        unsafe { *p.cast::<[A; LANES]>() = self.0 }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut A, n: usize) {
        for (i, &x) in self.0[..n].iter().enumerate() {
            // SAFETY: i < n, guaranteed valid by the caller.
            unsafe { *p.add(i) = x }
        }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut A) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { self.store(p) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        self.zip(b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i].fma(b.0[i], c.0[i])))
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        Array(std::array::from_fn(|i| (-self.0[i]).fma(b.0[i], c.0[i])))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Array(self.0.map(Float::sqrt))
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        Array(self.0.map(|x| if x < A::ZERO { A::ZERO } else { x }))
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        self.zip(limit, |x, limit| if x < limit { limit } else { x })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        self.zip(limit, |x, limit| if x > limit { limit } else { x })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        Array(self.0.map(Float::power_of_two))
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        Array(std::array::from_fn(|i| if i < n { self.0[i] } else { A::ZERO }))
    }
    #[inline(always)]
    fn fold(self) -> A {
        let mut lane = self.0;
        let mut s = LANES / 2;
        while s > 0 {
            for l in 0..s {
                lane[l] = lane[l] + lane[l + s];
            }
            s /= 2;
        }
        lane[0]
    }
}

#[inline(always)]
unsafe fn widen<T: Element<Acc = f32>>(p: *const T) -> Array<f32> {
    // SAFETY: the caller guarantees LANES valid elements.
    Array(std::array::from_fn(|i| unsafe { *p.add(i) }.widen()))
}

#[inline(always)]
unsafe fn narrow<T: Element<Acc = f32>>(p: *mut T, v: Array<f32>) {
    // SAFETY: the caller guarantees LANES valid elements.
    unsafe { *p.cast::<[T; LANES]>() = v.0.map(T::narrow) }
}

// SAFETY: as above.
unsafe impl Simd for Scalar {
    type F32 = Array<f32>;
    type F64 = Array<f64>;
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> Array<f32> {
        // SAFETY: the caller upholds the same requirements.
        unsafe { widen(p) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut f16, v: Array<f32>) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn stream_f16(p: *mut f16, v: Array<f32>) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> Array<f32> {
        // SAFETY: the caller upholds the same requirements.
        unsafe { widen(p) }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut bf16, v: Array<f32>) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut bf16, v: Array<f32>) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    fn prefetch<T>(_: *const T) {}
    #[inline(always)]
    fn prefetch_write<T>(_: *mut T) {}
    #[inline(always)]
    fn stream_fence() {}
}

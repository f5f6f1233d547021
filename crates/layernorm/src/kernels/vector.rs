//! The small vector trait that every kernel is written over. Each instruction set implements [`Simd`]; the kernels
//! use nothing else.
//!
//! Arithmetic methods are safe to call: a kernel runs only through [`crate::arch::MachineIsa::run`], whose `self`
//! exists only if the machine has the instruction set. Methods that take a pointer are unsafe because of the pointer.

use crate::element::Float;
use half::{bf16, f16};

/// Maximum number of lanes of a vector.
pub const MAX_LANES: usize = 16;

/// Vector of one arithmetic type. Every operation is IEEE 754, round to nearest even, with subnormals.
///
/// # Safety
/// `LANES` is a power of two, at most [`MAX_LANES`]. Loads and stores access only what they document. No safe code
/// outside this crate can name the type, because its arithmetic may use instructions that a machine lacks.
pub unsafe trait Vector: Copy {
    /// Type of a lane.
    type Elem: Float;
    /// Number of lanes: a power of two, at most [`MAX_LANES`].
    const LANES: usize;

    /// Returns a vector with all lanes set to `x`.
    fn splat(x: Self::Elem) -> Self;
    /// # Safety
    /// `p` is valid for reads of `LANES` elements.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// Loads the first `n` lanes from memory and sets the others to 0.
    /// # Safety
    /// `p` is valid for reads of `n < LANES` elements.
    unsafe fn load_first(p: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `p` is valid for writes of `LANES` elements.
    unsafe fn store(self, p: *mut Self::Elem);
    /// # Safety
    /// `p` is valid for writes of `n < LANES` elements.
    unsafe fn store_first(self, p: *mut Self::Elem, n: usize);
    /// Stores a vector, bypassing the cache where possible.
    /// # Safety
    /// As `store`, and `p` is aligned to the vector's size.
    unsafe fn stream(self, p: *mut Self::Elem);
    /// a + b
    fn add(self, b: Self) -> Self;
    /// a − b
    fn sub(self, b: Self) -> Self;
    /// a · b
    fn mul(self, b: Self) -> Self;
    /// a / b
    fn div(self, b: Self) -> Self;
    /// a · b + c, rounded once
    fn fma(self, b: Self, c: Self) -> Self;
    /// −a · b + c, rounded once
    fn neg_fma(self, b: Self, c: Self) -> Self;
    /// √a
    fn sqrt(self) -> Self;
    /// Returns the larger of each lane and 0. A NaN stays a NaN.
    fn or_zero(self) -> Self;
    /// Returns the larger of each lane and the limit's lane. A NaN stays a NaN.
    fn at_least(self, limit: Self) -> Self;
    /// Returns the smaller of each lane and the limit's lane. A NaN stays a NaN.
    fn at_most(self, limit: Self) -> Self;
    /// Returns 2ⁿ for lanes that hold n + [`Float::ROUNDER`], where n is an integer and 2ⁿ is normal.
    fn power_of_two(self) -> Self;
    /// Keeps the first `n` lanes and sets the others to 0.
    fn keep_first(self, n: usize) -> Self;
    /// Returns the sum of the lanes, folded high bit first: lane l + s is added to lane l for s = LANES/2, …, 1.
    fn fold(self) -> Self::Elem;
    /// Computes [`Vector::fold`] of the first `LANES` vectors: lane i is the sum of vector i.
    #[inline(always)]
    fn fold_each(rows: &[Self; MAX_LANES]) -> Self {
        let mut sums = [Self::Elem::ZERO; MAX_LANES];
        for (sum, row) in sums.iter_mut().zip(&rows[..Self::LANES]) {
            *sum = row.fold();
        }
        // SAFETY: `sums` has at least LANES elements.
        unsafe { Self::load(sums.as_ptr()) }
    }
}

/// An instruction set: its vectors, and conversions from and to half precision in memory.
///
/// # Safety
/// Same requirements as [`Vector`].
pub unsafe trait Simd: Copy + 'static {
    /// Vector of f32.
    type F32: Vector<Elem = f32>;
    /// Vector of f64.
    type F64: Vector<Elem = f64>;
    /// # Safety
    /// `p` is valid for reads of a whole vector.
    unsafe fn load_f16(p: *const f16) -> Self::F32;
    /// # Safety
    /// `p` is valid for writes of a whole vector.
    unsafe fn store_f16(p: *mut f16, v: Self::F32);
    /// # Safety
    /// As `store_f16`, and `p` is aligned to the bytes written.
    unsafe fn stream_f16(p: *mut f16, v: Self::F32);
    /// # Safety
    /// `p` is valid for reads of a whole vector.
    unsafe fn load_bf16(p: *const bf16) -> Self::F32;
    /// # Safety
    /// `p` is valid for writes of a whole vector.
    unsafe fn store_bf16(p: *mut bf16, v: Self::F32);
    /// # Safety
    /// As `store_bf16`, and `p` is aligned to the bytes written.
    unsafe fn stream_bf16(p: *mut bf16, v: Self::F32);
    /// Prefetches the cache line at `p`, which need not be valid.
    fn prefetch<T>(p: *const T);
    /// Prefetches the cache line at `p`, which need not be valid, for writing.
    fn prefetch_write<T>(p: *mut T);
    /// Makes streamed stores visible to other threads.
    fn stream_fence();
}

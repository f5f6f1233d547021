//! The small vector that every kernel is written over. One instruction set implements [`Simd`]; the kernels know no other.
//!
//! Arithmetic methods are safe to call: a kernel runs only through [`crate::arch::MachineIsa::run`], whose `self` exists only
//! where the machine has the instruction set. Methods that take a pointer are unsafe for the pointer's sake.

use crate::element::Float;
use half::{bf16, f16};

/// The most lanes that any vector has.
pub const MAX_LANES: usize = 16;

/// A vector of one arithmetic type. Every operation is IEEE, round to nearest even, subnormals kept.
///
/// # Safety
/// `LANES` is a power of two of at most [`MAX_LANES`]; loads and stores touch no more than they say; and no safe code outside
/// of this crate can name the type, for its arithmetic may be instructions that a machine lacks.
pub unsafe trait Vector: Copy {
    /// The lane's type.
    type Elem: Float;
    /// How many lanes: a power of two, at most [`MAX_LANES`].
    const LANES: usize;

    /// All lanes the same.
    fn splat(x: Self::Elem) -> Self;
    /// # Safety
    /// `p` is valid for reads of `LANES` elements.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// The first `n` lanes from memory, 0 in the others.
    /// # Safety
    /// `p` is valid for reads of `n < LANES` elements.
    unsafe fn load_first(p: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `p` is valid for writes of `LANES` elements.
    unsafe fn store(self, p: *mut Self::Elem);
    /// # Safety
    /// `p` is valid for writes of `n < LANES` elements.
    unsafe fn store_first(self, p: *mut Self::Elem, n: usize);
    /// A store past the cache, where there is one.
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
    /// The larger of each lane and 0. A NaN stays a NaN.
    fn or_zero(self) -> Self;
    /// The larger of each lane and the limit's. A NaN stays a NaN.
    fn at_least(self, limit: Self) -> Self;
    /// The smaller of each lane and the limit's. A NaN stays a NaN.
    fn at_most(self, limit: Self) -> Self;
    /// 2ⁿ of lanes that hold n + [`Float::ROUNDER`], n a whole number whose power is normal.
    fn power_of_two(self) -> Self;
    /// The first `n` lanes, 0 in the others.
    fn keep_first(self, n: usize) -> Self;
    /// The sum of the lanes, folded high bit first: lane l takes lane l + s for s = LANES/2, …, 1.
    fn fold(self) -> Self::Elem;
    /// [`Vector::fold`] of the first `LANES` vectors: lane i is the sum of vector i.
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

/// An instruction set: its vectors, and how half-precision memory gets into and out of them.
///
/// # Safety
/// As [`Vector`]'s.
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
    /// Asks for the cache line at `p`, which need not be valid.
    fn prefetch<T>(p: *const T);
    /// Asks for the cache line at `p`, which need not be valid, in order to write it.
    fn prefetch_write<T>(p: *mut T);
    /// Makes streamed stores visible to other threads.
    fn stream_fence();
}

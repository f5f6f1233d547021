//! The kernels, each written once over the small [`vector::Vector`] trait. Nothing here checks or allocates: the
//! operations above have done both. Kernels read and write through raw pointers because input and output may be the
//! same memory.

pub mod vector;

pub mod backward;
pub mod columns;
pub mod dots;
pub mod extreme;
pub mod forward;
pub mod product;
pub mod reduce;

use crate::arch::MachineIsa;
use crate::element::{Element, Float};
use backward::{Backward, PartGradient};
use columns::{ChannelMap, ColumnSums};
use dots::{PartDots, RowDots};
use forward::Forward;
use half::{bf16, f16};
use vector::Simd;

/// Work that is compiled once per instruction set and started by `MachineIsa::run`.
pub trait Kernel {
    /// Type of the result.
    type Output;
    /// # Safety
    /// The machine has `S`, and the pointers inside are valid for every access that the kernel makes.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Kernels of an element type. The implementations for the four types compile the kernels in this crate only, whatever
/// crates call them.
pub trait Kernels: Sized {
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn forward(isa: MachineIsa, kernel: Forward<Self>)
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn backward(isa: MachineIsa, kernel: Backward<Self>)
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn column_sums(isa: MachineIsa, kernel: ColumnSums<Self>)
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn channel_map(isa: MachineIsa, kernel: ChannelMap<Self>)
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn row_dots(isa: MachineIsa, kernel: RowDots<Self>)
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn part_dots(isa: MachineIsa, kernel: PartDots<Self>) -> [Self::Acc; 2]
    where
        Self: Element;
    /// # Safety
    /// See [`Kernel::run`].
    unsafe fn part_gradient(isa: MachineIsa, kernel: PartGradient<Self>)
    where
        Self: Element;
}

macro_rules! kernels {
    ($($t:ty)*) => {$(
        impl Kernels for $t {
            unsafe fn forward(isa: MachineIsa, kernel: Forward<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
            unsafe fn backward(isa: MachineIsa, kernel: Backward<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
            unsafe fn column_sums(isa: MachineIsa, kernel: ColumnSums<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
            unsafe fn channel_map(isa: MachineIsa, kernel: ChannelMap<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
            unsafe fn row_dots(isa: MachineIsa, kernel: RowDots<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
            unsafe fn part_dots(isa: MachineIsa, kernel: PartDots<$t>) -> [<$t as Element>::Acc; 2] {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) }
            }
            unsafe fn part_gradient(isa: MachineIsa, kernel: PartGradient<$t>) {
                // SAFETY: guaranteed by the caller.
                unsafe { isa.run(kernel) };
            }
        }
    )*};
}

kernels!(f32 f64 f16 bf16);

/// Rows of a tensor, each contiguous, `stride` elements apart.
#[derive(Clone, Copy)]
pub struct Rows<P> {
    pub(crate) ptr: P,
    pub(crate) stride: isize,
}

impl<T> Rows<*const T> {
    /// Returns the start of a row. The pointer may be dereferenced only if the row exists.
    #[inline(always)]
    pub(crate) fn at(self, row: usize) -> *const T {
        self.ptr.wrapping_offset(row as isize * self.stride)
    }
}

impl<T> Rows<*mut T> {
    /// Returns the start of a row. The pointer may be dereferenced only if the row exists.
    #[inline(always)]
    pub(crate) fn at(self, row: usize) -> *mut T {
        self.ptr.wrapping_offset(row as isize * self.stride)
    }
}

/// How a row is scaled: by its deviation from the mean (layer norm) or from zero (RMS norm).
#[derive(Clone, Copy, Debug)]
pub struct RowNorm<A> {
    /// Whether the mean is subtracted first.
    pub(crate) centered: bool,
    /// N of the contract: the number of elements of a row (1 for weight norm, where r is one over the length).
    pub(crate) count: A,
    /// ε under the root.
    pub(crate) eps: A,
    /// ε outside the root, added to the deviation: r = 1/(sqrt(v + ε) + ε′). 0 in all of this crate's own operations.
    pub(crate) eps_outside: A,
    /// Whether rule 6 has to check for rows whose squares underflow, because neither ε is large enough to hide that.
    pub(crate) rescale_small: bool,
}

impl<A: Float> RowNorm<A> {
    pub(crate) fn new(centered: bool, count: A, eps: A, eps_outside: A) -> Self {
        // With an ε′ of 2⁻³² outside the root, lost bits of a smaller root are harmless.
        let rescale_small = eps < A::LEAST_VARIANCE && eps_outside * A::MOST_RSTD < A::ONE;
        RowNorm { centered, count, eps, eps_outside, rescale_small }
    }
}

/// Saved statistics of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat<A> {
    pub(crate) m: A,
    pub(crate) delta: A,
    pub(crate) r: A,
}

/// Locations of the rows' statistics, indexed by row.
#[derive(Clone, Copy)]
pub struct Stats<A> {
    pub(crate) m: *mut A,
    pub(crate) delta: *mut A,
    pub(crate) r: *mut A,
}

impl<A: Copy> Stats<A> {
    /// # Safety
    /// The arrays have an element `row`.
    #[inline(always)]
    pub(crate) unsafe fn get(self, row: usize) -> Stat<A> {
        // SAFETY: guaranteed by the caller.
        unsafe { Stat { m: *self.m.add(row), delta: *self.delta.add(row), r: *self.r.add(row) } }
    }

    /// # Safety
    /// The arrays have an element `row`.
    #[inline(always)]
    pub(crate) unsafe fn set(self, row: usize, stat: Stat<A>) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            *self.m.add(row) = stat.m;
            *self.delta.add(row) = stat.delta;
            *self.r.add(row) = stat.r;
        }
    }
}

/// γ and β in the arithmetic type. Row i uses the parameters of group `i mod groups`; one parameter serves `span`
/// consecutive elements of a row (1: one per feature; more: one per channel; the whole row: one per row). An absent γ
/// is 1 and an absent β is −0: `fma(x̂, 1, −0)` is exactly x̂.
#[derive(Clone, Copy)]
pub struct Affine<A> {
    pub(crate) gain: *const A,
    pub(crate) bias: *const A,
    pub(crate) groups: usize,
    pub(crate) span: usize,
}

impl<A> Affine<A> {
    /// Returns the parameters of a row of `n` elements.
    #[inline(always)]
    pub(crate) fn of_row(&self, row: usize, n: usize) -> (*const A, *const A) {
        let skip = if self.groups == 1 { 0 } else { row % self.groups * n.div_ceil(self.span) };
        (self.gain.wrapping_add(skip), self.bias.wrapping_add(skip))
    }
}

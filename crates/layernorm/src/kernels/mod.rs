//! Each kernel once, over the small [`vector::Vector`]. Nothing here checks and nothing here allocates: the operations
//! above have done both. Kernels read and write through raw pointers because input and output may be the same memory.

pub mod vector;

pub mod backward;
pub mod columns;

pub mod extreme;
pub mod forward;
pub mod reduce;

use crate::arch::MachineIsa;
use crate::element::{Element, Float};
use backward::{Backward, PartDots, PartGradient, RowDots};
use columns::{ChannelMap, ColumnSums};
use forward::Forward;
use half::{bf16, f16};
use vector::Simd;

/// Work that is compiled once for each instruction set and started by `MachineIsa::run`.
pub trait Kernel {
    /// What it gives back.
    type Output;
    /// # Safety
    /// The machine has `S`, and the pointers inside are valid for what the kernel does with them.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// The kernels of an element type. The four implementations make this crate the one place where kernels are compiled,
/// however many crates call them with a type of their choice.
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
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
            unsafe fn backward(isa: MachineIsa, kernel: Backward<$t>) {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
            unsafe fn column_sums(isa: MachineIsa, kernel: ColumnSums<$t>) {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
            unsafe fn channel_map(isa: MachineIsa, kernel: ChannelMap<$t>) {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
            unsafe fn row_dots(isa: MachineIsa, kernel: RowDots<$t>) {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
            unsafe fn part_dots(isa: MachineIsa, kernel: PartDots<$t>) -> [<$t as Element>::Acc; 2] {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) }
            }
            unsafe fn part_gradient(isa: MachineIsa, kernel: PartGradient<$t>) {
                // SAFETY: the caller's promise.
                unsafe { isa.run(kernel) };
            }
        }
    )*};
}

kernels!(f32 f64 f16 bf16);

/// Rows of a tensor, `stride` elements apart, each contiguous.
#[derive(Clone, Copy)]
pub struct Rows<P> {
    pub(crate) ptr: P,
    pub(crate) stride: isize,
}

impl<T> Rows<*const T> {
    /// The start of a row. The pointer may be used only if the row exists.
    #[inline(always)]
    pub(crate) fn at(self, row: usize) -> *const T {
        self.ptr.wrapping_offset(row as isize * self.stride)
    }
}

impl<T> Rows<*mut T> {
    /// The start of a row. The pointer may be used only if the row exists.
    #[inline(always)]
    pub(crate) fn at(self, row: usize) -> *mut T {
        self.ptr.wrapping_offset(row as isize * self.stride)
    }
}

/// What a row is divided by: layer norm's deviation from the mean, or RMS norm's from zero.
#[derive(Clone, Copy, Debug)]
pub struct RowNorm<A> {
    /// Whether the mean is taken away first.
    pub(crate) centered: bool,
    /// N of the contract: elements of a row (1 for weight norm, whose r is one over the length).
    pub(crate) count: A,
    /// ε under the root.
    pub(crate) eps: A,
    /// ε beside the root, added to the deviation: r = 1/(sqrt(v + ε) + ε′). 0 in all of this crate's own operations.
    pub(crate) eps_outside: A,
    /// Whether rule 6 has to look for rows whose squares vanish: neither ε is large enough to stand in for them.
    pub(crate) rescale_small: bool,
}

impl<A: Float> RowNorm<A> {
    pub(crate) fn new(centered: bool, count: A, eps: A, eps_outside: A) -> Self {
        // With an ε′ of 2⁻³² beside the root, a root below it that has lost its last bits does no harm.
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

/// Where the statistics of the rows are, indexed by row.
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
        // SAFETY: the caller's promise.
        unsafe { Stat { m: *self.m.add(row), delta: *self.delta.add(row), r: *self.r.add(row) } }
    }

    /// # Safety
    /// The arrays have an element `row`.
    #[inline(always)]
    pub(crate) unsafe fn set(self, row: usize, stat: Stat<A>) {
        // SAFETY: the caller's promise.
        unsafe {
            *self.m.add(row) = stat.m;
            *self.delta.add(row) = stat.delta;
            *self.r.add(row) = stat.r;
        }
    }
}

/// γ and β in the arithmetic type. Row i takes the parameters of group `i mod groups`; a parameter serves `span`
/// consecutive elements of a row (1: one a feature; more: one a channel; the whole row: one a row).
/// An absent γ is 1 and an absent β is −0: `fma(x̂, 1, −0)` is x̂ to the bit.
#[derive(Clone, Copy)]
pub struct Affine<A> {
    pub(crate) gain: *const A,
    pub(crate) bias: *const A,
    pub(crate) groups: usize,
    pub(crate) span: usize,
}

impl<A> Affine<A> {
    /// The parameters of a row of `n` elements.
    #[inline(always)]
    pub(crate) fn of_row(&self, row: usize, n: usize) -> (*const A, *const A) {
        let skip = if self.groups == 1 { 0 } else { row % self.groups * n.div_ceil(self.span) };
        (self.gain.wrapping_add(skip), self.bias.wrapping_add(skip))
    }
}

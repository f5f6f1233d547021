//! Internals that the sibling crates of this project build on: vectors, the thread pool, row norms over raw memory,
//! and random numbers. Not a public interface: it may change with any release.

pub use crate::arch::{Isa, MachineIsa};
pub use crate::element::lanes::Of;
pub use crate::kernels::Kernel;
pub use crate::kernels::product::Left;
pub use crate::kernels::vector::{MAX_LANES, Simd, Vector};
pub use crate::pages::{CacheLine, large_pages};
pub use crate::random::SplitMix64;
pub use crate::threads::borrowed::use_threads;
pub use crate::threads::{Barrier, MAX_THREADS, Shared, run, team};

/// Fallible allocation.
pub mod memory {
    pub use crate::memory::{copied, filled, more, out_of_memory, refill, reserved, room_for, zeros};
}

use crate::element::Float;
use crate::kernels::backward::Backward;
use crate::kernels::forward::Forward;
use crate::kernels::{Affine, RowNorm, Rows, Stats, extreme};
use crate::tune::Memory;

/// Runs a kernel with an instruction set of this machine.
///
/// ```compile_fail,E0308
/// # use layernorm::parts::{Isa, Kernel, MachineIsa, dispatch};
/// // An instruction set that this machine may lack.
/// fn attack<K: Kernel>(kernel: K) -> K::Output {
///     unsafe { dispatch(Isa::Avx512, kernel) }
/// }
/// ```
/// ```compile_fail,E0423
/// // Only detection creates a MachineIsa.
/// let isa = layernorm::parts::MachineIsa(layernorm::Isa::Avx512);
/// ```
/// ```compile_fail,E0133
/// # use layernorm::parts::{Kernel, MachineIsa, dispatch};
/// // A kernel contains pointers, and the caller must guarantee that they are valid.
/// fn attack<K: Kernel>(isa: MachineIsa, kernel: K) -> K::Output {
///     dispatch(isa, kernel)
/// }
/// ```
///
/// # Safety
/// The pointers inside the kernel are valid for what it does with them.
pub unsafe fn dispatch<K: Kernel>(isa: MachineIsa, kernel: K) -> K::Output {
    // SAFETY: guaranteed by the caller.
    unsafe { isa.run(kernel) }
}

/// Computes the matrix product C = A·B for B `[K, n]` and C `[rows, n]`. Fails if the
/// lengths do not fit together.
pub fn product<A: Float>(isa: MachineIsa, a: Left<A>, b: &[A], c: &mut [A], n: usize) -> Result<(), crate::Error> {
    let kernel = crate::kernels::product::Product::new(a, b, c, n)?;
    // SAFETY: the kernel has slices, whose lengths it has checked.
    unsafe { isa.run(kernel) };
    Ok(())
}

/// Safe work that the compiler vectorizes, if its `run` and what it calls are `inline(always)`.
pub trait Plain {
    /// Does the work.
    fn run(self);
}

/// Does plain work, compiled for an instruction set of this machine.
pub fn compiled_for(isa: MachineIsa, work: impl Plain) {
    struct Compiled<W>(W);
    impl<W: Plain> Kernel for Compiled<W> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<S: Simd>(self) {
            self.0.run();
        }
    }
    // SAFETY: safe work requires nothing of its caller.
    unsafe { isa.run(Compiled(work)) }
}

/// Layer norm of contiguous rows: r = 1/(sqrt(v + ε) + ε′), with one γ and β per element.
#[derive(Clone, Copy, Debug)]
pub struct RawLayerNorm<A> {
    /// Number of elements of a row.
    pub n: usize,
    /// ε under the root.
    pub eps: A,
    /// ε′ outside the root.
    pub eps_outside: A,
    /// γ, n elements.
    pub gain: *const A,
    /// β, n elements; −0 if absent.
    pub bias: *const A,
}

/// Locations of the rows' m, δ and r.
#[derive(Clone, Copy, Debug)]
pub struct StatRows<A> {
    /// m.
    pub m: *mut A,
    /// δ.
    pub delta: *mut A,
    /// r.
    pub r: *mut A,
}

/// Rows of memory, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Line<P> {
    /// The first row.
    pub ptr: P,
    /// Elements between the starts of consecutive rows.
    pub stride: usize,
}

const IN_CACHE: Memory = Memory { stream: false, prefetch: false, prefetch_output: false };

impl<A: Float> RawLayerNorm<A> {
    fn row_norm(&self) -> RowNorm<A> {
        RowNorm::new(true, A::from_count(self.n), self.eps, self.eps_outside)
    }

    /// Returns whether the saved r of a row shows that rule 6 scaled it, so that its x̂ cannot be computed from the
    /// statistics alone.
    pub fn was_scaled(&self, r: A) -> bool {
        extreme::was_scaled(&self.row_norm(), r)
    }

    fn affine(&self) -> Affine<A> {
        Affine { gain: self.gain, bias: self.bias, groups: 1, span: 1 }
    }

    /// Normalizes rows by rules 2, 3 and 6 of the contract. `x` and `y` may be the same memory.
    ///
    /// # Safety
    /// All pointers are valid for `rows` rows of n elements (those of `stats`: for `rows` elements).
    pub unsafe fn forward(&self, isa: MachineIsa, x: Line<*const A>, y: Line<*mut A>, stats: StatRows<A>, rows: usize) {
        let kernel = Forward {
            x: Rows { ptr: x.ptr, stride: x.stride as isize },
            residual: None,
            y: Rows { ptr: y.ptr, stride: y.stride as isize },
            rows,
            n: self.n,
            first_row: 0,
            norm: self.row_norm(),
            affine: self.affine(),
            stats: Some(Stats { m: stats.m, delta: stats.delta, r: stats.r }),
            memory: IN_CACHE,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { A::forward(isa, kernel) }
    }

    /// Computes dx of rows by rules 4 and 6. `dy` and `dx` may be the same memory.
    ///
    /// # Safety
    /// As [`RawLayerNorm::forward`], and `stats` are those that `forward` wrote for `x`.
    pub unsafe fn backward(
        &self,
        isa: MachineIsa,
        x: Line<*const A>,
        dy: Line<*const A>,
        dx: Line<*mut A>,
        stats: StatRows<A>,
        rows: usize,
    ) {
        let kernel = Backward {
            x: Rows { ptr: x.ptr, stride: x.stride as isize },
            dy: Rows { ptr: dy.ptr, stride: dy.stride as isize },
            dh: None,
            dx: Some(Rows { ptr: dx.ptr, stride: dx.stride as isize }),
            rows,
            n: self.n,
            first_row: 0,
            norm: self.row_norm(),
            affine: self.affine(),
            stats: Stats { m: stats.m, delta: stats.delta, r: stats.r },
            sums: None,
            memory: IN_CACHE,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { A::backward(isa, kernel) }
    }
}

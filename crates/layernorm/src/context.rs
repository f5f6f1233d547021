//! Execution context of a call: instruction set, threads and scratch memory.

use crate::arch::{Isa, MachineIsa};
use crate::error::Error;
use crate::memory;
use crate::pages::CacheLine;
use crate::threads;
use std::sync::OnceLock;

/// Execution context of a call. Keep one and pass it to every call: it holds the scratch memory that some operations
/// need, so repeated calls of the same size allocate nothing.
///
/// No setting affects the results.
///
/// ```
/// use layernorm::{Context, Isa};
/// let cx = Context::new().with_threads(2)?.with_isa(Isa::Scalar)?;
/// assert_eq!(cx.threads(), 2);
/// # Ok::<(), layernorm::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Context {
    isa: Option<MachineIsa>,
    threads: Option<usize>,
    fresh_outputs: bool,
    scratch: Vec<CacheLine>,
}

impl Context {
    /// Creates a context that uses all cores and the machine's widest instruction set (or the one named by
    /// `LAYERNORM_ISA`).
    pub fn new() -> Self {
        Context::default()
    }

    /// Limits calls to this many threads; more than 256 count as 256. Small calls always run on the caller's thread.
    /// Fails if `threads` is 0.
    pub fn with_threads(mut self, threads: usize) -> Result<Self, Error> {
        if threads == 0 {
            return Err(Error::Threads);
        }
        self.threads = Some(threads.min(threads::MAX_THREADS));
        Ok(self)
    }

    /// Selects an instruction set. Fails if the machine lacks it.
    pub fn with_isa(mut self, isa: Isa) -> Result<Self, Error> {
        self.isa = Some(MachineIsa::new(isa)?);
        Ok(self)
    }

    /// Declares that outputs are freshly allocated before each call. The first touch of each page of such memory
    /// costs a page fault; on Linux, the call then requests huge pages, which take fewer faults.
    pub fn with_fresh_outputs(mut self, fresh: bool) -> Self {
        self.fresh_outputs = fresh;
        self
    }

    /// Returns whether outputs are freshly allocated.
    pub(crate) fn fresh_outputs(&self) -> bool {
        self.fresh_outputs
    }

    /// Returns the number of threads that a large call uses.
    pub fn threads(&self) -> usize {
        static CORES: OnceLock<usize> = OnceLock::new();
        self.threads.unwrap_or_else(|| {
            *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(threads::MAX_THREADS)))
        })
    }

    /// Returns the instruction set that calls use. Fails if `LAYERNORM_ISA` names one that is unknown or that this
    /// machine lacks.
    pub fn isa(&self) -> Result<Isa, Error> {
        self.machine_isa().map(MachineIsa::isa)
    }

    /// Returns the instruction set as a proof that this machine has it, which kernels require.
    #[doc(hidden)]
    pub fn machine_isa(&self) -> Result<MachineIsa, Error> {
        self.isa.map_or_else(MachineIsa::detect, Ok)
    }

    /// Returns the number of bytes of scratch memory held.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.capacity() * size_of::<CacheLine>()
    }

    /// Frees the scratch memory.
    pub fn release_scratch(&mut self) {
        self.scratch = Vec::new();
    }

    /// Returns scratch memory for pieces of this total size. Allocates only to grow.
    pub(crate) fn scratch(&mut self, need: Need) -> Result<Scratch, Error> {
        let lines = need.0;
        if self.scratch.capacity() < lines {
            self.release_scratch();
            self.scratch = memory::reserved(lines)?;
        }
        Ok(Scratch { next: self.scratch.as_mut_ptr(), lines })
    }
}

/// Scratch memory that a call needs: the sum of its pieces, each rounded up to whole cache lines.
#[derive(Clone, Copy, Default)]
pub(crate) struct Need(usize);

impl Need {
    pub(crate) fn plus<A>(self, count: usize) -> Need {
        Need(self.0.saturating_add(lines::<A>(count)))
    }

    pub(crate) fn times(self, count: usize) -> Need {
        Need(self.0.saturating_mul(count))
    }

    pub(crate) fn and(self, other: Need) -> Need {
        Need(self.0.saturating_add(other.0))
    }
}

fn lines<A>(count: usize) -> usize {
    count.saturating_mul(size_of::<A>()).div_ceil(size_of::<CacheLine>())
}

/// Hands out the pieces of scratch memory that were requested. The memory is not initialized.
#[derive(Clone, Copy)]
pub(crate) struct Scratch {
    next: *mut CacheLine,
    lines: usize,
}

impl Scratch {
    /// Returns the next piece, aligned to a cache line.
    pub(crate) fn take<A>(&mut self, count: usize) -> *mut A {
        let piece = self.next;
        let lines = lines::<A>(count);
        assert!(lines <= self.lines, "more scratch memory taken than requested");
        self.lines -= lines;
        // SAFETY: the lines exist, as just checked.
        self.next = unsafe { self.next.add(lines) };
        piece.cast()
    }

    /// Splits off a part of the remaining memory, to be handed out separately.
    pub(crate) fn part(&mut self, need: Need) -> Scratch {
        Scratch { next: self.take::<CacheLine>(need.0), lines: need.0 }
    }

    /// Returns part `number` of consecutive parts of equal size.
    pub(crate) fn nth(&self, each: Need, number: usize) -> Scratch {
        let mut rest = *self;
        rest.take::<CacheLine>(each.0 * number);
        rest.part(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_choices_are_refused() {
        assert_eq!(Context::new().with_threads(0).unwrap_err(), Error::Threads);
        let missing = Isa::ALL.into_iter().find(|isa| !isa.is_available());
        if let Some(isa) = missing {
            assert!(matches!(Context::new().with_isa(isa), Err(Error::MissingIsa { .. })));
        }
        assert!("sse9".parse::<Isa>().unwrap_err().to_string().contains("sse9"));
    }
}

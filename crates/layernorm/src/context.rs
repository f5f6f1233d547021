//! How a call runs: which instruction set, how many threads, and the memory it may use in between.

use crate::arch::{Isa, MachineIsa};
use crate::error::Error;
use crate::memory;
use crate::pages::CacheLine;
use crate::threads;
use std::sync::OnceLock;

/// How a call runs. Keep one and pass it to every call: it holds the scratch memory that some operations need, so that
/// from the second call of a size on nothing is allocated.
///
/// Neither choice changes a bit of any result.
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
    /// All cores, the machine's widest instruction set (or the one that `LAYERNORM_ISA` names).
    pub fn new() -> Self {
        Context::default()
    }

    /// At most this many threads; more than 256 count as 256. Small work stays on the caller's thread whatever this says.
    pub fn with_threads(mut self, threads: usize) -> Result<Self, Error> {
        if threads == 0 {
            return Err(Error::Threads);
        }
        self.threads = Some(threads.min(threads::MAX_THREADS));
        Ok(self)
    }

    /// This instruction set, if the machine has it.
    pub fn with_isa(mut self, isa: Isa) -> Result<Self, Error> {
        self.isa = Some(MachineIsa::new(isa)?);
        Ok(self)
    }

    /// Says that outputs are allocated just before each call. Such memory costs a fault for every page that is first touched;
    /// on Linux, large pages are asked for, of which there are fewer.
    pub fn with_fresh_outputs(mut self, fresh: bool) -> Self {
        self.fresh_outputs = fresh;
        self
    }

    /// Whether outputs were just allocated.
    pub(crate) fn fresh_outputs(&self) -> bool {
        self.fresh_outputs
    }

    /// The number of threads that a large call uses.
    pub fn threads(&self) -> usize {
        static CORES: OnceLock<usize> = OnceLock::new();
        self.threads.unwrap_or_else(|| {
            *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(threads::MAX_THREADS)))
        })
    }

    /// The instruction set that calls use. An error if `LAYERNORM_ISA` names one that does not exist here.
    pub fn isa(&self) -> Result<Isa, Error> {
        self.machine_isa().map(MachineIsa::isa)
    }

    /// The same as what kernels run with.
    #[doc(hidden)]
    pub fn machine_isa(&self) -> Result<MachineIsa, Error> {
        self.isa.map_or_else(MachineIsa::detect, Ok)
    }

    /// Bytes of scratch memory held.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.capacity() * size_of::<CacheLine>()
    }

    /// Gives the scratch memory back.
    pub fn release_scratch(&mut self) {
        self.scratch = Vec::new();
    }

    /// Scratch memory for pieces that take this many bytes together. Grows only if there is less.
    pub(crate) fn scratch(&mut self, need: Need) -> Result<Scratch, Error> {
        let lines = need.0;
        if self.scratch.capacity() < lines {
            self.release_scratch();
            self.scratch = memory::reserved(lines)?;
        }
        Ok(Scratch { next: self.scratch.as_mut_ptr(), lines })
    }
}

/// How much scratch memory a call needs: the sum of its pieces, each in whole cache lines.
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

/// Hands out the pieces that were asked for. The memory is not initialized.
#[derive(Clone, Copy)]
pub(crate) struct Scratch {
    next: *mut CacheLine,
    lines: usize,
}

impl Scratch {
    /// The next piece, aligned to a cache line.
    pub(crate) fn take<A>(&mut self, count: usize) -> *mut A {
        let piece = self.next;
        let lines = lines::<A>(count);
        assert!(lines <= self.lines, "scratch memory was counted wrongly");
        self.lines -= lines;
        // SAFETY: the lines are there, as just checked.
        self.next = unsafe { self.next.add(lines) };
        piece.cast()
    }

    /// A part of what is left, to be handed out by itself.
    pub(crate) fn part(&mut self, need: Need) -> Scratch {
        Scratch { next: self.take::<CacheLine>(need.0), lines: need.0 }
    }

    /// Of equal parts that follow each other, the one with this number.
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

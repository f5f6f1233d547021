//! Barrier of a team of threads.

use super::LOOKS;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Barrier at which the members of a team wait for each other. They spin, because waits are short; a member without a
/// core of its own yields.
pub struct Barrier {
    members: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// Whether a member has panicked and will not arrive.
    broken: AtomicBool,
}

/// Breaks a barrier when dropped.
pub(super) struct BreakOnDrop<'a>(pub(super) &'a Barrier);

impl Drop for BreakOnDrop<'_> {
    fn drop(&mut self) {
        self.0.broken.store(true, Ordering::Release);
    }
}

impl Barrier {
    pub(super) fn new(members: usize) -> Self {
        let (arrived, round) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Barrier { members, arrived, round, broken: AtomicBool::new(false) }
    }

    /// Waits until all members have called it. Writes made before the call are visible to all members after it.
    pub fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            spins += 1;
            assert!(!self.broken.load(Ordering::Acquire), "another member of the team panicked");
            if spins < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

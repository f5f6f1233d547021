//! Pointers that the tasks of a job share.

/// Pointers (or a value that contains some) that other threads may use.
///
/// ```compile_fail,E0133
/// // Whoever shares a pointer must guarantee that its uses do not conflict.
/// let shared = layernorm::parts::Shared::new(&raw mut *Box::new(0));
/// ```
#[derive(Clone, Copy)]
pub struct Shared<P>(P);

// SAFETY: whoever called `new` guarantees that threads use the pointers without conflict.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Shared<P> {}

impl<P: Copy> Shared<P> {
    /// # Safety
    /// Other threads may read what the pointers refer to, and any two threads write to separate parts of it.
    pub unsafe fn new(pointers: P) -> Self {
        Shared(pointers)
    }

    /// Returns the pointers. A method, so that closures capture the whole struct.
    pub fn get(&self) -> P {
        self.0
    }
}

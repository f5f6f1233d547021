//! An allocator that refuses one request of a call, or all large ones. What cannot take a refusal ends the process, and so the
//! test. A program that has it has one test alone, so that what is refused is nobody else's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Faulty;

/// Smaller requests are always met: those of messages and of lists with a few entries.
const SMALL: usize = 512;

const NEVER: usize = usize::MAX;

/// Requests until one is refused.
static LEFT: AtomicUsize = AtomicUsize::new(NEVER);
/// Bytes of the one that was.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Larger ones are refused.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: everything is passed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Faulty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LIMIT.load(Relaxed) {
            return std::ptr::null_mut();
        }
        if layout.size() >= SMALL && LEFT.load(Relaxed) != NEVER && LEFT.fetch_sub(1, Relaxed) == 0 {
            LEFT.store(NEVER, Relaxed);
            REFUSED.store(layout.size(), Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static FAULTY: Faulty = Faulty;

/// Calls with the first request refused, then with the second, and so on until none is left to refuse. Each time, `prepare`
/// makes what the call takes, undisturbed; the call must give the error with the bytes, and at last what it gives undisturbed.
pub fn each_refused<P, R: PartialEq, E: std::fmt::Debug>(
    what: &str,
    prepare: impl Fn() -> P,
    call: impl Fn(P) -> Result<R, E>,
    bytes_of: impl Fn(&E) -> Option<usize>,
) {
    let expected = call(prepare()).map_err(|error| format!("{error:?}"));
    assert!(expected.is_ok(), "{what}: {:?}", expected.err());
    for request in 0.. {
        let prepared = prepare();
        LEFT.store(request, Relaxed);
        let found = call(prepared);
        LEFT.store(NEVER, Relaxed);
        let refused = REFUSED.swap(0, Relaxed);
        if refused == 0 {
            assert!(request > 0, "{what} took no memory");
            assert!(found.map_err(|error| format!("{error:?}")) == expected, "{what}, undisturbed");
            return;
        }
        match found {
            Ok(_) => panic!("{what}: request {request} of {refused} bytes was refused, and nobody noticed"),
            Err(error) => assert_eq!(bytes_of(&error), Some(refused), "{what}, request {request}: {error:?}"),
        }
    }
}

/// Calls with all requests refused that are larger.
pub fn with_limit<R>(bytes: usize, call: impl FnOnce() -> R) -> R {
    LIMIT.store(bytes, Relaxed);
    let outcome = call();
    LIMIT.store(usize::MAX, Relaxed);
    outcome
}

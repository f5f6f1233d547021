//! Any bytes as a `.npy` file: reading never panics and never takes memory that the bytes do not pay for; what is read is
//! written and read again, the same to the bit.

#![no_main]

use layernorm_npy::{Array, Order};
use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes that are allocated, and the most there ever were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most that reading may take. The dearest byte is a digit of a shape: `1,` becomes a word of 8 bytes, in a vector
/// that doubles while the old half is still there, beside a text that was decoded by doubling too.
fn allowance(length: usize) -> usize {
    16 * length + 4096
}

fuzz_target!(|bytes: &[u8]| {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let read = Array::from_bytes(bytes);
    let taken = MOST.load(Ordering::Relaxed) - before;
    assert!(taken <= allowance(bytes.len()), "{taken} bytes of memory for {} bytes", bytes.len());

    let from_reader = Array::from_reader(bytes);
    match read {
        Ok(array) => check(&array, bytes, &from_reader.expect("a reader gives what a slice gives")),
        Err(error) => {
            // Messages are made of the file's bytes, and must not fail on any.
            assert!(!error.to_string().is_empty());
            assert!(from_reader.is_err(), "a slice is refused where a reader is not: {error}");
        }
    }
});

fn written(array: &Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    array.to_writer(&mut bytes).expect("writing into memory cannot fail");
    bytes
}

/// What was read is what the bytes say, and what is written is the same again.
fn check(array: &Array, bytes: &[u8], from_reader: &Array) {
    let size = array.dtype().size();
    let payload = array.len() * size;
    let first = written(array);
    assert_eq!(first, written(from_reader));
    let (found, expected) = (&first[first.len() - payload..], &bytes[bytes.len() - payload..]);
    let swapped = || expected.chunks(size).flat_map(|element| element.iter().rev().copied());
    assert!(found == expected || found.iter().copied().eq(swapped()), "the elements have changed");

    let again = Array::from_bytes(&first).expect("what was written can be read");
    assert_eq!((again.shape(), again.dtype(), again.len()), (array.shape(), array.dtype(), array.len()));
    assert_eq!(again.strides().len(), again.shape().len());
    assert_eq!(written(&again), first);
    // Where both orders are the same, the file says C.
    assert!(again.order() == array.order() || (again.order() == Order::C && one_order(array)));
}

fn one_order(array: &Array) -> bool {
    array.is_empty() || array.shape().iter().filter(|&&length| length != 1).count() <= 1
}

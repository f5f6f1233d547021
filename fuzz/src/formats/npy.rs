//! Any bytes as a `.npy` file: reading never panics and never takes memory out of proportion to the bytes; an array
//! that is read, written and read again is the same to the bit.

use crate::memory;
use layernorm_npy::{Array, Order};

/// Maximum memory for reading. The most expensive byte is a digit of a shape: `1,` becomes a word of 8 bytes, in a
/// vector that doubles while the old half still exists, plus a text that was decoded by doubling, too.
fn allowance(length: usize) -> usize {
    16 * length + 4096
}

/// Checks the properties. Returns whether the bytes were accepted.
pub fn check(bytes: &[u8]) -> bool {
    let read = memory::within(allowance(bytes.len()), || Array::from_bytes(bytes));
    let from_reader = Array::from_reader(bytes);
    match read {
        Ok(array) => {
            same_again(&array, bytes, &from_reader.expect("a reader and a slice give the same result"));
            true
        }
        Err(error) => {
            // Messages contain the file's bytes, and must not fail on any.
            assert!(!error.to_string().is_empty());
            assert!(from_reader.is_err(), "a slice is rejected but a reader is not: {error}");
            false
        }
    }
}

fn written(array: &Array) -> Vec<u8> {
    let mut bytes = Vec::new();
    array.to_writer(&mut bytes).expect("writing into memory cannot fail");
    bytes
}

/// Checks that the array matches the bytes, and that it is the same when written and read again.
fn same_again(array: &Array, bytes: &[u8], from_reader: &Array) {
    let size = array.dtype().size();
    let payload = array.len() * size;
    let first = written(array);
    assert_eq!(first, written(from_reader));
    let (found, expected) = (&first[first.len() - payload..], &bytes[bytes.len() - payload..]);
    let swapped = || expected.chunks(size).flat_map(|element| element.iter().rev().copied());
    assert!(found == expected || found.iter().copied().eq(swapped()), "the elements have changed");

    let again = Array::from_bytes(&first).expect("a written file can be read");
    assert_eq!((again.shape(), again.dtype(), again.len()), (array.shape(), array.dtype(), array.len()));
    assert_eq!(again.strides().len(), again.shape().len());
    assert_eq!(written(&again), first);
    // If both orders are the same, the file says C.
    assert!(again.order() == array.order() || (again.order() == Order::C && one_order(array)));
}

fn one_order(array: &Array) -> bool {
    array.is_empty() || array.shape().iter().filter(|&&length| length != 1).count() <= 1
}

//! Any bytes as a picture for `layernorm predict`: an error, or an image of the requested size.

use crate::memory;
use crate::picture;

/// Maximum memory for reading. A byte of deflate is at most 1,032 bytes of pixels; in addition there are the
/// decoder's window, tables and rows, whose size depends only on the width in the header.
fn allowance(length: usize) -> usize {
    2 * 1032 * length + (2 << 20)
}

/// Checks the properties. Returns whether the bytes were accepted.
pub fn check(bytes: &[u8]) -> bool {
    [[28, 28], [3, 50]].into_iter().all(|[rows, columns]| {
        match memory::within(allowance(bytes.len()), || picture::read(bytes, rows, columns)) {
            Ok(picture) => {
                assert_eq!(picture.pixels.len(), rows * columns);
                assert!(picture.warning().is_none_or(|warning| !warning.is_empty()));
                assert_eq!(picture::drawn(&picture.pixels, columns).lines().count(), rows);
                true
            }
            Err(what) => {
                assert!(!what.is_empty());
                false
            }
        }
    })
}

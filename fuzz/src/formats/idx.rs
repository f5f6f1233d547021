//! Any bytes as an idx file, compressed or not: an array that is read has as many elements as its shape says, and is
//! the same when written and read again, also compressed.

use crate::idx::{self, Idx};
use crate::memory;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// Maximum memory for reading: a vector that doubles. Each byte of gzip is at most 1,032 bytes uncompressed, and the
/// decoder has its own windows and tables.
fn allowance(bytes: &[u8]) -> usize {
    let unpacked = if bytes.starts_with(&[0x1f, 0x8b]) { 1032 * bytes.len() } else { 4 * bytes.len() };
    3 * unpacked + (256 << 10)
}

/// Checks the properties. Returns whether the bytes were accepted.
pub fn check(bytes: &[u8]) -> bool {
    match memory::within(allowance(bytes), || idx::read(bytes)) {
        Ok(array) => {
            assert_eq!(array.bytes.len(), array.shape.iter().product::<usize>());
            let plain = written(&array);
            assert_eq!(idx::read(&*plain).expect("a written file can be read"), array);
            if plain.len() < 1 << 16 {
                assert_eq!(idx::read(&*packed(&plain)).expect("a compressed file can be read"), array);
            }
            true
        }
        Err(problem) => {
            assert!(!problem.to_string().is_empty());
            false
        }
    }
}

fn written(array: &Idx) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, u8::try_from(array.shape.len()).expect("at most 255 dimensions")];
    array.shape.iter().for_each(|&length| bytes.extend((length as u32).to_be_bytes()));
    bytes.extend(&array.bytes);
    bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing into memory cannot fail")
}

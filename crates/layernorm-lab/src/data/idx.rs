//! Reads idx files of unsigned bytes, with or without gzip.
//!
//! ```text
//! 00 00 08 D | length of dimension 1 … D, 4 bytes each, big endian | elements, row major
//! ```
//!
//! Any input gives a value or an error, and uses at most [`MAX_BYTES`] or a few times the decompressed input in memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::error::{Error, Problem};

/// Maximum number of elements: 640 MiB. The largest dataset of this kind, EMNIST by class, is 522 MiB. A compressed
/// file of less than a megabyte can contain that many, and training copies them once, for its validation images.
pub const MAX_BYTES: u64 = 640 << 20;

const UNSIGNED_BYTES: u8 = 0x08;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An array of unsigned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// The length of each dimension; can be empty.
    pub shape: Vec<usize>,
    /// The elements in row-major order, as many as the product of the lengths.
    pub bytes: Vec<u8>,
}

/// Reads a file.
pub fn open(path: &Path) -> Result<Idx, Error> {
    File::open(path).map_err(Problem::io("open")).and_then(read).map_err(|problem| problem.of(path))
}

/// Reads an array to the end of a reader. Gzip input is detected and decompressed.
pub fn read(mut reader: impl Read) -> Result<Idx, Problem> {
    let mut start = Vec::with_capacity(GZIP.len());
    reader.by_ref().take(GZIP.len() as u64).read_to_end(&mut start).map_err(Problem::io("read"))?;
    let packed = start == GZIP;
    let whole = BufReader::new(start.as_slice().chain(reader));
    if packed {
        unpacked(Counted { reader: MultiGzDecoder::new(whole), count: 0, packed })
    } else {
        unpacked(Counted { reader: whole, count: 0, packed })
    }
}

fn unpacked(mut input: Counted<impl Read>) -> Result<Idx, Problem> {
    let magic = input.up_to(4)?;
    let &[0, 0, kind, dimensions] = magic.as_slice() else { return Err(Problem::NotIdx { found: magic }) };
    if kind != UNSIGNED_BYTES {
        return Err(Problem::Type { found: kind });
    }
    let lengths = input.exactly(4 * u64::from(dimensions), 4)?;
    let (lengths, _) = lengths.as_chunks::<4>();
    let shape: Vec<usize> = lengths.iter().map(|&length| u32::from_be_bytes(length) as usize).collect();
    let count = element_count(&shape)?;
    let header = input.count;
    let bytes = input.exactly(count, header)?;
    if !input.up_to(1)?.is_empty() {
        return Err(Problem::Trailing { expected: header + count });
    }
    Ok(Idx { shape, bytes })
}

/// The product of the lengths. Large lengths are rejected even if another one is zero.
fn element_count(shape: &[usize]) -> Result<u64, Problem> {
    let product = |skip_zeros: bool| {
        let mut lengths = shape.iter().map(|&length| length as u64).filter(|&length| !(skip_zeros && length == 0));
        lengths.try_fold(1u64, u64::checked_mul)
    };
    match product(true) {
        Some(largest) if largest <= MAX_BYTES => Ok(product(false).unwrap_or(0)),
        _ => Err(Problem::TooLarge { shape: shape.to_vec(), limit: MAX_BYTES }),
    }
}

/// A reader that counts its bytes.
struct Counted<R> {
    reader: R,
    count: u64,
    packed: bool,
}

impl<R: Read> Counted<R> {
    /// The next bytes, fewer only at the end. Memory grows with the actual input, not with the sizes in the header.
    fn up_to(&mut self, limit: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::new();
        let result = self.reader.by_ref().take(limit).read_to_end(&mut bytes);
        self.count += bytes.len() as u64;
        result.map_err(|source| self.problem(source))?;
        Ok(bytes)
    }

    /// Exactly the next `expected` bytes, after `before` others.
    fn exactly(&mut self, expected: u64, before: u64) -> Result<Vec<u8>, Problem> {
        let bytes = self.up_to(expected)?;
        match bytes.len() as u64 {
            found if found == expected => Ok(bytes),
            found => Err(Problem::Truncated { expected: before + expected, found: before + found }),
        }
    }

    fn problem(&self, source: io::Error) -> Problem {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match source.kind() {
            InvalidData | InvalidInput | UnexpectedEof if self.packed => Problem::Gzip { after: self.count, source },
            _ => Problem::Io { action: "read", source },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn idx(shape: &[u32], elements: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, UNSIGNED_BYTES, shape.len() as u8];
        shape.iter().for_each(|length| bytes.extend(length.to_be_bytes()));
        bytes.extend(elements);
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn message(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn reads_plain_and_packed() {
        let bytes = idx(&[2, 3], b"abcdef");
        let expected = Idx { shape: vec![2, 3], bytes: b"abcdef".to_vec() };
        assert_eq!(read(&*bytes).unwrap(), expected);
        assert_eq!(read(&*gzip(&bytes)).unwrap(), expected);
        let (left, right) = bytes.split_at(9);
        assert_eq!(read(&*[gzip(left), gzip(right)].concat()).unwrap(), expected, "two gzip members are one file");
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(message(b"").contains("found \"\""));
        assert!(message(b"\x1f").contains("found \"\\x1f\""));
        assert!(message(b"<html>").contains("found \"<htm\""));
        assert!(message(&[0, 0, 13, 1, 0, 0, 0, 0]).contains("found 0x0d (32-bit floats)"));
        assert!(message(&idx(&[2, 3], b"abcde")).contains("expected 18 bytes, found 17"));
        assert!(message(&[0, 0, 8, 3, 0, 0]).contains("expected 16 bytes, found 6"));
        assert!(message(&idx(&[2, 3], b"abcdefg")).contains("expected 18 bytes, found more"));
    }

    #[test]
    fn refuses_what_no_memory_holds() {
        let huge = idx(&[1 << 20, 1 << 20, 1 << 20], b"");
        assert!(message(&huge).contains("has shape [1048576, 1048576, 1048576]"));
        assert!(message(&gzip(&huge)).contains("at most 671088640 bytes"));
        assert!(matches!(read(&*idx(&[u32::MAX; 255], b"")), Err(Problem::TooLarge { .. })));
        assert!(matches!(read(&*idx(&[0, u32::MAX, 2], b"")), Err(Problem::TooLarge { .. })));
        // In the header but not in the file: rejected without allocating memory for it.
        assert!(matches!(read(&*idx(&[MAX_BYTES as u32], b"abc")), Err(Problem::Truncated { found: 11, .. })));
    }

    #[test]
    fn damaged_gzip_is_named() {
        let whole = gzip(&idx(&[4], b"abcd"));
        for end in 2..whole.len() {
            assert!(matches!(read(&whole[..end]), Err(Problem::Gzip { .. })), "cut to {end}");
        }
        let mut wrong_sum = whole.clone();
        let place = whole.len() - 8;
        wrong_sum[place] ^= 1;
        assert!(message(&wrong_sum).starts_with("the gzip stream is damaged: decompressed"));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&*bytes);
            let _ = read(&*gzip(&bytes));
            let _ = read(&*[&GZIP, &*bytes].concat());
        }

        #[test]
        fn any_header_gives_a_value_or_an_error(
            kind in prop_oneof![4 => Just(8u8), 1 => any::<u8>()],
            dimensions in 0u8..6,
            rest in prop::collection::vec(prop_oneof![4 => Just(0u8), 2 => 0u8..4, 1 => any::<u8>()], 0..60),
        ) {
            let bytes = [&[0, 0, kind, dimensions], &*rest].concat();
            if let Ok(array) = read(&*bytes) {
                prop_assert_eq!(array.bytes.len(), array.shape.iter().product::<usize>());
                prop_assert_eq!(bytes.len(), 4 + 4 * array.shape.len() + array.bytes.len());
            }
        }

        #[test]
        fn a_changed_byte_never_goes_unseen_when_packed(place in 10usize..1000, flip in 1u8..) {
            let mut packed = gzip(&idx(&[16], b"0123456789abcdef"));
            let place = 10 + place % (packed.len() - 10);
            packed[place] ^= flip;
            if let Ok(array) = read(&*packed) {
                prop_assert_eq!(array.bytes, b"0123456789abcdef");
            }
        }
    }
}

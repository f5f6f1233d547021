//! Reading: preamble → header → check the shape → data, in pieces.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use half::f16;

use crate::array::element_count;
use crate::header::{Header, MAGIC, MAX_HEADER_LEN};
use crate::{Array, DType, Error, Part, Scalar};

/// Data is read in pieces of this many bytes, so that memory grows with the data received and not with what the header claims.
/// A multiple of every element size, and small enough to stay in a core's own cache during conversion.
const PIECE: u64 = 64 * 1024;

/// Reads the array in a file.
pub fn read(path: impl AsRef<Path>) -> Result<Array, Error> {
    let path = path.as_ref();
    read_file(path).map_err(|error| error.in_file(path))
}

fn read_file(path: &Path) -> Result<Array, Error> {
    let mut file = File::open(path).map_err(Error::io("open"))?;
    let length = file.metadata().ok().map_or(0, |metadata| metadata.len());
    read_array(&mut file, length)
}

impl Array {
    /// Reads one array, up to the end of `reader`: bytes after it are an error.
    ///
    /// Memory grows with the bytes received, so an endless reader can use as much memory as its header claims. Limit an
    /// untrusted reader with [`Read::take`].
    pub fn from_reader(mut reader: impl Read) -> Result<Self, Error> {
        read_array(&mut reader, 0)
    }

    /// Reads an array from the bytes of a file.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, Error> {
        let length = bytes.len() as u64;
        read_array(&mut bytes, length)
    }
}

/// Reads one array. `length` is the number of bytes known to be available, 0 if unknown. It only avoids growing the memory
/// step by step, and makes the number in an error more exact.
fn read_array(source: &mut dyn Read, length: u64) -> Result<Array, Error> {
    let (header, before) = read_header(source)?;
    let count = element_count(&header.shape, header.dtype)?;
    let rest = Rest { source, count, big_endian: header.big_endian, known: length.saturating_sub(before) };
    let data = match header.dtype {
        DType::F16 => f16::wrap(rest.elements()?),
        DType::F32 => f32::wrap(rest.elements()?),
        DType::F64 => f64::wrap(rest.elements()?),
        DType::I32 => i32::wrap(rest.elements()?),
        DType::I64 => i64::wrap(rest.elements()?),
        DType::U8 => u8::wrap(rest.elements()?),
    };
    Ok(Array::from_checked(header.shape, header.order, data))
}

/// The header and the number of bytes up to its end.
fn read_header(source: &mut dyn Read) -> Result<(Header, u64), Error> {
    let mut start = [0; 8];
    fill(source, &mut start, Part::Magic)?;
    let [magic @ .., major, minor] = start;
    if magic != MAGIC {
        return Err(Error::NotNpy { found: magic });
    }
    let mut length = [0; 4];
    let length_bytes = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(Error::Version { major, minor }),
    };
    fill(source, &mut length[..length_bytes], Part::HeaderLength)?;
    let length = u32::from_le_bytes(length);

    let mut text = [0; MAX_HEADER_LEN];
    let text = usize::try_from(length)
        .ok()
        .and_then(|length| text.get_mut(..length))
        .ok_or(Error::HeaderTooLong { limit: MAX_HEADER_LEN, found: length.into() })?;
    fill(source, text, Part::Header)?;
    let before = (start.len() + length_bytes + text.len()) as u64;
    Ok((Header::parse(text, major)?, before))
}

/// Fills `buffer`; fails with the number of bytes found if there are fewer.
fn fill(source: &mut dyn Read, buffer: &mut [u8], part: Part) -> Result<(), Error> {
    let expected = buffer.len();
    let mut found = 0;
    while found < expected {
        match source.read(&mut buffer[found..]) {
            Ok(0) => {
                return Err(Error::Truncated { part, expected: expected as u64, found: found as u64 });
            }
            Ok(bytes) => found += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read")(error)),
        }
    }
    Ok(())
}

/// Everything after the header.
struct Rest<'a> {
    source: &'a mut dyn Read,
    /// Number of elements according to the header; their bytes fit into an `isize`.
    count: usize,
    big_endian: bool,
    /// Bytes known to be available.
    known: u64,
}

impl Rest<'_> {
    /// Reads all elements; fails if bytes follow them.
    fn elements<T: Scalar>(self) -> Result<Vec<T>, Error> {
        let expected = (self.count * size_of::<T>()) as u64;
        let mut values = Vec::new();
        let known = (self.known.min(expected) / size_of::<T>() as u64) as usize;
        values.try_reserve_exact(known).map_err(|_| Error::OutOfMemory { bytes: expected })?;

        let mut piece = Vec::new();
        let mut found = 0;
        while found < expected {
            let wanted = PIECE.min(expected - found);
            piece.clear();
            Read::take(&mut *self.source, wanted).read_to_end(&mut piece).map_err(Error::io("read"))?;
            let came = piece.len() as u64;
            found += came;
            if came < wanted {
                return Err(Error::Truncated { part: Part::Data, expected, found });
            }
            values.try_reserve(piece.len() / size_of::<T>()).map_err(|_| Error::OutOfMemory { bytes: expected })?;
            T::decode(&piece, self.big_endian, &mut values);
        }
        match fill(self.source, &mut [0], Part::Data) {
            Err(Error::Truncated { .. }) => Ok(values),
            Err(error) => Err(error),
            Ok(()) => Err(Error::TrailingBytes { expected, found: self.known.max(expected + 1) }),
        }
    }
}

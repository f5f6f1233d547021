//! Files as parts, and parts as a file with right lengths and checksums.

use super::Random;
use flate2::read::MultiGzDecoder;
use flate2::{Compression, write::GzEncoder};
use std::io::{Read, Write};

/// The parts of a valid file; none if it has no such form.
pub fn opened(format: &str, file: &[u8]) -> Option<Vec<Vec<u8>>> {
    match format {
        "npy" => {
            let length = usize::from(u16::from_le_bytes(*file.get(8..)?.first_chunk()?));
            cut(file.get(10..)?, &[length])
        }
        "weights" => {
            let length = u64::from_le_bytes(*file.first_chunk()?) as usize;
            cut(&file[8..], &[length])
        }
        _ => {
            let mut plain = Vec::new();
            match file.starts_with(&[0x1f, 0x8b]) {
                true => MultiGzDecoder::new(file).read_to_end(&mut plain).map(|_| ()).ok()?,
                false => plain.extend(file),
            }
            let header = 4 + 4 * usize::from(*plain.get(3)?);
            cut(&plain, &[header])
        }
    }
}

/// A file of these parts.
pub fn closed(format: &str, parts: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let first = parts[0].len();
    match format {
        "npy" => [b"\x93NUMPY\x01\x00", &(first as u16).to_le_bytes()[..], &parts.concat()].concat(),
        "weights" => [&(first as u64).to_le_bytes()[..], &parts.concat()].concat(),
        _ if random.one_in(2) => packed(&parts.concat()),
        _ => parts.concat(),
    }
}

fn cut(bytes: &[u8], lengths: &[usize]) -> Option<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let mut parts = Vec::new();
    for &length in lengths {
        let (part, behind) = rest.split_at_checked(length)?;
        parts.push(part.to_vec());
        rest = behind;
    }
    parts.push(rest.to_vec());
    Some(parts)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing into memory cannot fail")
}

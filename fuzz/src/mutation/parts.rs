//! Splits files into parts, and assembles parts into files with correct lengths and checksums.

use super::Random;
use crate::formats::{model, records};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, Crc};
use std::io::{Read, Write};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Returns the parts of a valid file, or `None` if it does not have this structure.
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
        "png" => chunks(file.strip_prefix(PNG)?),
        "model" => {
            let contents = &file[1 + line(file)?..];
            cut(contents, &[line(contents)? + 1])
        }
        "records" => Some(records::lines_without_sums(file)),
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

/// Returns a file of these parts.
pub fn closed(format: &str, parts: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let first = parts[0].len();
    match format {
        "npy" => [b"\x93NUMPY\x01\x00", &(first as u16).to_le_bytes()[..], &parts.concat()].concat(),
        "weights" => [&(first as u64).to_le_bytes()[..], &parts.concat()].concat(),
        "png" => [PNG.to_vec(), parts.iter().flat_map(|part| chunk(part)).collect()].concat(),
        "model" => model::signed(&parts.concat()),
        "records" => records::with_sums(parts),
        _ if random.one_in(2) => packed(GzEncoder::new(Vec::new(), Compression::fast()), &parts.concat()),
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

fn line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n')
}

/// Returns type and data of each chunk of a PNG; pixel data is decompressed.
fn chunks(mut rest: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let body = rest.get(4..8 + length)?;
        let mut part = body[..4].to_vec();
        match part == b"IDAT" {
            true => drop(ZlibDecoder::new(&body[4..]).read_to_end(&mut part).ok()?),
            false => part.extend(&body[4..]),
        }
        parts.push(part);
        rest = rest.get(12 + length..)?;
    }
    Some(parts)
}

fn chunk(part: &[u8]) -> Vec<u8> {
    let body = match part.strip_prefix(b"IDAT") {
        Some(pixels) => {
            let pixels = packed(ZlibEncoder::new(Vec::new(), Compression::fast()), pixels);
            [b"IDAT", &*pixels].concat()
        }
        None => part.to_vec(),
    };
    let mut crc = Crc::new();
    crc.update(&body);
    [&(body.len().saturating_sub(4) as u32).to_be_bytes()[..], &body, &crc.sum().to_be_bytes()].concat()
}

fn packed<W: Write + Finish>(mut encoder: W, bytes: &[u8]) -> Vec<u8> {
    encoder.write_all(bytes).expect("writing into memory cannot fail");
    encoder.finished()
}

/// An in-memory encoder that returns its output when finished.
trait Finish {
    fn finished(self) -> Vec<u8>;
}

impl Finish for GzEncoder<Vec<u8>> {
    fn finished(self) -> Vec<u8> {
        self.finish().expect("writing into memory cannot fail")
    }
}

impl Finish for ZlibEncoder<Vec<u8>> {
    fn finished(self) -> Vec<u8> {
        self.finish().expect("writing into memory cannot fail")
    }
}

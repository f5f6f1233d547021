//! TFRecord: the frame around each message of an event file.
//!
//! ```text
//! length (u64), masked CRC-32C of these 8 bytes (u32), message, masked CRC-32C of the message (u32); little-endian
//! ```

use super::crc32c::masked;
use std::io::Read;

/// A message in its frame.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut frame = Vec::with_capacity(message.len() + 16);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(&masked(&length).to_le_bytes());
    frame.extend_from_slice(message);
    frame.extend_from_slice(&masked(message).to_le_bytes());
    frame
}

/// Reads the next message; `None` at the end of the file, and if the rest is truncated or damaged. A length that is not
/// true allocates no more than the file holds.
pub(super) fn next(file: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let Some(length) = checked(file, 8)? else { return Ok(None) };
    let length = length.try_into().map_or(0, u64::from_le_bytes);
    checked(file, length)
}

/// Reads bytes and the checksum after them.
fn checked(file: &mut impl Read, length: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(length.saturating_add(4)).read_to_end(&mut bytes)?;
    let Some((message, sum)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
    if message.len() as u64 != length || u32::from_le_bytes(*sum) != masked(message) {
        return Ok(None);
    }
    bytes.truncate(bytes.len() - 4);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by TensorBoard's own `RecordWriter`, with the message `\x1a\x0dbrain.Event:2`.
    const KNOWN: &[u8] = b"\x0f\x00\x00\x00\x00\x00\x00\x00\x6d\x53\x2b\x09\x1a\x0d\x62\x72\x61\x69\x6e\x2e\x45\x76\x65\x6e\x74\x3a\x32\xfc\x98\x51\x29";

    fn all(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| next(&mut bytes).unwrap()).collect()
    }

    #[test]
    fn frames_are_those_of_tensorboard() {
        assert_eq!(framed(b"\x1a\x0dbrain.Event:2"), KNOWN);
        assert_eq!(all(KNOWN), [b"\x1a\x0dbrain.Event:2"]);
    }

    #[test]
    fn what_is_truncated_or_damaged_is_not_read() {
        let two: Vec<u8> = [framed(b"one"), framed(b"")].concat();
        assert_eq!(all(&two), [&b"one"[..], b""]);
        for end in 0..two.len() {
            assert_eq!(all(&two[..end]).len(), usize::from(end >= 19), "{end}");
        }
        for place in 0..two.len() {
            let mut damaged = two.clone();
            damaged[place] ^= 0x10;
            assert_eq!(all(&damaged).len(), usize::from(place >= 19), "{place}");
        }
        // A length with a correct checksum, of more bytes than there are.
        let length = u64::MAX.to_le_bytes();
        assert_eq!(all(&[&length[..], &masked(&length).to_le_bytes(), b"rest"].concat()).len(), 0);
    }
}

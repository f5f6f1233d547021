//! What the page contains in compressed form, in Base64; gzip is unpacked by its scripts.

use crate::data::Dataset;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::OnceLock;

/// Training and test digits of the playground.
const DIGITS: [u32; 2] = [2_000, 500];

/// Bytes that are already compressed, in Base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// gzip in Base64. The same bytes give the same text: the header has no time.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::best());
    // Writing to a vector does not fail.
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    base64(&packed)
}

/// The WebAssembly module.
pub(super) fn module() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| text(layernorm_web::MODULE))
}

/// The first embedded digits, averaged to 14 × 14 pixels with 16 levels, so that the page stays small:
///
/// ```text
/// u32   number of images          little endian
/// u32   number of training images, which come first
/// u8    label of each image
/// u8    196 pixels of each image, 0 to 15
/// ```
pub(super) fn digits() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        // The embedded files are valid and large enough (tested).
        let Ok(data) = Dataset::embedded() else { return String::new() };
        let (Ok(train), Ok(test)) = (data.train.first(DIGITS[0] as usize), data.test.first(DIGITS[1] as usize)) else {
            return String::new();
        };
        let parts = [train.halved(), test.halved()];
        let mut bytes = Vec::new();
        bytes.extend((DIGITS[0] + DIGITS[1]).to_le_bytes());
        bytes.extend(DIGITS[0].to_le_bytes());
        parts.iter().for_each(|digits| bytes.extend(digits.labels()));
        parts.iter().for_each(|digits| bytes.extend(digits.images().iter().map(|&pixel| level(pixel))));
        text(&bytes)
    })
}

/// A pixel in 16 levels.
fn level(pixel: u8) -> u8 {
    ((u32::from(pixel) * 15 + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn unpacked(text: &str) -> Vec<u8> {
        let packed = STANDARD.decode(text).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn packed_bytes_come_back() {
        for bytes in [&b""[..], b"one", &[7; 100_000]] {
            assert_eq!(unpacked(&text(bytes)), bytes);
        }
        assert_eq!(unpacked(module()), layernorm_web::MODULE);
    }

    #[test]
    fn digits_are_small_images_with_labels() {
        let bytes = unpacked(digits());
        let count = (DIGITS[0] + DIGITS[1]) as usize;
        assert_eq!(bytes.len(), 8 + count + 196 * count);
        assert_eq!(bytes[..8], [2_500u32.to_le_bytes(), 2_000u32.to_le_bytes()].concat());
        let (labels, pixels) = bytes[8..].split_at(count);
        assert!((0..10).all(|label| labels.contains(&label)) && labels.iter().all(|&label| label < 10));
        assert!(pixels.contains(&15) && pixels.iter().all(|&pixel| pixel < 16));
        assert_eq!([level(0), level(255)], [0, 15]);
    }
}

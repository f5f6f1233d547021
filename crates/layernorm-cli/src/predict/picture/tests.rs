use super::*;
use png::{BitDepth, ColorType};

/// A PNG of these samples, 28×28 pixels, with a palette and opacities if given.
fn encoded(colour: ColorType, depth: BitDepth, samples: &[u8], palette: &[u8], opacities: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 28, 28);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if !palette.is_empty() {
        encoder.set_palette(palette.to_vec());
    }
    if !opacities.is_empty() {
        encoder.set_trns(opacities.to_vec());
    }
    encoder.write_header().unwrap().write_image_data(samples).unwrap();
    bytes
}

/// A vertical bar: whether there is ink at each of 28×28 pixels.
fn bar() -> Vec<bool> {
    (0..28 * 28).map(|i| (5..23).contains(&(i / 28)) && (13..16).contains(&(i % 28))).collect()
}

/// The bar with these samples for ink and background.
fn drawn_with<const N: usize>(ink: [u8; N], around: [u8; N]) -> Vec<u8> {
    bar().into_iter().flat_map(|is_ink| if is_ink { ink } else { around }).collect()
}

fn pixels(png: &[u8]) -> Vec<u8> {
    let picture = read(png, 28, 28).unwrap();
    assert_eq!(picture.warning(), None);
    picture.pixels
}

#[test]
fn the_bar_is_seen_in_every_form() {
    use BitDepth::{Eight, One, Sixteen};
    use ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
    let expected: Vec<u8> = bar().into_iter().map(|ink| if ink { 255 } else { 0 }).collect();
    let bits: Vec<u8> = bar()
        .chunks(28)
        .flat_map(|row| {
            let mut bytes = [0u8; 4];
            row.iter().enumerate().for_each(|(x, &ink)| bytes[x / 8] |= u8::from(ink) << (7 - x % 8));
            bytes
        })
        .collect();
    for (what, png) in [
        ("white on black", encoded(Grayscale, Eight, &drawn_with([255], [0]), &[], &[])),
        ("black on white", encoded(Rgb, Eight, &drawn_with([0; 3], [255; 3]), &[], &[])),
        ("one bit", encoded(Grayscale, One, &bits, &[], &[])),
        ("16 bits", encoded(Grayscale, Sixteen, &drawn_with([255; 2], [0; 2]), &[], &[])),
        ("black on transparent", encoded(Rgba, Eight, &drawn_with([0, 0, 0, 255], [0; 4]), &[], &[])),
        ("white on transparent", encoded(Rgba, Eight, &drawn_with([255; 4], [255, 255, 255, 0]), &[], &[])),
        ("black on transparent, grey", encoded(GrayscaleAlpha, Eight, &drawn_with([0, 255], [0, 0]), &[], &[])),
        ("black on one transparent colour", encoded(Rgb, Eight, &drawn_with([0; 3], [9; 3]), &[], &[0, 9, 0, 9, 0, 9])),
        ("black on one transparent grey", encoded(Grayscale, Eight, &drawn_with([0], [9]), &[], &[0, 9])),
        ("16 bits, one transparent", encoded(Grayscale, Sixteen, &drawn_with([0; 2], [1, 2]), &[], &[1, 2])),
        ("a palette", encoded(Indexed, One, &bits, &[255, 255, 255, 0, 0, 0], &[])),
        ("a palette, black on transparent", encoded(Indexed, One, &bits, &[0; 6], &[0])),
    ] {
        assert_eq!(pixels(&png), expected, "{what}");
    }
}

#[test]
fn blank_pictures_have_a_warning() {
    for (what, samples) in
        [("white", vec![255; 784]), ("black", vec![0; 784]), ("nearly grey", drawn_with([100], [110]))]
    {
        let png = encoded(ColorType::Grayscale, BitDepth::Eight, &samples, &[], &[]);
        let warning = read(&png, 28, 28).unwrap().warning().unwrap_or_default();
        assert!(warning.contains("blank or nearly blank: its grey values range from"), "{what}: {warning}");
    }
    let transparent = encoded(ColorType::Rgba, BitDepth::Eight, &[0; 4 * 784], &[], &[]);
    assert!(read(&transparent, 28, 28).unwrap().warning().is_some());
}

/// A chunk of a PNG.
fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        })
    };
    let body = [&kind[..], data].concat();
    [&(data.len() as u32).to_be_bytes()[..], &body, &crc(&body).to_be_bytes()].concat()
}

/// A PNG with this header followed by these chunks.
fn raw(width: u32, height: u32, depth: u8, colour: u8, chunks: &[Vec<u8>]) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, colour, 0, 0, 0]].concat();
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), chunks.concat(), chunk(b"IEND", b"")].concat()
}

#[test]
fn palettes_of_wrong_lengths_are_refused() {
    let good = encoded(ColorType::Indexed, BitDepth::Eight, &[0; 784], &[1, 2, 3], &[]);
    let data = good.windows(4).position(|window| window == b"IDAT").unwrap();
    let length = u32::from_be_bytes(*good[data - 4..].first_chunk().unwrap()) as usize;
    let image = good[data - 4..data + 8 + length].to_vec();
    for length in [1, 2, 4, 5, 770] {
        let error = read(&raw(28, 28, 8, 3, &[chunk(b"PLTE", &vec![7; length]), image.clone()]), 28, 28).unwrap_err();
        assert!(error.contains("palette") || error.contains("PLTE"), "{length} bytes: {error}");
    }
    assert!(read(&raw(28, 28, 8, 3, &[image]), 28, 28).is_err());
}

#[test]
fn sizes_are_refused_before_they_are_allocated() {
    for (width, height, depth, colour) in [
        (1 << 30, 1, 8, 0),
        (1, 1 << 30, 8, 0),
        (40_000, 40_000, 1, 0),
        (10_000, 10_000, 16, 6),
        (1 << 31, 1 << 31, 8, 0),
    ] {
        let error = read(&raw(width, height, depth, colour, &[chunk(b"IDAT", b"x")]), 28, 28).unwrap_err();
        assert!(error.contains("expected a picture of at most") || error.contains("expected a PNG"), "{error}");
    }
}

#[test]
fn pixels_that_a_file_cannot_hold_are_refused_before_they_are_allocated() {
    let error = read(&raw(10_000, 10_000, 8, 0, &[chunk(b"IDAT", b"x")]), 28, 28).unwrap_err();
    assert_eq!(error, "expected 10000×10000 pixels, found a file of only 58 bytes");
}

#[test]
fn damaged_files_give_errors() {
    let png = encoded(ColorType::Rgba, BitDepth::Eight, &drawn_with([0, 0, 0, 255], [0; 4]), &[], &[]);
    for end in 0..png.len() {
        let _ = read(&png[..end], 28, 28);
    }
    for at in 0..png.len() {
        for bit in 0..8 {
            let mut damaged = png.clone();
            damaged[at] ^= 1 << bit;
            let _ = read(&damaged, 5, 7);
        }
    }
    assert!(read(b"no picture", 28, 28).unwrap_err().contains("expected a PNG"));
}

#[test]
fn pictures_are_brought_to_size() {
    // 4×4 pixels with quarters of one grey each, scaled to 2×2; and 1×1 scaled to 2×2.
    let quarter = |x: usize, y: usize| if (y / 2 + x / 2).is_multiple_of(2) { 10.0 } else { 200.0 };
    assert_eq!(small(quarter, [4, 4], [2, 2]), [10, 200, 200, 10]);
    assert_eq!(small(|_, _| 7.0, [1, 1], [2, 2]), [7; 4]);
    assert_eq!(small(|x, _| 3.0 * x as f64, [1, 3], [1, 1]), [3]);
}

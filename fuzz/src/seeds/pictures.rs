//! PNG files of each colour type and bit depth, with palettes, transparency and interlacing.

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use std::io::Write;

const WIDTH: u32 = 6;
const HEIGHT: u32 = 5;

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let body = [&kind[..], data].concat();
    let mut crc = Crc::new();
    crc.update(&body);
    [&(data.len() as u32).to_be_bytes()[..], &body, &crc.sum().to_be_bytes()].concat()
}

/// Returns a picture of this bit depth and colour type, with these chunks before its pixels.
fn file(depth: u8, colour: u8, interlaced: bool, before: &[Vec<u8>]) -> Vec<u8> {
    let channels = match colour {
        2 => 3,
        4 => 2,
        6 => 4,
        _ => 1,
    };
    let bits = channels * u32::from(depth);
    let passes: Vec<(u32, u32)> = match interlaced {
        true => [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)]
            .iter()
            .map(|&(x, dx, y, dy)| ((WIDTH + dx - 1 - x) / dx, (HEIGHT + dy - 1 - y) / dy))
            .collect(),
        false => vec![(WIDTH, HEIGHT)],
    };
    let mut rows = Vec::new();
    for (width, height) in passes.into_iter().filter(|&(width, height)| width * height > 0) {
        for row in 0..height {
            // One of the five filters, then pixels.
            rows.push((row % 5) as u8);
            rows.extend((0..(width * bits).div_ceil(8)).map(|byte| (37 * byte + 11 * row) as u8));
        }
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let pixels = encoder.write_all(&rows).and_then(|()| encoder.finish()).expect("writing into memory cannot fail");
    let header =
        [&WIDTH.to_be_bytes()[..], &HEIGHT.to_be_bytes(), &[depth, colour, 0, 0, u8::from(interlaced)]].concat();
    [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &header),
        before.concat(),
        chunk(b"IDAT", &pixels),
        chunk(b"IEND", b""),
    ]
    .concat()
}

/// Returns all seeds.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let palette = |colours: usize| chunk(b"PLTE", &(0..3 * colours).map(|byte| (5 * byte) as u8).collect::<Vec<u8>>());
    let transparent = |data: &[u8]| chunk(b"tRNS", data);
    vec![
        ("grey-1".into(), file(1, 0, false, &[])),
        ("grey-2".into(), file(2, 0, false, &[])),
        ("grey-4-interlaced".into(), file(4, 0, true, &[])),
        ("grey-8-transparent".into(), file(8, 0, false, &[transparent(&[0, 11])])),
        ("grey-16".into(), file(16, 0, false, &[])),
        ("rgb-8-transparent".into(), file(8, 2, false, &[transparent(&[0, 0, 0, 37, 0, 74])])),
        ("rgb-16-interlaced".into(), file(16, 2, true, &[])),
        ("palette-1".into(), file(1, 3, false, &[palette(2), transparent(&[0])])),
        ("palette-4".into(), file(4, 3, false, &[palette(16)])),
        ("palette-8-interlaced".into(), file(8, 3, true, &[palette(256), transparent(&[0, 128, 255])])),
        // Four bytes are not a whole number of colours.
        ("palette-of-4-bytes".into(), file(8, 3, false, &[chunk(b"PLTE", &[1, 2, 3, 4])])),
        ("grey-alpha-8".into(), file(8, 4, false, &[])),
        ("rgba-8".into(), file(8, 6, false, &[chunk(b"gAMA", &45_455u32.to_be_bytes())])),
        ("rgba-16-interlaced".into(), file(16, 6, true, &[chunk(b"tEXt", b"Title\0text")])),
        ("animated".into(), file(8, 2, false, &[chunk(b"acTL", &[0, 0, 0, 1, 0, 0, 0, 0])])),
    ]
}

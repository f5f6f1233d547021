//! Pictures: from a file to the grey values of a small image, and to letters on a terminal.

use crate::failure::Failure;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// More pixels than any camera has: such a file is refused before its memory is asked for.
const MOST_BYTES: usize = 1 << 30;

/// A PNG as grey values, 0 being background, in this size.
pub fn read(path: &Path, rows: usize, columns: usize) -> Result<Vec<u8>, Failure> {
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| refuse(format!("expected a PNG, found {error}")))?;
    let size = reader.output_buffer_size().filter(|&size| size <= MOST_BYTES);
    let size = size.ok_or_else(|| refuse("expected a picture of at most 1 GiB, found more".to_owned()))?;
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(|error| refuse(error.to_string()))?;
    let channels = info.color_type.samples();
    let grey: Vec<f64> = bytes[..info.buffer_size()].chunks_exact(channels).map(brightness).collect();
    Ok(small(&light_on_dark(grey), info.height as usize, info.width as usize, rows, columns))
}

/// How bright a pixel is, 0 to 255: of grey, grey and opacity, red-green-blue, or those and opacity. What is not opaque is black.
fn brightness(pixel: &[u8]) -> f64 {
    let (colour, opacity) = match pixel.len() {
        2 | 4 => pixel.split_at(pixel.len() - 1),
        _ => (pixel, &[u8::MAX][..]),
    };
    let grey = match *colour {
        [red, green, blue] => 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue),
        [grey, ..] => f64::from(grey),
        [] => 0.0,
    };
    grey * f64::from(opacity.first().copied().unwrap_or(u8::MAX)) / 255.0
}

/// Turned round if it is bright on the whole.
fn light_on_dark(grey: Vec<f64>) -> Vec<f64> {
    let mean = grey.iter().sum::<f64>() / grey.len().max(1) as f64;
    if mean > 127.5 { grey.into_iter().map(|value| 255.0 - value).collect() } else { grey }
}

/// Each pixel is the mean of what lies under it.
fn small(grey: &[f64], height: usize, width: usize, rows: usize, columns: usize) -> Vec<u8> {
    // From where to where a pixel reaches: at least one, the nearest.
    let reach = |place: usize, of: usize, side: usize| {
        let from = place * side / of;
        from..((place + 1) * side / of).max(from + 1).min(side)
    };
    let mut pixels = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let (ys, xs) = (reach(row, rows, height), reach(column, columns, width));
            let count = (ys.len() * xs.len()).max(1) as f64;
            let sum: f64 = ys.flat_map(|y| xs.clone().map(move |x| grey[y * width + x])).sum();
            pixels.push((sum / count).round() as u8);
        }
    }
    pixels
}

/// The image in letters, two a pixel.
pub fn drawn(pixels: &[u8], columns: usize) -> String {
    let letters = [' ', '░', '▒', '▓', '█'];
    let letter = |&pixel: &u8| letters[(usize::from(pixel) * letters.len()) / 256];
    let line = |row: &[u8]| row.iter().map(letter).flat_map(|letter| [letter, letter]).collect::<String>();
    pixels.chunks(columns.max(1)).map(|row| line(row).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_brought_to_size() {
        // 4×4 in quarters, each of one grey, to 2×2; and 1×1 to 2×2.
        let quarters: Vec<f64> = (0..16).map(|i| if (i / 8 + i % 4 / 2) % 2 == 0 { 10.0 } else { 200.0 }).collect();
        assert_eq!(small(&quarters, 4, 4, 2, 2), [10, 200, 200, 10]);
        assert_eq!(small(&[7.0], 1, 1, 2, 2), [7; 4]);
        assert_eq!(small(&[0.0, 3.0, 6.0], 1, 3, 1, 1), [3]);
    }

    #[test]
    fn dark_on_light_is_turned_round() {
        assert_eq!(light_on_dark(vec![255.0, 255.0, 0.0]), [0.0, 0.0, 255.0]);
        assert_eq!(light_on_dark(vec![0.0, 0.0, 255.0]), [0.0, 0.0, 255.0]);
        assert!(light_on_dark(Vec::new()).is_empty());
    }

    #[test]
    fn colours_become_grey() {
        assert_eq!(brightness(&[100]), 100.0);
        assert_eq!(brightness(&[100, 0]), 0.0);
        assert!((brightness(&[50, 50, 50]) - 50.0).abs() < 1e-9);
        assert!((brightness(&[50, 50, 50, 255]) - 50.0).abs() < 1e-9);
    }
}

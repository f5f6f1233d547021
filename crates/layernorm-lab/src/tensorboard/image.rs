//! Images as PNG files: sheets of digits, and matrices in colours.

/// An image for TensorBoard.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) png: Vec<u8>,
}

/// An image under construction.
struct Canvas {
    width: usize,
    height: usize,
    color: png::ColorType,
    bytes: Vec<u8>,
}

impl Canvas {
    /// `None` if it has no pixels or too many for a PNG file.
    fn encoded(&self) -> Option<Picture> {
        let mut png = Vec::new();
        let [width, height] = [self.width, self.height].map(|side| u32::try_from(side).ok());
        let mut encoder = png::Encoder::new(&mut png, width?, height?);
        encoder.set_color(self.color);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().ok()?.write_image_data(&self.bytes).ok()?;
        Some(Picture { width: self.width, height: self.height, png })
    }
}

/// Pixels between digits.
const GAP: usize = 2;
/// Pixels of the sheet per pixel of a digit.
const ZOOM: usize = 3;
/// Shade between digits.
const BACKGROUND: u8 = 64;

/// Digits side by side, in lines of `across`. A digit is text: row by row, one hexadecimal digit per pixel, from 0 to f.
/// `None` if one has another size.
pub(super) fn sheet(digits: &[&str], [rows, columns]: [usize; 2], across: usize) -> Option<Picture> {
    let down = digits.len().div_ceil(across.max(1));
    let side = |count: usize, pixels: usize| count.checked_mul(pixels.checked_mul(ZOOM)? + GAP)?.checked_add(GAP);
    let (width, height) = (side(across, columns)?, side(down, rows)?);
    if digits.iter().any(|digit| Some(digit.len()) != rows.checked_mul(columns)) {
        return None;
    }
    let mut bytes = vec![BACKGROUND; width * height];
    for (number, digit) in digits.iter().enumerate() {
        let left = GAP + number % across * (columns * ZOOM + GAP);
        let top = GAP + number / across * (rows * ZOOM + GAP);
        for (place, shade) in digit.chars().enumerate() {
            // From 0 to 15, and thereby to 255.
            let shade = u8::try_from(shade.to_digit(16)?).ok()? * 17;
            let (x, y) = (left + place % columns * ZOOM, top + place / columns * ZOOM);
            (y..y + ZOOM).for_each(|y| bytes[y * width + x..][..ZOOM].fill(shade));
        }
    }
    Canvas { width, height, color: png::ColorType::Grayscale, bytes }.encoded()
}

/// Pixels per number of a matrix.
const CELL: usize = 8;

/// A square matrix of numbers from −1 (blue) over 0 (white) to 1 (red). `None` if it has another size.
pub(super) fn heatmap(numbers: &[f64], units: usize) -> Option<Picture> {
    if units.checked_mul(units) != Some(numbers.len()) {
        return None;
    }
    let mut bytes = Vec::new();
    for row in numbers.chunks(units.max(1)) {
        let line: Vec<u8> = row.iter().flat_map(|&number| color(number).repeat(CELL)).collect();
        bytes.extend(line.repeat(CELL));
    }
    Canvas { width: CELL * units, height: CELL * units, color: png::ColorType::Rgb, bytes }.encoded()
}

fn color(number: f64) -> [u8; 3] {
    const BLUE: [f64; 3] = [33.0, 102.0, 172.0];
    const RED: [f64; 3] = [178.0, 24.0, 43.0];
    let (end, share) = (if number < 0.0 { BLUE } else { RED }, number.abs().min(1.0));
    end.map(|end| (255.0 + (end - 255.0) * share).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(picture: Option<Picture>) -> (usize, usize, Vec<u8>) {
        let Picture { width, height, png } = picture.unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width as usize, info.height as usize), (width, height));
        (width, height, bytes)
    }

    #[test]
    fn digits_stand_side_by_side() {
        let (width, height, bytes) = decoded(sheet(&["0f", "f0", "8f"], [1, 2], 2));
        assert_eq!((width, height), (2 + 2 * 8, 2 + 2 * 5));
        let at = |x: usize, y: usize| bytes[y * width + x];
        assert_eq!([at(0, 0), at(2, 2), at(5, 4), at(10, 2), at(13, 2), at(2, 7)], [64, 0, 255, 255, 0, 136]);
        assert_eq!(at(10, 7), BACKGROUND, "no fourth digit");
        for (digits, size) in [(["0"], [1, 2]), (["0g"], [1, 2]), (["é"], [1, 2]), (["00"], [usize::MAX, 2])] {
            assert!(sheet(&digits, size, 1).is_none(), "{digits:?}");
        }
    }

    #[test]
    fn matrices_are_blue_white_and_red() {
        let (width, height, bytes) = decoded(heatmap(&[1.0, -1.0, 0.0, 0.5], 2));
        assert_eq!((width, height), (2 * CELL, 2 * CELL));
        let at = |x: usize, y: usize| &bytes[3 * (y * width + x)..][..3];
        assert_eq!([at(0, 0), at(CELL, 7), at(0, CELL)], [[178, 24, 43], [33, 102, 172], [255, 255, 255]]);
        assert!(heatmap(&[0.0; 3], 2).is_none() && heatmap(&[], 0).is_none());
    }
}

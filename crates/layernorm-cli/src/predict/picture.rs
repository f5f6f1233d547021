//! Pictures: decodes a PNG into the grey values of a small image, and draws an image as text on a terminal.
//!
//! ```text
//! PNG → samples as stored in the file → grey and opacity → over white or black → light on dark → scaled down
//! ```
//!
//! Transparent pixels are composited over white or black, whichever gives the picture more contrast, so that strokes of
//! either colour are visible. If both give the same contrast, the background is white, like paper.
//!
//! Any input gives a picture or an error. Sizes are checked first: at most [`MAX_BYTES`] are decompressed, in rows of at most
//! [`MAX_SIDE`] pixels, and little else is allocated.

use std::io::Cursor;

/// The maximum size of a decompressed picture in bytes: 80 megapixels in colour.
const MAX_BYTES: usize = 256 << 20;
/// The maximum number of pixels of a picture, at any bit depth.
const MAX_PIXELS: u64 = 1 << 27;
/// The maximum width and height in pixels.
const MAX_SIDE: u32 = 1 << 17;
/// The largest expansion of deflate: bytes of output per byte of input.
const MAX_EXPANSION: usize = 1032;
/// Grey values that differ by less than this do not count as strokes.
const MIN_CONTRAST: u8 = 32;

/// Grey values row by row; 0 is the background.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    pub pixels: Vec<u8>,
    /// The smallest and the largest grey value of the picture.
    range: (u8, u8),
}

impl Picture {
    /// A warning if the picture is blank or nearly blank.
    pub fn warning(&self) -> Option<String> {
        let (least, most) = self.range;
        (most - least < MIN_CONTRAST).then(|| {
            format!("the picture is blank or nearly blank: its grey values range from {least} to {most} of 255")
        })
    }
}

/// Decodes a PNG and scales it to this size.
pub fn read(png: &[u8], rows: usize, columns: usize) -> Result<Picture, String> {
    let image = Samples::decode(png)?;
    let Backing { background, mean } = image.backing();
    let bright = mean > 127.5;
    let grey = |x, y| {
        let grey = image.over(background, x, y);
        if bright { 255.0 - grey } else { grey }
    };
    let pixels = small(grey, [image.height, image.width], [rows, columns]);
    let range = (pixels.iter().copied().min().unwrap_or(0), pixels.iter().copied().max().unwrap_or(0));
    Ok(Picture { pixels, range })
}

/// A decompressed picture with its samples as stored in the file.
struct Samples {
    width: usize,
    height: usize,
    /// Bits per sample: 1, 2, 4, 8 or 16.
    depth: usize,
    /// Bytes per row.
    line: usize,
    bytes: Vec<u8>,
    colours: Colours,
}

/// The meaning of a pixel's samples. Grey values range from 0 to 255, opacities from 0 to 1.
enum Colours {
    Grey {
        transparent: Option<usize>,
    },
    GreyAndOpacity,
    Rgb {
        transparent: Option<[usize; 3]>,
    },
    RgbAndOpacity,
    /// The grey value and opacity of each entry.
    Palette(Vec<(f64, f64)>),
}

impl Samples {
    fn decode(bytes: &[u8]) -> Result<Samples, String> {
        let refused = |error: png::DecodingError| format!("expected a PNG, found {error}");
        let limits = png::Limits { bytes: MAX_BYTES };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
        // The decoder must not expand anything: it panicked on truncated palettes.
        decoder.set_transformations(png::Transformations::IDENTITY);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let header = decoder.read_header_info().map_err(refused)?;
        let (width, height) = (header.width, header.height);
        if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(format!(
                "expected a picture of at most {MAX_PIXELS} pixels, {MAX_SIDE} per side, found {width}×{height}"
            ));
        }
        let mut reader = decoder.read_info().map_err(refused)?;
        let too_large = || format!("expected a picture of at most {MAX_BYTES} bytes, found more");
        let size = reader.output_buffer_size().filter(|&size| size <= MAX_BYTES).ok_or_else(too_large)?;
        if size / MAX_EXPANSION > bytes.len() {
            let found = bytes.len();
            return Err(format!("expected {width}×{height} pixels, found a file of only {found} bytes"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| format!("not enough memory for a picture of {size} bytes"))?;
        bytes.resize(size, 0);
        let frame = reader.next_frame(&mut bytes).map_err(refused)?;
        let colours = Colours::of(reader.info())?;
        bytes.truncate(frame.buffer_size());
        let depth = reader.info().bit_depth as usize;
        let [width, height] = [frame.width, frame.height].map(|side| side as usize);
        if bytes.len() < frame.line_size.saturating_mul(height) || width == 0 || height == 0 {
            return Err(format!("expected {height} rows of {} bytes, found {} bytes", frame.line_size, bytes.len()));
        }
        Ok(Samples { width, height, depth, line: frame.line_size, bytes, colours })
    }

    /// A sample of a row.
    fn sample(&self, y: usize, number: usize) -> usize {
        let row = &self.bytes[y * self.line..][..self.line];
        let byte = |at: usize| usize::from(row.get(at).copied().unwrap_or(0));
        match self.depth {
            16 => byte(2 * number) << 8 | byte(2 * number + 1),
            depth => {
                let bit = number * depth;
                byte(bit / 8) >> (8 - depth - bit % 8) & ((1 << depth) - 1)
            }
        }
    }

    /// Grey value, 0 to 255, and opacity, 0 to 1, of a pixel.
    fn pixel(&self, x: usize, y: usize) -> (f64, f64) {
        let most = ((1usize << self.depth) - 1) as f64;
        let [one, two, three, four] = [0, 1, 2, 3].map(|of| move |channels: usize| self.sample(y, x * channels + of));
        let grey = |sample: usize| sample as f64 * 255.0 / most;
        let share = |sample: usize| sample as f64 / most;
        let opaque = |seen: bool| if seen { 1.0 } else { 0.0 };
        match &self.colours {
            Colours::Grey { transparent } => (grey(one(1)), opaque(*transparent != Some(one(1)))),
            Colours::GreyAndOpacity => (grey(one(2)), share(two(2))),
            Colours::Rgb { transparent } => {
                let rgb = [one(3), two(3), three(3)];
                (brightness(rgb.map(grey)), opaque(*transparent != Some(rgb)))
            }
            Colours::RgbAndOpacity => (brightness([one(4), two(4), three(4)].map(grey)), share(four(4))),
            // An index outside the palette is black, as in other decoders.
            Colours::Palette(entries) => entries.get(one(1)).copied().unwrap_or((0.0, 1.0)),
        }
    }

    /// The brightness of a pixel over a background, 0 to 255.
    fn over(&self, background: f64, x: usize, y: usize) -> f64 {
        laid(self.pixel(x, y), background)
    }

    /// White or black, whichever gives the picture more contrast.
    fn backing(&self) -> Backing {
        let mut moments = [WHITE, BLACK].map(|background| (background, 0.0, 0.0));
        for (x, y) in (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y))) {
            let pixel = self.pixel(x, y);
            for (background, sum, squares) in &mut moments {
                let grey = laid(pixel, *background);
                (*sum, *squares) = (*sum + grey, *squares + grey * grey);
            }
        }
        let count = (self.width * self.height) as f64;
        let [white, black] = moments.map(|(background, sum, squares)| {
            let mean = sum / count;
            (Backing { background, mean }, squares / count - mean * mean)
        });
        // Without transparency, both are the same.
        if black.1 > white.1 { black.0 } else { white.0 }
    }
}

const WHITE: f64 = 255.0;
const BLACK: f64 = 0.0;

/// A background, and the mean brightness of the picture over it.
struct Backing {
    background: f64,
    mean: f64,
}

/// A pixel over a background.
fn laid((grey, opacity): (f64, f64), background: f64) -> f64 {
    grey * opacity + background * (1.0 - opacity)
}

impl Colours {
    /// Reads the colour type from the header. Palettes and transparent colours are validated here.
    fn of(info: &png::Info<'_>) -> Result<Colours, String> {
        let opacity = info.trns.as_deref();
        // At 8 bits or less, the decoder stores each transparent sample in one byte.
        let colour = |at: usize| match info.bit_depth {
            png::BitDepth::Sixteen => Some(usize::from(u16::from_be_bytes(*opacity?.get(2 * at..)?.first_chunk()?))),
            _ => Some(usize::from(*opacity?.get(at)?)),
        };
        Ok(match info.color_type {
            png::ColorType::Grayscale => Colours::Grey { transparent: colour(0) },
            png::ColorType::GrayscaleAlpha => Colours::GreyAndOpacity,
            png::ColorType::Rgb => {
                Colours::Rgb { transparent: colour(0).and_then(|red| Some([red, colour(1)?, colour(2)?])) }
            }
            png::ColorType::Rgba => Colours::RgbAndOpacity,
            png::ColorType::Indexed => {
                let palette = info.palette.as_deref().unwrap_or_default();
                let (entries, rest) = palette.as_chunks::<3>();
                if entries.is_empty() || !rest.is_empty() || entries.len() > 256 {
                    let length = palette.len();
                    return Err(format!("palette: expected 1 to 256 colours of 3 bytes, found {length} bytes"));
                }
                let of = |(number, entry): (usize, &[u8; 3])| {
                    let opacity = opacity.and_then(|opacity| opacity.get(number)).copied().unwrap_or(u8::MAX);
                    (brightness(entry.map(f64::from)), f64::from(opacity) / 255.0)
                };
                Colours::Palette(entries.iter().enumerate().map(of).collect())
            }
        })
    }
}

/// The brightness of a colour, 0 to 255.
fn brightness([red, green, blue]: [f64; 3]) -> f64 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

/// Scales down: each pixel is the mean of the area it covers.
fn small(grey: impl Fn(usize, usize) -> f64, [height, width]: [usize; 2], [rows, columns]: [usize; 2]) -> Vec<u8> {
    // The range of source pixels that a pixel covers: at least one.
    let reach = |place: usize, of: usize, side: usize| {
        let from = place * side / of;
        from..((place + 1) * side / of).max(from + 1).min(side)
    };
    let mut pixels = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let (ys, xs) = (reach(row, rows, height), reach(column, columns, width));
            let count = (ys.len() * xs.len()).max(1) as f64;
            let sum: f64 = ys.flat_map(|y| xs.clone().map(move |x| (x, y))).map(|(x, y)| grey(x, y)).sum();
            pixels.push((sum / count).round() as u8);
        }
    }
    pixels
}

/// Draws the image as text, two characters per pixel.
pub fn drawn(pixels: &[u8], columns: usize) -> String {
    let letters = [' ', '░', '▒', '▓', '█'];
    let letter = |&pixel: &u8| letters[(usize::from(pixel) * letters.len()) / 256];
    let line = |row: &[u8]| row.iter().map(letter).flat_map(|letter| [letter, letter]).collect::<String>();
    pixels.chunks(columns.max(1)).map(|row| line(row).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests;

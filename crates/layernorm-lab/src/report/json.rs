//! JSON for the page, with short numbers.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Significant digits of a number: more than charts and tables show, and half the size of all seventeen.
const DIGITS: usize = 7;

/// JavaScript represents integers exactly up to this one.
const LARGEST_EXACT: u64 = 1 << 53;

struct Short;

impl Formatter for Short {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Values are finite here: NaN and infinities have already become `null`.
        let rounded: f64 = format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value);
        // The shorter of 0.00001 and 1e-5; both are valid JSON.
        let (plain, power) = (format!("{rounded}"), format!("{rounded:e}"));
        writer.write_all(if power.len() < plain.len() { power } else { plain }.as_bytes())
    }

    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        // Seeds must keep every digit, so large ones are written as text.
        if value <= LARGEST_EXACT { write!(writer, "{value}") } else { write!(writer, "\"{value}\"") }
    }
}

/// Converts `value` to JSON.
pub(super) fn text(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Short))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

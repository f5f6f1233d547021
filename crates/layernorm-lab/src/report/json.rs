//! JSON as the page wants it: short numbers, and nothing that could end the `<script>` element around it.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Digits kept of a number: more than a picture or a table shows, half the size of all seventeen.
const DIGITS: usize = 7;

/// The largest integer up to which JavaScript's numbers count without gaps.
const LARGEST_EXACT: u64 = 1 << 53;

struct Short;

impl Formatter for Short {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Only finite values arrive here: NaN and infinities are `null` already.
        let rounded: f64 = format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value);
        // The smaller of 0.00001 and 1e-5; both are JSON.
        let (plain, power) = (format!("{rounded}"), format!("{rounded:e}"));
        writer.write_all(if power.len() < plain.len() { power } else { plain }.as_bytes())
    }

    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        // A seed must survive to its last digit, so a large one travels as text.
        if value <= LARGEST_EXACT { write!(writer, "{value}") } else { write!(writer, "\"{value}\"") }
    }
}

/// `value` as JSON that can stand inside a `<script>` element: `<` occurs in JSON only within strings, and is escaped.
pub(super) fn for_script(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Short))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.replace('<', "\\u003c"))
}

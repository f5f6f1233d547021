//! Encoding and decoding of records: lines with checksums. Any input gives a record or an error.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Version of the format. Files of other versions are rejected.
pub const VERSION: u32 = 2;

/// Identity of a run: everything needed to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Its study.
    pub study: String,
    /// Name of the run and of its file.
    pub run: String,
    /// Everything that determines its results.
    pub settings: Value,
}

impl Header {
    /// A run of a study.
    pub fn new(study: &str, run: &str, settings: Value) -> Header {
        Header { version: VERSION, study: study.to_owned(), run: run.to_owned(), settings }
    }
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The event's name.
    pub name: String,
    /// The event's data.
    pub data: Value,
}

/// Contents of a file of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The header.
    pub header: Header,
    /// The events, in order.
    pub events: Vec<Event>,
    /// Whether the run is finished.
    pub finished: bool,
}

impl Record {
    /// A record without events.
    pub fn new(header: Header) -> Record {
        Record { header, events: Vec::new(), finished: false }
    }

    /// The data of all events with this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event.name == name).map(|event| &event.data)
    }
}

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub(super) enum Line {
    Start(Header),
    Event(Event),
    End,
}

/// Why bytes are not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A line is invalid.
    Line {
        /// Line number, from 1.
        line: usize,
        /// What was found.
        what: String,
    },
    /// Another version of the format.
    Version {
        /// The version found.
        found: u32,
    },
}

/// A position after a complete line, with the checksum that the next line continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of bytes up to here.
    pub bytes: u64,
    /// Checksum of all lines up to here.
    pub sum: Sum,
}

impl Mark {
    /// An empty file.
    pub const START: Mark = Mark { bytes: 0, sum: [b'0'; DIGITS] };
}

/// A checksum in hexadecimal digits.
pub type Sum = [u8; DIGITS];

/// 64 bits: damage is missed once in 10¹⁹ times. This does not protect against deliberate forgery.
const DIGITS: usize = 16;
/// Text before a line's checksum.
const BEFORE: &[u8] = b",\"sum\":\"";
/// Text after it.
const AFTER: &[u8] = b"\"}";
/// Start of every file.
const BEGINNING: &[u8] = b"{\"record\":\"start\",";
/// Start of every line.
const LINE: &[u8] = b"{\"record\":\"";

/// The first digits of the SHA-256 of the previous checksum and the line without its own.
fn sum(before: &Sum, line: &[u8]) -> Sum {
    let hash = Sha256::new().chain_update(before).chain_update(line).finalize();
    std::array::from_fn(|digit| {
        let byte = hash[digit / 2];
        b"0123456789abcdef"[usize::from(if digit % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}

/// Encodes a line after `mark`; returns its bytes and the new mark.
pub(super) fn write(line: &Line, mark: &Mark) -> Result<(Vec<u8>, Mark), serde_json::Error> {
    let mut bytes = serde_json::to_vec(line)?;
    let sum = sum(&mark.sum, &bytes);
    bytes.truncate(bytes.len() - 1);
    for part in [BEFORE, &sum, AFTER, b"\n"] {
        bytes.extend_from_slice(part);
    }
    let mark = Mark { bytes: mark.bytes + bytes.len() as u64, sum };
    Ok((bytes, mark))
}

/// Splits a line into its text without checksum and the checksum.
fn split(line: &[u8]) -> Option<(Vec<u8>, Sum)> {
    let rest = line.strip_suffix(AFTER)?;
    let (rest, sum) = rest.split_last_chunk::<DIGITS>()?;
    let mut rest = rest.strip_suffix(BEFORE)?.to_vec();
    rest.push(b'}');
    Some((rest, *sum))
}

/// Decoded bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The record.
    pub record: Record,
    /// End of each line, starting with the header.
    pub marks: Vec<Mark>,
}

/// Decodes a record; `None` if the bytes end within the header. A truncated last line is ignored.
pub fn parse(bytes: &[u8]) -> Result<Option<Parsed>, Wrong> {
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    let (lines, rest) = bytes.split_at(whole);
    let mut parsed: Option<Parsed> = None;
    let mut mark = Mark::START;
    for (number, line) in lines.split_inclusive(|&b| b == b'\n').enumerate() {
        let text = &line[..line.len() - 1];
        let wrong = |what: String| Wrong::Line { line: number + 1, what };
        let next = checked(text, parsed.is_none(), &mark).map_err(|error| match error {
            Unread::Version(found) => Wrong::Version { found },
            Unread::Line(what) => wrong(what),
        })?;
        mark = Mark { bytes: mark.bytes + line.len() as u64, sum: next.1 };
        parsed = Some(joined(parsed, next.0, mark).map_err(|what| wrong(what.to_owned()))?);
    }
    let expected = if whole == 0 { BEGINNING } else { LINE };
    let common = rest.len().min(expected.len());
    if rest[..common] != expected[..common] {
        let (line, shown) = (mark_lines(&parsed) + 1, &rest[..rest.len().min(40)]);
        return Err(Wrong::Line { line, what: format!("\"{}\"", shown.escape_ascii()) });
    }
    Ok(parsed)
}

fn mark_lines(parsed: &Option<Parsed>) -> usize {
    parsed.as_ref().map_or(0, |parsed| parsed.marks.len())
}

enum Unread {
    Version(u32),
    Line(String),
}

/// Decodes a line and verifies its checksum.
fn checked(text: &[u8], first: bool, before: &Mark) -> Result<(Line, Sum), Unread> {
    // Other versions may have other lines, so the header's version is checked first.
    if first
        && let Ok(value) = serde_json::from_slice::<Value>(text)
        && let Some(found) = value["version"].as_u64().filter(|&found| found != u64::from(VERSION))
    {
        return Err(Unread::Version(u32::try_from(found).unwrap_or(u32::MAX)));
    }
    let (text, found) = split(text).ok_or_else(|| Unread::Line("a line without a checksum".to_owned()))?;
    let line = serde_json::from_slice(&text).map_err(|error| Unread::Line(error.to_string()))?;
    let expected = sum(&before.sum, &text);
    if found != expected {
        let [expected, found] = [&expected[..], &found[..]].map(|sum| sum.escape_ascii().to_string());
        return Err(Unread::Line(format!(
            "checksum {found} instead of {expected}: this line or an earlier one was changed, removed, duplicated or \
             moved"
        )));
    }
    Ok((line, found))
}

/// Appends a line to a record.
fn joined(parsed: Option<Parsed>, line: Line, mark: Mark) -> Result<Parsed, &'static str> {
    let Some(mut parsed) = parsed else {
        let Line::Start(header) = line else { return Err("a line before the header") };
        return Ok(Parsed { record: Record::new(header), marks: vec![mark] });
    };
    let record = &mut parsed.record;
    match line {
        _ if record.finished => return Err("a line after the end"),
        Line::Start(_) => return Err("a second header"),
        Line::Event(event) => record.events.push(event),
        Line::End => record.finished = true,
    }
    parsed.marks.push(mark);
    Ok(parsed)
}

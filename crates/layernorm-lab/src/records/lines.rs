//! Records as bytes, without files: lines with their checksums, written and read. Any bytes give a record or what is wrong.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The version of the format. Files of other versions are refused.
pub const VERSION: u32 = 2;

/// What a run is: enough to do it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The study that it belongs to.
    pub study: String,
    /// Its name in the study, which is also the file's.
    pub run: String,
    /// Everything that decides its numbers.
    pub settings: Value,
}

impl Header {
    /// A run of a study.
    pub fn new(study: &str, run: &str, settings: Value) -> Header {
        Header { version: VERSION, study: study.to_owned(), run: run.to_owned(), settings }
    }
}

/// Something that a run has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What kind of thing.
    pub name: String,
    /// The thing.
    pub data: Value,
}

/// What a file of records holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What the run is.
    pub header: Header,
    /// What it has seen.
    pub events: Vec<Event>,
    /// Whether it went to its end.
    pub finished: bool,
}

impl Record {
    /// A run that has seen nothing yet.
    pub fn new(header: Header) -> Record {
        Record { header, events: Vec::new(), finished: false }
    }

    /// The events of one name.
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

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A line is not a record's.
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Another version of the format.
    Version {
        /// Which.
        found: u32,
    },
}

/// Where a file is whole: after a line, and with which checksum the next one goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Bytes up to here.
    pub bytes: u64,
    /// The checksum of all lines up to here.
    pub sum: Sum,
}

impl Mark {
    /// An empty file.
    pub const START: Mark = Mark { bytes: 0, sum: [b'0'; DIGITS] };
}

/// A checksum: hexadecimal digits.
pub type Sum = [u8; DIGITS];

/// 64 bits: damage goes unseen once in 10¹⁹ times. It is no protection against forgers, and could not be.
const DIGITS: usize = 16;
/// What stands before a line's checksum.
const BEFORE: &[u8] = b",\"sum\":\"";
/// And behind it.
const AFTER: &[u8] = b"\"}";
/// How every file begins.
const BEGINNING: &[u8] = b"{\"record\":\"start\",";
/// How every line begins.
const LINE: &[u8] = b"{\"record\":\"";

/// The sha256 of the checksum before and of the line without its own, its first digits.
fn sum(before: &Sum, line: &[u8]) -> Sum {
    let hash = Sha256::new().chain_update(before).chain_update(line).finalize();
    std::array::from_fn(|digit| {
        let byte = hash[digit / 2];
        b"0123456789abcdef"[usize::from(if digit % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}

/// A line's bytes behind those up to `mark`, and where the file is whole then.
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

/// The line without its checksum, and the checksum.
fn split(line: &[u8]) -> Option<(Vec<u8>, Sum)> {
    let rest = line.strip_suffix(AFTER)?;
    let (rest, sum) = rest.split_last_chunk::<DIGITS>()?;
    let mut rest = rest.strip_suffix(BEFORE)?.to_vec();
    rest.push(b'}');
    Some((rest, *sum))
}

/// What some bytes hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The record.
    pub record: Record,
    /// Where each line ends, the header's first.
    pub marks: Vec<Mark>,
}

/// The record in some bytes; `None` if they end within the header. A last line that is cut off does not count.
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

/// A line whose checksum is right, and that checksum.
fn checked(text: &[u8], first: bool, before: &Mark) -> Result<(Line, Sum), Unread> {
    // Other versions may have other lines: the header is looked at first, and for its version alone.
    if first
        && let Ok(value) = serde_json::from_slice::<Value>(text)
        && let Some(found) = value["version"].as_u64().filter(|&found| found != u64::from(VERSION))
    {
        return Err(Unread::Version(u32::try_from(found).unwrap_or(u32::MAX)));
    }
    let (text, found) = split(text).ok_or_else(|| Unread::Line("no line with a checksum".to_owned()))?;
    let line = serde_json::from_slice(&text).map_err(|error| Unread::Line(error.to_string()))?;
    let expected = sum(&before.sum, &text);
    if found != expected {
        let [expected, found] = [&expected[..], &found[..]].map(|sum| sum.escape_ascii().to_string());
        return Err(Unread::Line(format!(
            "checksum {found} instead of {expected}: this line or one before it was changed, removed, doubled or moved"
        )));
    }
    Ok((line, found))
}

/// A record with one line more.
fn joined(parsed: Option<Parsed>, line: Line, mark: Mark) -> Result<Parsed, &'static str> {
    let Some(mut parsed) = parsed else {
        let Line::Start(header) = line else { return Err("something before the start") };
        return Ok(Parsed { record: Record::new(header), marks: vec![mark] });
    };
    let record = &mut parsed.record;
    match line {
        _ if record.finished => return Err("something behind the end"),
        Line::Start(_) => return Err("a second start"),
        Line::Event(event) => record.events.push(event),
        Line::End => record.finished = true,
    }
    parsed.marks.push(mark);
    Ok(parsed)
}

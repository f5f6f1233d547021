//! Any bytes as a run's records: an error, or a record that is the same when the run continues and when it is read
//! again.

use crate::memory;
use crate::records::lines::{self, Parsed};
use crate::records::{Record, RunFile};
use crate::scratch;
use sha2::{Digest, Sha256};

const BEFORE_SUM: &[u8] = b",\"sum\":\"";
const AFTER_SUM: &[u8] = b"\"}";
const DIGITS: usize = 16;

/// Maximum memory for reading: the most expensive bytes are small numbers in a JSON array, `1,`, which become values
/// of 32 bytes in a vector that doubles.
fn allowance(length: usize) -> usize {
    128 * length + (64 << 10)
}

/// Checks the properties of a file, and of lines with valid checksums added, because random checksums never match.
pub fn check(bytes: &[u8]) -> bool {
    read(bytes) | read(&with_sums(&lines_without_sums(bytes)))
}

/// Returns the lines of a file, without their checksums if they have any.
pub fn lines_without_sums(bytes: &[u8]) -> Vec<Vec<u8>> {
    let without = |line: &[u8]| {
        let (rest, _) = line.strip_suffix(AFTER_SUM)?.split_last_chunk::<DIGITS>()?;
        Some([rest.strip_suffix(BEFORE_SUM)?, b"}"].concat())
    };
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|&byte| byte == b'\n');
    lines.map(|line| without(line).unwrap_or_else(|| line.to_vec())).collect()
}

/// Returns a file of these lines, each with the checksum of itself and of those before it.
pub fn with_sums(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = "0".repeat(DIGITS);
    let mut bytes = Vec::new();
    for line in lines {
        let hash = Sha256::new().chain_update(&sum).chain_update(line).finalize();
        sum = hash[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.extend(match line.strip_suffix(b"}") {
            Some(open) => [open, BEFORE_SUM, sum.as_bytes(), AFTER_SUM, b"\n"].concat(),
            None => [&line[..], b"\n"].concat(),
        });
    }
    bytes
}

fn read(bytes: &[u8]) -> bool {
    match memory::within(allowance(bytes.len()), || lines::parse(bytes)) {
        Ok(Some(parsed)) => {
            goes_on(&parsed, bytes);
            true
        }
        Ok(None) => false,
        Err(wrong) => {
            assert!(!format!("{wrong:?}").is_empty());
            false
        }
    }
}

/// Opens a run's file with these bytes, continues the run to its end, and reads the file again.
fn goes_on(Parsed { record, marks }: &Parsed, bytes: &[u8]) {
    let whole = marks.last().map_or(0, |mark| mark.bytes);
    assert!(whole <= bytes.len() as u64 && marks.len() == 1 + record.events.len() + usize::from(record.finished));
    if record.header.run.len() > 100 || record.header.run.contains(['/', '\0']) {
        let error = RunFile::open(scratch::folder(), record.header.clone());
        assert!(record.header.run.len() > 100 || error.is_err(), "a run's name must not be a path");
        return;
    }
    let path = scratch::file(&format!("{}.jsonl", record.header.run), bytes);
    // Not every name in a record is a valid file name.
    if let Ok(mut run) = RunFile::open(scratch::folder(), record.header.clone()) {
        assert_eq!(run.record(), record, "a run that was read continues");
        if !record.finished {
            run.event("more", serde_json::json!({"step": 1})).expect("an event can be appended");
        }
        run.finish().expect("a run can end");
        let again = Record::read(run.path()).expect("a written file can be read").expect("a record");
        assert_eq!(again, *run.record());
    }
    std::fs::remove_file(path).expect("the file still exists");
}

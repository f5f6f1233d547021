//! A file with a header and blobs. The first line has the format and the SHA-256 of everything after it; the second has
//! the header and the lengths of the blobs; then come the blobs, and nothing else.
//!
//! Any input gives a value or an error, and uses at most a few times its length in memory.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::path::Path;

#[derive(Serialize, Deserialize)]
struct Title {
    format: String,
    version: u32,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    header: Value,
    blobs: Vec<usize>,
}

/// Version of the format. In version 1, parameters were in Burn's format, with random numbers as names.
const VERSION: u32 = 2;

/// Writes a file atomically.
pub(crate) fn write(path: &Path, format: &str, header: &impl Serialize, blobs: &[&[u8]]) -> io::Result<()> {
    let contents =
        Contents { header: serde_json::to_value(header)?, blobs: blobs.iter().map(|blob| blob.len()).collect() };
    let mut contents = serde_json::to_vec(&contents)?;
    contents.push(b'\n');
    let hash = blobs.iter().fold(Sha256::new().chain_update(&contents), |hash, blob| hash.chain_update(blob));
    let title = Title { format: format.to_owned(), version: VERSION, sha256: digits(hash) };
    layernorm_files::replace_own(path, |file| {
        serde_json::to_writer(&mut *file, &title)?;
        file.write_all(b"\n")?;
        file.write_all(&contents)?;
        blobs.iter().try_for_each(|blob| file.write_all(blob))
    })
}

/// The format of a file, if it is one of these files. Nothing else is checked.
pub(crate) fn format_of(bytes: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<Title>(line(bytes).ok()?.0).ok()?.format)
}

/// Reads the header and the blobs of a file of this format; the error says what is wrong.
pub(crate) fn parse<'a>(bytes: &'a [u8], format: &str) -> Result<(Value, Vec<&'a [u8]>), String> {
    let (title, rest) = line(bytes)?;
    let title: Title = serde_json::from_slice(title).map_err(|error| format!("first line: {error}"))?;
    if title.format != format || title.version != VERSION {
        let found = (&title.format, title.version);
        return Err(format!("expected {format} of version {VERSION}, found {} of version {}", found.0, found.1));
    }
    let found = digits(Sha256::new().chain_update(rest));
    if found != title.sha256 {
        return Err(format!("expected contents with SHA-256 {}, found {found}: the file is damaged", title.sha256));
    }
    let (contents, mut rest) = line(rest)?;
    let contents: Contents = serde_json::from_slice(contents).map_err(|error| format!("header: {error}"))?;
    let mut blobs = Vec::new();
    for &length in &contents.blobs {
        let parts = rest.split_at_checked(length);
        let (blob, behind) = parts.ok_or_else(|| format!("expected {length} bytes, found {}", rest.len()))?;
        blobs.push(blob);
        rest = behind;
    }
    match rest.len() {
        0 => Ok((contents.header, blobs)),
        more => Err(format!("expected nothing after the last blob, found {more} bytes")),
    }
}

/// The same for a file with exactly one blob.
pub(crate) fn parse_one<'a>(bytes: &'a [u8], format: &str) -> Result<(Value, &'a [u8]), String> {
    let (header, blobs) = parse(bytes, format)?;
    match blobs[..] {
        [blob] => Ok((header, blob)),
        _ => Err(format!("expected 1 blob, found {}", blobs.len())),
    }
}

/// Splits off the first line.
fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("expected a line of JSON, found no line")?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

//! A file of a header and blobs. The first line says what the file is and what the sha256 of all that follows it is; the second
//! is the header and how long the blobs are; then come the blobs.
//! It is written beside its place and renamed, so that there is never half a file.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

/// The version of the format.
const VERSION: u32 = 1;

/// Writes a file.
pub(super) fn write(path: &Path, format: &str, header: &impl Serialize, blobs: &[&[u8]]) -> io::Result<()> {
    let contents =
        Contents { header: serde_json::to_value(header)?, blobs: blobs.iter().map(|blob| blob.len()).collect() };
    let mut rest = serde_json::to_vec(&contents)?;
    rest.push(b'\n');
    blobs.iter().for_each(|blob| rest.extend_from_slice(blob));
    let title = Title { format: format.to_owned(), version: VERSION, sha256: digest(&rest) };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let put = || {
        let mut file = fs::File::create(&beside)?;
        serde_json::to_writer(&mut file, &title)?;
        file.write_all(b"\n")?;
        file.write_all(&rest)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    put().inspect_err(|_| {
        // What could not be written is of no use; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&beside);
    })
}

/// Reads a file of this format; the error says what is wrong with it.
pub(super) fn read(path: &Path, format: &str) -> Result<(Value, Vec<Vec<u8>>), String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let (title, rest) = line(&bytes)?;
    let title: Title = serde_json::from_slice(title).map_err(|error| format!("first line: {error}"))?;
    if title.format != format || title.version != VERSION {
        let found = (&title.format, title.version);
        return Err(format!("expected {format} of version {VERSION}, found {} of version {}", found.0, found.1));
    }
    let found = digest(rest);
    if found != title.sha256 {
        return Err(format!("expected contents of sha256 {}, found {found}: the file is damaged", title.sha256));
    }
    let (contents, mut rest) = line(rest)?;
    let contents: Contents = serde_json::from_slice(contents).map_err(|error| format!("header: {error}"))?;
    let mut blobs = Vec::new();
    for &length in &contents.blobs {
        let blob = rest.get(..length).ok_or_else(|| format!("expected {length} bytes, found {}", rest.len()))?;
        blobs.push(blob.to_vec());
        rest = &rest[length..];
    }
    Ok((contents.header, blobs))
}

/// The first line, and what follows it.
fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("expected a line of JSON, found no line")?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

//! A file of a header and blobs: one line of JSON, which says how long the blobs are and what their sha256 is, and the blobs.
//! It is written beside its place and renamed, so that there is never half a file.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
struct Line {
    format: String,
    version: u32,
    header: Value,
    blobs: Vec<usize>,
    sha256: String,
}

/// The version of the format.
const VERSION: u32 = 1;

/// Writes a file.
pub(super) fn write(path: &Path, format: &str, header: &impl Serialize, blobs: &[&[u8]]) -> io::Result<()> {
    let line = Line {
        format: format.to_owned(),
        version: VERSION,
        header: serde_json::to_value(header)?,
        blobs: blobs.iter().map(|blob| blob.len()).collect(),
        sha256: digest(blobs),
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let put = || {
        let mut file = fs::File::create(&beside)?;
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
        blobs.iter().try_for_each(|blob| file.write_all(blob))?;
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
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("expected a header, found no line")?;
    let line: Line = serde_json::from_slice(&bytes[..end]).map_err(|error| format!("header: {error}"))?;
    if line.format != format || line.version != VERSION {
        let found = (&line.format, line.version);
        return Err(format!("expected {format} of version {VERSION}, found {} of version {}", found.0, found.1));
    }
    let mut rest = &bytes[end + 1..];
    let mut blobs = Vec::new();
    for &length in &line.blobs {
        let blob = rest.get(..length).ok_or_else(|| format!("expected {length} bytes, found {}", rest.len()))?;
        blobs.push(blob.to_vec());
        rest = &rest[length..];
    }
    let found = digest(&blobs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    if !rest.is_empty() || found != line.sha256 {
        return Err(format!("expected contents of sha256 {}, found {found}: the file is damaged", line.sha256));
    }
    Ok((line.header, blobs))
}

fn digest(blobs: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    blobs.iter().for_each(|blob| sha.update(blob));
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

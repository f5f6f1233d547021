//! Any bytes as the file of a trained network: an error, or a header and tensors that the bytes hold. Written again,
//! the file is the same. The next step, building a network of these tensors, needs Burn: `commands.py` feeds mutated
//! files to the program.

use crate::container;
use crate::memory;
use crate::scratch;
use crate::tensors::{self, Entry};
use serde::Deserialize;
use sha2::{Digest, Sha256};

const FORMAT: &str = "layernorm model";

/// Maximum memory for reading: a header of JSON values of 32 bytes per two bytes of text, in vectors that double,
/// plus the bytes and the tensors.
fn allowance(length: usize) -> usize {
    128 * length + (64 << 10)
}

/// Checks the properties of a file, and of contents with a valid first line prepended, because a random checksum
/// never matches.
pub fn check(bytes: &[u8]) -> bool {
    read(bytes) | read(&signed(bytes))
}

/// Returns these contents after a first line with their checksum.
pub fn signed(contents: &[u8]) -> Vec<u8> {
    let sha256: String = Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect();
    let title = format!("{{\"format\":\"{FORMAT}\",\"version\":2,\"sha256\":\"{sha256}\"}}\n");
    [title.as_bytes(), contents].concat()
}

#[derive(Deserialize)]
struct Head {
    tensors: Vec<Entry>,
}

fn read(bytes: &[u8]) -> bool {
    match memory::within(allowance(bytes.len()), || container::parse(bytes, FORMAT)) {
        Ok((header, blobs)) => {
            assert!(blobs.iter().map(|blob| blob.len()).sum::<usize>() <= bytes.len());
            let path = scratch::folder().join("again.layernorm");
            container::write(&path, FORMAT, &header, &blobs).expect("a file that was read can be written");
            let again = std::fs::read(&path).expect("a written file exists");
            assert_eq!(container::parse(&again, FORMAT).as_ref(), Ok(&(header.clone(), blobs.clone())));
            if let (Ok(head), Some(blob)) = (Head::deserialize(&header), blobs.first()) {
                split(head.tensors, blob);
            }
            true
        }
        Err(what) => {
            assert!(!what.is_empty());
            false
        }
    }
}

fn split(list: Vec<Entry>, blob: &[u8]) {
    match memory::within(allowance(blob.len()), || tensors::split(list, blob)) {
        Ok(tensors) => assert_eq!(tensors::join(&tensors).1, blob, "the numbers differ from those of the blob"),
        Err(what) => assert!(!what.is_empty()),
    }
}

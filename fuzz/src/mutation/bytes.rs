//! Changes of bytes that are independent of the format: bits, binary and decimal numbers, cuts, copies, and pieces of
//! other files.

use super::Random;
use std::ops::Range;

/// Numbers at which sizes overflow somewhere.
const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    256,
    1000,
    10_000,
    65_535,
    65_536,
    1 << 20,
    1 << 24,
    1 << 29,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Words that occur in JSON, headers and descriptions of networks, or should not.
const WORDS: [&str; 24] = [
    "-1",
    "1e999",
    "-0.0",
    "1e-320",
    "NaN",
    "inf",
    "null",
    "true",
    "[]",
    "{}",
    "[[[[",
    "\"",
    "\\u0000",
    "\\ud800",
    "\n",
    ":0",
    "\u{fffd}",
    "F64",
    "BF16",
    "U8",
    "F8_E4M3",
    "both",
    "none",
    "__metadata__",
];

/// Returns the bytes with one to four changes, most often one.
pub fn changed(mut bytes: Vec<u8>, other: &[u8], random: &mut Random) -> Vec<u8> {
    let more = if random.one_in(3) { random.below(4) } else { 0 };
    for _ in 0..=more {
        change(&mut bytes, other, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(10) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.bits() as u8,
        2 | 3 => binary_number(bytes, random),
        4 | 5 => number_in_digits(bytes, random),
        6 => bytes.truncate(at),
        7 => drop(bytes.drain(piece(bytes.len(), random))),
        8 => {
            let copy = bytes[piece(bytes.len(), random)].to_vec();
            insert(bytes, at, &copy.repeat(1 + random.below(3)));
        }
        _ if random.one_in(2) => insert(bytes, at, random.choose(&WORDS).as_bytes()),
        _ => {
            let from_other = other[piece(other.len(), random)].to_vec();
            insert(bytes, at, &from_other);
        }
    }
}

/// Returns a range, more often short than long.
fn piece(length: usize, random: &mut Random) -> Range<usize> {
    let start = random.below(length);
    let most = if random.one_in(3) { length - start } else { (length - start).min(16) };
    start..start + random.below(most + 1)
}

fn insert(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    drop(bytes.splice(at..at, what.iter().copied()));
}

/// Overwrites bytes with a number of 1 to 8 bytes, in either byte order.
fn binary_number(bytes: &mut [u8], random: &mut Random) {
    let width = 1 << random.below(4);
    if bytes.len() < width {
        return;
    }
    let number = random.choose(&NUMBERS).wrapping_sub(u64::from(random.one_in(4)));
    // Lengths are mostly at the beginning.
    let end = bytes.len() - width + 1;
    let at = if random.one_in(2) { random.below(end.min(32)) } else { random.below(end) };
    match random.one_in(2) {
        true => bytes[at..at + width].copy_from_slice(&number.to_be_bytes()[8 - width..]),
        false => bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]),
    }
}

/// Replaces a decimal number with another one.
fn number_in_digits(bytes: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(bytes.len());
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|offset| from + offset) else { return };
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = match random.below(8) {
        0 => (*random.choose(&WORDS)).to_owned(),
        1 => "9".repeat(1 + random.below(400)),
        _ => random.choose(&NUMBERS).to_string(),
    };
    drop(bytes.splice(start..start + digits, number.bytes()));
}

//! Mutated files: parts of a valid file are changed and reassembled with correct lengths and checksums, so that the
//! code behind those checks is reached, too. The same number always gives the same file.

mod bytes;
mod parts;
mod random;

pub use random::Random;

use bytes::changed;
use parts::{closed, opened};

/// Returns mutated file number `number` of this format, made from these valid ones.
pub fn mutated(format: &str, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let seed = random.choose(seeds).clone();
    let other = random.choose(seeds);
    if random.one_in(4) {
        return changed(seed, other, &mut random);
    }
    let Some(mut parts) = opened(format, &seed) else { return changed(seed, other, &mut random) };
    let more = if random.one_in(3) { random.below(3) } else { 0 };
    for _ in 0..=more {
        change_part(&mut parts, other, &mut random);
    }
    closed(format, &parts, &mut random)
}

fn change_part(parts: &mut Vec<Vec<u8>>, other: &[u8], random: &mut Random) {
    let at = random.below(parts.len());
    match random.below(12) {
        0 if parts.len() > 1 => drop(parts.remove(at)),
        1 => parts.insert(at, parts[at].clone()),
        2 => {
            let to = random.below(parts.len());
            parts.swap(at, to);
        }
        _ => parts[at] = changed(std::mem::take(&mut parts[at]), other, random),
    }
    if parts.is_empty() {
        parts.push(Vec::new());
    }
}

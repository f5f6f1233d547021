//! Named f32 tensors in one blob: names and shapes in a list, the numbers of one tensor after the other, little-endian.
//!
//! Any input gives tensors or an error; shapes are checked against the bytes before anything is allocated.

use serde::{Deserialize, Serialize};

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path of the parameter in the network.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Name and shape.
    pub entry: Entry,
    /// Its numbers in row-major order, as many as the product of the shape.
    pub numbers: Vec<f32>,
}

/// Bytes per number.
const BYTES: usize = size_of::<f32>();

/// Encodes tensors as a list and a blob.
pub(crate) fn join(tensors: &[Named]) -> (Vec<Entry>, Vec<u8>) {
    let list = tensors.iter().map(|tensor| tensor.entry.clone()).collect();
    let numbers = tensors.iter().flat_map(|tensor| &tensor.numbers);
    (list, numbers.flat_map(|number| number.to_le_bytes()).collect())
}

/// Decodes the tensors of a list from a blob of exactly their total length.
pub(crate) fn split(list: Vec<Entry>, blob: &[u8]) -> Result<Vec<Named>, String> {
    let (mut rest, mut tensors) = (blob, Vec::new());
    for entry in list {
        let count = entry.shape.iter().try_fold(BYTES, |bytes, &length| bytes.checked_mul(length));
        let Some((bytes, behind)) = count.and_then(|count| rest.split_at_checked(count)) else {
            let (name, shape, left) = (entry.name, entry.shape, rest.len());
            return Err(format!("tensor {name:?}: expected the bytes of shape {shape:?}, found {left}"));
        };
        let numbers = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        tensors.push(Named { entry, numbers });
        rest = behind;
    }
    match rest.len() {
        0 => Ok(tensors),
        more => Err(format!("expected nothing after the last tensor, found {more} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, shape: &[usize]) -> Entry {
        Entry { name: name.to_owned(), shape: shape.to_vec() }
    }

    #[test]
    fn what_is_joined_can_be_split() {
        let tensors = [
            Named { entry: entry("a", &[2, 1]), numbers: vec![1.5, f32::MIN_POSITIVE] },
            Named { entry: entry("none", &[3, 0]), numbers: vec![] },
            Named { entry: entry("one", &[]), numbers: vec![-0.0] },
        ];
        let (list, blob) = join(&tensors);
        assert_eq!(split(list, &blob).unwrap(), tensors);
    }

    #[test]
    fn shapes_are_held_against_the_bytes() {
        let error = |shape: &[usize], bytes| split(vec![entry("w", shape)], &vec![0; bytes]).unwrap_err();
        for shape in [&[1 << 62, 2][..], &[usize::MAX, usize::MAX], &[3], &[1 << 40]] {
            assert_eq!(error(shape, 8), format!("tensor \"w\": expected the bytes of shape {shape:?}, found 8"));
        }
        assert_eq!(error(&[1], 5), "expected nothing after the last tensor, found 1 bytes");
        // An overflow counts even if another dimension is 0.
        assert!(split(vec![entry("w", &[usize::MAX, usize::MAX, 0])], &[]).is_err());
    }
}

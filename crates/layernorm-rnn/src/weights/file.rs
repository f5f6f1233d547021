//! Reads and writes safetensors bytes, and replaces files atomically.

use super::{Dtype, Tensor, fail};
use crate::error::Error;
use layernorm::parts::memory::{self, reserved};
use layernorm::{Float, bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype as Stored, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

fn not_safetensors(error: impl std::fmt::Display) -> Error {
    Error::Weights { what: format!("expected a safetensors file, found a damaged file or another format: {error}") }
}

pub(super) fn parse(bytes: &[u8]) -> Result<SafeTensors<'_>, Error> {
    SafeTensors::deserialize(bytes).map_err(not_safetensors)
}

/// Returns the shapes by name.
pub(super) fn shapes(bytes: &[u8]) -> Result<BTreeMap<String, Vec<usize>>, Error> {
    Ok(parse(bytes)?.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect())
}

/// Returns the metadata of a file under a key.
pub(super) fn metadata(bytes: &[u8], key: &str) -> Result<Option<String>, Error> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    Ok(metadata.metadata().as_ref().and_then(|metadata| metadata.get(key).cloned()))
}

/// Fails if a tensor under a prefix does not hold floating-point numbers.
pub(super) fn check_numbers(bytes: &[u8], prefix: &str) -> Result<(), Error> {
    let numbers = [Stored::F64, Stored::F32, Stored::F16, Stored::BF16];
    for (name, view) in parse(bytes)?.iter().filter(|(name, _)| super::places::under(name, prefix).is_some()) {
        if !numbers.contains(&view.dtype()) {
            return fail(format!("{name:?}: expected F64, F32, F16 or BF16, found {:?}", view.dtype()));
        }
    }
    Ok(())
}

/// Returns the tensors under a prefix.
pub(super) fn tensors(bytes: &[u8], prefix: &str) -> Result<BTreeMap<String, Tensor<f64>>, Error> {
    let mut tensors = BTreeMap::new();
    for (name, view) in parse(bytes)?.iter() {
        if super::places::under(name, prefix).is_some() {
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), values: numbers(name, &view)? });
        }
    }
    Ok(tensors)
}

fn numbers(name: &str, view: &TensorView<'_>) -> Result<Vec<f64>, Error> {
    fn each<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f64) -> Result<Vec<f64>, Error> {
        let numbers = data.as_chunks::<N>().0;
        let mut values = reserved(numbers.len())?;
        values.extend(numbers.iter().map(|&bytes| number(bytes)));
        Ok(values)
    }
    match view.dtype() {
        Stored::F64 => each(view.data(), f64::from_le_bytes),
        Stored::F32 => each(view.data(), |bytes| f32::from_le_bytes(bytes).into()),
        Stored::F16 => each(view.data(), |bytes| f16::from_le_bytes(bytes).into()),
        Stored::BF16 => each(view.data(), |bytes| bf16::from_le_bytes(bytes).into()),
        other => fail(format!("{name:?}: expected F64, F32, F16 or BF16, found {other:?}")),
    }
}

/// Returns a file of these tensors. It has only one metadata entry, so that the same network always gives the same
/// bytes.
pub(super) fn bytes<A: Float>(
    tensors: &BTreeMap<String, Tensor<A>>,
    dtype: Dtype,
    metadata: Option<(&str, String)>,
) -> Result<Vec<u8>, Error> {
    let stored = match dtype {
        Dtype::F64 => Stored::F64,
        Dtype::F32 => Stored::F32,
        Dtype::F16 => Stored::F16,
        Dtype::BF16 => Stored::BF16,
    };
    let mut data: Vec<(&String, &Vec<usize>, Vec<u8>)> = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        data.push((name, &tensor.shape, encode(&tensor.values, dtype)?));
    }
    let mut views = Vec::with_capacity(data.len());
    for (name, shape, data) in &data {
        views.push((name, TensorView::new(stored, shape.to_vec(), data).map_err(not_safetensors)?));
    }
    // `serialize` would abort the program if it could not allocate this many bytes.
    memory::room_for(data.iter().map(|(.., data)| data.len()).sum())?;
    let metadata = metadata.map(|(key, value)| HashMap::from([(key.to_owned(), value)]));
    safetensors::serialize(views, metadata).map_err(not_safetensors)
}

fn encode<A: Float>(values: &[A], dtype: Dtype) -> Result<Vec<u8>, Error> {
    let size = if dtype == Dtype::F64 { 8 } else { 4 };
    let mut bytes = reserved(values.len().saturating_mul(size))?;
    let values = values.iter().map(|value| value.to_f64());
    match dtype {
        Dtype::F64 => bytes.extend(values.flat_map(f64::to_le_bytes)),
        Dtype::F32 => bytes.extend(values.flat_map(|value| (value as f32).to_le_bytes())),
        Dtype::F16 => bytes.extend(values.flat_map(|value| f16::from_f64(value).to_le_bytes())),
        Dtype::BF16 => bytes.extend(values.flat_map(|value| bf16::from_f64(value).to_le_bytes())),
    }
    Ok(bytes)
}

/// Rounds a number to the file's type.
pub(super) fn rounded(value: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => value,
        Dtype::F32 => (value as f32).into(),
        Dtype::F16 => f16::from_f64(value).into(),
        Dtype::BF16 => bf16::from_f64(value).into(),
    }
}

/// Replaces the file at `path` atomically.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written: std::io::Result<()> = layernorm_files::replace(path, |file| file.write_all(bytes));
    written.map_err(|error| Error::Weights { what: error.to_string() })
}

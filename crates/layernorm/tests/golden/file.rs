//! The files: named tensors and metadata.

use layernorm::{Element, Float, View, bf16};
use safetensors::{Dtype, SafeTensors};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::FromStr;

/// An element type that the files have.
pub trait Stored: Element {
    const DTYPE: Dtype;
    /// Bits of the arithmetic.
    const BITS: u32;
    /// Largest relative error of the rounding from the arithmetic's type to this one.
    const STORAGE: f64;
    /// A result's largest number is wrong for sure if it is off by this part.
    const NOTICED: f64;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! stored {
    ($t:ty, $dtype:ident, $bits:literal, $storage:expr, $noticed:expr) => {
        impl Stored for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            const BITS: u32 = $bits;
            const STORAGE: f64 = $storage;
            const NOTICED: f64 = $noticed;
            fn read(bytes: &[u8]) -> Self {
                <$t>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    };
}

stored!(f32, F32, 24, 0.0, 1e-4);
stored!(f64, F64, 53, 0.0, 1e-10);
// bf16 has 8 bits, of which the first is not written.
stored!(bf16, BF16, 24, 1.0 / 256.0, 1e-2);

/// A tensor in memory.
#[derive(Clone, Debug)]
pub struct Tensor<T> {
    pub shape: Vec<usize>,
    pub data: Vec<T>,
}

impl<T: Element> Tensor<T> {
    pub fn view(&self) -> View<'_, T> {
        View::new(&self.data, &self.shape).unwrap()
    }

    pub fn wide(&self) -> Vec<f64> {
        wide(&self.data)
    }
}

/// Every value as an f64, which holds it exactly.
pub fn wide<T: Element>(data: &[T]) -> Vec<f64> {
    data.iter().map(|x| x.widen().to_f64()).collect()
}

/// A file of the folder `golden`.
pub struct File {
    pub name: String,
    metadata: HashMap<String, String>,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl File {
    fn read(path: &Path) -> File {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tensors = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tensors = tensors
            .iter()
            .map(|(tensor, view)| (tensor.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec())));
        File { name, metadata: header.metadata().clone().unwrap_or_default(), tensors: tensors.collect() }
    }

    pub fn metadata(&self, key: &str) -> &str {
        self.metadata.get(key).unwrap_or_else(|| panic!("{} has no {key}", self.name))
    }

    pub fn number<N: FromStr>(&self, key: &str) -> N {
        let value = self.metadata(key);
        value.parse().unwrap_or_else(|_| panic!("{}: {key} is {value}", self.name))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub fn dtype(&self, tensor: &str) -> Dtype {
        self.tensors.get(tensor).unwrap_or_else(|| panic!("{} has no {tensor}", self.name)).0
    }

    pub fn tensor<T: Stored>(&self, tensor: &str) -> Tensor<T> {
        self.optional(tensor).unwrap_or_else(|| panic!("{} has no {tensor}", self.name))
    }

    pub fn optional<T: Stored>(&self, tensor: &str) -> Option<Tensor<T>> {
        let (dtype, shape, bytes) = self.tensors.get(tensor)?;
        assert_eq!(*dtype, T::DTYPE, "{}: {tensor}", self.name);
        let data = bytes.chunks_exact(size_of::<T>()).map(T::read).collect();
        Some(Tensor { shape: shape.clone(), data })
    }
}

/// All files of a folder of `golden`, by name.
pub fn files(folder: &str) -> Vec<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    paths.sort();
    paths.iter().map(|path| File::read(path)).collect()
}

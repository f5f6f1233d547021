//! A dataset consists of four files: images and labels, for training and testing.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::digits::{Digits, images_of, labels_of};
use super::error::{Error, Problem};
use super::idx::{self, Idx};
use super::{catalog, part};

/// Training and test images of equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its name: `mnist` or `fashion-mnist` if it is exactly that, `mnist-12k` for the embedded one, and the folder's
    /// name otherwise.
    pub name: String,
    /// Training images.
    pub train: Digits,
    /// Test images.
    pub test: Digits,
    /// The SHA-256 of all sizes, pixels and labels in hexadecimal digits, independent of compression.
    pub fingerprint: String,
}

macro_rules! asset {
    ($name:literal) => {
        (PathBuf::from(concat!("embedded ", $name)), &include_bytes!(concat!("../../assets/", $name))[..])
    };
}

impl Dataset {
    /// The embedded dataset: the first 10,000 training and 2,000 test images of MNIST. `assets/LICENSE-MNIST` has the
    /// licence.
    pub fn embedded() -> Result<Self, Error> {
        let read = |(name, bytes): (PathBuf, &[u8])| match idx::read(bytes) {
            Ok(array) => Ok((name, array)),
            Err(problem) => Err(problem.of(name)),
        };
        Self::of(
            catalog::EMBEDDED_NAME,
            [read(asset!("train-images-idx3-ubyte.gz"))?, read(asset!("train-labels-idx1-ubyte.gz"))?],
            [read(asset!("t10k-images-idx3-ubyte.gz"))?, read(asset!("t10k-labels-idx1-ubyte.gz"))?],
        )
    }

    /// A short name that distinguishes its results from those of other data. For unknown data this is the start of the
    /// fingerprint, whatever the folder.
    pub fn label(&self) -> String {
        match catalog::name_of(&self.fingerprint) {
            Some(name) => name.to_owned(),
            None => format!("data-{}", &self.fingerprint[..12]),
        }
    }

    /// Opens the four files of a folder, named as in MNIST and Fashion-MNIST, compressed or not:
    /// `train-images-idx3-ubyte`, `train-images.idx3-ubyte`, and so on, with or without `.gz`.
    ///
    /// Images may have any size, the same in both files. More than ten classes are an error.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let read = |stem: &str| {
            let path = find(dir, stem)?;
            idx::open(&path).map(|array| (path, array))
        };
        let name = dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
        Self::of(
            &name.unwrap_or_else(|| dir.display().to_string()),
            [read("train-images")?, read("train-labels")?],
            [read("t10k-images")?, read("t10k-labels")?],
        )
    }

    fn of(name: &str, train: [(PathBuf, Idx); 2], test: [(PathBuf, Idx); 2]) -> Result<Self, Error> {
        let test_path = test[0].0.clone();
        let (train, test) = (pair(train)?, pair(test)?);
        let sizes = [&train, &test].map(|digits| (digits.rows(), digits.columns()));
        if sizes[0] != sizes[1] {
            return Err(Error::Size { path: test_path, expected: sizes[0], found: sizes[1] });
        }
        let fingerprint = fingerprint(&[&train, &test]);
        let name = catalog::name_of(&fingerprint).unwrap_or(name).to_string();
        Ok(Self { name, train, test, fingerprint })
    }
}

/// The file with this stem; the uncompressed one has priority.
fn find(dir: &Path, stem: &str) -> Result<PathBuf, Error> {
    if let Err(source) = dir.read_dir() {
        return Err(Problem::Io { action: "open the folder", source }.of(dir));
    }
    let suffix = if stem.ends_with("images") { "idx3-ubyte" } else { "idx1-ubyte" };
    let names: Vec<String> =
        ["", ".gz"].iter().flat_map(|gz| ["-", "."].map(|dot| format!("{stem}{dot}{suffix}{gz}"))).collect();
    let found = names.iter().map(|name| dir.join(name)).find(|path| path.is_file());
    found.ok_or(Error::Missing { dir: dir.to_path_buf(), names })
}

/// Combines images and labels.
fn pair([(image_path, images), (label_path, labels)]: [(PathBuf, Idx); 2]) -> Result<Digits, Error> {
    let (expected, rows, columns) = images_of(&images).map_err(|problem| problem.of(&image_path))?;
    let found = labels_of(&labels).map_err(|problem| problem.of(&label_path))?;
    if expected != found {
        return Err(Error::Count { images: image_path, expected, labels: label_path, found });
    }
    Digits::new(rows, columns, images.bytes, labels.bytes).map_err(|problem| problem.of(label_path))
}

fn fingerprint(sets: &[&Digits]) -> String {
    let mut hash = Sha256::new();
    for digits in sets {
        for length in [digits.len(), digits.rows(), digits.columns()] {
            hash.update((length as u64).to_le_bytes());
        }
        hash.update(digits.images());
        hash.update(digits.labels());
    }
    part::hexadecimal(&hash.finalize())
}

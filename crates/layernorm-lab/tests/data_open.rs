//! Folders of idx files, and the embedded digits.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use layernorm_lab::data::{Dataset, Error, Scaling};

fn idx(shape: &[u32], elements: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|length| bytes.extend(length.to_be_bytes()));
    bytes.extend(elements);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Four training and two test images of 2×3.
fn write_all(dir: &Path) {
    fs::write(dir.join("train-images-idx3-ubyte"), idx(&[4, 2, 3], &[7; 24])).unwrap();
    fs::write(dir.join("train-labels.idx1-ubyte"), idx(&[4], &[0, 9, 3, 1])).unwrap();
    fs::write(dir.join("t10k-images-idx3-ubyte.gz"), gzip(&idx(&[2, 2, 3], &[8; 12]))).unwrap();
    fs::write(dir.join("t10k-labels.idx1-ubyte.gz"), gzip(&idx(&[2], &[5, 6]))).unwrap();
}

/// The message for a folder in which one file is replaced.
fn message(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    fs::write(dir.path().join(name), bytes).unwrap();
    let message = Dataset::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains(dir.path().join(name).to_str().unwrap()), "does not name {name}: {message}");
    message
}

#[test]
fn embedded_digits_are_the_first_of_mnist() {
    let data = Dataset::embedded().unwrap();
    assert_eq!((data.name.as_str(), data.label().as_str()), ("mnist-12k", "mnist-12k"));
    assert_eq!((data.train.len(), data.test.len(), data.train.pixels()), (10_000, 2_000, 784));
    assert_eq!(data.train.labels()[..10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]);
    assert_eq!(data.test.labels()[..10], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]);
    assert_eq!(data.fingerprint, "3fa3f47f5b93062868e9124a642702b4c59948f6835f706ec4562c3263f65205");
}

#[test]
fn standardized_digits_have_mean_zero_and_variance_one() {
    let train = Dataset::embedded().unwrap().train;
    let scaling = Scaling::standard(&train);
    let values = || train.images().iter().map(|&pixel| f64::from(scaling.of(pixel)));
    let count = train.images().len() as f64;
    // Each value is rounded once to 24 bits and none is over 4: errors of at most 2⁻²² each, 2⁻¹⁹ in a square.
    assert!((values().sum::<f64>() / count).abs() < 2f64.powi(-22));
    assert!((values().map(|value| value * value).sum::<f64>() / count - 1.0).abs() < 2f64.powi(-19));
}

#[test]
fn opens_every_usual_name_compressed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("shapes");
    fs::create_dir(&named).unwrap();
    write_all(&named);
    let data = Dataset::open(&named).unwrap();
    assert_eq!(data.name, "shapes");
    assert_eq!((data.train.len(), data.train.rows(), data.train.columns()), (4, 2, 3));
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 9, 3, 1][..], &[5, 6][..]));
    assert_eq!(data.test.image(1), [8; 6]);

    // Compressed without the extension, and vice versa: the contents decide.
    fs::write(named.join("train-images-idx3-ubyte"), gzip(&idx(&[4, 2, 3], &[7; 24]))).unwrap();
    fs::write(named.join("t10k-labels.idx1-ubyte.gz"), idx(&[2], &[5, 6])).unwrap();
    assert_eq!(Dataset::open(&named).unwrap(), data);
}

#[test]
fn a_wrong_file_is_named() {
    let train_images = "train-images-idx3-ubyte";
    assert!(message(train_images, b"<html>404</html>").contains("not an idx file"));
    assert!(message(train_images, &idx(&[4], &[0; 4])).contains("expected images (3 dimensions), found 1"));
    assert!(message(train_images, &idx(&[4, 2, 3], &[7; 23])).contains("expected 40 bytes, found 39"));
    assert!(message(train_images, &idx(&[0, 2, 3], &[])).contains("found shape [0, 2, 3]"));
    assert!(message(train_images, &idx(&[4, 0, 3], &[])).contains("found shape [4, 0, 3]"));
    let labels = "train-labels.idx1-ubyte";
    assert!(message(labels, &idx(&[4, 1, 1], &[0; 4])).contains("expected labels (1 dimension)"));
    assert!(message(labels, &idx(&[3], &[0; 3])).contains("expected 4 labels"));
    assert!(message(labels, &idx(&[4], &[0, 1, 26, 2])).contains("label 2: expected 0 to 9, found 26"));
    let packed = "t10k-images-idx3-ubyte.gz";
    assert!(message(packed, &gzip(&idx(&[2, 3, 2], &[8; 12]))).contains("expected images of 2×3"));
    let whole = gzip(&idx(&[2, 2, 3], &[8; 12]));
    assert!(message(packed, &whole[..whole.len() - 3]).contains("the gzip stream is damaged"));
}

#[test]
fn a_missing_file_or_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    fs::remove_file(dir.path().join("t10k-labels.idx1-ubyte.gz")).unwrap();
    let error = Dataset::open(dir.path()).unwrap_err();
    assert!(matches!(&error, Error::Missing { names, .. } if names.len() == 4));
    assert!(error.to_string().contains("t10k-labels-idx1-ubyte, t10k-labels.idx1-ubyte, t10k-labels-idx1-ubyte.gz"));

    let nowhere = dir.path().join("nowhere");
    assert!(Dataset::open(&nowhere).unwrap_err().to_string().contains("nowhere: cannot open the folder"));
}

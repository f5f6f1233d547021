//! Small valid files of every format and variant, as a starting point for fuzzing.

mod npy;
mod pictures;
mod records;
mod weights;

use crate::formats::model::signed;
use crate::mutation::Random;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// A valid file.
#[derive(Debug)]
pub struct Seed {
    /// Name of the format.
    pub format: &'static str,
    /// Name of the file.
    pub name: String,
    /// Contents.
    pub bytes: Vec<u8>,
}

/// Returns all seeds.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |format, files: Vec<(String, Vec<u8>)>| {
        seeds.extend(files.into_iter().map(|(name, bytes)| Seed { format, name, bytes }));
    };
    add("idx", idx());
    add("model", models());
    add("npy", npy::all());
    add("png", pictures::all());
    add("records", records::all());
    add("shapes", calls());
    add("weights", weights::all());
    seeds
}

fn idx() -> Vec<(String, Vec<u8>)> {
    let file = |shape: &[u32]| {
        let lengths = shape.iter().flat_map(|length| length.to_be_bytes());
        let elements = (0..shape.iter().product::<u32>()).map(|element| (element % 10) as u8);
        [0, 0, 8, shape.len() as u8].into_iter().chain(lengths).chain(elements).collect::<Vec<u8>>()
    };
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing into memory cannot fail")
    };
    let [labels, images] = [file(&[5]), file(&[5, 4, 3])];
    let two_members = [gzip(&images[..9]), gzip(&images[9..])].concat();
    vec![
        ("labels".into(), labels.clone()),
        ("images".into(), images.clone()),
        ("empty".into(), file(&[0, 3])),
        ("one".into(), file(&[])),
        ("labels.gz".into(), gzip(&labels)),
        ("images.gz".into(), gzip(&images)),
        ("two-members.gz".into(), two_members),
    ]
}

fn models() -> Vec<(String, Vec<u8>)> {
    let pixels = vec!["0.5"; 256].join(",");
    let file = |arch: &str, tensors: &str, numbers: usize| {
        let blob: Vec<u8> = (0..numbers).flat_map(|number| (number as f32 / 7.0).to_le_bytes()).collect();
        let header = format!(
            "{{\"header\":{{\"spec\":{{\"arch\":{arch},\"norm\":\"layer\"}},\"rows\":2,\"columns\":3,\"pixels\":[{pixels}],\
             \"tensors\":[{tensors}]}},\"blobs\":[{}]}}\n",
            blob.len()
        );
        signed(&[header.as_bytes(), &blob].concat())
    };
    let tensor = |name: &str, shape: &str| format!("{{\"name\":\"{name}\",\"shape\":[{shape}]}}");
    let mlp = [tensor("first.weight", "6,4"), tensor("first.bias", "4"), tensor("none", "0,4")].join(",");
    vec![
        ("mlp".into(), file("{\"mlp\":{\"hidden\":[4]}}", &mlp, 28)),
        ("scalar".into(), file("{\"lstm\":{\"hidden\":1}}", &tensor("scale", ""), 1)),
        ("no-tensors".into(), file("\"none\"", "", 0)),
        ("no-blobs".into(), signed(b"{\"header\":null,\"blobs\":[]}\n")),
    ]
}

/// Returns calls for `shapes`: every byte string is one, and longer ones have more data.
fn calls() -> Vec<(String, Vec<u8>)> {
    let call = |number: u64| {
        let mut random = Random::new(number);
        let bytes = (0..64 << number).map(|_| random.bits() as u8).collect();
        (format!("call-{number}"), bytes)
    };
    (0..4).map(call).collect()
}

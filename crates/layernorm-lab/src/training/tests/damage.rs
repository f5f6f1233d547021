//! Checkpoints that are damaged or belong to another run are ignored.

use super::*;
use crate::training::checkpoint;
use crate::training::container;
use crate::training::run::{self, Model};
use burn::optim::AdamConfig;
use burn::tensor::Device;

/// A stopped run, its checkpoint, and the records of an uninterrupted run.
fn stopped() -> (Place, Vec<u8>, Vec<u8>) {
    let spec = mlp(Norm::Batch);
    let place = Place::new(&spec);
    place.stop_after(5);
    let checkpoint = std::fs::read(place.checkpoint()).unwrap();
    (place, checkpoint, unbroken(&spec))
}

/// With this checkpoint, the run starts over and gives the same result.
fn starts_over(place: &Place, checkpoint: &[u8], expected: &[u8], what: &str) {
    std::fs::write(place.checkpoint(), checkpoint).unwrap();
    assert_eq!(place.finish().steps, place.spec.steps, "{what}: it went on");
    assert_eq!(place.bytes(), expected, "{what}");
    assert_eq!(files(place.folder.path()), ["run.jsonl"], "{what}");
}

#[test]
fn a_truncated_checkpoint_is_ignored() {
    let (place, checkpoint, expected) = stopped();
    for length in [0, 1, 100, checkpoint.len() / 2, checkpoint.len() - 1] {
        starts_over(&place, &checkpoint[..length], &expected, &format!("{length} bytes"));
    }
    let longer = [&checkpoint[..], b"x"].concat();
    starts_over(&place, &longer, &expected, "a byte too many");
}

#[test]
fn a_checkpoint_with_a_flipped_byte_is_ignored() {
    let (place, checkpoint, expected) = stopped();
    // The step is in the header: a changed one would be another run.
    let step = checkpoint.windows(8).position(|bytes| bytes == b"\"step\":4").unwrap() + 7;
    for at in [0, 50, step, checkpoint.len() / 2, checkpoint.len() - 1] {
        let mut damaged = checkpoint.clone();
        damaged[at] ^= 1;
        starts_over(&place, &damaged, &expected, &format!("byte {at}"));
    }
}

#[test]
fn every_flipped_byte_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    container::write(&path, "some format", &json!({"a": 1.5, "b": "c"}), &[b"first", b"", b"\nthird\n"]).unwrap();
    assert_eq!(files(folder.path()), ["file"]);
    let bytes = std::fs::read(&path).unwrap();
    let (header, blobs) = container::parse(&bytes, "some format").unwrap();
    assert_eq!((header, blobs), (json!({"a": 1.5, "b": "c"}), vec![&b"first"[..], b"", b"\nthird\n"]));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(container::parse(&damaged, "some format").is_err(), "bit {bit} of byte {at}");
        }
        assert!(container::parse(&bytes[..at], "some format").is_err(), "{at} bytes");
    }
    let error = container::parse(&bytes, "another").unwrap_err();
    assert_eq!(error, "expected another of version 2, found some format of version 2");
}

#[test]
fn a_checkpoint_of_another_run_is_ignored() {
    let (place, _, expected) = stopped();
    let mut start = place.spec.start.clone();
    start.seed += 1;
    let others = [
        Spec { start, ..place.spec.clone() },
        Spec { learning_rate: 2e-3, ..place.spec.clone() },
        Spec { arch: Arch::mlp(&[24]), ..place.spec.clone() },
    ];
    for other in others {
        let elsewhere = Place::new(&other);
        elsewhere.stop_after(5);
        starts_over(&place, &std::fs::read(elsewhere.checkpoint()).unwrap(), &expected, &format!("{other:?}"));
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_leaves_nothing_behind() {
    let (place, _, expected) = stopped();
    // The header is that of the run, but not the network: the first layer fits, with its own statistics, the second
    // does not.
    let other = Spec { arch: Arch::mlp(&[24, 99]), ..place.spec.clone() };
    let device = Device::flex().autodiff();
    let net = crate::models::Net::new(&other.arch, other.norm, [14, 14], &other.start, &device).unwrap();
    let images = burn::tensor::Tensor::<3>::ones([4, 14, 14], &device);
    net.forward(images, &mut crate::models::Taps::closed());
    let model = Model { net, optimizer: AdamConfig::new().init() };
    let at = run::Place { step: 3, events: 1, ..Default::default() };
    checkpoint::save(&place.open(), &at, &model).unwrap();
    starts_over(&place, &std::fs::read(place.checkpoint()).unwrap(), &expected, "another network");
}

#[test]
fn a_forged_optimizer_with_a_correct_checksum_does_not_crash() {
    let (place, checkpoint, expected) = stopped();
    let (header, blobs) = container::parse(&checkpoint, "layernorm checkpoint").unwrap();
    let optimizer = blobs[1];
    let forge =
        |bytes: &[u8]| container::write(&place.checkpoint(), "layernorm checkpoint", &header, &[blobs[0], bytes]);
    let fresh = || {
        let (spec, device) = (&place.spec, Device::flex().autodiff());
        let net = crate::models::Net::new(&spec.arch, spec.norm, [14, 14], &spec.start, &device).unwrap();
        Model { net, optimizer: AdamConfig::new().init() }
    };
    // The lengths of shapes are in the first part, as small integers of one byte each.
    let mut mutations: Vec<Vec<u8>> = vec![Vec::new(), vec![0; 64], vec![0xff; optimizer.len()]];
    for at in (0..optimizer.len().min(1200)).step_by(2) {
        let mut bytes = optimizer.to_vec();
        bytes[at] ^= 0x7;
        mutations.push(bytes);
    }
    for bytes in &mutations {
        forge(bytes).unwrap();
        // Burn decides whether it is accepted; it must not crash.
        let _: (Model, run::Place) = checkpoint::load(&place.open(), fresh());
    }
    std::fs::remove_file(place.checkpoint()).unwrap();
    place.finish();
    assert_eq!(place.bytes(), expected);
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let (place, checkpoint, expected) = stopped();
    let other = place.folder.path().join("other");
    std::fs::write(&other, &checkpoint).unwrap();
    let link = |path: &Path| {
        let _ = std::fs::remove_file(path);
        std::os::unix::fs::symlink(&other, path).unwrap();
    };
    link(&place.checkpoint());
    let error = place.go(2).unwrap_err();
    assert!(matches!(&error, Error::Run(what) if what.contains("expected a regular file, found a link")), "{error}");
    std::fs::remove_file(place.checkpoint()).unwrap();
    link(&place.folder.path().join("run.checkpoint.partial"));
    place.stop_after(2);
    assert_eq!(std::fs::read(&other).unwrap(), checkpoint, "the file is unchanged");
    place.finish();
    assert_eq!(place.bytes(), expected);
    link(&place.records());
    assert!(RunFile::open(place.folder.path(), Header::new("test", "run", json!({}))).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), checkpoint, "the file is unchanged");
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_named() {
    let place = Place::new(&mlp(Norm::Layer));
    std::fs::create_dir(place.checkpoint()).unwrap();
    let error = place.go(3).unwrap_err();
    assert!(matches!(&error, Error::Run(what) if what.contains("run.checkpoint")), "{error}");
    assert_eq!(files(place.folder.path()), ["run.checkpoint", "run.jsonl"]);
}

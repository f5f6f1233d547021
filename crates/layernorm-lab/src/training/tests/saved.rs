//! Trained networks in files.

use super::*;
use crate::models::Taps;
use crate::training::container;
use crate::training::evaluate::Preprocessor;
use burn::tensor::Device;
use burn::tensor::activation::softmax;

const IMAGE: [usize; 2] = [14, 14];

fn trained(spec: &Spec) -> SavedModel {
    SavedModel::new(Place::new(spec).finish(), spec, IMAGE)
}

fn predictions(model: &SavedModel) -> Vec<Prediction> {
    (0..20).map(|image| model.predict(data().test.image(image)).unwrap()).collect()
}

#[test]
fn a_network_says_the_same_after_it_was_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for spec in kinds() {
        let model = trained(&spec);
        model.save(&path).unwrap();
        let loaded = SavedModel::load(&path).unwrap();
        assert_eq!((loaded.spec(), loaded.image()), (&spec, IMAGE));
        assert_eq!(predictions(&loaded), predictions(&model), "{spec:?}");
        assert_eq!(files(folder.path()), ["model"]);
    }
}

#[test]
fn a_network_sees_pixels_as_in_training() {
    let spec = Spec { input_scale: 0.1, ..mlp(Norm::Batch) };
    let outcome = Place::new(&spec).finish();
    let preprocessor = Preprocessor {
        scaling: outcome.scaling.clone(),
        scale: spec.input_scale,
        shift: 0.0,
        blank_rows: 0,
        repeats: 0,
    };
    let net = outcome.net.clone();
    let model = SavedModel::new(outcome, &spec, IMAGE);
    for (image, prediction) in predictions(&model).iter().enumerate() {
        let cases = preprocessor.gather(&data().test, &[image], &Device::flex());
        let expected: Vec<f32> =
            softmax(net.forward(cases.images, &mut Taps::closed()), 1).into_data().try_to_vec().unwrap();
        assert_eq!(prediction.probabilities, expected);
    }
}

#[test]
fn predictions_are_probabilities_and_as_right_as_the_test_was() {
    let spec = Spec { steps: 100, evaluations: 1, learning_rate: 3e-3, test: 20, ..mlp(Norm::Layer) };
    check_predictions(&spec);
}

#[test]
fn images_are_changed_before_a_prediction_as_they_were_in_training() {
    let images = Images { cropped: true, halved: true, permuted: true };
    check_predictions(&Spec { steps: 100, evaluations: 1, learning_rate: 3e-3, test: 20, images, ..mlp(Norm::Layer) });
}

/// Predictions have the form of probabilities, and they are right as often as in the test of the run.
fn check_predictions(spec: &Spec) {
    let place = Place::new(spec);
    let model = SavedModel::new(place.finish(), spec, IMAGE);
    let predictions = predictions(&model);
    for prediction in &predictions {
        let sum: f32 = prediction.probabilities.iter().sum();
        // Ten numbers below 1, each with a few roundings.
        assert!(prediction.probabilities.len() == 10 && (sum - 1.0).abs() < 40.0 / (1 << 24) as f32, "{sum}");
        let largest = prediction.probabilities.iter().copied().fold(0.0, f32::max);
        assert_eq!(prediction.probabilities[prediction.class], largest);
    }
    let right =
        predictions.iter().zip(data().test.labels()).filter(|(p, label)| p.class == usize::from(**label)).count();
    let test = place.record().named("test").next().unwrap()["accuracy"].as_f64().unwrap();
    assert_eq!(right as f64 / 20.0, test);
}

#[test]
fn files_that_are_no_network_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let name = path.display().to_string();
    let error = || SavedModel::load(&path).unwrap_err();
    assert!(error().contains(&name), "{}", error());
    let model = trained(&mlp(Norm::Batch));
    model.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    // Every byte of both lines of text, and some of the blob.
    for at in (0..7000).chain((7000..bytes.len()).step_by(997)).chain([bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert!(error().contains(&name), "byte {at}: {}", error());
    }
    for length in [0, 1, 500, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(error().contains(&name), "{length} bytes: {}", error());
    }
    let place = Place::new(&mlp(Norm::Batch));
    place.stop_after(2);
    std::fs::copy(place.checkpoint(), &path).unwrap();
    let expected = "expected layernorm model of version 2, found layernorm checkpoint of version 2";
    assert_eq!(error(), format!("{name}: {expected}"));
    let nowhere = folder.path().join("no such folder").join("model");
    assert!(model.save(&nowhere).unwrap_err().contains(&nowhere.display().to_string()));
}

#[test]
fn the_same_run_gives_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |spec: &Spec| {
        let path = folder.path().join("model");
        trained(spec).save(&path).unwrap();
        std::fs::read(&path).unwrap()
    };
    for spec in kinds() {
        assert!(bytes(&spec) == bytes(&spec), "{spec:?}");
    }
}

/// A file with this header, a correct checksum and `bytes` bytes of parameters.
fn forged(spec: &Value, image: [usize; 2], tensors: Value, bytes: usize) -> Result<SavedModel, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let header =
        json!({"spec": spec, "rows": image[0], "columns": image[1], "pixels": vec![0.0; 256], "tensors": tensors});
    container::write(&path, "layernorm model", &header, &[&vec![0; bytes]]).unwrap();
    SavedModel::load(&path)
}

#[test]
fn sizes_in_a_header_are_held_against_the_bytes() {
    let huge = 1usize << 62;
    let spec = |arch: Value, norm: &str| {
        let mut spec = serde_json::to_value(mlp(Norm::Layer)).unwrap();
        (spec["arch"], spec["norm"]) = (arch, json!(norm));
        spec
    };
    let layers =
        |hidden: Vec<usize>| json!({"kind": "mlp", "hidden": hidden, "activation": "relu", "output_norm": false});
    let transformer = json!({"kind": "transformer", "width": huge, "heads": huge, "blocks": huge, "pre_norm": true});
    let (none, bytes) = (json!([]), 1000);
    for (arch, norm, image, words) in [
        (layers(vec![huge, huge]), "layer", IMAGE, "or more, found 1000 bytes"),
        (json!({"kind": "lstm", "hidden": huge, "reads": "rows"}), "layer", IMAGE, "or more, found 1000 bytes"),
        (json!({"kind": "lstm", "hidden": 2, "reads": "pixels"}), "rms", [1 << 20, 8], "at most 16384, found 8388608"),
        (json!({"kind": "lstm", "hidden": 1, "reads": "rows"}), "layer", [huge, 1], "expected 1 to 16777216 pixels"),
        (json!({"kind": "cnn", "channels": [huge, huge]}), "layer", IMAGE, "or more, found 1000 bytes"),
        (transformer, "layer", IMAGE, "or more, found 1000 bytes"),
        (layers(vec![1; 2000]), "layer", IMAGE, "hidden layers: expected at most 1024, found 2000"),
        (layers(vec![1]), "layer", [usize::MAX, usize::MAX], "expected 1 to 16777216 pixels"),
        (layers(vec![1]), "layer", [0, 5], "expected 1 to 16777216 pixels, found 0×5"),
    ] {
        let error = forged(&spec(arch, norm), image, none.clone(), bytes).unwrap_err();
        assert!(error.contains(words), "expected {words:?} in {error}");
    }
    // The parameters fit in a megabyte, but the activations do not fit in any memory.
    let wide = json!({"kind": "cnn", "channels": [7000, 1]});
    let error = forged(&spec(wide, "none"), [448, 448], none.clone(), 1 << 20).unwrap_err();
    assert!(error.contains("at most 1.1 GB per image, found one that needs"), "{error}");
    // The network is valid, but the tensors belong to another one.
    let small = spec(layers(vec![1]), "none");
    let numbers = 14 * 14 + 1 + 10 + 10;
    for (tensors, words) in [
        (json!([]), "expected nothing after the last tensor, found 868 bytes"),
        (json!([{"name": "x", "shape": [numbers]}]), "found none"),
        (json!([{"name": "x", "shape": [huge, huge]}]), "expected the bytes of shape"),
        (
            json!([{"name": "x", "shape": [numbers, 1, 0]}, {"name": "x", "shape": [numbers]}]),
            "expected once, found twice",
        ),
        (json!({"name": 1}), "header: "),
    ] {
        let error = forged(&small, IMAGE, tensors, 4 * numbers).unwrap_err();
        assert!(error.contains(words), "expected {words:?} in {error}");
    }
}

#[test]
fn images_of_another_size_are_refused() {
    let model = trained(&Spec { steps: 0, ..mlp(Norm::Layer) });
    for size in [0, 14 * 14 - 1, 28 * 28] {
        let error = model.predict(&vec![0; size]).unwrap_err();
        assert_eq!(error, format!("image: expected 14×14 pixels, found {size}"));
    }
}

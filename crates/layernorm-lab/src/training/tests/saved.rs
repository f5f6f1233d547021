//! Trained networks in files.

use super::*;
use crate::models::Taps;
use crate::training::evaluate::Eye;
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
    let eye = Eye { scaling: outcome.scaling.clone(), scale: spec.input_scale, shift: 0.0, blank_rows: 0 };
    let net = outcome.net.clone();
    let model = SavedModel::new(outcome, &spec, IMAGE);
    for (image, prediction) in predictions(&model).iter().enumerate() {
        let cases = eye.see(&data().test, &[image], &Device::flex());
        let expected: Vec<f32> =
            softmax(net.forward(cases.images, &mut Taps::closed()), 1).into_data().try_to_vec().unwrap();
        assert_eq!(prediction.probabilities, expected);
    }
}

#[test]
fn predictions_are_probabilities_and_as_right_as_the_test_was() {
    let spec = Spec { steps: 100, evaluations: 1, learning_rate: 3e-3, test: 20, ..mlp(Norm::Layer) };
    let place = Place::new(&spec);
    let model = SavedModel::new(place.finish(), &spec, IMAGE);
    let predictions = predictions(&model);
    for prediction in &predictions {
        let sum: f32 = prediction.probabilities.iter().sum();
        // Ten numbers below 1, each rounded a few times.
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
    let expected = "expected layernorm model of version 1, found layernorm checkpoint of version 1";
    assert_eq!(error(), format!("{name}: {expected}"));
    let nowhere = folder.path().join("no such folder").join("model");
    assert!(model.save(&nowhere).unwrap_err().contains(&nowhere.display().to_string()));
}

#[test]
fn images_of_another_size_are_refused() {
    let model = trained(&Spec { steps: 0, ..mlp(Norm::Layer) });
    for size in [0, 14 * 14 - 1, 28 * 28] {
        let error = model.predict(&vec![0; size]).unwrap_err();
        assert_eq!(error, format!("image: expected 14×14 pixels, found {size}"));
    }
}

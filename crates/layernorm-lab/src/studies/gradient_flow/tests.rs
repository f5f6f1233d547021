use super::*;
use crate::report::Picture;
use crate::studies::tools::testing;

#[test]
fn profiles_of_layers_and_of_time_steps() {
    let records = testing::trained(&GradientFlow, &testing::settings(), 4, |run| {
        run.contains("relu-layer") || run.contains("rows-none")
    });
    let story = GradientFlow.story(&records);
    let frames = |id: &str| match &story.charts.iter().find(|chart| chart.id == id).unwrap().picture {
        Picture::Frames { x, frames, .. } => (x.categories.clone().unwrap(), frames.len()),
        other => panic!("{other:?}"),
    };
    let (layers, moments) = frames("flow-relu");
    assert_eq!((layers.len(), layers[0].as_str(), layers[LAYERS].as_str(), moments), (LAYERS + 1, "1", "logits", 5));
    let (steps, _) = frames("flow-rows");
    assert_eq!((steps.len(), steps[27].as_str()), (28, "28"));
    assert_eq!((story.charts.len(), story.as_expected), (3, None));
}

#[test]
fn the_decay_is_given_in_powers_of_ten() {
    let mut records = testing::trained(&GradientFlow, &testing::settings(), 2, |run| {
        run.contains("relu-none") || run.contains("relu-layer")
    });
    for record in &mut records {
        let first = if record.header.run.contains("none") { 1e-5 } else { 1e-1 };
        for event in record.events.iter_mut().filter(|event| event.name == "gradients") {
            event.data["norms"] = vec![9.0, first, 1e-2, 1.0, 9.0].into();
        }
    }
    let story = GradientFlow.story(&records);
    assert_eq!(story.as_expected, Some(true));
    assert!(story.answer.contains("5 without a norm and 1 with layer norm at the start"), "{}", story.answer);
    // A gradient of 0 has vanished: it decayed at least to the smallest number in f32.
    let lost: Vec<_> = records[1].events.iter_mut().filter(|event| event.name == "gradients").collect();
    lost.into_iter().for_each(|event| event.data["norms"] = vec![9.0, 0.0, 1e-2, 1.0, 9.0].into());
    let story = GradientFlow.story(&records);
    assert_eq!((story.as_expected, story.notes.len()), (Some(true), 4));
    assert!(story.answer.contains("44.9 without a norm"), "{}", story.answer);
    records[0].events.iter_mut().for_each(|event| event.data["norms"] = serde_json::Value::Null);
    assert_eq!(GradientFlow.story(&records).as_expected, None);
}

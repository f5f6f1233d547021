use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, differences, verdict};
use serde_json::json;

#[test]
fn profiles_of_layers_and_of_time_steps() {
    let records = testing::trained(&GradientFlow, &testing::settings(), 4, |run| {
        run.contains("relu-layer") || run.contains("-rows-none") || run.contains("halved-layer")
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
    // RNN, GRU and LSTM share a chart, in which every second time step is drawn.
    assert_eq!(frames("flow-halved").0.len(), 98);
    let Picture::Frames { series, .. } =
        &story.charts.iter().find(|chart| chart.id == "flow-rows-others").unwrap().picture
    else {
        panic!("frames")
    };
    assert_eq!(series, &["RNN, no norm", "GRU, no norm"]);
    assert_eq!((story.charts.len(), story.findings.len()), (6, 0));
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
    assert!((differences(&story, "relu-start")[0] + 4.0).abs() < 1e-12);
    assert!(story.answer.contains("5 without a norm and 1 with layer norm"), "{}", story.answer);
    // A gradient of 0 has vanished: it decayed at least to the smallest number in f32.
    let lost: Vec<_> = records[1].events.iter_mut().filter(|event| event.name == "gradients").collect();
    lost.into_iter().for_each(|event| event.data["norms"] = vec![9.0, 0.0, 1e-2, 1.0, 9.0].into());
    let story = GradientFlow.story(&records);
    assert_eq!((verdict(&story, "relu-start"), story.notes.len()), (Verdict::Undecided, 6));
    assert!(story.answer.contains("44.9 without a norm"), "{}", story.answer);
    records[0].events.iter_mut().for_each(|event| event.data["norms"] = serde_json::Value::Null);
    let story = GradientFlow.story(&records);
    assert!(story.findings.iter().all(|finding| finding.id == "relu-error"), "{:?}", story.findings);
}

#[test]
fn a_gradient_that_grows_is_not_preserved_either() {
    let records = testing::synthetic(&GradientFlow, |run, spec| {
        let first = match spec.norm {
            Norm::Layer => 0.1 * spec.start.seed as f64,
            // It grows by a factor of 1000 towards the input, and overflows in one seed.
            Norm::None => 1000.0,
            _ => return Vec::new(),
        };
        let mut norms: Vec<Option<f64>> = vec![Some(9.0), Some(first), Some(1.0), Some(9.0)];
        if run == "gradient-flow-tanh-none-2" {
            norms[1] = None;
        }
        let places: Vec<String> = (1..=4).map(|place| place.to_string()).collect();
        let (name, kept) = if spec.probes.time { ("time", 1..3) } else { ("gradients", 0..4) };
        let event =
            |step: usize| (name, json!({"step": step, "places": places[kept.clone()], "norms": norms[kept.clone()]}));
        let ends = [event(0), event(spec.steps)];
        testing::evaluations(spec, 0.5, 0.3).into_iter().chain(ends).collect()
    });
    let story = GradientFlow.story(&records);
    testing::check(&story);
    for id in ["relu-start", "relu-end", "rows-end", "small-start", "large-end", "rnn-rows-start", "lstm-halved-end"] {
        assert_eq!(verdict(&story, id), Verdict::Supported, "{id}");
    }
    // Every time, and how much was learned by then, is that of the runs.
    let claim = |id: &str| &story.findings.iter().find(|finding| finding.id == id).unwrap().claim;
    assert!(claim("lstm-halved-end").contains("after 60 steps"), "{}", claim("lstm-halved-end"));
    assert!(claim("small-end").contains("after 100 steps"), "{}", claim("small-end"));
    let see = &story.charts.iter().find(|chart| chart.id == "flow-halved").unwrap().see;
    assert!(see.contains("Validation error by then: 30 % (no norm), 30 % (layer norm)."), "{see}");
    assert_eq!(verdict(&story, "tanh-start"), Verdict::Undecided, "one seed is far from the others");
    assert!(
        (differences(&story, "tanh-start")[1] - (0.2f64.log10().abs() - 38.53)).abs() < 0.01,
        "as large as f32 allows"
    );
    assert_eq!(verdict(&story, "relu-error"), Verdict::Undecided);
}

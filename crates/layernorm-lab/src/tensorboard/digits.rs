//! DRAW: the variational bound and generated digits.

use super::image::sheet;
use super::translation::read;
use super::values::Values;
use crate::draw::Spec;
use crate::draw::events::{Bound, Digits, Evaluate};
use serde::Deserialize;
use serde_json::Value;

/// The settings of a run.
#[derive(Debug, Deserialize)]
pub(super) struct Settings {
    /// Rows and columns of an image of the data.
    image: [usize; 2],
    pub(super) draw: Spec,
}

/// Adds the values of an event.
pub(super) fn add(settings: &Settings, name: &str, data: &Value, values: &mut Values) {
    match name {
        "evaluate" => read(data).into_iter().for_each(|event: Evaluate| {
            if let Some(train) = event.train {
                add_bound("training", train, values);
            }
            add_bound("validation", event.validation, values);
            values.scalar("learning rate", settings.draw.learning_rate);
        }),
        "test" => read(data).into_iter().for_each(|bound| add_bound("test", bound, values)),
        "digits" => read(data).into_iter().for_each(|event| add_digits(&event, settings, values)),
        _ => {}
    }
}

fn add_bound(part: &str, bound: Bound, values: &mut Values) {
    values.number(&format!("bound/{part}"), bound.total());
    values.number(&format!("reconstruction/{part}"), bound.reconstruction);
    values.number(&format!("KL divergence/{part}"), bound.kl);
}

/// The last canvas of each digit on a sheet as square as possible and, if there are earlier ones, all canvases: a line for
/// each number of glimpses.
fn add_digits(event: &Digits, settings: &Settings, values: &mut Values) {
    let size = settings.draw.images.size(settings.image);
    let all: Vec<&str> = event.images.iter().flatten().map(String::as_str).collect();
    let across = event.images.last().map_or(0, Vec::len);
    let square = (across as f64).sqrt().ceil() as usize;
    values.image("generated digits", sheet(&all[all.len() - across..], size, square));
    if event.images.len() > 1 && event.images.iter().all(|canvases| canvases.len() == across) {
        values.image("generated digits by glimpse", sheet(&all, size, across));
    }
}

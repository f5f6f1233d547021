//! Language models: bits per character, and a sample.

use super::translation::read;
use super::values::Values;
use crate::language::Spec;
use crate::language::events::{Evaluate, Sample, Test};
use serde_json::Value;

/// Adds the values of an event.
pub(super) fn add(spec: &Spec, name: &str, data: &Value, values: &mut Values) {
    match name {
        "evaluate" => read(data).into_iter().for_each(|event: Evaluate| {
            values.optional("bits per character/training", event.train_bits);
            values.number("bits per character/validation", event.bits);
            values.scalar("learning rate", spec.rate(event.step.min(spec.steps.saturating_sub(1))));
        }),
        "test" => read(data).into_iter().for_each(|event: Test| values.number("bits per character/test", event.bits)),
        "sample" => read(data).into_iter().for_each(|event: Sample| {
            values.text("sample", &format!("{}{}", event.prompt, event.text));
        }),
        _ => {}
    }
}

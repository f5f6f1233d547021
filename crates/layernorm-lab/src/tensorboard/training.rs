//! Image classifiers: losses, errors and probes.

use super::image::heatmap;
use super::translation::read;
use super::values::Values;
use crate::training::Spec;
use crate::training::events::{
    Activations, Affine, Angle, Correlation, Dynamics, Evaluate, Geometry, Gradients, Moments, Shift, Sizes, Test,
    Weights,
};
use serde_json::Value;

/// Adds the values of an event.
pub(super) fn add(spec: &Spec, name: &str, data: &Value, values: &mut Values) {
    if !add_result(spec, name, data, values) {
        add_probe(name, data, values);
    }
}

fn error(accuracy: Option<f64>) -> Option<f64> {
    accuracy.map(|accuracy| 1.0 - accuracy)
}

/// Adds losses and errors; returns whether the event has some.
fn add_result(spec: &Spec, name: &str, data: &Value, values: &mut Values) -> bool {
    match name {
        "evaluate" => {
            let Some(event) = read::<Evaluate>(data) else { return true };
            values.optional("loss/training", event.train_loss);
            values.number("loss/validation", event.loss);
            values.optional("error/training", error(event.train_accuracy));
            values.optional("error/validation", error(event.accuracy));
            values.scalar("learning rate", spec.rate(event.step.min(spec.steps.saturating_sub(1))));
        }
        "test" => {
            let Some(event) = read::<Test>(data) else { return true };
            values.number("loss/test", event.loss);
            values.optional("error/test", error(event.accuracy));
        }
        "trial" => {
            let Some(event) = read::<Test>(data) else { return true };
            values.number(&format!("trial loss/{}", event.name), event.loss);
            values.optional(&format!("trial error/{}", event.name), error(event.accuracy));
        }
        _ => return false,
    }
    true
}

fn add_probe(name: &str, data: &Value, values: &mut Values) {
    match name {
        "gradients" => read(data).into_iter().for_each(|event: Gradients| {
            values.each("gradient norm", &event.places, &event.norms);
        }),
        "time" => read(data).into_iter().for_each(|event: Gradients| {
            values.through_time("gradient norm of the hidden state", &event.norms);
        }),
        "moments" => read(data).into_iter().for_each(|event: Moments| {
            for (side, [mean, variance]) in [("before", event.before), ("after", event.after)] {
                values.number(&format!("mean {side} the norm/{}", event.layer), mean);
                values.number(&format!("variance {side} the norm/{}", event.layer), variance);
            }
        }),
        "correlation" => read(data).into_iter().for_each(|event| add_correlation(&event, values)),
        "activations" => read(data).into_iter().for_each(|event: Activations| {
            for component in 0..3 {
                let along = event.points.iter().map(|point| point[component]);
                values.histogram(&format!("activations/{}, component {}", event.layer, component + 1), along);
            }
        }),
        "geometry" => read(data).into_iter().for_each(|event: Geometry| {
            for (side, Sizes { radius, mean, .. }) in [("before", event.before), ("after", event.after)] {
                values.histogram(
                    &format!("radius of each image {side} the norm/{}", event.layer),
                    radius.into_iter().flatten(),
                );
                values.histogram(
                    &format!("mean of each image {side} the norm/{}", event.layer),
                    mean.into_iter().flatten(),
                );
            }
        }),
        "affine" => read(data).into_iter().for_each(|event: Affine| {
            values.histogram(&format!("gain/{}", event.layer), event.gain);
            values.histogram(&format!("bias/{}", event.layer), event.bias);
        }),
        "shift" => read(data).into_iter().for_each(|event: Shift| {
            values.each("shift of the input", &event.layers, &event.input);
            values.each("shift before the norm", &event.layers, &event.before);
            values.each("shift after the norm", &event.layers, &event.after);
            values.each("gradient before and after the step below, cosine", &event.layers, &event.cosine);
        }),
        "weights" => read(data).into_iter().for_each(|event: Weights| {
            let of = |part: fn(&Angle) -> Option<f64>| event.weight.iter().map(part).collect::<Vec<_>>();
            values.each("weight norm", &event.layers, &of(|angle| angle.length));
            values.each("gradient of the weights, norm", &event.layers, &of(|angle| angle.gradient));
            values.each("weight and gradient, cosine", &event.layers, &of(|angle| angle.cosine));
        }),
        "dynamics" => read(data).into_iter().for_each(|event| add_dynamics(&event, values)),
        _ => {}
    }
}

fn add_correlation(event: &Correlation, values: &mut Values) {
    for (side, numbers) in [("before", &event.before), ("after", &event.after)] {
        let tag = format!("correlation {side} the norm/{}", event.layer);
        let pairs = event.units * event.units.saturating_sub(1);
        if numbers.len() == event.units * event.units && pairs > 0 {
            let unequal = numbers.iter().enumerate().filter(|(place, _)| place % (event.units + 1) != 0);
            values.scalar(&format!("{tag}, mean size"), unequal.map(|(_, r)| r.abs()).sum::<f64>() / pairs as f64);
        }
        values.image(&tag, heatmap(numbers, event.units));
    }
}

fn add_dynamics(event: &Dynamics, values: &mut Values) {
    values.through_time("norm of the hidden state", &event.hidden);
    let deviations: Vec<Option<f64>> = event.cell.iter().map(|[_, deviation]| *deviation).collect();
    values.through_time("deviation of the cell state", &deviations);
    for gate in &event.gates {
        for (what, numbers) in
            [("deviation of the pre-activation", &gate.deviation), ("saturated share", &gate.saturated)]
        {
            values.optional(&format!("{what}, mean over time/{}", gate.gate), mean(numbers));
        }
    }
}

/// The mean; `None` if a number is missing or there are none.
fn mean(numbers: &[Option<f64>]) -> Option<f64> {
    let sum: f64 = numbers.iter().copied().sum::<Option<f64>>()?;
    (!numbers.is_empty()).then(|| sum / numbers.len() as f64)
}

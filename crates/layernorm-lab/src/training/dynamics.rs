//! The dynamics of a recurrent network: statistics of its states at each time step, over some images.
//!
//! ```text
//! ‖h‖         Euclidean norm of the hidden state, mean over the images
//! c           mean and standard deviation over images and units
//! a           the same for the pre-activations of each gate
//! saturated   share of images and units with σ(a) < 0.05 or σ(a) > 0.95, that is |a| > ln 19;
//!             of tanh with |tanh a| > 0.95, that is |a| > artanh 0.95 = ln(39)/2
//! ```

use super::Spec;
use super::evaluate::numbers;
use super::events::{Dynamics, GateDynamics, NormStatistics, Statistics, UnitStatistics, finite};
use crate::models::{Net, StepState, StepStatistics};
use crate::studies::Error;
use burn::tensor::Tensor;
use layernorm_rnn::Kind;

/// ln 19.
const SIGMOID_LIMIT: f64 = 2.944_438_979_166_44;
/// ln(39)/2.
const TANH_LIMIT: f64 = 1.831_780_823_064_823;
/// Number of units whose statistics are recorded one by one.
const UNITS: usize = 4;

/// The states of a network for these images; `None` if it has no time steps.
pub(super) fn dynamics(net: &Net, spec: &Spec, step: usize, images: &Tensor<3>) -> Result<Option<Dynamics>, Error> {
    let (Some((kind, _)), Some(states)) = (spec.arch.as_recurrent(), net.states(images.clone())) else {
        return Ok(None);
    };
    let gates = gates(kind);
    let mut found = Dynamics {
        step,
        hidden: Vec::new(),
        cell: Vec::new(),
        gates: gates.iter().map(|gate| GateDynamics { gate: gate.name.to_owned(), ..Default::default() }).collect(),
    };
    for StepState { a, c, h } in states {
        let units = h.dims()[1];
        let of = |tensor: Tensor<2>| numbers(tensor).map_err(Error::Run);
        let (a, h) = (of(a)?, of(h)?);
        found.hidden.push(mean_length(&h, units));
        if let Some(c) = c {
            found.cell.push(moments(of(c)?.into_iter()));
        }
        for (number, (gate, found)) in gates.iter().zip(&mut found.gates).enumerate() {
            let values = || a.chunks(gates.len() * units).flat_map(|row| &row[number * units..][..units]).copied();
            let [mean, deviation] = moments(values());
            found.mean.push(mean);
            found.deviation.push(deviation);
            let beyond = values().filter(|a| f64::from(a.abs()) > gate.limit).count();
            found.saturated.push(short(beyond as f64 / values().count().max(1) as f64));
        }
    }
    Ok(Some(found))
}

struct Gate {
    name: &'static str,
    /// The function of larger |a| is saturated.
    limit: f64,
}

/// The gates, in the order of [`StepState::a`].
fn gates(kind: Kind) -> Vec<Gate> {
    let sigmoid = |name| Gate { name, limit: SIGMOID_LIMIT };
    let candidate = Gate { name: "candidate", limit: TANH_LIMIT };
    match kind {
        Kind::Lstm => vec![sigmoid("input"), sigmoid("forget"), candidate, sigmoid("output")],
        Kind::Gru => vec![sigmoid("reset"), sigmoid("update"), candidate],
        Kind::Rnn => vec![candidate],
    }
}

/// The mean norm of rows.
fn mean_length(rows: &[f32], units: usize) -> Option<f64> {
    let length = |row: &[f32]| row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    let lengths: Vec<f64> = rows.chunks(units.max(1)).map(length).collect();
    short(lengths.iter().sum::<f64>() / lengths.len().max(1) as f64)
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f32> + Clone) -> [Option<f64>; 2] {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / count;
    let variance = values.map(|x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    [short(mean), short(variance.sqrt())]
}

/// The number to five digits, which is enough for pictures; `None` if it is not finite.
fn short(number: f64) -> Option<f64> {
    finite(number).and_then(|number| format!("{number:.4e}").parse().ok())
}

/// The running statistics of a network for inference.
pub(super) fn statistics(net: &Net) -> Statistics {
    let of = |StepStatistics { of, means, variances }: StepStatistics| {
        let average = |steps: &[Vec<f32>], size: fn(f32) -> f32| -> Vec<Option<f64>> {
            let mean =
                |units: &Vec<f32>| units.iter().map(|&x| f64::from(size(x))).sum::<f64>() / units.len().max(1) as f64;
            steps.iter().map(|units| short(mean(units))).collect()
        };
        let one = |steps: &[Vec<f32>], unit: usize| -> Vec<Option<f64>> {
            steps.iter().map(|units| units.get(unit).and_then(|&x| short(f64::from(x)))).collect()
        };
        let units = means.first().map_or(0, Vec::len).min(UNITS);
        NormStatistics {
            of: of.to_owned(),
            mean_size: average(&means, f32::abs),
            variance: average(&variances, |x| x),
            units: (0..units)
                .map(|unit| UnitStatistics { mean: one(&means, unit), variance: one(&variances, unit) })
                .collect(),
        }
    };
    Statistics { norms: net.step_statistics().into_iter().map(of).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_functions() {
        assert!((1.0 / (1.0 + (-SIGMOID_LIMIT).exp()) - 0.95).abs() < 1e-15);
        assert!((TANH_LIMIT.tanh() - 0.95).abs() < 1e-15);
    }

    #[test]
    fn statistics_are_those_of_a_textbook() {
        // Lengths 5 and 13.
        assert_eq!(mean_length(&[3.0, 4.0, 5.0, -12.0], 2), Some(9.0));
        assert_eq!(moments([1.0, 3.0].into_iter()), [Some(2.0), Some(1.0)]);
        assert_eq!(moments([f32::NAN].into_iter()), [None; 2]);
        assert_eq!(short(0.123_456_7), Some(0.12346));
    }
}

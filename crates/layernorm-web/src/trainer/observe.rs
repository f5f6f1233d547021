//! What a page shows of a layer: the distribution of its activations, and the length of its gradient.

use crate::message::Value;
use layernorm::Float;

/// Bins of a histogram.
const BINS: usize = 32;

/// Returns mean, standard deviation, range and histogram of finite numbers; the histogram has the share of each of 32
/// equal parts of the range. Without finite numbers, mean and deviation are NaN and the range is 0 to 0.
pub(super) fn distribution<A: Float>(name: String, numbers: &[A]) -> Value {
    let finite = || numbers.iter().map(|number| number.to_f64()).filter(|number| number.is_finite());
    let count = finite().count();
    let mean = finite().sum::<f64>() / count as f64;
    let deviation = (finite().map(|number| (number - mean) * (number - mean)).sum::<f64>() / count as f64).sqrt();
    let mut range = finite().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| [low.min(x), high.max(x)]);
    if count == 0 {
        range = [0.0; 2];
    }
    let mut histogram = vec![0f32; BINS];
    let width = (range[1] - range[0]) / BINS as f64;
    for number in finite() {
        let bin = if width > 0.0 { ((number - range[0]) / width) as usize } else { BINS / 2 };
        histogram[bin.min(BINS - 1)] += 1.0 / count as f32;
    }
    Value::object([
        ("name", Value::Text(name)),
        ("mean", Value::Number(mean)),
        ("deviation", Value::Number(deviation)),
        ("histogram", Value::Floats(histogram)),
        ("range", Value::List(range.map(Value::Number).to_vec())),
    ])
}

/// Returns the Euclidean length of a gradient.
pub(super) fn length<A: Float>(name: String, numbers: &[A]) -> Value {
    let norm = numbers.iter().map(|number| number.to_f64()).map(|number| number * number).sum::<f64>().sqrt();
    Value::object([("name", Value::Text(name)), ("norm", Value::Number(norm))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_that_of_the_finite_numbers() {
        let numbers = [0.0f32, 1.0, 2.0, 3.0, f32::NAN, f32::INFINITY];
        let seen = distribution("layer 1".to_owned(), &numbers);
        assert_eq!(seen.get("mean"), Some(&Value::Number(1.5)));
        assert_eq!(seen.get("deviation"), Some(&Value::Number(1.25f64.sqrt())));
        let Some(Value::Floats(histogram)) = seen.get("histogram") else { panic!("{seen:?}") };
        let at: Vec<_> = (0..BINS).filter(|&bin| histogram[bin] == 0.25).collect();
        assert_eq!(at, [0, 10, 21, 31]);
        let same = distribution("same".to_owned(), &[2.0f32; 8]);
        assert_eq!(same.get("deviation"), Some(&Value::Number(0.0)));
        let none = distribution("none".to_owned(), &[f32::NAN]);
        assert_eq!(none.get("range"), Some(&Value::List(vec![Value::Number(0.0); 2])));
    }
}

//! Softmax and cross-entropy.
//!
//! ```text
//! p = exp(z − max z) / Σ exp(z − max z)    loss = −ln p[label]    dz = (p − onehot(label)) / batch
//! ```

use crate::error::Error;
use layernorm::Context;
use layernorm_rnn::Real;

/// Mean loss and share of right answers of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    pub(super) loss: f64,
    pub(super) accuracy: f64,
}

/// Computes the score of logits `[batch, classes]`, and turns them into their gradients. A NaN is never the right answer.
pub(super) fn cross_entropy<A: Real>(cx: &Context, logits: &mut [A], labels: &[u8]) -> Result<Score, Error> {
    let classes = logits.len() / labels.len();
    let (mut loss, mut right) = (0.0, 0usize);
    let share = A::ONE / A::from_count(labels.len());
    for (row, &label) in logits.chunks_exact_mut(classes).zip(labels) {
        let label = usize::from(label);
        let (mut best, mut highest) = (0, row[0]);
        for (class, &logit) in row.iter().enumerate() {
            if logit > highest {
                (best, highest) = (class, logit);
            }
        }
        right += usize::from(best == label && row[label] == highest);
        row.iter_mut().for_each(|logit| *logit = *logit - highest);
        let margin = row[label].to_f64();
        layernorm_rnn::functions::exp(cx, row)?;
        let sum = row.iter().fold(A::ZERO, |sum, &e| sum + e);
        loss += sum.to_f64().ln() - margin;
        for (class, p) in row.iter_mut().enumerate() {
            let target = if class == label { A::ONE } else { A::ZERO };
            *p = (*p / sum - target) * share;
        }
    }
    let count = labels.len() as f64;
    Ok(Score { loss: loss / count, accuracy: right as f64 / count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_definition() {
        let mut logits = [1.0f64, 2.0, 0.5, 700.0, -300.0, 10.0];
        let score = cross_entropy(&Context::new(), &mut logits, &[1, 2]).unwrap();
        let sum: f64 = [1.0f64, 2.0, 0.5].iter().map(|z| z.exp()).sum();
        let expected = ((sum.ln() - 2.0) + 690.0) / 2.0;
        assert!((score.loss - expected).abs() < 1e-12 * expected, "{} and {expected}", score.loss);
        assert_eq!(score.accuracy, 0.5);
        assert!((logits[0] - 1.0f64.exp() / sum / 2.0).abs() < 1e-15);
        let mut nothing = [f64::NAN, f64::NAN];
        let score = cross_entropy(&Context::new(), &mut nothing, &[0]).unwrap();
        assert!(score.loss.is_nan() && score.accuracy == 0.0);
    }
}

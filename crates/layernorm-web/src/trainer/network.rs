//! What the trainer needs of a network.

use crate::error::Error;
use layernorm::Float;
use layernorm::parts::SplitMix64;

/// Numbers with a name: activations or gradients of a layer.
pub(super) type Named<'a, A> = (String, &'a [A]);

/// Parameters and their gradients.
pub(super) type Updates<'a, A> = Vec<(&'a mut [A], &'a [A])>;

/// A network with its parameters, and the numbers of its last batch in training.
pub(super) trait Network<A>: std::fmt::Debug {
    /// Computes the logits `[batch, classes]` of a batch in training.
    fn train(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error>;
    /// Computes the gradients of the parameters from that of the logits, after `train` on the same x.
    fn backward(&mut self, x: &[A], dlogits: &[A]) -> Result<(), Error>;
    /// Adds the statistics of a batch of training samples to those of inference, if they are computed apart from training;
    /// returns whether they are. `before` is the number of batches added already: with 0, it replaces them.
    fn settle(&mut self, _x: &[A], _before: u64) -> Result<bool, Error> {
        Ok(false)
    }
    /// Computes the logits as at inference. Changes neither parameters nor what `activations` returns.
    fn infer(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error>;
    /// Returns the parameters and their gradients, always in the same order.
    fn updates(&mut self) -> Updates<'_, A>;
    /// Returns the activations of the last batch in training, layer by layer.
    fn activations(&self) -> Vec<Named<'_, A>>;
    /// Returns the gradients of the last step, layer by layer.
    fn gradients(&self) -> Vec<Named<'_, A>>;
}

/// Fills numbers uniformly in ±bound.
pub(super) fn uniform<A: Float>(random: &mut SplitMix64, bound: f64, to: &mut [A]) {
    to.iter_mut().for_each(|number| *number = A::from_f64(bound * (2.0 * random.uniform() - 1.0)));
}

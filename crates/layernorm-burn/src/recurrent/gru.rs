//! GRU.

use super::Recurrent;
use super::config::recurrent_config;
use burn::module::Module;
use burn::tensor::Tensor;
use layernorm_rnn::Kind;

recurrent_config!(GruConfig, Gru, Kind::Gru, "`paper`, `theano`, `haste`, `dreamer`, `none` or `none-reset-before`");

/// A GRU of any variant.
#[derive(Module, Debug)]
pub struct Gru {
    /// Its cells.
    pub net: Recurrent,
}

impl Gru {
    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// - x: `[batch_size, steps, d_input]`, or `[steps, batch_size, d_input]` without `batch_first`
    /// - output: `[batch_size, steps, D·d_hidden]` or `[steps, batch_size, D·d_hidden]`, with D directions
    /// - state: `[layers·D, batch_size, d_hidden]`
    ///
    /// # Panics
    /// On a shape mismatch, with the message of [`layernorm_rnn::Error`].
    pub fn forward(&self, x: Tensor<3>, state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        self.run(x, state, None)
    }

    /// [`Gru::forward`] over sequences of these lengths, 1 to `steps`. Steps past the end of a sequence are not read,
    /// and y is 0 there. The returned state is that after each sequence's last step.
    pub fn forward_lengths(&self, x: Tensor<3>, lengths: &[usize], state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        self.run(x, state, Some(lengths))
    }

    fn run(&self, x: Tensor<3>, state: Option<Tensor<3>>, lengths: Option<&[usize]>) -> (Tensor<3>, Tensor<3>) {
        let (y, [h, _]) = self.net.forward(x, [state, None], lengths);
        (y, h.expect("a recurrent network has h"))
    }
}

//! LSTM.

use super::Recurrent;
use super::config::recurrent_config;
use burn::module::Module;
use burn::nn::LstmState;
use burn::tensor::Tensor;
use layernorm_rnn::Kind;

recurrent_config!(
    LstmConfig,
    Lstm,
    Kind::Lstm,
    "`paper`, `theano`, `draw`, `fastrnns`, `torchaudio`, `keras`, `haste`, `tflite`, `tflite-cifg`, `per-gate` or `none`",
    projection
);

/// An LSTM of any variant.
///
/// `LstmConfig::new(28, 128).with_variant("paper")` is the layer-normalized LSTM of the paper; `none` is PyTorch's
/// plain LSTM.
#[derive(Module, Debug)]
pub struct Lstm {
    /// Its cells.
    pub net: Recurrent,
}

impl Lstm {
    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// - x: `[batch_size, steps, d_input]`, or `[steps, batch_size, d_input]` without `batch_first`
    /// - output: `[batch_size, steps, D·P]` or `[steps, batch_size, D·P]`: P is `d_hidden` or the projection's size,
    ///   with D directions
    /// - state: hidden `[layers·D, batch_size, P]`, cell `[layers·D, batch_size, d_hidden]`
    ///
    /// # Panics
    /// On a shape mismatch, with the message of [`layernorm_rnn::Error`].
    pub fn forward(&self, x: Tensor<3>, state: Option<LstmState<3>>) -> (Tensor<3>, LstmState<3>) {
        self.run(x, state, None)
    }

    /// [`Lstm::forward`] over sequences of these lengths, 1 to `steps`. Steps past the end of a sequence are not read,
    /// and y is 0 there. The returned state is that after each sequence's last step.
    pub fn forward_lengths(
        &self,
        x: Tensor<3>,
        lengths: &[usize],
        state: Option<LstmState<3>>,
    ) -> (Tensor<3>, LstmState<3>) {
        self.run(x, state, Some(lengths))
    }

    fn run(&self, x: Tensor<3>, state: Option<LstmState<3>>, lengths: Option<&[usize]>) -> (Tensor<3>, LstmState<3>) {
        let initial = state.map_or([None, None], |state| [Some(state.hidden), Some(state.cell)]);
        let (y, [hidden, cell]) = self.net.forward(x, initial, lengths);
        let [hidden, cell] = [hidden, cell].map(|part| part.expect("an LSTM has h and c"));
        (y, LstmState { cell, hidden })
    }
}

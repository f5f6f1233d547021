//! Simple RNN.

use super::{Recurrent, RecurrentConfig, part};
use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_nn::rnn::RNN;
use layernorm_rnn::Kind;

/// A simple RNN of any variant; `none` is PyTorch's plain RNN.
#[derive(Clone, Debug)]
pub struct Rnn {
    /// Its cells.
    pub net: Recurrent,
}

/// Creates a simple RNN with the parameters of a builder. See [`Recurrent::new`] for how new parameters are
/// initialized.
pub fn rnn<C: Into<RecurrentConfig>>(in_dim: usize, hidden_dim: usize, config: C, vb: VarBuilder) -> Result<Rnn> {
    Recurrent::of_kind(Kind::Rnn, (in_dim, hidden_dim), config, vb).map(|net| Rnn { net })
}

impl Rnn {
    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// - x: `[batch, steps, in_dim]`, or `[steps, batch, in_dim]` without `batch_first`
    /// - y: `[batch, steps, D·hidden_dim]` or `[steps, batch, D·hidden_dim]`, with D directions
    /// - state: h `[layers·D, batch, hidden_dim]`
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        self.run(x, state, None)
    }

    /// [`Rnn::forward`] over sequences of these lengths, 1 to `steps`. Steps past the end of a sequence are not read,
    /// and y is 0 there. The returned state is that after each sequence's last step.
    pub fn forward_lengths(&self, x: &Tensor, lengths: &[usize], state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        self.run(x, state, Some(lengths))
    }

    fn run(&self, x: &Tensor, state: Option<&Tensor>, lengths: Option<&[usize]>) -> Result<(Tensor, Tensor)> {
        let (y, [h, _]) = self.net.forward(x, [state, None], lengths)?;
        Ok((y, part(h)?))
    }
}

/// Runs step by step, for networks that run forward in time. A state has all layers: h `[layers, batch, hidden_dim]`.
impl RNN for Rnn {
    type State = Tensor;

    fn zero_state(&self, batch: usize) -> Result<Tensor> {
        let [h, _] = self.net.zero_state(batch)?;
        part(h)
    }

    fn step(&self, x: &Tensor, state: &Tensor) -> Result<Tensor> {
        let (_, [h, _]) = self.net.step(x, [Some(state), None])?;
        part(h)
    }

    fn states_to_tensor(&self, states: &[Tensor]) -> Result<Tensor> {
        self.net.outputs(states.iter())
    }
}

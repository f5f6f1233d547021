//! LSTM.

use super::{Recurrent, RecurrentConfig, part};
use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_nn::rnn::{LSTMState, RNN};
use layernorm_rnn::Kind;

/// An LSTM of any variant: `lstm(28, 128, "paper", vb)` is the layer-normalized LSTM of the paper; `none` is the plain
/// LSTM of PyTorch and candle-nn.
#[derive(Clone, Debug)]
pub struct Lstm {
    /// Its cells.
    pub net: Recurrent,
}

/// Creates an LSTM, like [`candle_nn::lstm`], with the parameters of a builder. See [`Recurrent::new`] for how new
/// parameters are initialized.
pub fn lstm<C: Into<RecurrentConfig>>(in_dim: usize, hidden_dim: usize, config: C, vb: VarBuilder) -> Result<Lstm> {
    Recurrent::of_kind(Kind::Lstm, (in_dim, hidden_dim), config, vb).map(|net| Lstm { net })
}

impl Lstm {
    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// - x: `[batch, steps, in_dim]`, or `[steps, batch, in_dim]` without `batch_first`
    /// - y: `[batch, steps, D·P]` or `[steps, batch, D·P]`: P is `hidden_dim` or the projection's size, with D
    ///   directions
    /// - state: h `[layers·D, batch, P]`, c `[layers·D, batch, hidden_dim]`
    pub fn forward(&self, x: &Tensor, state: Option<&LSTMState>) -> Result<(Tensor, LSTMState)> {
        self.run(x, state, None)
    }

    /// [`Lstm::forward`] over sequences of these lengths, 1 to `steps`. Steps past the end of a sequence are not read,
    /// and y is 0 there. The returned state is that after each sequence's last step.
    pub fn forward_lengths(
        &self,
        x: &Tensor,
        lengths: &[usize],
        state: Option<&LSTMState>,
    ) -> Result<(Tensor, LSTMState)> {
        self.run(x, state, Some(lengths))
    }

    fn run(&self, x: &Tensor, state: Option<&LSTMState>, lengths: Option<&[usize]>) -> Result<(Tensor, LSTMState)> {
        let initial = [state.map(LSTMState::h), state.map(LSTMState::c)];
        let (y, [h, c]) = self.net.forward(x, initial, lengths)?;
        Ok((y, LSTMState::new(part(h)?, part(c)?)))
    }
}

/// Runs step by step, for networks that run forward in time. A state has all layers: h `[layers, batch, P]`, c
/// `[layers, batch, hidden_dim]`.
impl RNN for Lstm {
    type State = LSTMState;

    fn zero_state(&self, batch: usize) -> Result<LSTMState> {
        let [h, c] = self.net.zero_state(batch)?;
        Ok(LSTMState::new(part(h)?, part(c)?))
    }

    fn step(&self, x: &Tensor, state: &LSTMState) -> Result<LSTMState> {
        let (_, [h, c]) = self.net.step(x, [Some(state.h()), Some(state.c())])?;
        Ok(LSTMState::new(part(h)?, part(c)?))
    }

    fn states_to_tensor(&self, states: &[LSTMState]) -> Result<Tensor> {
        self.net.outputs(states.iter().map(LSTMState::h))
    }
}

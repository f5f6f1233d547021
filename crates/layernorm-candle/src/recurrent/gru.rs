//! GRU.

use super::{Recurrent, RecurrentConfig, part};
use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_nn::rnn::{GRUState, RNN};
use layernorm_rnn::Kind;

/// A GRU of any variant; `none` is the plain GRU of PyTorch and candle-nn.
#[derive(Clone, Debug)]
pub struct Gru {
    /// Its cells.
    pub net: Recurrent,
}

/// Creates a GRU, like [`candle_nn::gru`], with the parameters of a builder. See [`Recurrent::new`] for how new
/// parameters are initialized.
pub fn gru<C: Into<RecurrentConfig>>(in_dim: usize, hidden_dim: usize, config: C, vb: VarBuilder) -> Result<Gru> {
    Recurrent::of_kind(Kind::Gru, (in_dim, hidden_dim), config, vb).map(|net| Gru { net })
}

impl Gru {
    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// - x: `[batch, steps, in_dim]`, or `[steps, batch, in_dim]` without `batch_first`
    /// - y: `[batch, steps, D·hidden_dim]` or `[steps, batch, D·hidden_dim]`, with D directions
    /// - state: h `[layers·D, batch, hidden_dim]`
    pub fn forward(&self, x: &Tensor, state: Option<&GRUState>) -> Result<(Tensor, GRUState)> {
        self.run(x, state, None)
    }

    /// [`Gru::forward`] over sequences of these lengths, 1 to `steps`. Steps past the end of a sequence are not read,
    /// and y is 0 there. The returned state is that after each sequence's last step.
    pub fn forward_lengths(
        &self,
        x: &Tensor,
        lengths: &[usize],
        state: Option<&GRUState>,
    ) -> Result<(Tensor, GRUState)> {
        self.run(x, state, Some(lengths))
    }

    fn run(&self, x: &Tensor, state: Option<&GRUState>, lengths: Option<&[usize]>) -> Result<(Tensor, GRUState)> {
        let (y, [h, _]) = self.net.forward(x, [state.map(GRUState::h), None], lengths)?;
        Ok((y, GRUState { h: part(h)? }))
    }
}

/// Runs step by step, for networks that run forward in time. A state has all layers: h `[layers, batch, hidden_dim]`.
impl RNN for Gru {
    type State = GRUState;

    fn zero_state(&self, batch: usize) -> Result<GRUState> {
        let [h, _] = self.net.zero_state(batch)?;
        Ok(GRUState { h: part(h)? })
    }

    fn step(&self, x: &Tensor, state: &GRUState) -> Result<GRUState> {
        let (_, [h, _]) = self.net.step(x, [Some(state.h()), None])?;
        Ok(GRUState { h: part(h)? })
    }

    fn states_to_tensor(&self, states: &[GRUState]) -> Result<Tensor> {
        self.net.outputs(states.iter().map(GRUState::h))
    }
}

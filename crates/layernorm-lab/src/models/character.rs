//! A recurrent network that predicts the next character of a text.
//!
//! ```text
//! x_t   one-hot vector of character t, [V]
//! h_t   state of the last of L fused layers (RNN, GRU or LSTM; no norm, or the paper's layer norm), [H]
//! p(character t+1 | characters 1..t) = softmax(h_t·W + b), [V]
//! ```

use super::dense::Dense;
use super::recurrent::{Fused, network, variant};
use super::start::Draw;
use super::{Norm, Start, numbers};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use layernorm_burn::functional::States;
use layernorm_rnn::{Config, Kind};

/// A character model.
#[derive(Module, Debug)]
pub struct CharacterNet {
    cells: Fused,
    last: Dense,
    #[module(skip)]
    symbols: usize,
}

/// Sizes of a character model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharacterSize {
    /// Kind of the recurrent layers.
    pub kind: Kind,
    /// Hidden units of each layer, H.
    pub hidden: usize,
    /// Number of layers, L.
    pub layers: usize,
    /// Size of the vocabulary, V.
    pub symbols: usize,
}

impl CharacterNet {
    /// Creates a model with norm none or layer. The error says what is not supported.
    pub fn new(size: CharacterSize, norm: Norm, start: &Start, device: &Device) -> Result<CharacterNet, String> {
        start.check()?;
        let mut draw = Draw::new(start, device);
        let variant = variant(size.kind, norm, start).map_err(|error| error.to_string())?;
        let config = Config::new(variant, size.symbols, size.hidden).with_layers(size.layers);
        let network = network(config, draw.seed(), start).map_err(|error| error.to_string())?;
        let cells = Fused::new(&network, norm, device)?;
        let last = Dense::new(size.hidden, size.symbols, norm, &mut draw);
        Ok(numbers::numbered(CharacterNet { cells, last, symbols: size.symbols }))
    }

    /// The logits `[B·T, V]` after each of the characters `[B, T]`, and the last states `[L, B, H]`. Steps of a sequence
    /// beyond its length are not read; their logits are meaningless.
    pub fn forward(
        &self,
        characters: &[u16],
        [batch, steps]: [usize; 2],
        states: States,
        lengths: Option<&[usize]>,
        device: &Device,
    ) -> (Tensor<2>, States) {
        let mut one_hot = vec![0f32; characters.len() * self.symbols];
        for (row, &character) in one_hot.chunks_mut(self.symbols).zip(characters) {
            row[usize::from(character)] = 1.0;
        }
        let x = Tensor::<3>::from_data(TensorData::new(one_hot, [batch, steps, self.symbols]), device);
        let (y, states) = self.cells.weighted().forward(x, states, lengths);
        let [_, _, hidden] = y.dims();
        (self.last.forward(y.reshape([batch * steps, hidden])), states)
    }
}

//! Configuration of the three kinds of networks.

use crate::ops::refused;
use candle_core::Result;
use layernorm_rnn::{Config, Direction, Kind, Variant};

/// Configuration of an LSTM, a GRU or an RNN. Can be created from the name of a variant, with defaults for the rest:
/// `lstm(28, 128, "paper", vb)`.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentConfig {
    /// The variant of the cell (docs/RECURRENT.md has the equations). Default: `none`, that of PyTorch and candle-nn
    ///
    /// - LSTM: `paper`, `theano`, `draw`, `fastrnns`, `torchaudio`, `keras`, `haste`, `tflite`, `tflite-cifg`,
    ///   `per-gate`, `none`
    /// - GRU: `paper`, `theano`, `haste`, `dreamer`, `none`, `none-reset-before`
    /// - RNN: `paper`, `keras`, `split`, `none`, each with tanh or relu (`none-relu`)
    pub variant: String,
    /// ε of all norms. Default: that of the variant
    pub eps: Option<f64>,
    /// Number of layers. Default: 1
    pub layers: usize,
    /// Direction of time. Default: forward
    pub direction: Direction,
    /// P: h is projected to this size (LSTM only). Default: no projection
    pub projection: Option<usize>,
    /// Whether sequences are `[B, T, …]`, as in candle-nn, instead of `[T, B, …]`. Default: true
    pub batch_first: bool,
    /// Seed of the initial parameters. Default: a random one
    pub seed: Option<u64>,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        RecurrentConfig {
            variant: "none".to_owned(),
            eps: None,
            layers: 1,
            direction: Direction::Forward,
            projection: None,
            batch_first: true,
            seed: None,
        }
    }
}

impl From<&str> for RecurrentConfig {
    fn from(variant: &str) -> Self {
        RecurrentConfig { variant: variant.to_owned(), ..RecurrentConfig::default() }
    }
}

impl RecurrentConfig {
    /// The core's configuration of this network.
    pub(super) fn network(&self, kind: Kind, input: usize, hidden: usize) -> Result<Config> {
        let variant = Variant::named(kind, &self.variant).map_err(refused)?;
        let variant = self.eps.map_or(variant, |eps| variant.with_eps(eps));
        let config = Config::new(variant, input, hidden).with_layers(self.layers).with_direction(self.direction);
        let config = Config { projection: self.projection, ..config };
        config.check().map_err(refused)?;
        Ok(config)
    }
}

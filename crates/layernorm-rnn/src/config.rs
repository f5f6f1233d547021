//! Sizes of a network, and its noise in training.

use crate::error::Error;
use crate::variant::{Kind, Variant};

/// Direction of time of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first step to the last.
    Forward,
    /// From the last valid step to the first.
    Reverse,
    /// One cell in each direction; their outputs are concatenated.
    Both,
}

/// Random noise in training. The seed is passed to each forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Dropout between layers: each element is set to 0 with this probability, otherwise scaled up.
    pub dropout: f64,
    /// Recurrent ("variational") dropout on h before U: one mask per sequence, the same at all steps.
    pub recurrent_dropout: f64,
    /// DropConnect on U: one mask per forward pass, the same at all steps and for all sequences.
    pub drop_connect: f64,
    /// Zoneout: each element of h keeps its previous value with this probability. At inference, h is the expectation.
    pub zoneout_hidden: f64,
    /// Zoneout of the cell state of an LSTM.
    pub zoneout_cell: f64,
}

/// Configuration of a recurrent network: its cell and its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The cell.
    pub variant: Variant,
    /// I: input size.
    pub input: usize,
    /// H: hidden size.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Direction of time.
    pub direction: Direction,
    /// P: projection size of h (LSTM).
    pub projection: Option<usize>,
    /// Noise in training.
    pub noise: Noise,
}

/// Maximum number of layers.
pub const MAX_LAYERS: usize = 1024;

impl Config {
    /// Creates a configuration with one layer, forward in time, without projection or noise.
    pub fn new(variant: Variant, input: usize, hidden: usize) -> Config {
        Config {
            variant,
            input,
            hidden,
            layers: 1,
            direction: Direction::Forward,
            projection: None,
            noise: Noise::default(),
        }
    }

    /// Sets the number of layers.
    pub fn with_layers(self, layers: usize) -> Config {
        Config { layers, ..self }
    }

    /// Sets the direction of time.
    pub fn with_direction(self, direction: Direction) -> Config {
        Config { direction, ..self }
    }

    /// Sets the projection size of h.
    pub fn with_projection(self, projection: usize) -> Config {
        Config { projection: Some(projection), ..self }
    }

    /// Sets the noise in training.
    pub fn with_noise(self, noise: Noise) -> Config {
        Config { noise, ..self }
    }

    /// Returns D, the number of directions: 2 for [`Direction::Both`], otherwise 1.
    pub fn directions(&self) -> usize {
        if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Returns P, the size of h: the projection size, or H without a projection.
    pub fn output(&self) -> usize {
        self.projection.unwrap_or(self.hidden)
    }

    /// Returns the input size of a layer.
    pub fn layer_input(&self, layer: usize) -> usize {
        if layer == 0 { self.input } else { self.output() * self.directions() }
    }

    /// Returns G·H, the size of all gates together.
    pub fn gate_width(&self) -> usize {
        self.variant.gates().len() * self.hidden
    }

    /// Returns whether there is a cell state c in addition to h.
    pub fn has_cell(&self) -> bool {
        self.variant.kind == Kind::Lstm
    }

    /// Returns whether the direction with this index runs backward in time.
    pub(crate) fn is_reverse(&self, direction: usize) -> bool {
        self.direction == Direction::Reverse || direction == 1
    }

    /// Checks the configuration. Fails if such a network cannot exist.
    pub fn check(&self) -> Result<(), Error> {
        self.variant.check()?;
        let size = |what, found: usize, most: usize, expected| {
            if (1..=most).contains(&found) { Ok(()) } else { Err(Error::Size { what, expected, found }) }
        };
        // Guarantees that the product of any two sizes does not overflow.
        const MOST: usize = 1 << 24;
        size("input", self.input, MOST, "1 to 16777216")?;
        size("hidden", self.hidden, MOST, "1 to 16777216")?;
        size("layers", self.layers, MAX_LAYERS, "1 to 1024")?;
        if let Some(projection) = self.projection {
            size("projection", projection, MOST, "1 to 16777216")?;
            if self.variant.kind != Kind::Lstm {
                return Err(Error::Unsupported { what: "projection: expected an LSTM, found another cell".into() });
            }
        }
        let noise = &self.noise;
        for (what, rate) in [
            ("dropout", noise.dropout),
            ("recurrent dropout", noise.recurrent_dropout),
            ("DropConnect", noise.drop_connect),
            ("zoneout of h", noise.zoneout_hidden),
            ("zoneout of c", noise.zoneout_cell),
        ] {
            if !(0.0..1.0).contains(&rate) {
                return Err(Error::Number { what, expected: "a probability, 0 or more and less than 1", found: rate });
            }
        }
        if noise.zoneout_cell > 0.0 && !self.has_cell() {
            return Err(Error::Unsupported { what: "zoneout of c: expected an LSTM, found a cell without c".into() });
        }
        Ok(())
    }
}

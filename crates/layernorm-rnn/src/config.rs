//! The sizes of a network and what it does in training.

use crate::error::Error;
use crate::variant::{Kind, Variant};

/// In which direction of time a layer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first step to the last.
    Forward,
    /// From the last valid step to the first.
    Reverse,
    /// One cell each way; their outputs stand side by side.
    Both,
}

/// What is random, or left out at random, in training. The seed is given with each forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Dropout on what one layer hands to the next: each number is 0 with this probability, else scaled up.
    pub dropout: f64,
    /// Recurrent ("variational") dropout on h before U: one mask a sequence, the same at all steps.
    pub recurrent_dropout: f64,
    /// DropConnect on U: one mask a forward pass, the same at all steps and for all sequences.
    pub drop_connect: f64,
    /// Each number of h stays as it was at the last step with this probability. Outside training, h is the expectation.
    pub zoneout_hidden: f64,
    /// The same for the cell of an LSTM.
    pub zoneout_cell: f64,
}

/// A recurrent network: its cell and its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The cell.
    pub variant: Variant,
    /// I: numbers of the input at a step.
    pub input: usize,
    /// H: hidden units.
    pub hidden: usize,
    /// How many layers.
    pub layers: usize,
    /// In which direction of time they go.
    pub direction: Direction,
    /// P: h is projected to so many numbers (LSTM).
    pub projection: Option<usize>,
    /// What is random in training.
    pub noise: Noise,
}

/// The most layers.
pub const MAX_LAYERS: usize = 1024;

impl Config {
    /// One layer, forward, without projection or noise.
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

    /// So many layers.
    pub fn with_layers(self, layers: usize) -> Config {
        Config { layers, ..self }
    }

    /// In this direction of time.
    pub fn with_direction(self, direction: Direction) -> Config {
        Config { direction, ..self }
    }

    /// With h projected to so many numbers.
    pub fn with_projection(self, projection: usize) -> Config {
        Config { projection: Some(projection), ..self }
    }

    /// With this noise in training.
    pub fn with_noise(self, noise: Noise) -> Config {
        Config { noise, ..self }
    }

    /// D: 2 if both directions are taken, else 1.
    pub fn directions(&self) -> usize {
        if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// P: numbers of h, those of the projection or else H.
    pub fn output(&self) -> usize {
        self.projection.unwrap_or(self.hidden)
    }

    /// Numbers of a layer's input at a step.
    pub fn layer_input(&self, layer: usize) -> usize {
        if layer == 0 { self.input } else { self.output() * self.directions() }
    }

    /// G·H: numbers of all gates.
    pub fn gate_width(&self) -> usize {
        self.variant.gates().len() * self.hidden
    }

    /// Whether there is a cell state c beside h.
    pub fn has_cell(&self) -> bool {
        self.variant.kind == Kind::Lstm
    }

    /// Whether the direction with this number goes backward in time.
    pub(crate) fn is_reverse(&self, direction: usize) -> bool {
        self.direction == Direction::Reverse || direction == 1
    }

    /// Whether this network can exist.
    pub fn check(&self) -> Result<(), Error> {
        self.variant.check()?;
        let size = |what, found: usize, most: usize, expected| {
            if (1..=most).contains(&found) { Ok(()) } else { Err(Error::Size { what, expected, found }) }
        };
        // So that every product of two sizes fits.
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

//! Specification of a run.

use crate::data::{Part, Text};
use crate::memory;
use crate::models::{CharacterSize, Norm, Start};
use crate::studies::Error;
use crate::training::schedule::{decayed, evaluation_steps};
use layernorm_rnn::Kind;
use serde::{Deserialize, Serialize};

/// Everything that determines the results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The recurrent cell.
    pub cell: Cell,
    /// The norm: none or layer.
    pub norm: Norm,
    /// Hidden units of each layer.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// The initialization; its seed also determines which characters a step reads.
    pub start: Start,
    /// How batches are drawn.
    pub sampling: Sampling,
    /// Number of sequences in a batch.
    pub batch_size: usize,
    /// Initial learning rate of Adam.
    pub learning_rate: f64,
    /// Final learning rate as a fraction of the initial one; the decay is linear. 1 means constant.
    pub final_rate: f64,
    /// Largest norm of the gradient of all parameters together; a longer gradient is scaled down to it.
    pub clip: f64,
    /// Number of training steps.
    pub steps: usize,
    /// Number of evaluations, besides the one at the start.
    pub evaluations: usize,
    /// The text's [`Text::label`].
    pub text: String,
    /// Number of validation characters, from the start of that part.
    pub validation: usize,
    /// Number of test characters, from the start of that part.
    pub test: usize,
    /// Length of the test sequences of which the bits per character are recorded by position; 0 for none.
    pub positions: usize,
    /// Number of characters to generate at the end.
    pub sample: usize,
}

/// A recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// A simple RNN with tanh.
    Rnn,
    /// A GRU.
    Gru,
    /// An LSTM.
    Lstm,
}

impl Cell {
    /// The kind of network.
    pub fn kind(self) -> Kind {
        match self {
            Cell::Rnn => Kind::Rnn,
            Cell::Gru => Kind::Gru,
            Cell::Lstm => Kind::Lstm,
        }
    }

    /// The display name.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Rnn => "RNN",
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
        }
    }
}

/// How batches are drawn: see the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// Contiguous streams.
    Streams {
        /// Number of characters of each stream that a step reads.
        segment: usize,
    },
    /// Pieces at random places.
    Pieces {
        /// Length of the shortest piece.
        shortest: usize,
        /// Length of the longest piece.
        longest: usize,
    },
}

impl Sampling {
    /// The most characters of a sequence in a step.
    pub fn longest(self) -> usize {
        match self {
            Sampling::Streams { segment } => segment,
            Sampling::Pieces { longest, .. } => longest,
        }
    }

    fn mean(self) -> f64 {
        match self {
            Sampling::Streams { segment } => segment as f64,
            Sampling::Pieces { shortest, longest } => (shortest as f64 + longest as f64) / 2.0,
        }
    }
}

/// Maximum number of layers.
const MOST_LAYERS: usize = 1 << 10;
/// Maximum number of characters of a sequence; more would take too long.
const MOST_STEPS: usize = 1 << 14;

impl Spec {
    /// The default: Adam at 2·10⁻³ with 32 streams, segments of 64 characters, gradients clipped at 1, 100 steps, ten
    /// evaluations on 8,000 characters, a test on 16,000, and 400 generated characters.
    pub fn new(cell: Cell, norm: Norm, hidden: usize, seed: u64, text: &str) -> Spec {
        Spec {
            cell,
            norm,
            hidden,
            layers: 1,
            start: Start::new(seed),
            sampling: Sampling::Streams { segment: 64 },
            batch_size: 32,
            learning_rate: 2e-3,
            final_rate: 1.0,
            clip: 1.0,
            steps: 100,
            evaluations: 10,
            text: text.to_owned(),
            validation: 8_000,
            test: 16_000,
            positions: 0,
            sample: 400,
        }
    }

    /// The sizes of the network for a vocabulary.
    pub fn size(&self, symbols: usize) -> CharacterSize {
        CharacterSize { kind: self.cell.kind(), hidden: self.hidden, layers: self.layers, symbols }
    }

    /// Number of steps that read about as many characters as there are in `train` characters of text.
    pub fn steps_of_epoch(&self, train: usize) -> usize {
        match self.sampling {
            Sampling::Streams { segment } => {
                train.saturating_sub(1).checked_div(self.batch_size).and_then(|long| long.checked_div(segment))
            }
            Sampling::Pieces { .. } => Some((train as f64 / (self.batch_size as f64 * self.sampling.mean())) as usize),
        }
        .unwrap_or(0)
    }

    /// The learning rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        decayed([self.learning_rate, self.final_rate], step, self.steps)
    }

    /// The steps of the evaluations in increasing order, including 0 and the last step.
    pub fn evaluation_steps(&self) -> Vec<usize> {
        evaluation_steps(self.steps, self.evaluations)
    }

    /// Estimated memory of a run with a vocabulary of this size, in bytes.
    pub fn memory(&self, symbols: usize) -> f64 {
        memory::of_language(self, symbols)
    }

    /// Checks that there is enough memory for a run.
    ///
    /// # Errors
    /// [`Error::Run`], with the required and the available memory.
    pub fn check_memory(&self, symbols: usize) -> Result<(), Error> {
        memory::check(self.memory(symbols), "the run").map_err(Error::Run)
    }

    /// Checks the spec against the text; [`super::run`] does the same first.
    pub fn check(&self, text: &Text) -> Result<(), Error> {
        self.check_network().map_err(Error::Run)?;
        let refuse = |what: String| Err(Error::Run(what));
        if self.text != text.label() {
            return refuse(format!("text: expected {}, found {}", self.text, text.label()));
        }
        for (what, value) in [("learning rate", self.learning_rate), ("clip", self.clip)] {
            if !(value.is_finite() && value > 0.0) {
                return refuse(format!("{what}: expected a number above 0, found {value}"));
            }
        }
        if !(0.0..=1.0).contains(&self.final_rate) {
            return refuse(format!("final rate: expected a fraction from 0 to 1, found {}", self.final_rate));
        }
        if let Sampling::Pieces { shortest, longest } = self.sampling
            && !(1..=longest).contains(&shortest)
        {
            return refuse(format!("shortest piece: expected 1 to {longest} characters, found {shortest}"));
        }
        for (what, characters) in [("segment", self.sampling.longest()), ("positions", self.positions.max(1))] {
            if !(1..=MOST_STEPS).contains(&characters) {
                return refuse(format!("{what}: expected 1 to {MOST_STEPS} characters, found {characters}"));
            }
        }
        // A stream needs one character more than a segment, to predict the last one.
        let train = text.part(Part::Train).len();
        let most = train / (self.sampling.longest() + 1);
        if !(1..=most).contains(&self.batch_size) {
            let found = self.batch_size;
            return refuse(format!("batch size: expected 1 to {most} for {train} characters, found {found}"));
        }
        for (what, part, count) in
            [("validation", Part::Validation, self.validation), ("test", Part::Test, self.test.max(2 * self.positions))]
        {
            let there = text.part(part).len();
            if !(2..=there).contains(&count) {
                return refuse(format!("{what} characters: expected 2 to {there}, found {count}"));
            }
        }
        Ok(())
    }

    /// Checks what determines the network.
    pub(super) fn check_network(&self) -> Result<(), String> {
        if !matches!(self.norm, Norm::None | Norm::Layer) {
            return Err(format!("norm: expected none or layer for a language model, found {}", self.norm));
        }
        if self.hidden == 0 {
            return Err("hidden units: expected 1 or more, found 0".to_owned());
        }
        if !(1..=MOST_LAYERS).contains(&self.layers) {
            return Err(format!("layers: expected 1 to {MOST_LAYERS}, found {}", self.layers));
        }
        self.start.check()
    }
}

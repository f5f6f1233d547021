//! What all cells of a call share: the settings, and the shape of the sequences.

use super::{Keep, Training};
use crate::config::Config;
use crate::error::Error;
use crate::network::{Layout, Network, Sequences};
use crate::noise::{NoiseStream, Purpose};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::time_loop::CellId;
use crate::time_loop::cell_params::ParamSource;
use crate::time_loop::tape::{Tape, TapeRows};
use crate::time_loop::team::TeamPlan;
use layernorm::parts::MachineIsa;

/// Shape of a tensor of sequences: `[T, B, …]` or `[B, T, …]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SequenceShape {
    pub(super) layout: Layout,
    pub(super) steps: usize,
    pub(super) batch: usize,
}

impl SequenceShape {
    fn of<T>(sequences: &Sequences<'_, T>) -> Self {
        SequenceShape { layout: sequences.layout, steps: sequences.steps, batch: sequences.batch }
    }

    /// Returns the index of a time and sequence.
    pub(super) fn index(&self, t: usize, b: usize) -> usize {
        match self.layout {
            Layout::TimeFirst => t * self.batch + b,
            Layout::BatchFirst => b * self.steps + t,
        }
    }

    /// Fails if a tensor has the wrong length. `letters` names its last dimension.
    pub(super) fn check(&self, what: &'static str, letters: &str, width: usize, found: usize) -> Result<(), Error> {
        let SequenceShape { layout, steps, batch } = *self;
        let expected = steps.checked_mul(batch).and_then(|n| n.checked_mul(width));
        if expected == Some(found) {
            return Ok(());
        }
        let shape = match layout {
            Layout::TimeFirst => format!("[T, B, {letters}] = [{steps}, {batch}, {width}]"),
            Layout::BatchFirst => format!("[B, T, {letters}] = [{batch}, {steps}, {width}]"),
        };
        Err(Error::Length { what, shape, expected: expected.unwrap_or(usize::MAX), found })
    }
}

/// Sequences whose tensor has the length that their shape and the network need.
#[derive(Clone, Copy)]
pub(super) struct CheckedSequences<'a, T> {
    pub(super) sequences: &'a Sequences<'a, T>,
    pub(super) shape: SequenceShape,
}

impl<'a, T> CheckedSequences<'a, T> {
    /// Fails if the tensor has the wrong length.
    pub(super) fn new(config: &Config, sequences: &'a Sequences<'a, T>) -> Result<Self, Error> {
        let shape = SequenceShape::of(sequences);
        shape.check("input", "I", config.input, sequences.data.len())?;
        Ok(CheckedSequences { sequences, shape })
    }
}

/// What all cells of a call share.
#[derive(Clone, Copy)]
pub(super) struct CallSettings<'a, A> {
    pub(super) config: &'a Config,
    pub(super) network: &'a Network<A>,
    pub(super) isa: MachineIsa,
    pub(super) threads: usize,
    pub(super) training: Option<Training>,
}

impl<'a, A: Real> CallSettings<'a, A> {
    /// Returns all cells of the network.
    pub(super) fn cells(&self) -> impl DoubleEndedIterator<Item = CellId> + use<A> {
        let directions = self.config.directions();
        (0..self.config.layers * directions)
            .map(move |number| CellId { layer: number / directions, direction: number % directions })
    }

    /// Returns the number of a cell.
    pub(super) fn number(&self, cell: CellId) -> usize {
        cell.layer * self.config.directions() + cell.direction
    }

    pub(super) fn params(&self, cell: CellId) -> ParamSource<'a, A> {
        let noisy = self.training.filter(|_| self.config.noise.drop_connect > 0.0);
        ParamSource {
            config: self.config,
            params: self.network.params(),
            cell,
            isa: self.isa,
            threads: self.threads,
            seed: noisy.map(|training| training.seed),
        }
    }

    pub(super) fn team(&self, schedule: &Schedule, layer: usize) -> TeamPlan {
        let config = self.config;
        TeamPlan::new(self.threads, schedule, config.layer_input(layer), config.output(), config.gate_width())
    }

    pub(super) fn keep(&self) -> Option<Keep> {
        self.training.map(|training| training.keep)
    }

    /// Returns the number of rows of a tape.
    pub(super) fn tape_rows(&self, schedule: &Schedule) -> TapeRows {
        let (all, segment) = (schedule.rows(), schedule.segment_rows());
        match self.keep() {
            None => TapeRows { inputs: segment, products: segment, steps: schedule.batch },
            Some(Keep::All) => TapeRows { inputs: all, products: all, steps: all },
            Some(Keep::Recompute) => TapeRows { inputs: all, products: segment, steps: segment },
        }
    }

    /// Returns whether there is recurrent dropout.
    pub(super) fn masked(&self) -> bool {
        self.training.is_some() && self.config.noise.recurrent_dropout > 0.0
    }

    /// Returns the bytes of a cell's tape.
    pub(super) fn tape_need(&self, schedule: &Schedule, layer: usize) -> usize {
        Tape::<A>::need(self.config, layer, self.tape_rows(schedule), self.masked())
    }

    /// Returns the dropout on the input of an inner layer, if any.
    pub(super) fn dropout(&self, layer: usize) -> Option<Dropout> {
        let rate = self.config.noise.dropout;
        let training = self.training.filter(|_| layer > 0 && rate > 0.0)?;
        Some(Dropout { stream: NoiseStream::new(training.seed, Purpose::Dropout, layer, 0), rate })
    }
}

/// Dropout on the input of a layer.
#[derive(Clone, Copy)]
pub(super) struct Dropout {
    stream: NoiseStream,
    rate: f64,
}

impl Dropout {
    /// Multiplies a row by the mask, whose numbers are indexed from `first` on.
    ///
    /// # Safety
    /// `row` is valid for `width` numbers.
    pub(super) unsafe fn apply<A: Real>(&self, first: usize, row: *mut A, width: usize) {
        let scale = A::from_f64(1.0 / (1.0 - self.rate));
        for k in 0..width {
            let hit = self.stream.hits(first + k, self.rate);
            // SAFETY: guaranteed by the caller.
            unsafe { *row.add(k) = if hit { A::ZERO } else { *row.add(k) * scale } };
        }
    }
}

//! The shapes of sequences, lengths and states, checked against the network.

use crate::apply::files::{Input, Number};
use crate::apply::results::{MAX_WITHOUT_ELEMENTS, room};
use crate::failure::Failure;
use layernorm::Float;
use layernorm_npy::{DType, Scalar};
use layernorm_rnn::{Config, Sequences};

/// The number of steps and sequences, and their memory layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    steps: usize,
    batch: usize,
    batch_first: bool,
    /// x is `[T, I]`: a single sequence, so results have no batch dimension either.
    single: bool,
}

impl Shape {
    /// The shape of an input; fails if it does not fit the network.
    pub(super) fn of(x: &Input, config: &Config, batch_first: bool) -> Result<Self, Failure> {
        let shape = match *x.shape() {
            [steps, input] if input == config.input => Shape { steps, batch: 1, batch_first, single: true },
            [batch, steps, input] if input == config.input && batch_first => {
                Shape { steps, batch, batch_first, single: false }
            }
            [steps, batch, input] if input == config.input => Shape { steps, batch, batch_first, single: false },
            ref found => {
                let (order, input) = (if batch_first { "B, T" } else { "T, B" }, config.input);
                let expected =
                    format!("shape [{order}, {input}] or [T, {input}], because the weights have input size {input}");
                return Err(x.wrong(&expected, &format_args!("{found:?}")));
            }
        };
        let most = shape.steps.max(shape.batch);
        if shape.steps.min(shape.batch) == 0 && most > MAX_WITHOUT_ELEMENTS {
            let expected = format!("at most {MAX_WITHOUT_ELEMENTS} steps or sequences in an empty tensor");
            return Err(x.wrong(&expected, &format_args!("shape {:?}", x.shape())));
        }
        Ok(shape)
    }

    /// The sequences of this shape.
    pub(super) fn sequences<'a, T>(&self, data: &'a [T], lengths: Option<&'a [usize]>) -> Sequences<'a, T> {
        let sequences = Sequences { lengths, ..Sequences::new(data, self.steps, self.batch) };
        if self.batch_first { sequences.batch_first() } else { sequences }
    }

    /// The shape of y.
    pub(super) fn output(&self, config: &Config) -> Vec<usize> {
        let width = config.output() * config.directions();
        match (self.single, self.batch_first) {
            (true, _) => vec![self.steps, width],
            (false, true) => vec![self.batch, self.steps, width],
            (false, false) => vec![self.steps, self.batch, width],
        }
    }

    /// The shape of a state.
    pub(super) fn state(&self, config: &Config, width: usize) -> Vec<usize> {
        let cells = config.layers * config.directions();
        if self.single { vec![cells, width] } else { vec![cells, self.batch, width] }
    }

    /// Zeros for a state of this shape.
    pub(super) fn zero_state<T: Number>(&self, config: &Config, width: usize) -> Result<Vec<T::Acc>, Failure> {
        let count = self.state(config, width).iter().fold(1, |count: usize, &dim| count.saturating_mul(dim));
        let mut zeros = room(count)?;
        zeros.resize(count, T::Acc::ZERO);
        Ok(zeros)
    }

    /// Reads a state from a file, in the arithmetic type.
    pub(super) fn read_state<T: Number>(
        &self,
        file: &Input,
        config: &Config,
        width: usize,
    ) -> Result<Vec<T::Acc>, Failure> {
        let expected = self.state(config, width);
        let with_batch = [config.layers * config.directions(), self.batch, width];
        if file.shape() != expected && file.shape() != with_batch {
            return Err(file.wrong(&format!("shape {expected:?}"), &format_args!("{:?}", file.shape())));
        }
        match file.dtype() {
            found if found == T::DTYPE => {
                let values = file.contiguous::<T>()?;
                let mut wide = room(values.len())?;
                wide.extend(values.into_iter().map(|value| value.widen()));
                Ok(wide)
            }
            found if found == <T::Acc as Scalar>::DTYPE => file.contiguous::<T::Acc>(),
            found => {
                let (own, wide) = (T::DTYPE, <T::Acc as Scalar>::DTYPE);
                let or = if own == wide { String::new() } else { format!(" or {wide}") };
                Err(file.wrong_type(&format!("{own}{or} for this input"), found))
            }
        }
    }

    /// Reads the lengths from a file and checks that each is 1 to T.
    pub(super) fn lengths(&self, file: &Input) -> Result<Vec<usize>, Failure> {
        if file.shape() != [self.batch] {
            let expected = format!("shape [{}], one per sequence", self.batch);
            return Err(file.wrong(&expected, &format_args!("{:?}", file.shape())));
        }
        let lengths: Vec<i64> = match file.dtype() {
            DType::I32 => file.contiguous::<i32>()?.into_iter().map(i64::from).collect(),
            DType::I64 => file.contiguous::<i64>()?,
            DType::U8 => file.contiguous::<u8>()?.into_iter().map(i64::from).collect(),
            found => return Err(file.wrong_type("int32, int64 or uint8", found)),
        };
        let check = |(sequence, length): (usize, i64)| match usize::try_from(length) {
            Ok(length) if (1..=self.steps).contains(&length) => Ok(length),
            _ => {
                let expected = format!("1 to {} valid steps", self.steps);
                Err(file.wrong(&expected, &format_args!("{length} for sequence {sequence}")))
            }
        };
        lengths.into_iter().enumerate().map(check).collect()
    }
}

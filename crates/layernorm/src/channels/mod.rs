//! Tensors with channels, `[N, C, …]`. Group, instance and batch norm view them in three ways.
//!
//! - *positions*: one row per position (sample, then place in it), one column per channel;
//! - *segments*: one row per sample and channel;
//! - *groups*: one row per sample and group of channels.
//!
//! γ and β have one element per channel. The sums of a channel run down its positions by rule 5, whatever the memory
//! layout.

mod columns;
mod map;

pub(crate) use columns::{ColumnPlan, PerSample};
pub(crate) use map::{MapPlan, MapTensors};

use crate::error::Error;
use crate::operand::Operand;
use crate::view::{Layout, MAX_RANK, element_count};

/// Sizes of a tensor with channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelShape {
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    /// Positions per sample.
    pub(crate) space: usize,
}

impl ChannelShape {
    pub(crate) fn new(shape: &[usize]) -> Result<Self, Error> {
        match *shape {
            [samples, channels, ref space @ ..] => {
                let space = element_count(space)?;
                samples.checked_mul(space).ok_or_else(|| Error::TooLarge { shape: shape.to_vec() })?;
                Ok(ChannelShape { samples, channels, space })
            }
            _ => Err(Error::TooFewDimensions { what: "input", min: 2, found: shape.len() }),
        }
    }

    /// Returns the number of values of a channel.
    pub(crate) fn positions(&self) -> usize {
        self.samples * self.space
    }
}

/// Returns the dimensions of a layout as (size, stride).
fn dims(layout: &Layout) -> [(usize, isize); MAX_RANK] {
    let mut dims = [(1, 0); MAX_RANK];
    for (dim, (&size, &stride)) in dims.iter_mut().zip(layout.shape().iter().zip(layout.strides())) {
        *dim = (size, stride);
    }
    dims
}

/// Views a tensor as one row per position and one column per channel.
pub(crate) fn positions<P: Copy>(base: P, layout: &Layout) -> Operand<P> {
    let mut dims = dims(layout);
    // Move the channels to the end: N, space, C.
    dims[1..].rotate_left(1);
    Operand::from_dims(base, &dims[..MAX_RANK - 1], &dims[MAX_RANK - 1..])
}

/// Views a tensor as one row per sample and channel.
pub(crate) fn segments<P: Copy>(base: P, layout: &Layout) -> Operand<P> {
    let dims = dims(layout);
    Operand::from_dims(base, &dims[..2], &dims[2..])
}

/// Views a tensor as one row per sample and group.
pub(crate) fn groups<P: Copy>(base: P, layout: &Layout, groups: usize) -> Operand<P> {
    let dims = dims(layout);
    let (channels, stride) = dims[1];
    let size = channels / groups.max(1);
    let mut inner = [(1, 0); MAX_RANK];
    inner[0] = (size, stride);
    inner[1..MAX_RANK - 1].copy_from_slice(&dims[2..]);
    Operand::from_dims(base, &[dims[0], (groups, stride * size as isize)], &inner)
}

//! Tensors of channels, `[N, C, …]`: group, instance and batch norm see them in three ways.
//!
//! - *positions*: one row a place (sample and position in it, in this order), one column a channel;
//! - *segments*: one row a sample and channel;
//! - *groups*: one row a sample and group of channels.
//!
//! γ and β have one element a channel. Sums for a channel go down its positions by rule 5, whatever the memory layout.

mod columns;
mod map;

pub(crate) use columns::{ColumnJob, PerSample};
pub(crate) use map::MapJob;

use crate::error::Error;
use crate::plan::Operand;
use crate::view::{Layout, MAX_RANK, element_count};

/// Sizes of a tensor of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelShape {
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    /// Positions of a sample.
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

    /// Values of a channel.
    pub(crate) fn positions(&self) -> usize {
        self.samples * self.space
    }
}

/// The dimensions of a layout as (size, stride).
fn dims(layout: &Layout) -> [(usize, isize); MAX_RANK] {
    let mut dims = [(1, 0); MAX_RANK];
    for (dim, (&size, &stride)) in dims.iter_mut().zip(layout.shape().iter().zip(layout.strides())) {
        *dim = (size, stride);
    }
    dims
}

/// One row a place, one column a channel.
pub(crate) fn positions<P: Copy>(base: P, layout: &Layout) -> Operand<P> {
    let mut dims = dims(layout);
    // Bring the channels to the end: N, space, C.
    dims[1..].rotate_left(1);
    Operand::from_dims(base, &dims[..MAX_RANK - 1], &dims[MAX_RANK - 1..])
}

/// One row a sample and channel.
pub(crate) fn segments<P: Copy>(base: P, layout: &Layout) -> Operand<P> {
    let dims = dims(layout);
    Operand::from_dims(base, &dims[..2], &dims[2..])
}

/// One row a sample and group.
pub(crate) fn groups<P: Copy>(base: P, layout: &Layout, groups: usize) -> Operand<P> {
    let dims = dims(layout);
    let (channels, stride) = dims[1];
    let size = channels / groups.max(1);
    let mut inner = [(1, 0); MAX_RANK];
    inner[0] = (size, stride);
    inner[1..MAX_RANK - 1].copy_from_slice(&dims[2..]);
    Operand::from_dims(base, &[dims[0], (groups, stride * size as isize)], &inner)
}

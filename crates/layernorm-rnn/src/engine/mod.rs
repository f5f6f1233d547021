//! The engine: runs one cell over its sequences, forward and backward. It checks nothing: the runner has checked
//! shapes, lengths and settings.

pub(crate) mod backward;
mod cells;
mod cells_back;
pub(crate) mod forward;
pub(crate) mod gradients;
pub(crate) mod norms;
pub(crate) mod prepared;
mod product;
pub(crate) mod tape;
pub(crate) mod team;
pub(crate) mod tune;

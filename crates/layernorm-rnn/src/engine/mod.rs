//! The engine: one cell over its sequences, forward and back. Everything here trusts its caller: shapes, lengths and
//! settings were checked by the runner.

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

//! Slow and precise references to check results against, and layer norm as textbooks compute it, to compare with.
//!
//! Nothing here calls the kernels that are checked. The crate `layernorm-reference`, which is not published, offers these
//! files, except [`compiled`], to the tests of the crates that the laboratory depends on.

pub mod cell;
pub mod compiled;
pub mod norm;
pub mod textbook;
pub mod units;
pub mod wide;

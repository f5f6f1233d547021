//! Slow and precise references for the tests of all crates: numbers of 106 bits, norms, errors in units in the last place,
//! textbook norms and recurrent cells.
//!
//! This crate is not published, so only tests can depend on it. The laboratory and the command need the same code and are
//! published: the files are part of the laboratory's package, and this crate compiles them without the laboratory and Burn.
#![forbid(unsafe_code)]

#[cfg(feature = "recurrent")]
#[path = "../../layernorm-lab/src/reference/cell.rs"]
pub mod cell;
#[path = "../../layernorm-lab/src/reference/norm.rs"]
pub mod norm;
#[path = "../../layernorm-lab/src/reference/textbook.rs"]
pub mod textbook;
#[path = "../../layernorm-lab/src/reference/units.rs"]
pub mod units;
#[path = "../../layernorm-lab/src/reference/wide.rs"]
pub mod wide;

//! What the tests against other libraries' results share. `golden/README.md` says where the files come from.
//!
//! Every tolerance is derived, element by element: `analysis` does the operation once more on numbers that carry a bound of
//! their own rounding error (`number`), once with the roundings of this library and once with those of the other.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub mod analysis;
pub mod check;
pub mod file;
pub mod number;

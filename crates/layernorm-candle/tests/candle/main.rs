//! A single test program, because linking takes most of the time.

mod common;
mod differences;
mod errors;
mod modules;
mod norms;
mod recurrent;
mod training;

//! One program, because linking is what takes the time.

mod common;
mod differences;
mod errors;
mod modules;
mod norms;
mod recurrent;
mod training;

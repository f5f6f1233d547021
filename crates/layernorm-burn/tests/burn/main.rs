//! A single test program, because linking Burn takes most of the time.

mod common;
mod fallback;
mod modules;
mod norms;
mod recurrent;
mod threads;
mod training;

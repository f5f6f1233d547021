//! One program, because linking Burn is what takes the time.

mod common;
mod fallback;
mod modules;
mod norms;
mod recurrent;
mod threads;
mod training;

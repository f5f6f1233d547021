#![doc = include_str!("../README.md")]
#![cfg_attr(not(target_arch = "wasm32"), forbid(unsafe_code))]
#![cfg_attr(target_arch = "wasm32", deny(unsafe_code))]

mod arrays;
#[cfg(not(target_arch = "wasm32"))]
mod assets;
mod cases;
mod cells;
mod engine;
mod error;
#[cfg(target_arch = "wasm32")]
mod exports;
mod formula;
pub mod message;
mod norms;
mod options;
mod trainer;

#[cfg(not(target_arch = "wasm32"))]
pub use assets::{MODULE, SCRIPT};
pub use cases::{Cases, checksum};
pub use engine::{Engine, hexadecimal};
pub use error::Error;

//! What a page needs, for programs that write pages.

/// The WebAssembly module that `tools/web` built from this crate.
pub const MODULE: &[u8] = include_bytes!("../assets/layernorm.wasm");

/// The class `Engine`, JavaScript without imports.
pub const SCRIPT: &str = include_str!("../js/engine.js");

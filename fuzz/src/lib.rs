//! Properties that must hold for any bytes in place of a file, for each format that the project reads. The fuzz
//! targets and `mutate` call the same functions.

pub mod formats;
pub mod memory;
pub mod mutation;
mod scratch;
pub mod seeds;

// Parsers from crates that depend on Burn, which takes far too long to build with a sanitizer: include only their
// source files, which do not need it. Only the code that reads files is called, and the files are formatted in their
// own crates.
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-lab/src/training/container.rs"]
mod container;
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-lab/src/data/error.rs"]
mod error;
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-lab/src/data/idx.rs"]
mod idx;
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-cli/src/predict/picture.rs"]
mod picture;
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-lab/src/records/mod.rs"]
mod records;
#[allow(dead_code, unused_imports, reason = "what writes these files is not called here")]
#[rustfmt::skip]
#[path = "../../crates/layernorm-lab/src/training/tensors.rs"]
mod tensors;

pub use formats::Format;

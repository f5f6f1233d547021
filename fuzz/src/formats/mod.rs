//! One module per format. Its `check` accepts any bytes, panics if a property is violated, and returns whether the
//! bytes were accepted.

pub mod idx;
pub mod model;
pub mod npy;
pub mod png;
pub mod records;
pub mod weights;

/// A file format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name of its fuzz target and of its folder in `seeds`.
    pub name: &'static str,
    /// Checks the properties. Returns whether the file was accepted.
    pub check: fn(&[u8]) -> bool,
}

/// All formats.
pub const ALL: [Format; 6] = [
    Format { name: "idx", check: idx::check },
    Format { name: "model", check: model::check },
    Format { name: "npy", check: npy::check },
    Format { name: "png", check: png::check },
    Format { name: "records", check: records::check },
    Format { name: "weights", check: weights::check },
];

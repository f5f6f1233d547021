//! One module for each format. Its `check` panics where something does not hold, and says whether the bytes were accepted;
//! any bytes may come.

pub mod idx;
pub mod model;
pub mod npy;
pub mod png;
pub mod records;
pub mod weights;

/// A format of files.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name of its fuzz target and of its folder in `seeds`.
    pub name: &'static str,
    /// What must hold; whether the file is accepted.
    pub check: fn(&[u8]) -> bool,
}

/// All of them.
pub const ALL: [Format; 6] = [
    Format { name: "idx", check: idx::check },
    Format { name: "model", check: model::check },
    Format { name: "npy", check: npy::check },
    Format { name: "png", check: png::check },
    Format { name: "records", check: records::check },
    Format { name: "weights", check: weights::check },
];

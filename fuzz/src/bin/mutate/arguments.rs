//! The command line.

use layernorm_fuzz::Format;
use layernorm_fuzz::formats::ALL;
use std::ops::Range;
use std::path::PathBuf;

/// Parsed command line.
pub struct Arguments {
    pub count: u64,
    pub first: u64,
    pub format: Option<String>,
    pub seeds: PathBuf,
    pub save: Option<PathBuf>,
    pub check: Option<PathBuf>,
    /// In a child: the file that holds the current input.
    pub child: Option<PathBuf>,
}

impl Arguments {
    pub fn parse() -> Result<Arguments, String> {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut found = Arguments {
            count: 1000,
            first: 0,
            format: None,
            seeds: here.join("seeds"),
            save: None,
            check: None,
            child: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option}: expected a value, found none"))?;
            let number = || value.parse().map_err(|_| format!("{option}: expected a number, found {value:?}"));
            match &*option {
                "--count" => found.count = number()?,
                "--first" => found.first = number()?,
                "--format" => found.format = Some(value),
                "--seeds" => found.seeds = value.into(),
                "--check" => found.check = Some(value.into()),
                "--save" => found.save = Some(value.into()),
                "--child" => found.child = Some(value.into()),
                _ => return Err(format!("expected an option described in main.rs, found {option:?}")),
            }
        }
        let unknown = |name: &&String| ALL.iter().all(|format| format.name != **name);
        match found.format.as_ref().filter(unknown) {
            Some(name) => {
                Err(format!("--format: expected {}, found {name:?}", ALL.map(|format| format.name).join(", ")))
            }
            None => Ok(found),
        }
    }

    pub fn formats(&self) -> impl Iterator<Item = Format> {
        let wanted = self.format.clone();
        ALL.into_iter().filter(move |format| wanted.as_ref().is_none_or(|wanted| wanted == format.name))
    }

    pub fn numbers(&self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

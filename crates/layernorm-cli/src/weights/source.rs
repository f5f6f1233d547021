//! A file of weights: reads it once, detects its format and finds the network it contains.

use crate::failure::Failure;
use crate::recurrent::Cell;
use layernorm::Float;
use layernorm_files::shown;
use layernorm_rnn::weights::{self, Format, Rounding};
use layernorm_rnn::{Config, Direction, Error, Network, Variant};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype as Stored, TensorView};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file in memory, and where it came from, for error messages.
#[derive(Debug)]
pub struct Source {
    option: &'static str,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What the command line specifies about a file; the rest is detected.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// The kind of cell.
    pub cell: Option<Cell>,
    /// The variant's name.
    pub variant: Option<&'a str>,
    /// The format of the file.
    pub format: Option<Format>,
    /// The prefix of the tensor names.
    pub prefix: &'a str,
    /// An ε that replaces the variant's.
    pub eps: Option<f64>,
    /// Whether the network runs from the last step to the first.
    pub reverse: bool,
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its safetensors type.
    pub dtype: Stored,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl Source {
    /// Reads the file of an option.
    pub fn read(option: &'static str, path: &Path) -> Result<Self, Failure> {
        let bytes = layernorm_files::read(path)
            .map_err(|error| Failure::bad_input(format!("{option}: {}: cannot read: {error}", shown(path))))?;
        Ok(Source { option, path: path.to_path_buf(), bytes })
    }

    fn bad(&self, what: impl std::fmt::Display) -> Failure {
        Failure::bad_input(format!("{}: {}: {what}", self.option, shown(&self.path)))
    }

    /// An error that names the file.
    fn refused(&self, error: Error) -> Failure {
        match error {
            Error::Weights { what } => self.bad(what),
            other => self.bad(other),
        }
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> Result<Vec<Listed>, Failure> {
        let parsed = SafeTensors::deserialize(&self.bytes).map_err(|error| {
            self.bad(format_args!("expected a safetensors file, found a damaged file or another format: {error}"))
        })?;
        let listed = |(name, view): (&str, TensorView)| Listed {
            name: name.to_owned(),
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
        };
        let mut tensors: Vec<_> = parsed.iter().map(listed).collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tensors)
    }

    /// The given format, or else the one detected from the tensor names.
    pub fn format(&self, given: Option<Format>) -> Result<Format, Failure> {
        self.tensors()?;
        match given.or_else(|| weights::detect(&self.bytes)) {
            Some(format) => Ok(format),
            None => {
                let known = Format::ALL.map(Format::name).join(", ");
                Err(self
                    .bad(format_args!("expected tensor names of a known format ({known}), found others; use --format")))
            }
        }
    }

    /// The format and the network: from the file's own description or, for another library's file, from the tensors.
    pub fn find(&self, wanted: &Wanted) -> Result<(Format, Config), Failure> {
        let format = self.format(wanted.format)?;
        let config = match (wanted.cell, wanted.variant) {
            _ if format == Format::Native && self.describes_itself() => self.described(wanted)?,
            (Some(cell), Some(variant)) => {
                let variant = cell.variant(variant)?;
                weights::config_of(&self.bytes, format, variant, wanted.prefix).map_err(|error| self.refused(error))?
            }
            _ => self.only_fit(format, wanted)?,
        };
        Ok((format, self.changed(config, wanted)?))
    }

    /// Loads the numbers of the network.
    pub fn load<A: Float>(&self, format: Format, config: &Config, prefix: &str) -> Result<Network<A>, Failure> {
        weights::load(&self.bytes, format, config, prefix).map_err(|error| self.refused(error))
    }

    /// The rounding that loading this network caused.
    pub fn rounding<A: Float>(
        &self,
        network: &Network<A>,
        format: Format,
        prefix: &str,
    ) -> Result<Option<Rounding>, Failure> {
        weights::load_rounding(network, &self.bytes, format, prefix).map_err(|error| self.refused(error))
    }

    /// Whether the file has a description, valid or not.
    fn describes_itself(&self) -> bool {
        let metadata = SafeTensors::read_metadata(&self.bytes);
        metadata.is_ok_and(|(_, metadata)| {
            metadata.metadata().as_ref().is_some_and(|map| map.contains_key("layernorm-rnn"))
        })
    }

    /// The network that a native file describes; fails if a different one was requested.
    fn described(&self, wanted: &Wanted) -> Result<Config, Failure> {
        let config = weights::native_config(&self.bytes).map_err(|error| self.refused(error))?;
        let found = Cell::of(config.variant.kind);
        if let Some(cell) = wanted.cell.filter(|cell| *cell != found) {
            return Err(self.bad(format_args!("expected weights of {cell}, found those of {found}")));
        }
        match wanted.variant {
            Some(name) if name != config.variant.name => {
                let found = config.variant.name;
                Err(Failure::bad_input(format!(
                    "--variant: expected {found:?}, the variant of {}, or no --variant, found {name:?}",
                    shown(&self.path)
                )))
            }
            _ => Ok(config),
        }
    }

    /// Applies ε and the direction, which other libraries' files do not store.
    fn changed(&self, config: Config, wanted: &Wanted) -> Result<Config, Failure> {
        let mut config = config;
        if let Some(eps) = wanted.eps {
            if config.variant.norms().next().is_none() {
                let name = config.variant.name;
                return Err(Failure::bad_input(format!("--eps: expected a variant with norms, found {name}")));
            }
            config.variant = config.variant.with_eps(eps);
            config.variant.check()?;
        }
        match config.direction {
            Direction::Both if wanted.reverse => {
                Err(Failure::bad_input("--reverse: expected weights of one direction, found both"))
            }
            _ if wanted.reverse => Ok(config.with_direction(Direction::Reverse)),
            _ => Ok(config),
        }
    }

    /// The only network that fits the tensors.
    fn only_fit(&self, format: Format, wanted: &Wanted) -> Result<Config, Failure> {
        let fits = self.fits(format, wanted)?;
        match &fits[..] {
            [config] => Ok(*config),
            [] => Err(self.no_fit(format, wanted)),
            _ => {
                let names: Vec<_> = fits
                    .iter()
                    .map(|config| format!("{} {}", config.variant.kind.name(), config.variant.name))
                    .collect();
                Err(self.bad(format_args!(
                    "expected tensors that fit one network, found several ({}); choose one with the cell and --variant",
                    names.join(", ")
                )))
            }
        }
    }

    /// The error if nothing fits: it says why the most likely variant of each cell does not.
    fn no_fit(&self, format: Format, wanted: &Wanted) -> Failure {
        let likely = |cell: Cell| {
            let names = [wanted.variant.unwrap_or(format.name()), "none", "paper"];
            let variant = names.into_iter().find_map(|name| Variant::named(cell.kind(), name).ok())?;
            let config = weights::config_of(&self.bytes, format, variant, wanted.prefix);
            let why =
                config.and_then(|config| weights::load::<f32>(&self.bytes, format, &config, wanted.prefix)).err()?;
            Some(format!("{cell} {}: {why}", variant.name))
        };
        let reasons: Vec<_> = wanted.cells().filter_map(likely).collect();
        self.bad(format_args!("expected tensors that fit a variant, found none that do: {}", reasons.join("; ")))
    }

    /// All networks that fit the names and shapes of the tensors.
    pub fn fits(&self, format: Format, wanted: &Wanted) -> Result<Vec<Config>, Failure> {
        wanted.check()?;
        if format == Format::Native && self.describes_itself() {
            return Ok(vec![self.described(wanted)?]);
        }
        let shapes: BTreeMap<_, _> = self.tensors()?.into_iter().map(|tensor| (tensor.name, tensor.shape)).collect();
        let fit = |variant: &&'static Variant| {
            let config = weights::config_of_shapes(&shapes, format, **variant, wanted.prefix).ok()?;
            let named = wanted.variant.is_none_or(|name| name == variant.name);
            // A file that lacks some tensors may fit another variant, which is listed under its own name.
            let same = config.variant.coupled == variant.coupled;
            let fits = named && same && weights::check_shapes(&shapes, format, &config, wanted.prefix).is_ok();
            fits.then_some(config)
        };
        let variants = wanted.cells().flat_map(|cell| Variant::all(cell.kind()));
        let mut fits: Vec<Config> = variants.filter_map(|variant| fit(&variant)).collect();
        // Networks that differ only in ε count as one, with the format's own ε.
        let plain =
            |config: &Config| Config { variant: Variant { name: "", ..config.variant.with_eps(0.0) }, ..*config };
        let own: Vec<_> = fits.iter().filter(|config| config.variant.name == format.name()).map(plain).collect();
        fits.retain(|config| config.variant.name == format.name() || !own.contains(&plain(config)));
        Ok(fits)
    }

    /// The widest type among its tensors.
    pub fn widest(&self) -> Result<weights::Dtype, Failure> {
        let tensors = self.tensors()?;
        let has = |dtype| tensors.iter().any(|tensor| tensor.dtype == dtype);
        Ok(match () {
            () if has(Stored::F64) => weights::Dtype::F64,
            () if has(Stored::F32) || has(Stored::F16) && has(Stored::BF16) => weights::Dtype::F32,
            () if has(Stored::F16) => weights::Dtype::F16,
            () => weights::Dtype::BF16,
        })
    }
}

impl Wanted<'_> {
    fn cells(&self) -> impl Iterator<Item = Cell> {
        let wanted = self.cell;
        Cell::ALL.into_iter().filter(move |cell| wanted.is_none_or(|wanted| wanted == *cell))
    }

    /// Rejects a variant name that no cell has and lists the valid names.
    fn check(&self) -> Result<(), Failure> {
        let Some(name) = self.variant else { return Ok(()) };
        let unknown: Vec<_> = self.cells().map(|cell| cell.variant(name)).collect();
        match (unknown.iter().any(Result::is_ok), self.cell) {
            (true, _) => Ok(()),
            (false, Some(cell)) => cell.variant(name).map(|_| ()),
            (false, None) => {
                let all = |cell: Cell| Variant::all(cell.kind()).map(|v| v.name).collect::<Vec<_>>().join(", ");
                let known: Vec<_> = Cell::ALL.into_iter().map(|cell| format!("{cell}: {}", all(cell))).collect();
                Err(Failure::bad_input(format!("--variant: expected one of {}, found {name:?}", known.join("; "))))
            }
        }
    }
}

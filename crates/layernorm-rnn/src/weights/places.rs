//! Where the cells of a file are. A place is the common part of the names of a cell's tensors: `layers.0.cell.`.

use super::fail;
use super::table::{Cell, Naming, Spec};
use crate::config::Config;
use crate::error::Error;
use crate::variant::{Kind, Variant};
use std::collections::{BTreeMap, BTreeSet};

/// The cells of a network by their places, and how to get from there to names.
#[derive(Debug)]
pub(super) struct Places {
    /// The place of each layer in each direction.
    cells: Vec<Vec<String>>,
    behind: bool,
    prefix: String,
    /// Names without the prefix → names in the file.
    full: BTreeMap<String, String>,
    /// Names under the prefix that belong to no cell.
    outside: Vec<String>,
}

/// Text in which numbers are compared as numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chunk {
    Number(u64),
    Text(String),
}

fn chunks(text: &str) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(rest.len());
        let (chunk, tail) = rest.split_at(end);
        let number = || chunk.parse().unwrap_or(u64::MAX);
        chunks.push(if digit { Chunk::Number(number()) } else { Chunk::Text(chunk.to_owned()) });
        rest = tail;
    }
    chunks
}

/// Returns a name under a prefix, without the separator after the prefix and without TensorFlow's `:0`.
pub(super) fn under<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    let whole = prefix.is_empty() || prefix.ends_with(['.', '/', '_']) || rest.starts_with(['.', '/', '_']);
    let rest = if prefix.is_empty() { rest } else { rest.strip_prefix(['.', '/']).unwrap_or(rest) };
    whole.then(|| rest.strip_suffix(":0").unwrap_or(rest))
}

impl Naming {
    /// Returns the place in a name if it is the name of a cell's first tensor.
    fn place<'a>(&self, name: &'a str, first: &str) -> Option<&'a str> {
        if self.behind {
            let place = name.strip_prefix(first)?;
            let digits = place.strip_suffix(self.directions[1]).unwrap_or(place).strip_prefix("_l");
            let number = digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
            return (place.is_empty() || number).then_some(place);
        }
        let place = name.strip_suffix(first)?;
        let inner = !self.inner.is_empty() && place.ends_with(self.inner);
        (place.is_empty() || place.ends_with(|c| self.separators.contains(c)) && !inner).then_some(place)
    }

    /// Returns the prefix common to the names of the only network, `encoder.lstm.`, in formats where the place comes
    /// last.
    fn module<'a>(&self, names: impl Iterator<Item = &'a String>, first: &str) -> Result<String, Error> {
        let split = |name: &'a String| name.split_at(name.rfind(['.', '/']).map_or(0, |separator| separator + 1));
        let cells = names.map(split).filter(|(_, name)| self.place(name, first).is_some());
        let modules: BTreeSet<&str> = cells.map(|(module, _)| module).collect();
        match modules.len() {
            0 | 1 => Ok(modules.first().copied().unwrap_or_default().to_owned()),
            _ => fail(format!(
                "expected one network, found several: {}; pass a prefix to select one",
                list(modules.into_iter())
            )),
        }
    }

    /// Returns the direction that a place denotes, and the place without it.
    fn direction(&self, place: &str) -> (usize, String) {
        let [forward, reverse] = self.directions;
        if !reverse.is_empty() && place.contains(reverse) {
            (1, place.replacen(reverse, forward, 1))
        } else {
            (0, place.to_owned())
        }
    }
}

/// Returns `layer_norm_lstm`, as Keras names the files of a layer.
fn class(variant: &Variant) -> String {
    let kind = if variant.kind == Kind::Rnn { "simple_rnn" } else { variant.kind.name() };
    format!("{}{kind}", if variant.norms().next().is_some() { "layer_norm_" } else { "" })
}

impl Places {
    /// Returns the places to write.
    pub fn written(spec: &Spec, config: &Config) -> Result<Places, Error> {
        let naming = &spec.naming;
        let directions = if spec.stacked { 1 } else { config.directions() };
        let template = match (directions, config.layers) {
            (1, 1) => Some(naming.one),
            (1, _) => naming.many,
            (_, 1) => naming.both,
            _ => naming.both.filter(|both| both.contains("{l}")),
        };
        let Some(template) = template else {
            return fail(format!(
                "format {}: expected a network that it can name, found {} layers in {directions} direction(s)",
                spec.name, config.layers
            ));
        };
        let place = |layer: usize, direction: usize| {
            let place = template.replace("{l}", &layer.to_string()).replace("{d}", naming.directions[direction]);
            place.replace("{kind}", config.variant.kind.name()).replace("{class}", &class(&config.variant))
        };
        let cells = (0..config.layers).map(|layer| (0..directions).map(|d| place(layer, d)).collect()).collect();
        Ok(Places { cells, behind: naming.behind, prefix: String::new(), full: BTreeMap::new(), outside: Vec::new() })
    }

    /// Finds the places in a file with these names.
    pub fn found<'a>(
        spec: &Spec,
        cell: &Cell,
        prefix: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Places, Error> {
        let mut full = BTreeMap::new();
        for name in names {
            let Some(rest) = under(name, prefix) else { continue };
            if let Some(other) = full.insert(rest.to_owned(), name.to_owned()) {
                return fail(format!("expected one tensor {rest:?}, found both {other:?} and {name:?}"));
            }
        }
        let first = cell.rules[0].name;
        let module = if spec.naming.behind { spec.naming.module(full.keys(), first)? } else { String::new() };
        let outside = full.extract_if(.., |name, _| !name.starts_with(&module)).map(|(_, name)| name).collect();
        let full: BTreeMap<String, String> =
            full.into_iter().map(|(name, file)| (name[module.len()..].to_owned(), file)).collect();
        let prefix = format!("{prefix}{module}");
        let mut layers: BTreeMap<Vec<Chunk>, Vec<String>> = BTreeMap::new();
        let mut places: Vec<(usize, String, &str)> = Vec::new();
        for place in full.keys().filter_map(|name| spec.naming.place(name, first)) {
            let (direction, layer) = spec.naming.direction(place);
            places.push((direction, layer, place));
        }
        places.sort();
        for (direction, layer, place) in places {
            let directions = layers.entry(chunks(&layer)).or_default();
            if directions.len() != direction {
                return fail(format!("{place:?}: expected a cell of the other direction beside it, found none"));
            }
            directions.push(place.to_owned());
        }
        let cells: Vec<Vec<String>> = layers.into_values().collect();
        let places = Places { cells, behind: spec.naming.behind, prefix: prefix.clone(), full, outside };
        let Some(one) = places.cells.first() else {
            return fail(format!(
                "expected a tensor whose name is {:?} or, under a prefix, {} with it, found {}",
                format!("{prefix}{first}"),
                if places.behind { "begins" } else { "ends" },
                places.some_names()
            ));
        };
        match places.cells.iter().find(|other| other.len() != one.len()) {
            Some(other) => fail(format!("expected all layers in the same directions, found {one:?} and {other:?}")),
            None => Ok(places),
        }
    }

    pub fn layers(&self) -> usize {
        self.cells.len()
    }

    pub fn directions(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// Returns the name of a cell's tensor, as it is or would be in the file.
    pub fn name(&self, layer: usize, direction: usize, tensor: &str) -> String {
        let place = &self.cells[layer][direction];
        let name = if self.behind { format!("{tensor}{place}") } else { format!("{place}{tensor}") };
        self.full.get(&name).cloned().unwrap_or_else(|| format!("{}{name}", self.prefix))
    }

    /// Returns the names under the prefix, for a message.
    pub fn some_names(&self) -> String {
        list(self.names())
    }

    /// Returns all names under the prefix.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.full.values().chain(&self.outside).map(String::as_str)
    }
}

/// Returns a few of these names, and how many there are.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const FEW: usize = 8;
    let names: Vec<&str> = names.collect();
    let few = names.iter().take(FEW).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "no tensors".to_owned(),
        n if n <= FEW => few,
        n => format!("{few}, … ({n} in total)"),
    }
}

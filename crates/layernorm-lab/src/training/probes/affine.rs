//! γ and β of each norm, read from the network's parameters by name.

use super::rounded;
use crate::models::{Net, numbers::numbers};
use crate::studies::Error;
use crate::training::events::Affine;

/// One event for each norm, in the order of the layers; none unless they are `wanted`.
pub(super) fn of_norms(net: &Net, step: usize, wanted: bool) -> Result<Vec<Affine>, Error> {
    let mut found: Vec<(Place, Affine)> = Vec::new();
    if !wanted {
        return Ok(Vec::new());
    }
    for named in numbers(net).map_err(Error::Run)? {
        let Some((place, gain)) = Place::of(&named.entry.name) else { continue };
        let values = named.numbers.iter().map(|&value| rounded(f64::from(value))).collect();
        let at = found.iter().position(|(other, _)| *other == place).unwrap_or_else(|| {
            let event = Affine { step, layer: String::new(), gain: Vec::new(), bias: Vec::new() };
            found.push((place.clone(), event));
            found.len() - 1
        });
        *(if gain { &mut found[at].1.gain } else { &mut found[at].1.bias }) = values;
    }
    let places: Vec<Place> = found.iter().map(|(place, _)| place.clone()).collect();
    Ok(found.into_iter().map(|(place, event)| Affine { layer: place.words(&places), ..event }).collect())
}

/// The place of a norm in the network: what it normalizes and, among several, its number.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    what: String,
    number: Option<usize>,
}

impl Place {
    /// The place of a parameter, and whether it is γ; `None` if it is neither γ nor β. The names end in `gamma`,
    /// `beta`, `…_norm_gain`, `…_norm_bias`, `…_norm.gain` or `…_norm.bias`.
    fn of(name: &str) -> Option<(Place, bool)> {
        let (path, gain) = match () {
            () if name.ends_with(".gamma") => (name.strip_suffix(".gamma")?, true),
            () if name.ends_with(".beta") => (name.strip_suffix(".beta")?, false),
            () if name.ends_with("gain") => (name.strip_suffix("gain")?.strip_suffix(['_', '.'])?, true),
            () => (name.strip_suffix("bias")?.strip_suffix(['_', '.'])?, false),
        };
        let place = path.split('.').rev().find(|part| part.ends_with("norm") || part.ends_with("norms"))?;
        let number = path.split('.').rev().find_map(|part| part.parse().ok());
        Some((Place { what: place.to_owned(), number }, gain))
    }

    fn words(&self, all: &[Place]) -> String {
        let number = self.number.map_or(String::new(), |number| format!(" {}", number + 1));
        match self.what.as_str() {
            "norms" => format!("layer{number}"),
            "output_norm" => "logits".to_owned(),
            what if all.iter().filter(|other| other.what == self.what).count() > 1 => {
                format!("{}{number}", what.replace('_', " "))
            }
            what => what.replace('_', " "),
        }
    }
}

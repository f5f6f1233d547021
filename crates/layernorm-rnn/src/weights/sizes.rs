//! The sizes of a network, derived from the shapes in a file.

use super::fail;
use super::places::Places;
use super::table::{Cell, Coupling, Gates, Rule, Spec};
use crate::config::{Config, Direction};
use crate::error::Error;
use crate::params::Slot;
use crate::variant::{Gate, Variant};
use std::collections::BTreeMap;

const BIASES: [Slot; 3] = [Slot::InputBias, Slot::RecurrentBias, Slot::Bias];

struct Sizes<'a> {
    spec: &'a Spec,
    cell: &'a Cell,
    places: Places,
    shapes: &'a BTreeMap<String, Vec<usize>>,
}

pub(super) fn config_of(
    spec: &Spec,
    variant: Variant,
    prefix: &str,
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Result<Config, Error> {
    let cell = spec.cell(variant.kind)?;
    let places = Places::found(spec, cell, prefix, shapes.keys().map(String::as_str))?;
    let sizes = Sizes { spec, cell, places, shapes };
    let variant = sizes.variant(variant, cell.offset()?);
    let first = &cell.rules[0];
    let (rows, columns, directions) = sizes.matrix(first)?;
    let blocks = match first.gates {
        Gates::Whole => variant.gates().len(),
        Gates::Only(gates) => gates.len(),
        Gates::All if spec.coupling == Coupling::ByInput => cell.gates.len(),
        Gates::All => cell.gates.iter().filter(|gate| variant.gates().contains(gate)).count(),
    };
    if rows == 0 || rows % blocks != 0 {
        return fail(format!("{:?}: expected rows for {blocks} gate(s), found {rows}", sizes.name(first)));
    }
    let hidden = rows / blocks;
    let projection = match sizes.rule_of(Slot::Projection).filter(|rule| sizes.has(rule)) {
        Some(rule) => Some(sizes.matrix(rule)?.0),
        None => None,
    };
    // W and U side by side: what is not U is W.
    let recurrent = if first.parts.len() > 1 { projection.unwrap_or(hidden) } else { 0 };
    let Some(input) = columns.checked_sub(recurrent).filter(|&input| input > 0) else {
        let name = sizes.name(first);
        return fail(format!("{name:?}: expected more than {recurrent} numbers for x and h together, found {columns}"));
    };
    let direction = if directions == 2 { Direction::Both } else { Direction::Forward };
    let config = Config::new(variant, input, hidden).with_layers(sizes.places.layers()).with_direction(direction);
    let config = Config { projection, ..config };
    config.check()?;
    Ok(config)
}

impl Sizes<'_> {
    fn name(&self, rule: &Rule) -> String {
        self.places.name(0, 0, rule.name)
    }

    fn has(&self, rule: &Rule) -> bool {
        self.shapes.contains_key(&self.name(rule))
    }

    fn rule_of(&self, slot: Slot) -> Option<&'static Rule> {
        self.cell.rules.iter().find(|rule| rule.is_of(&[slot]))
    }

    /// Returns rows and columns of a tensor, and the number of directions.
    fn matrix(&self, rule: &Rule) -> Result<(usize, usize, usize), Error> {
        let name = self.name(rule);
        let shape = self.shapes.get(&name).map_or(&[][..], Vec::as_slice);
        let (directions, matrix) = match (self.spec.stacked, shape) {
            (true, [directions @ 1..=2, matrix @ ..]) => (*directions, matrix),
            (true, _) => return fail(format!("{name:?}: expected a shape of [1 or 2, …, …], found {shape:?}")),
            (false, _) => (self.places.directions(), shape),
        };
        match (matrix, rule.transposed) {
            (&[rows, columns], false) | (&[columns, rows], true) => Ok((rows, columns, directions)),
            _ => fail(format!("{name:?}: expected a matrix, found shape {shape:?}")),
        }
    }

    /// Returns the variant without the biases that the file lacks, with the peepholes that it has, and so on; and
    /// with the constant that the library adds, if the variant has none.
    fn variant(&self, mut variant: Variant, offset: Option<f64>) -> Variant {
        if variant.offset == 0.0 {
            variant.offset = offset.unwrap_or(0.0);
        }
        let any = |slots: &[Slot]| {
            let mut rules = self.cell.rules.iter().filter(|rule| rule.is_of(slots)).peekable();
            rules.peek().is_some().then(|| rules.any(|rule| self.has(rule)))
        };
        if any(&BIASES) == Some(false) {
            (variant.input_bias, variant.recurrent_bias, variant.bias, variant.tied_bias) =
                (false, false, false, false);
        }
        if variant.gates().contains(&Gate::Output) {
            variant.peephole = any(&[Slot::Peephole]).unwrap_or(variant.peephole);
            variant.projection_bias = any(&[Slot::ProjectionBias]).unwrap_or(false);
            if let Coupling::Without(tensor) = self.spec.coupling {
                variant.coupled = !self.shapes.contains_key(&self.places.name(0, 0, tensor));
            }
        }
        variant
    }
}

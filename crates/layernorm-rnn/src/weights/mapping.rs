//! From the tables to numbers: which number of which tensor is which parameter. Reading, writing and gradients use
//! the same list of blocks.

use super::builder::Builder;
use super::places::{Places, list};
use super::rounding::{Exact, Rounding};
use super::table::Spec;
use super::{Tensor, fail};
use crate::config::Config;
use crate::error::Error;
use crate::params::{Entry, Params};
use layernorm::Float;
use layernorm::parts::memory;
use std::collections::{BTreeMap, BTreeSet};

/// The tensors of a file and their contents.
pub(super) struct Mapping {
    tensors: Vec<Foreign>,
}

pub(super) struct Foreign {
    pub name: String,
    pub shape: Vec<usize>,
    pub blocks: Vec<Block>,
}

/// A block of a tensor: its number (i, j) is at `at + i·row + j·column`, and is parameter `start + i·width + j` for
/// every start in `targets`.
pub(super) struct Block {
    pub at: usize,
    pub row: usize,
    pub column: usize,
    pub height: usize,
    pub width: usize,
    pub targets: Vec<usize>,
    pub role: Role,
    pub negate: bool,
    /// Added to the parameter when it is read: a constant that the library adds itself and the variant does not.
    pub shift: f64,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// The parameter, or the sum of several.
    First,
    /// Added to a parameter for which another block comes first.
    Again,
    /// No parameter here: must be 0.
    Zero,
    /// Not read by the library.
    Unread,
}

impl Mapping {
    pub fn new(spec: &Spec, config: &Config, entries: &[Entry], places: &Places) -> Result<Mapping, Error> {
        let cell = spec.cell(config.variant.kind)?;
        spec.check(cell, &config.variant)?;
        let directions = if spec.stacked { 1 } else { config.directions() };
        if (places.layers(), places.directions()) != (config.layers, directions) {
            return fail(format!(
                "expected {} layer(s) in {directions} direction(s), found {} in {}: {}",
                config.layers,
                places.layers(),
                places.directions(),
                places.some_names()
            ));
        }
        let mut builder = Builder::new(spec, cell, config, entries)?;
        let mut tensors = Vec::new();
        for layer in 0..config.layers {
            for direction in 0..directions {
                for rule in cell.rules.iter().filter(|rule| rule.is_there(config)) {
                    if builder.gates(rule, rule.parts[0].slots[0]).is_some_and(|gates| gates.is_empty()) {
                        continue;
                    }
                    let name = places.name(layer, direction, rule.name);
                    let all = if spec.stacked { 0..config.directions() } else { direction..direction + 1 };
                    tensors.push(builder.tensor(rule, name, layer, all)?);
                }
            }
        }
        builder.check_all_taken()?;
        builder.check_shifted()?;
        Ok(Mapping { tensors })
    }

    /// Fails if a tensor is missing or has the wrong shape. This runs before the parameters are allocated, so that a
    /// network is never larger than its file, apart from biases that are one there and two here.
    pub fn check_shapes(&self, shapes: &BTreeMap<String, Vec<usize>>, places: &Places) -> Result<(), Error> {
        for Foreign { name, shape, .. } in &self.tensors {
            let Some(found) = shapes.get(name) else {
                return fail(format!("expected a tensor {name:?}, found {}", places.some_names()));
            };
            if found != shape {
                return fail(format!("{name:?}: expected shape {shape:?}, found {found:?}"));
            }
        }
        Ok(())
    }

    /// Fails if there are tensors under the prefix that nothing reads.
    pub fn check_extra(&self, spec: &Spec, places: &Places) -> Result<(), Error> {
        let known: BTreeSet<&str> = self.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let ignored = |name: &str| spec.ignored.iter().any(|end| name.trim_end_matches(":0").ends_with(end));
        let extra: Vec<&str> = places.names().filter(|name| !known.contains(name) && !ignored(name)).collect();
        if extra.is_empty() {
            return Ok(());
        }
        fail(format!(
            "expected no tensors but those of this network ({} under this prefix), found {}",
            known.len(),
            list(extra.into_iter())
        ))
    }

    /// Reads all parameters from tensors whose shapes have been checked.
    pub fn read<A: Float>(&self, tensors: &BTreeMap<String, Tensor<f64>>, params: &mut Params<A>) -> Result<(), Error> {
        let values = params.values_mut();
        // −0 + x is x, bit for bit.
        values.fill(A::NEG_ZERO);
        for Foreign { name, shape, blocks } in &self.tensors {
            let numbers = tensors.get(name).map_or(&[][..], |tensor| &tensor.values);
            if numbers.len() != shape.iter().product::<usize>() {
                return fail(format!(
                    "{name:?}: expected as many numbers as in shape {shape:?}, found {}",
                    numbers.len()
                ));
            }
            blocks.iter().try_for_each(|block| block.read(numbers, values, name))?;
        }
        Ok(())
    }

    /// Returns what rounding changes when these parameters are written: `stored` gives a number as stored in the
    /// file.
    pub fn rounding<A: Float>(
        &self,
        params: &Params<A>,
        tensors: &BTreeMap<String, Tensor<A>>,
        stored: impl Fn(A) -> f64,
    ) -> Option<Rounding> {
        let mut rounding = None;
        for Foreign { name, blocks, .. } in &self.tensors {
            let Some(tensor) = tensors.get(name) else { continue };
            for block in blocks.iter().filter(|block| block.role == Role::First) {
                for (there, here) in block.numbers() {
                    let parameters = block.targets.iter().map(|start| params.values()[start + here].to_f64());
                    let exact = parameters.fold(Exact::of(-block.shift), Exact::plus);
                    let found = block.signed(stored(tensor.values[there]));
                    Rounding::note(&mut rounding, name, exact.distance(found));
                }
            }
        }
        rounding
    }

    /// Returns what rounding changed when `params` were read from these tensors.
    pub fn rounding_of_read<A: Float>(
        &self,
        tensors: &BTreeMap<String, Tensor<f64>>,
        params: &Params<A>,
    ) -> Option<Rounding> {
        let mut sums: BTreeMap<usize, (&str, Vec<Exact>)> = BTreeMap::new();
        for Foreign { name, blocks, .. } in &self.tensors {
            let Some(tensor) = tensors.get(name) else { continue };
            for block in blocks.iter().filter(|block| matches!(block.role, Role::First | Role::Again)) {
                let empty = || (name.as_str(), vec![Exact::of(0.0); block.height * block.width]);
                let (_, sums) = sums.entry(block.targets[0]).or_insert_with(empty);
                for (there, here) in block.numbers() {
                    sums[here] = sums[here].plus(block.signed(tensor.values[there])).plus(block.shift);
                }
            }
        }
        let mut rounding = None;
        for (start, (name, sums)) in &sums {
            for (here, exact) in sums.iter().enumerate() {
                Rounding::note(&mut rounding, name, exact.distance(params.values()[start + here].to_f64()));
            }
        }
        rounding
    }

    /// Returns the tensors that hold these parameters.
    pub fn write<A: Float>(&self, params: &Params<A>) -> Result<BTreeMap<String, Tensor<A>>, Error> {
        self.collect(|block, values| {
            if block.role == Role::First {
                block.sum(params.values(), values)
            }
        })
    }

    /// Returns the gradients of the tensors: if the sum of two biases is one parameter here, both get its gradient.
    pub fn gradients<A: Float>(&self, params: &Params<A>) -> Result<BTreeMap<String, Tensor<A>>, Error> {
        self.collect(|block, values| block.first(params.values(), values))
    }

    fn collect<A: Float>(&self, fill: impl Fn(&Block, &mut [A])) -> Result<BTreeMap<String, Tensor<A>>, Error> {
        let tensor = |foreign: &Foreign| {
            let count = foreign.shape.iter().product();
            let mut values = memory::filled(count, A::ZERO)?;
            foreign.blocks.iter().for_each(|block| fill(block, &mut values));
            Ok((foreign.name.clone(), Tensor { shape: foreign.shape.clone(), values }))
        };
        self.tensors.iter().map(tensor).collect()
    }
}

impl Block {
    /// Returns the positions of each number: in the tensor, and in the parameter relative to its start.
    fn numbers(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.height).flat_map(move |i| {
            (0..self.width).map(move |j| (self.at + i * self.row + j * self.column, i * self.width + j))
        })
    }

    fn signed<A: Float>(&self, value: A) -> A {
        if self.negate { -value } else { value }
    }

    fn read<A: Float>(&self, from: &[f64], to: &mut [A], name: &str) -> Result<(), Error> {
        for (there, here) in self.numbers() {
            match self.role {
                Role::Unread => {}
                Role::Zero if from[there] != 0.0 => {
                    return fail(format!(
                        "{name:?}: expected zeros, as this variant has no such bias, found {}",
                        from[there]
                    ));
                }
                Role::Zero => {}
                Role::First | Role::Again => {
                    let first = &mut to[self.targets[0] + here];
                    let number = self.signed(from[there]);
                    *first = *first + A::from_f64(if self.shift == 0.0 { number } else { number + self.shift });
                    self.targets[1..].iter().for_each(|start| to[start + here] = A::ZERO);
                }
            }
        }
        Ok(())
    }

    fn sum<A: Float>(&self, from: &[A], to: &mut [A]) {
        for (there, here) in self.numbers() {
            let sum = self.targets.iter().fold(A::NEG_ZERO, |sum, start| sum + from[start + here]);
            to[there] = self.signed(if self.shift == 0.0 { sum } else { sum - A::from_f64(self.shift) });
        }
    }

    fn first<A: Float>(&self, from: &[A], to: &mut [A]) {
        let Some(start) = self.targets.first() else { return };
        for (there, here) in self.numbers() {
            to[there] = self.signed(from[start + here]);
        }
    }
}

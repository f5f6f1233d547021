//! From the tables to numbers: which number of which tensor is which parameter. Reading, writing and gradients use the same
//! list of blocks.

use super::places::{Places, list};
use super::table::{Cell, Coupling, Gates, Part, Rule, Spec};
use super::{Tensor, fail};
use crate::config::Config;
use crate::error::Error;
use crate::params::{Entry, Params, Slot};
use crate::variant::Gate;
use layernorm::Float;
use std::collections::{BTreeMap, BTreeSet};

/// The tensors of a file and what stands in them.
pub(super) struct Mapping {
    tensors: Vec<Foreign>,
}

struct Foreign {
    name: String,
    shape: Vec<usize>,
    blocks: Vec<Block>,
}

/// A block of a tensor: number (i, j) of it is at `at + i·row + j·column`, and is parameter `start + i·width + j` for the
/// starts in `targets`.
struct Block {
    at: usize,
    row: usize,
    column: usize,
    height: usize,
    width: usize,
    targets: Vec<usize>,
    role: Role,
    negate: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// The parameter, or the sum of several.
    First,
    /// Added to a parameter that another block is the first of.
    Again,
    /// No parameter here: 0.
    Zero,
    /// Not read by the library.
    Unread,
}

/// What a part is in one layer and direction, before it has its place in a tensor.
struct Piece {
    width: usize,
    /// Height, targets, role, sign.
    rows: Vec<(usize, Vec<usize>, Role, bool)>,
}

struct Builder<'a> {
    spec: &'a Spec,
    cell: &'a Cell,
    config: &'a Config,
    entries: &'a [Entry],
    /// Starts of blocks that are taken.
    taken: BTreeSet<usize>,
    /// How many numbers have been taken of each entry, by its start.
    counts: BTreeMap<usize, usize>,
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
        let mut builder = Builder { spec, cell, config, entries, taken: BTreeSet::new(), counts: BTreeMap::new() };
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
        Ok(Mapping { tensors })
    }

    /// An error if there are tensors under the prefix that nothing reads.
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

    /// Reads all parameters.
    pub fn read<A: Float>(
        &self,
        tensors: &BTreeMap<String, Tensor<f64>>,
        places: &Places,
        params: &mut Params<A>,
    ) -> Result<(), Error> {
        let values = params.values_mut();
        // −0 + x is x, bit by bit.
        values.fill(A::NEG_ZERO);
        for foreign in &self.tensors {
            let Some(tensor) = tensors.get(&foreign.name) else {
                return fail(format!("expected a tensor {:?}, found {}", foreign.name, places.some_names()));
            };
            if tensor.shape != foreign.shape || tensor.values.len() != foreign.shape.iter().product::<usize>() {
                return fail(format!(
                    "{:?}: expected shape {:?}, found {:?}",
                    foreign.name, foreign.shape, tensor.shape
                ));
            }
            foreign.blocks.iter().try_for_each(|block| block.read(&tensor.values, values, &foreign.name))?;
        }
        Ok(())
    }

    /// The tensors that hold these parameters.
    pub fn write<A: Float>(&self, params: &Params<A>) -> BTreeMap<String, Tensor<A>> {
        self.collect(|block, values| {
            if block.role == Role::First {
                block.sum(params.values(), values)
            }
        })
    }

    /// The gradients of the tensors: where a sum of two is one parameter here, both have its gradient.
    pub fn gradients<A: Float>(&self, params: &Params<A>) -> BTreeMap<String, Tensor<A>> {
        self.collect(|block, values| block.first(params.values(), values))
    }

    fn collect<A: Float>(&self, fill: impl Fn(&Block, &mut [A])) -> BTreeMap<String, Tensor<A>> {
        let tensor = |foreign: &Foreign| {
            let mut values = vec![A::ZERO; foreign.shape.iter().product()];
            foreign.blocks.iter().for_each(|block| fill(block, &mut values));
            (foreign.name.clone(), Tensor { shape: foreign.shape.clone(), values })
        };
        self.tensors.iter().map(tensor).collect()
    }
}

impl Block {
    /// Places of each number: in the tensor, and in the parameter from its start on.
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
                    *first = *first + self.signed(A::from_f64(from[there]));
                    self.targets[1..].iter().for_each(|start| to[start + here] = A::ZERO);
                }
            }
        }
        Ok(())
    }

    fn sum<A: Float>(&self, from: &[A], to: &mut [A]) {
        for (there, here) in self.numbers() {
            let sum = self.targets.iter().fold(A::NEG_ZERO, |sum, start| sum + from[start + here]);
            to[there] = self.signed(sum);
        }
    }

    fn first<A: Float>(&self, from: &[A], to: &mut [A]) {
        let Some(start) = self.targets.first() else { return };
        for (there, here) in self.numbers() {
            to[there] = self.signed(from[start + here]);
        }
    }
}

impl Builder<'_> {
    /// The library's gates of a tensor with what each is here and whether its sign is turned. `None`: not by gates.
    fn gates(&self, rule: &Rule, slot: Slot) -> Option<Vec<(Option<usize>, bool)>> {
        let listed = match rule.gates {
            Gates::All => self.cell.gates,
            Gates::Only(gates) => gates,
            Gates::Whole => return None,
        };
        let seen = |gate: &&Gate| slot != Slot::Peephole || **gate != Gate::Candidate;
        let ours: Vec<Gate> = self.config.variant.gates().iter().filter(seen).copied().collect();
        let at = |gate: Gate| ours.iter().position(|&our| our == gate);
        let by_input = self.config.variant.coupled && self.spec.coupling == Coupling::ByInput;
        let place = |gate: &Gate| match gate {
            Gate::Input if by_input => Some((at(Gate::Forget), true)),
            Gate::Forget if by_input => Some((None, false)),
            _ => at(*gate).map(|index| (Some(index), false)),
        };
        Some(listed.iter().filter(seen).filter_map(place).collect())
    }

    fn piece(&mut self, rule: &Rule, part: &Part, layer: usize, direction: usize) -> Result<Piece, Error> {
        let slots = part.targets(self.config);
        let bias = |slot: &Slot| matches!(slot, Slot::InputBias | Slot::RecurrentBias | Slot::Bias);
        if slots.is_empty() && !part.slots.iter().all(bias) {
            return fail(format!(
                "format {}: {:?} holds {}, which variant {} has not",
                self.spec.name,
                rule.name,
                part.slots[0].name(),
                self.config.variant.name
            ));
        }
        let entries: Vec<&Entry> = slots.iter().filter_map(|&slot| self.entry(layer, direction, slot)).collect();
        let Some(gates) = self.gates(rule, part.slots[0]) else {
            let (height, width) = (entries[0].shape[0], entries[0].shape.get(1).copied().unwrap_or(1));
            let starts = entries.iter().map(|entry| entry.range.start).collect();
            let row = self.take(height, width, starts, false);
            return Ok(Piece { width, rows: vec![row] });
        };
        let height = self.config.hidden;
        let peephole = part.slots[0] == Slot::Peephole;
        let width = entries.first().and_then(|entry| entry.shape.get(1)).filter(|_| !peephole).copied().unwrap_or(1);
        let starts: Vec<usize> = entries.iter().map(|entry| entry.range.start).collect();
        let mut rows = Vec::new();
        for (gate, negate) in gates {
            rows.push(match gate {
                Some(gate) => {
                    let starts = starts.iter().map(|start| start + gate * height * width).collect();
                    self.take(height, width, starts, negate)
                }
                None => (height, Vec::new(), Role::Unread, false),
            });
        }
        Ok(Piece { width, rows })
    }

    /// Every layer and direction has the same parameters, one after the other.
    fn entry(&self, layer: usize, direction: usize, slot: Slot) -> Option<&Entry> {
        let count = self.entries.len() / (self.config.layers * self.config.directions());
        let first = (layer * self.config.directions() + direction) * count;
        self.entries.get(first..first + count)?.iter().find(|entry| entry.slot == slot)
    }

    /// Marks blocks of parameters as taken.
    fn take(
        &mut self,
        height: usize,
        width: usize,
        starts: Vec<usize>,
        negate: bool,
    ) -> (usize, Vec<usize>, Role, bool) {
        let role = match starts.first() {
            None => Role::Zero,
            Some(first) if self.taken.contains(first) => Role::Again,
            Some(_) => Role::First,
        };
        if role == Role::First {
            for &start in &starts {
                self.taken.insert(start);
                let entry = self.entries.partition_point(|entry| entry.range.start <= start) - 1;
                *self.counts.entry(self.entries[entry].range.start).or_default() += height * width;
            }
        }
        (height, starts, role, negate)
    }

    fn tensor(
        &mut self,
        rule: &Rule,
        name: String,
        layer: usize,
        directions: std::ops::Range<usize>,
    ) -> Result<Foreign, Error> {
        let mut blocks = Vec::new();
        let (mut rows, mut columns) = (0, 0);
        let count = directions.len();
        for (index, direction) in directions.enumerate() {
            let pieces: Vec<Piece> =
                rule.parts.iter().map(|part| self.piece(rule, part, layer, direction)).collect::<Result<_, _>>()?;
            let height = |piece: &Piece| piece.rows.iter().map(|row| row.0).sum::<usize>();
            let heights = pieces.iter().map(height);
            let widths = pieces.iter().map(|piece| piece.width);
            rows = if rule.below { heights.sum() } else { heights.max().unwrap_or(0) };
            columns = if rule.below { widths.max().unwrap_or(0) } else { widths.sum() };
            let (row, column) = if rule.transposed { (1, rows) } else { (columns, 1) };
            let (mut top, mut left) = (0, 0);
            for piece in pieces {
                let mut y = top;
                let (width, tall) = (piece.width, height(&piece));
                for (height, targets, role, negate) in piece.rows {
                    let at = index * rows * columns + y * row + left * column;
                    blocks.push(Block { at, row, column, height, width, targets, role, negate });
                    y += height;
                }
                if rule.below { top += tall } else { left += width }
            }
        }
        let mut shape = self.shape(rule, rows, columns, layer);
        if self.spec.stacked {
            shape.insert(0, count);
        }
        Ok(Foreign { name, shape, blocks })
    }

    /// The shape of a tensor with so many rows and columns.
    fn shape(&self, rule: &Rule, rows: usize, columns: usize, layer: usize) -> Vec<usize> {
        let slot = rule.parts[0].slots[0];
        let rank = slot.shape(self.config, layer).map_or(1, |shape| shape.len());
        let by_gate = !matches!(rule.gates, Gates::Whole);
        let matrix = !rule.below && rule.parts.len() > 1 || rank == 2 && !(slot == Slot::Peephole && by_gate);
        match (matrix, rule.transposed) {
            (false, _) => vec![rows],
            (true, false) => vec![rows, columns],
            (true, true) => vec![columns, rows],
        }
    }

    fn check_all_taken(&self) -> Result<(), Error> {
        let whole = |entry: &&Entry| self.counts.get(&entry.range.start).copied() == Some(entry.range.len());
        match self.entries.iter().find(|entry| !whole(entry)) {
            None => Ok(()),
            Some(entry) => fail(format!(
                "format {}: expected a variant whose parameters it has tensors for, found {} with {}",
                self.spec.name,
                self.config.variant.name,
                entry.slot.name()
            )),
        }
    }
}

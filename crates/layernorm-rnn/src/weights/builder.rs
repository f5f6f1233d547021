//! The blocks of a format's tensors: which rows of which tensor are which parameters of a network.

use super::fail;
use super::fits::beside_offset;
use super::mapping::{Block, Foreign, Role};
use super::table::{Cell, Coupling, Gates, Part, Rule, Spec};
use crate::config::Config;
use crate::error::Error;
use crate::params::{Entry, Slot};
use crate::variant::Gate;
use std::collections::{BTreeMap, BTreeSet};

/// A part in one layer and direction, before its position in a tensor is known.
struct Piece {
    width: usize,
    rows: Vec<Row>,
}

/// The rows of a gate.
struct Row {
    height: usize,
    targets: Vec<usize>,
    role: Role,
    negate: bool,
    shift: f64,
}

pub(super) struct Builder<'a> {
    spec: &'a Spec,
    cell: &'a Cell,
    config: &'a Config,
    entries: &'a [Entry],
    /// Starts of blocks that are taken.
    taken: BTreeSet<usize>,
    /// How many numbers of each entry are taken, by its start.
    counts: BTreeMap<usize, usize>,
    /// What the library adds to the variant's gate of `offset`, beyond what the variant adds itself.
    shift: f64,
    /// Layers and directions in which a bias absorbs the shift.
    shifted: BTreeSet<(usize, usize)>,
}

impl<'a> Builder<'a> {
    pub fn new(spec: &'a Spec, cell: &'a Cell, config: &'a Config, entries: &'a [Entry]) -> Result<Builder<'a>, Error> {
        let shift = cell.offset()?.map_or(0.0, |offset| offset - config.variant.offset);
        let (taken, counts, shifted) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Builder { spec, cell, config, entries, taken, counts, shift, shifted })
    }

    /// Returns the library's gates of a tensor, each with its index here and whether its sign is flipped. `None` if
    /// the tensor is not divided by gates.
    pub fn gates(&self, rule: &Rule, slot: Slot) -> Option<Vec<(Option<usize>, bool)>> {
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
                "format {}: {:?} holds {}, which variant {} does not have",
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
                    let row = self.take(height, width, starts, negate);
                    let takes_shift = self.shift != 0.0
                        && row.role == Role::First
                        && gate == self.config.variant.offset_gate()
                        && slots.first().is_some_and(|&slot| beside_offset(&self.config.variant, slot))
                        && self.shifted.insert((layer, direction));
                    Row { shift: if takes_shift { self.shift } else { 0.0 }, ..row }
                }
                None => Row { height, targets: Vec::new(), role: Role::Unread, negate: false, shift: 0.0 },
            });
        }
        Ok(Piece { width, rows })
    }

    /// Returns an entry. Every layer and direction has the same parameters, one after the other.
    fn entry(&self, layer: usize, direction: usize, slot: Slot) -> Option<&Entry> {
        let count = self.entries.len() / (self.config.layers * self.config.directions());
        let first = (layer * self.config.directions() + direction) * count;
        self.entries.get(first..first + count)?.iter().find(|entry| entry.slot == slot)
    }

    /// Marks blocks of parameters as taken.
    fn take(&mut self, height: usize, width: usize, targets: Vec<usize>, negate: bool) -> Row {
        let role = match targets.first() {
            None => Role::Zero,
            Some(first) if self.taken.contains(first) => Role::Again,
            Some(_) => Role::First,
        };
        if role == Role::First {
            for &start in &targets {
                self.taken.insert(start);
                let entry = self.entries.partition_point(|entry| entry.range.start <= start) - 1;
                *self.counts.entry(self.entries[entry].range.start).or_default() += height * width;
            }
        }
        Row { height, targets, role, negate, shift: 0.0 }
    }

    /// Adds a tensor of the library in a layer and these directions.
    pub fn tensor(
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
            let height = |piece: &Piece| piece.rows.iter().map(|row| row.height).sum::<usize>();
            let heights = pieces.iter().map(height);
            let widths = pieces.iter().map(|piece| piece.width);
            rows = if rule.below { heights.sum() } else { heights.max().unwrap_or(0) };
            columns = if rule.below { widths.max().unwrap_or(0) } else { widths.sum() };
            let (row, column) = if rule.transposed { (1, rows) } else { (columns, 1) };
            let (mut top, mut left) = (0, 0);
            for piece in pieces {
                let mut y = top;
                let (width, tall) = (piece.width, height(&piece));
                for Row { height, targets, role, negate, shift } in piece.rows {
                    let at = index * rows * columns + y * row + left * column;
                    blocks.push(Block { at, row, column, height, width, targets, role, negate, shift });
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

    /// Returns the shape of a tensor with this many rows and columns.
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

    /// Fails if the library adds a constant that no bias here can absorb.
    pub fn check_shifted(&self) -> Result<(), Error> {
        if self.shift == 0.0 || self.shifted.len() == self.config.layers * self.config.directions() {
            return Ok(());
        }
        let variant = &self.config.variant;
        fail(format!(
            "format {}, variant {}: offset: expected {}, which the library adds, or a bias after the norms that absorbs the \
             difference, found {}",
            self.spec.name,
            variant.name,
            self.shift + variant.offset,
            variant.offset
        ))
    }

    /// Fails if a parameter is in no tensor.
    pub fn check_all_taken(&self) -> Result<(), Error> {
        let whole = |entry: &&Entry| self.counts.get(&entry.range.start).copied() == Some(entry.range.len());
        match self.entries.iter().find(|entry| !whole(entry)) {
            None => Ok(()),
            Some(entry) => fail(format!(
                "format {}: expected a variant whose parameters all have tensors in this format, found {} with {}",
                self.spec.name,
                self.config.variant.name,
                entry.slot.name()
            )),
        }
    }
}

//! Checks that a variant computes the same function as a format's library, so that weights mean the same in both. ε
//! may differ, but not the place where it is added.

use super::fail;
use super::table::{Cell, Coupling, Part, Rule, Spec, When};
use crate::config::Config;
use crate::error::Error;
use crate::params::Slot;
use crate::variant::{Kind, Reset, Variant};

impl Cell {
    /// Returns the constant that the library adds to the forget gate (LSTM) or to the update gate (GRU). `None`: the
    /// variant's own.
    pub(super) fn offset(&self) -> Result<Option<f64>, Error> {
        if self.like.is_empty() { Ok(None) } else { Ok(Some(Variant::named(self.kind, self.like)?.offset)) }
    }
}

impl Spec {
    /// Returns the tensors of a cell of this kind. Fails if the format has none.
    pub(super) fn cell(&self, kind: Kind) -> Result<&'static Cell, Error> {
        let cells: &'static [Cell] = self.cells;
        match cells.iter().find(|cell| cell.kind == kind) {
            Some(cell) => Ok(cell),
            None => {
                let kinds: Vec<&str> = cells.iter().map(|cell| cell.kind.name()).collect();
                fail(format!(
                    "format {}: expected a cell of kind {}, found {}",
                    self.name,
                    kinds.join(" or "),
                    kind.name()
                ))
            }
        }
    }

    /// Fails if the library's cell differs, whatever its tensors are.
    pub(super) fn check(&self, cell: &Cell, variant: &Variant) -> Result<(), Error> {
        if cell.like.is_empty() {
            return Ok(());
        }
        let like = Variant::named(cell.kind, cell.like)?;
        let differs = |what: &str, expected: &str| {
            fail(format!(
                "format {}, variant {}: {what}: expected {expected}, found a different one",
                self.name, variant.name
            ))
        };
        if variant.coupled && self.coupling == Coupling::Never {
            return differs("input gate", "one that is not coupled to the forget gate");
        }
        for (name, norm) in variant.norms() {
            match like.norms().find(|(other, _)| *other == name) {
                None => return differs(name, "none"),
                Some((_, other)) if name != "cell_norm" && other.over != norm.over => {
                    return differs(name, &format!("one over {:?}", other.over));
                }
                Some((_, other)) if other.eps_place != norm.eps_place => {
                    return differs(name, &format!("one with ε added to the {:?}", other.eps_place));
                }
                _ => {}
            }
        }
        if let (Some(ours), Some(theirs)) = (variant.cell_norm, like.cell_norm)
            && ours.carried != theirs.carried
        {
            return differs(
                "cell_norm",
                if theirs.carried { "one that is carried" } else { "one that is not carried" },
            );
        }
        if variant.bias && variant.norms().next().is_some() && variant.tied_bias != like.tied_bias {
            return differs("bias", if like.tied_bias { "one that is tied" } else { "one that is not tied" });
        }
        if variant.kind == Kind::Gru && !cell.resets.contains(&variant.reset) {
            return differs("reset", &format!("{:?}", cell.resets));
        }
        if variant.kind == Kind::Gru && variant.update != like.update {
            return differs("update", &format!("{:?}", like.update));
        }
        if (variant.cell_clip.is_some() || variant.projection_clip.is_some()) && !self.clips {
            return differs("cell_clip and projection_clip", "none");
        }
        Ok(())
    }

    /// Fails if a file cannot be read for a variant with this offset: the library adds a constant of its own. A cell
    /// without an offset gets that constant in a bias.
    pub(super) fn check_offset(&self, cell: &Cell, variant: &Variant) -> Result<(), Error> {
        match cell.offset()? {
            Some(offset) if variant.offset != offset && variant.offset != 0.0 => fail(format!(
                "format {}, variant {}: offset: expected {offset}, which the library adds by default, or 0, found {}; for a \
                 cell that was trained with another constant, load it with {offset}, then change the network's variant",
                self.name, variant.name, variant.offset
            )),
            _ => Ok(()),
        }
    }
}

impl Rule {
    /// Returns whether a cell has this tensor.
    pub(super) fn is_there(&self, config: &Config) -> bool {
        let product = config.variant.reset == Reset::Product;
        let when = match self.when {
            When::Always => true,
            When::ResetProduct => product,
            When::ResetElse => !product,
        };
        let mut slots = self.parts.iter().flat_map(|part| part.slots);
        when && slots.any(|slot| slot.shape(config, 0).is_some())
    }
}

impl Part {
    /// Returns the parameters whose sum it is here. If there are none, it must be 0.
    pub(super) fn targets(&self, config: &Config) -> Vec<Slot> {
        let fits = |slot: &&Slot| slot.shape(config, 0).is_some() && same(&config.variant, self.slots[0], **slot);
        let most = if self.sum { usize::MAX } else { 1 };
        self.slots.iter().filter(fits).take(most).copied().collect()
    }
}

/// Returns whether a parameter is added at the same place as the variant's offset, so that a constant can move
/// between them.
pub(super) fn beside_offset(variant: &Variant, slot: Slot) -> bool {
    match slot {
        Slot::SumNormBias => true,
        Slot::Bias => !variant.tied_bias,
        Slot::InputBias | Slot::RecurrentBias => same(variant, Slot::Bias, slot),
        _ => false,
    }
}

/// Returns whether two biases are added at the same place: their sums are not separated by a norm or a gate.
fn same(variant: &Variant, a: Slot, b: Slot) -> bool {
    let gru = |reset| variant.kind == Kind::Gru && variant.reset == reset;
    let whole = variant.sum_norm.is_none() && !variant.tied_bias && !gru(Reset::Sum);
    let input = variant.input_norm.is_none();
    let recurrent = variant.recurrent_norm.is_none() && !gru(Reset::Product);
    let free = |slot| match slot {
        Slot::Bias => true,
        Slot::InputBias => input && whole,
        Slot::RecurrentBias => recurrent && whole,
        _ => false,
    };
    let both_products = |x, y| x == Slot::InputBias && y == Slot::RecurrentBias && input && recurrent;
    a == b || free(a) && free(b) && !variant.tied_bias || both_products(a, b) || both_products(b, a)
}

//! The parameters of a network: one flat vector of numbers, and its layout. Gradients have the same layout.

use crate::config::Config;
use crate::error::Error;
use crate::variant::NormSpec;
use layernorm::Float;
use layernorm::parts::memory;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of parameter. Sizes: I input of the layer, H hidden, P size of h, G gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// W `[G·H, I]`.
    InputWeight,
    /// U `[G·H, P]`.
    RecurrentWeight,
    /// bx `[G·H]`.
    InputBias,
    /// bh `[G·H]`.
    RecurrentBias,
    /// b `[G·H]`.
    Bias,
    /// γ of LNx `[G·H]`.
    InputNormGain,
    /// β of LNx `[G·H]`.
    InputNormBias,
    /// γ of LNh `[G·H]`.
    RecurrentNormGain,
    /// β of LNh `[G·H]`.
    RecurrentNormBias,
    /// γ of LNs `[G·H]`.
    SumNormGain,
    /// β of LNs `[G·H]`.
    SumNormBias,
    /// γ of LNc `[H]`.
    CellNormGain,
    /// β of LNc `[H]`.
    CellNormBias,
    /// p `[3, H]`: of i, f and o (coupled: `[2, H]`, of f and o).
    Peephole,
    /// P `[P, H]`.
    Projection,
    /// bp `[P]`.
    ProjectionBias,
}

impl Slot {
    /// All kinds.
    pub const ALL: [Slot; 16] = [
        Slot::InputWeight,
        Slot::RecurrentWeight,
        Slot::InputBias,
        Slot::RecurrentBias,
        Slot::Bias,
        Slot::InputNormGain,
        Slot::InputNormBias,
        Slot::RecurrentNormGain,
        Slot::RecurrentNormBias,
        Slot::SumNormGain,
        Slot::SumNormBias,
        Slot::CellNormGain,
        Slot::CellNormBias,
        Slot::Peephole,
        Slot::Projection,
        Slot::ProjectionBias,
    ];

    /// Returns the name in a file of this crate's own format.
    pub fn name(self) -> &'static str {
        match self {
            Slot::InputWeight => "input_weight",
            Slot::RecurrentWeight => "recurrent_weight",
            Slot::InputBias => "input_bias",
            Slot::RecurrentBias => "recurrent_bias",
            Slot::Bias => "bias",
            Slot::InputNormGain => "input_norm.gain",
            Slot::InputNormBias => "input_norm.bias",
            Slot::RecurrentNormGain => "recurrent_norm.gain",
            Slot::RecurrentNormBias => "recurrent_norm.bias",
            Slot::SumNormGain => "sum_norm.gain",
            Slot::SumNormBias => "sum_norm.bias",
            Slot::CellNormGain => "cell_norm.gain",
            Slot::CellNormBias => "cell_norm.bias",
            Slot::Peephole => "peephole",
            Slot::Projection => "projection",
            Slot::ProjectionBias => "projection_bias",
        }
    }

    /// Returns the parameter's shape in a layer, or `None` if the network has no such parameter.
    pub fn shape(self, config: &Config, layer: usize) -> Option<Vec<usize>> {
        let v = &config.variant;
        let (gates, hidden) = (config.gate_width(), config.hidden);
        let gain = |norm: Option<NormSpec>, width: usize| norm.filter(|norm| norm.gain).map(|_| vec![width]);
        let bias = |norm: Option<NormSpec>, width: usize| norm.filter(|norm| norm.bias).map(|_| vec![width]);
        let cell = v.cell_norm.map(|cell| cell.norm);
        match self {
            Slot::InputWeight => Some(vec![gates, config.layer_input(layer)]),
            Slot::RecurrentWeight => Some(vec![gates, config.output()]),
            Slot::InputBias => v.input_bias.then(|| vec![gates]),
            Slot::RecurrentBias => v.recurrent_bias.then(|| vec![gates]),
            Slot::Bias => v.bias.then(|| vec![gates]),
            Slot::InputNormGain => gain(v.input_norm, gates),
            Slot::InputNormBias => bias(v.input_norm, gates),
            Slot::RecurrentNormGain => gain(v.recurrent_norm, gates),
            Slot::RecurrentNormBias => bias(v.recurrent_norm, gates),
            Slot::SumNormGain => gain(v.sum_norm, gates),
            Slot::SumNormBias => bias(v.sum_norm, gates),
            Slot::CellNormGain => gain(cell, hidden),
            Slot::CellNormBias => bias(cell, hidden),
            Slot::Peephole => v.peephole.then(|| vec![v.gates().len() - 1, hidden]),
            Slot::Projection => config.projection.map(|p| vec![p, hidden]),
            Slot::ProjectionBias => config.projection.filter(|_| v.projection_bias).map(|p| vec![p]),
        }
    }

    /// Returns whether it is a norm's gain, which starts at 1.
    pub fn is_gain(self) -> bool {
        matches!(self, Slot::InputNormGain | Slot::RecurrentNormGain | Slot::SumNormGain | Slot::CellNormGain)
    }
}

/// Position of a parameter in the flat vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Layer.
    pub layer: usize,
    /// Direction: 0, or 1 for the second of two.
    pub direction: usize,
    /// Kind of parameter.
    pub slot: Slot,
    /// Shape.
    pub shape: Vec<usize>,
    /// Range of its elements, row-major, in the flat vector.
    pub range: Range<usize>,
}

impl Entry {
    /// Returns the name in a file of this crate's own format: `l0.input_weight`, or `l0.reverse.input_weight` for the
    /// second direction.
    pub fn name(&self) -> String {
        let reverse = if self.direction == 1 { "reverse." } else { "" };
        format!("l{}.{reverse}{}", self.layer, self.slot.name())
    }
}

/// The parameters of a network, or their gradients. `A` is the arithmetic type.
#[derive(Clone, Debug)]
pub struct Params<A> {
    entries: Arc<Vec<Entry>>,
    values: Vec<A>,
    /// Differs from the version of all other parameters, and changes with each access that may write.
    version: u64,
}

impl<A: PartialEq> PartialEq for Params<A> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.values == other.values
    }
}

fn new_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<A: Float> Params<A> {
    /// Creates zeros in the layout of a network.
    pub fn zeros(config: &Config) -> Result<Params<A>, Error> {
        let (entries, count) = Self::form_of(config)?;
        Ok(Params { entries: Arc::new(entries), values: memory::zeros(count)?, version: new_version() })
    }

    /// Returns the layout of a network's parameters, and the total number of elements.
    pub(crate) fn form_of(config: &Config) -> Result<(Vec<Entry>, usize), Error> {
        config.check()?;
        let mut entries = memory::reserved(config.layers * config.directions() * Slot::ALL.len())?;
        let mut end = 0usize;
        let too_large = || Error::OutOfMemory { bytes: usize::MAX };
        for layer in 0..config.layers {
            for direction in 0..config.directions() {
                for slot in Slot::ALL {
                    if let Some(shape) = slot.shape(config, layer) {
                        let count =
                            shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim)).ok_or_else(too_large)?;
                        let start = end;
                        end = start
                            .checked_add(count)
                            .filter(|&n| n <= isize::MAX as usize / 16)
                            .ok_or_else(too_large)?;
                        entries.push(Entry { layer, direction, slot, shape, range: start..end });
                    }
                }
            }
        }
        Ok((entries, end))
    }

    /// Creates zeros in the same layout. Aborts if memory runs out, as `Vec` does; see [`Params::try_zeros_like`].
    pub fn zeros_like(&self) -> Params<A> {
        Params { entries: self.entries.clone(), values: vec![A::ZERO; self.values.len()], version: new_version() }
    }

    /// Creates zeros in the same layout. Fails if memory runs out.
    pub fn try_zeros_like(&self) -> Result<Params<A>, Error> {
        let values = memory::zeros(self.values.len())?;
        Ok(Params { entries: self.entries.clone(), values, version: new_version() })
    }

    /// Returns the layout, shared.
    pub(crate) fn form(&self) -> Arc<Vec<Entry>> {
        Arc::clone(&self.entries)
    }

    /// Returns whether the layout is the same.
    pub(crate) fn has_form(&self, form: &Arc<Vec<Entry>>) -> bool {
        Arc::ptr_eq(&self.entries, form) || self.entries == *form
    }

    /// Returns the layout.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns all elements, one parameter after the other.
    pub fn values(&self) -> &[A] {
        &self.values
    }

    /// Returns all elements for writing: an optimizer step is a loop over them.
    pub fn values_mut(&mut self) -> &mut [A] {
        self.version = new_version();
        &mut self.values
    }

    /// Returns a parameter by its name ([`Entry::name`]).
    pub fn by_name(&self, name: &str) -> Option<&[A]> {
        self.entries.iter().find(|entry| entry.name() == name).map(|entry| &self.values[entry.range.clone()])
    }

    /// Returns a parameter, if the network has it.
    pub fn get(&self, layer: usize, direction: usize, slot: Slot) -> Option<&[A]> {
        Some(&self.values[self.find(layer, direction, slot)?.range.clone()])
    }

    /// Returns a parameter for writing, if the network has it.
    pub fn get_mut(&mut self, layer: usize, direction: usize, slot: Slot) -> Option<&mut [A]> {
        let range = self.find(layer, direction, slot)?.range.clone();
        self.version = new_version();
        Some(&mut self.values[range])
    }

    pub(crate) fn find(&self, layer: usize, direction: usize, slot: Slot) -> Option<&Entry> {
        self.entries.iter().find(|e| e.layer == layer && e.direction == direction && e.slot == slot)
    }

    /// Returns the version. Equal versions mean equal numbers; any change gives a new version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

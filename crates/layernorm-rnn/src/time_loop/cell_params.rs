//! Parameters of one cell, ready to run: weights packed for the products, biases combined, norms with their γ and β.

use super::CellId;
use super::norms::CellNorms;
use crate::config::Config;
use crate::error::Error;
use crate::matmul::Packed;
use crate::noise::{NoiseStream, Purpose};
use crate::params::{Params, Slot};
use crate::real::Real;
use crate::variant::{Kind, NormSpec, Over, Reset};
use layernorm::parts::{self, MachineIsa, memory};

/// Identifies what a cell was prepared for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    config: Config,
    cell: CellId,
    version: u64,
    isa: MachineIsa,
    /// Seed of DropConnect, if used.
    seed: Option<u64>,
}

/// Parameters of one cell, ready to run.
#[derive(Debug)]
pub(crate) struct CellParams<A> {
    key: Option<Key>,
    back_key: Option<Key>,
    /// Wᵀ and Uᵀ, `[I, G·H]` and `[P, G·H]`.
    pub(crate) input: Packed<A>,
    pub(crate) recurrent: Packed<A>,
    /// The candidate's part of Uᵀ if it is multiplied separately; `recurrent` then has the rest.
    pub(crate) candidate: Packed<A>,
    /// W and U for the backward pass, `[G·H, I]` and `[G·H, P]`.
    pub(crate) input_back: Packed<A>,
    pub(crate) recurrent_back: Packed<A>,
    /// The projection, forward and backward, `[H, P]` and `[P, H]`.
    pub(crate) projection: Packed<A>,
    pub(crate) projection_back: Packed<A>,
    /// bx, plus bh if both products go into one sum.
    pub(crate) input_start: Vec<A>,
    /// bh, if the recurrent product is separate.
    pub(crate) recurrent_start: Vec<A>,
    /// b with the offset; −0 if absent.
    pub(crate) bias: Vec<A>,
    pub(crate) projection_bias: Vec<A>,
    pub(crate) peephole: Vec<A>,
    pub(crate) input_norm: Option<CellNorms<A>>,
    pub(crate) recurrent_norm: Option<CellNorms<A>>,
    pub(crate) sum_norm: Option<CellNorms<A>>,
    pub(crate) cell_norm: Option<CellNorms<A>>,
    /// U with DropConnect's mask applied.
    masked: Vec<A>,
}

/// Returns whether both products go into one sum: nothing is applied to either before they are added.
pub(crate) fn fused(config: &Config) -> bool {
    let v = &config.variant;
    let apart = v.kind == Kind::Gru && v.reset != Reset::Sum;
    v.input_norm.is_none() && v.recurrent_norm.is_none() && !apart
}

impl<A: Real> CellParams<A> {
    pub(crate) fn new() -> Self {
        CellParams {
            key: None,
            back_key: None,
            input: Packed::new(),
            recurrent: Packed::new(),
            candidate: Packed::new(),
            input_back: Packed::new(),
            recurrent_back: Packed::new(),
            projection: Packed::new(),
            projection_back: Packed::new(),
            input_start: Vec::new(),
            recurrent_start: Vec::new(),
            bias: Vec::new(),
            projection_bias: Vec::new(),
            peephole: Vec::new(),
            input_norm: None,
            recurrent_norm: None,
            sum_norm: None,
            cell_norm: None,
            masked: Vec::new(),
        }
    }

    /// Prepares a cell for a forward pass. Does nothing if it is already prepared.
    pub(crate) fn prepare_forward(&mut self, source: &ParamSource<'_, A>) -> Result<(), Error> {
        let key = Some(source.key());
        if self.key == key {
            return Ok(());
        }
        // If this fails halfway, the cell must not count as prepared.
        (self.key, self.back_key) = (None, None);
        let config = source.config;
        let (v, gates, hidden) = (&config.variant, config.variant.gates().len(), config.hidden);
        let width = gates * hidden;
        let get = |slot| source.params.get(source.cell.layer, source.cell.direction, slot);
        self.mask(source)?;
        let recurrent = if self.masked.is_empty() { get(Slot::RecurrentWeight) } else { Some(&self.masked[..]) };
        pack_transposed(source, &mut self.input, get(Slot::InputWeight), config.layer_input(source.cell.layer))?;
        let split =
            if v.kind == Kind::Gru && v.reset == Reset::State { width - hidden } else { width } * config.output();
        pack_transposed(source, &mut self.recurrent, recurrent.map(|u| &u[..split]), config.output())?;
        pack_transposed(source, &mut self.candidate, recurrent.map(|u| &u[split..]), config.output())?;
        pack_transposed(source, &mut self.projection, get(Slot::Projection), hidden)?;

        // −0 if absent.
        let copy = |values: Option<&[A]>, count: usize| match values {
            Some(values) => memory::copied(values),
            None => memory::filled(count, A::NEG_ZERO),
        };
        let bias = get(Slot::Bias);
        self.input_start = copy(if v.tied_bias { bias } else { get(Slot::InputBias) }, width)?;
        self.recurrent_start = copy(get(Slot::RecurrentBias), width)?;
        if fused(config) {
            self.input_start.iter_mut().zip(&self.recurrent_start).for_each(|(x, &h)| *x = *x + h);
        }
        self.bias = copy(bias, width)?;
        if v.offset != 0.0 {
            let start = v.offset_gate() * hidden;
            self.bias[start..start + hidden].iter_mut().for_each(|b| *b = *b + A::from_f64(v.offset));
        }
        self.projection_bias = copy(get(Slot::ProjectionBias), config.output())?;
        self.peephole = copy(get(Slot::Peephole), 0)?;

        let norm = |norm: Option<NormSpec>, gates, gain, bias| {
            norm.map(|norm| CellNorms::new(norm, gates, hidden, get(gain), get(bias))).transpose()
        };
        self.input_norm = norm(v.input_norm, gates, Slot::InputNormGain, Slot::InputNormBias)?;
        self.recurrent_norm = norm(v.recurrent_norm, gates, Slot::RecurrentNormGain, Slot::RecurrentNormBias)?;
        self.sum_norm = norm(v.sum_norm, gates, Slot::SumNormGain, Slot::SumNormBias)?;
        let of_cell = v.cell_norm.map(|cell| cell.norm.over(Over::AllGates));
        self.cell_norm = norm(of_cell, 1, Slot::CellNormGain, Slot::CellNormBias)?;
        self.key = key;
        Ok(())
    }

    /// Prepares a cell for a backward pass.
    pub(crate) fn prepare_backward(&mut self, source: &ParamSource<'_, A>) -> Result<(), Error> {
        self.prepare_forward(source)?;
        let key = Some(source.key());
        if self.back_key == key {
            return Ok(());
        }
        let config = source.config;
        let get = |slot| source.params.get(source.cell.layer, source.cell.direction, slot);
        let recurrent = if self.masked.is_empty() { get(Slot::RecurrentWeight) } else { Some(&self.masked[..]) };
        pack(source, &mut self.input_back, get(Slot::InputWeight), config.layer_input(source.cell.layer))?;
        pack(source, &mut self.recurrent_back, recurrent, config.output())?;
        pack(source, &mut self.projection_back, get(Slot::Projection), config.hidden)?;
        self.back_key = key;
        Ok(())
    }

    /// Applies DropConnect's mask to U, if used.
    fn mask(&mut self, source: &ParamSource<'_, A>) -> Result<(), Error> {
        self.masked.clear();
        let (Some(seed), Some(u)) =
            (source.seed, source.params.get(source.cell.layer, source.cell.direction, Slot::RecurrentWeight))
        else {
            return Ok(());
        };
        let mask = DropConnect::new(source.config, seed, source.cell);
        memory::refill(&mut self.masked, u.len(), A::ZERO)?;
        self.masked.iter_mut().zip(u).enumerate().for_each(|(i, (to, &u))| *to = u * mask.factor::<A>(i));
        Ok(())
    }
}

/// DropConnect's mask of one cell.
pub(crate) struct DropConnect {
    random: NoiseStream,
    rate: f64,
}

impl DropConnect {
    pub(crate) fn new(config: &Config, seed: u64, cell: CellId) -> Self {
        let random = NoiseStream::new(seed, Purpose::DropConnect, cell.layer, cell.direction);
        DropConnect { random, rate: config.noise.drop_connect }
    }

    /// Returns the factor for a number of U.
    pub(crate) fn factor<A: Real>(&self, index: usize) -> A {
        if self.random.hits(index, self.rate) { A::ZERO } else { A::from_f64(1.0 / (1.0 - self.rate)) }
    }
}

/// Parameters to prepare: of which cell, and how.
#[derive(Clone, Copy)]
pub(crate) struct ParamSource<'a, A> {
    pub(crate) config: &'a Config,
    pub(crate) params: &'a Params<A>,
    pub(crate) cell: CellId,
    pub(crate) isa: MachineIsa,
    pub(crate) threads: usize,
    /// Seed of DropConnect, in training if it is used.
    pub(crate) seed: Option<u64>,
}

impl<A: Real> ParamSource<'_, A> {
    fn key(&self) -> Key {
        Key { config: *self.config, cell: self.cell, version: self.params.version(), isa: self.isa, seed: self.seed }
    }
}

/// Matrices of at least this many numbers are packed by several threads.
const PACK_SHARED: usize = 1 << 17;

/// Packs the transpose of a matrix `[n, k]`.
fn pack_transposed<A: Real>(
    source: &ParamSource<'_, A>,
    to: &mut Packed<A>,
    from: Option<&[A]>,
    k: usize,
) -> Result<(), Error> {
    let Some(from) = from.filter(|from| !from.is_empty()) else { return Ok(()) };
    to.reshape(source.isa, k, from.len() / k)?;
    let to = &*to;
    let threads = if from.len() < PACK_SHARED { 1 } else { source.threads };
    // SAFETY: the matrix has this size, and every panel is packed once.
    parts::run(threads, to.panels(), &|panel| unsafe { to.pack_panel_transposed(panel, from.as_ptr(), k) });
    Ok(())
}

/// Packs a matrix `[k, n]`.
fn pack<A: Real>(source: &ParamSource<'_, A>, to: &mut Packed<A>, from: Option<&[A]>, n: usize) -> Result<(), Error> {
    let Some(from) = from else { return Ok(()) };
    to.reshape(source.isa, from.len() / n, n)?;
    let to = &*to;
    let threads = if from.len() < PACK_SHARED { 1 } else { source.threads };
    // SAFETY: the matrix has this size, and every panel is packed once.
    parts::run(threads, to.panels(), &|panel| unsafe { to.pack_panel(panel, from.as_ptr(), n) });
    Ok(())
}

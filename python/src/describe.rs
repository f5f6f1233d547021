//! Description of a network as data, for Python code that composes it of PyTorch operations.

use crate::failure::Failure;
use crate::recurrent::Recurrent;
use layernorm_rnn::{Activation, EpsPlace, Mask, NormSpec, Over, Reset, Update};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// `(over, ε, whether ε is added to the deviation)`.
type Described = (&'static str, f64, bool);

fn described(norm: NormSpec) -> Described {
    let over = match norm.over {
        Over::AllGates => "all",
        Over::EachGate => "each",
        Over::GatesAndCandidate => "apart",
    };
    (over, norm.eps, norm.eps_place == EpsPlace::Deviation)
}

/// The variant of a network: the fields of Rust's `Variant`, with norms as `(over, eps, to_deviation)`.
#[pyfunction]
#[pyo3(signature = (network, /))]
pub fn describe<'py>(py: Python<'py>, network: &Recurrent) -> PyResult<Bound<'py, PyDict>> {
    let v = &network.config().variant;
    let found = PyDict::new(py);
    found.set_item("gates", v.gates().len())?;
    found.set_item("input_norm", v.input_norm.map(described))?;
    found.set_item("recurrent_norm", v.recurrent_norm.map(described))?;
    found.set_item("sum_norm", v.sum_norm.map(described))?;
    found.set_item("cell_norm", v.cell_norm.map(|cell| described(cell.norm)))?;
    found.set_item("carried", v.cell_norm.is_some_and(|cell| cell.carried))?;
    found.set_item("tied_bias", v.tied_bias)?;
    found.set_item("offset", v.offset)?;
    found.set_item("coupled", v.coupled)?;
    found.set_item("cell_clip", v.cell_clip)?;
    found.set_item("projection_clip", v.projection_clip)?;
    let reset = match v.reset {
        Reset::State => "state",
        Reset::Product => "product",
        Reset::Sum => "sum",
    };
    found.set_item("reset", reset)?;
    found.set_item("keeps_old", v.update == Update::KeepsOld)?;
    found.set_item("relu", v.activation == Activation::Relu)?;
    Ok(found)
}

/// Mask of the first `count` elements that the noise of a training pass hits.
#[pyfunction]
#[pyo3(signature = (network, what, seed, layer, direction, count, /))]
pub fn noise_hits(
    network: &Recurrent,
    what: &str,
    seed: u64,
    layer: usize,
    direction: usize,
    count: usize,
) -> PyResult<Vec<bool>> {
    let mask = match what {
        "dropout" => Mask::Dropout,
        "recurrent_dropout" => Mask::RecurrentDropout,
        "drop_connect" => Mask::DropConnect,
        "zoneout" => Mask::ZoneoutHidden,
        "zoneout_cell" => Mask::ZoneoutCell,
        _ => return Err(Failure::Order("no noise has this name").into()),
    };
    Ok(network.config().noise.hits(mask, seed, layer, direction, count))
}

//! A linear layer, plain or weight-normalized: O = I·W + b, W = v or g·v/‖v‖ by column.

use super::start::Draw;
use super::{Norm, Weight};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::linear;
use layernorm_burn::functional::weight_norm;

/// A linear layer.
#[derive(Module, Debug)]
pub struct Dense {
    /// v `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// b `[outputs]`.
    pub bias: Param<Tensor<1>>,
    /// g `[outputs]`: the lengths of the columns, with weight norm.
    pub length: Option<Param<Tensor<1>>>,
}

impl Dense {
    pub(crate) fn new(inputs: usize, outputs: usize, norm: Norm, draw: &mut Draw<'_>) -> Dense {
        let weight = draw.weight([inputs, outputs], inputs);
        let bias = draw.bias(outputs, inputs);
        Dense { length: lengths(&weight, 1, norm), weight, bias }
    }

    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        linear(x, normalized(&self.weight, self.length.as_ref(), 1), Some(self.bias.val()))
    }

    pub(super) fn handle(&self) -> Weight {
        Weight::Matrix(self.weight.id)
    }
}

/// g = ‖v‖ along an axis, so that the weight starts as v; `None` without weight norm.
pub(super) fn lengths<const D: usize>(v: &Param<Tensor<D>>, axis: usize, norm: Norm) -> Option<Param<Tensor<1>>> {
    if norm != Norm::Weight {
        return None;
    }
    let v = v.val().detach();
    let others = (0..D).filter(|&other| other != axis);
    let squares = others.fold(v.square(), |sums, other| sums.sum_dim(other));
    let outputs = squares.dims()[axis];
    Some(Param::from_tensor(squares.sqrt().reshape([outputs]).detach()))
}

/// v itself, or g·v/‖v‖ along the axis of the outputs.
pub(super) fn normalized<const D: usize>(v: &Param<Tensor<D>>, g: Option<&Param<Tensor<1>>>, axis: usize) -> Tensor<D> {
    match g {
        None => v.val(),
        Some(g) => weight_norm(v.val(), g.val(), Some(axis)),
    }
}

//! Two 3×3 convolutions of stride 2, each with a norm and ReLU, and a linear layer for the logits.

use super::dense::{Dense, lengths, normalized};
use super::norm::NormLayer;
use super::start::Draw;
use super::{LOGITS, Norm, Taps, Weight};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;

/// Filters of a convolution, plain or weight-normalized.
#[derive(Module, Debug)]
pub struct Filters {
    /// `[outputs, inputs, 3, 3]`.
    weight: Param<Tensor<4>>,
    bias: Param<Tensor<1>>,
    length: Option<Param<Tensor<1>>>,
    norm: Option<NormLayer>,
}

/// A CNN.
#[derive(Module, Debug)]
pub struct Cnn {
    layers: Vec<Filters>,
    last: Dense,
}

/// Height and width of the filters.
const SIDE: usize = 3;
/// Stride of the convolutions.
const STRIDE: usize = 2;

/// Number of pixels that remain per side: half, rounded up.
fn shrunk(side: usize) -> usize {
    side.div_ceil(STRIDE)
}

impl Cnn {
    pub(super) fn new(image: [usize; 2], channels: [usize; 2], norm: Norm, draw: &mut Draw<'_>) -> Cnn {
        let mut layers = Vec::new();
        let (mut inputs, mut sides) = (1, image);
        for outputs in channels {
            let fan_in = inputs * SIDE * SIDE;
            let weight = draw.weight([outputs, inputs, SIDE, SIDE], fan_in);
            let bias = draw.bias(outputs, fan_in);
            sides = sides.map(shrunk);
            let over = NormLayer::of_images(norm, [outputs, sides[0], sides[1]], draw);
            layers.push(Filters { length: lengths(&weight, 0, norm), weight, bias, norm: over });
            inputs = outputs;
        }
        Cnn { layers, last: Dense::new(inputs * sides[0] * sides[1], LOGITS, norm, draw) }
    }

    pub(super) fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        let mut x: Tensor<4> = images.unsqueeze_dim(1);
        for (number, layer) in self.layers.iter().enumerate() {
            let weight = normalized(&layer.weight, layer.length.as_ref(), 0);
            let options = ConvOptions::new([STRIDE; 2], [SIDE / 2; 2], [1, 1], 1);
            let before = conv2d(x, weight, Some(layer.bias.val()), options);
            let after = match &layer.norm {
                Some(norm) => norm.images(before.clone()),
                None => before.clone(),
            };
            taps.images(|| format!("convolution {}", number + 1), &before, &after);
            x = relu(after);
        }
        self.last.forward(x.flatten::<2>(1, 3))
    }

    pub(super) fn weights(&self) -> Vec<(String, Weight)> {
        let filters = self.layers.iter().enumerate();
        let filters = filters.map(|(n, layer)| (format!("convolution {}", n + 1), Weight::Filters(layer.weight.id)));
        filters.chain([("logits".to_owned(), self.last.handle())]).collect()
    }
}

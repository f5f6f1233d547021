//! Fully connected layers: h = φ(norm(h·W + b)), with logits at the end.

use super::dense::Dense;
use super::norm::NormLayer;
use super::start::Draw;
use super::{Activation, LOGITS, Norm, Taps, Weight};
use burn::module::{Module, ParamId};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

/// A fully connected layer and its norm.
#[derive(Debug)]
pub(crate) struct DenseLayer<'a> {
    /// `layer 1` and so on, and `logits`.
    pub(crate) name: String,
    /// The product.
    pub(crate) dense: &'a Dense,
    /// The norm after it.
    pub(crate) norm: Option<&'a NormLayer>,
}

impl DenseLayer<'_> {
    /// The ids of its parameters that are vectors: b, g, γ and β.
    pub(crate) fn vectors(&self) -> Vec<ParamId> {
        let norm = self.norm.map_or_else(Vec::new, NormLayer::affine);
        let g = self.dense.length.as_ref().map(|g| g.id);
        [self.dense.bias.id].into_iter().chain(g).chain(norm).collect()
    }
}

/// An MLP.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Vec<Dense>,
    norms: Vec<NormLayer>,
    last: Dense,
    output_norm: Option<NormLayer>,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    pub(super) fn new(
        pixels: usize,
        sizes: &[usize],
        activation: Activation,
        output_norm: bool,
        norm: Norm,
        draw: &mut Draw<'_>,
    ) -> Mlp {
        let mut inputs = pixels;
        let mut hidden = Vec::new();
        for &units in sizes {
            hidden.push(Dense::new(inputs, units, norm, draw));
            inputs = units;
        }
        let last = Dense::new(inputs, LOGITS, norm, draw);
        let norms = sizes.iter().filter_map(|&units| NormLayer::of_units(norm, units, draw)).collect();
        let output_norm = if output_norm { NormLayer::of_units(norm, LOGITS, draw) } else { None };
        Mlp { hidden, norms, last, output_norm, activation }
    }

    pub(super) fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        let mut x: Tensor<2> = images.flatten(1, 2);
        for (number, dense) in self.hidden.iter().enumerate() {
            let before = dense.forward(x);
            let after = match self.norms.get(number) {
                Some(norm) => norm.vectors(before.clone()),
                None => before.clone(),
            };
            taps.vectors(|| format!("layer {}", number + 1), &before, &after);
            x = match self.activation {
                Activation::Relu => relu(after),
                Activation::Tanh => after.tanh(),
            };
        }
        let logits = self.last.forward(x);
        match &self.output_norm {
            Some(norm) => norm.vectors(logits),
            None => logits,
        }
    }

    pub(super) fn weights(&self) -> Vec<(String, Weight)> {
        self.layers().into_iter().map(|layer| (layer.name, layer.dense.handle())).collect()
    }

    /// All layers in order of use; the last one computes the logits.
    pub(super) fn layers(&self) -> Vec<DenseLayer<'_>> {
        let hidden = self.hidden.iter().enumerate().map(|(n, dense)| DenseLayer {
            name: format!("layer {}", n + 1),
            dense,
            norm: self.norms.get(n),
        });
        let last = DenseLayer { name: "logits".to_owned(), dense: &self.last, norm: self.output_norm.as_ref() };
        hidden.chain([last]).collect()
    }
}

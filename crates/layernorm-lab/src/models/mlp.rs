//! Fully connected layers: h = φ(norm(h·W + b)), with logits at the end.

use super::dense::Dense;
use super::norm::NormLayer;
use super::start::Draw;
use super::{Activation, LOGITS, Norm, Taps, Weight};
use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

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
        let hidden = self.hidden.iter().enumerate().map(|(n, dense)| (format!("layer {}", n + 1), dense.handle()));
        hidden.chain([("logits".to_owned(), self.last.handle())]).collect()
    }
}

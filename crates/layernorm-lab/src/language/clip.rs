//! Clipping of the gradient by its norm over all parameters together. Burn's own clipping treats each parameter alone.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Scales the gradients so that their norm is at most `limit`; returns the norm before.
pub(super) fn clip<M: Module>(net: &M, gradients: &mut GradientsParams, limit: f64) -> f64 {
    let mut norm = Norm { gradients, squares: 0.0 };
    net.visit(&mut norm);
    let norm = norm.squares.sqrt();
    if norm > limit {
        net.visit(&mut Scale { gradients, factor: limit / norm });
    }
    norm
}

struct Norm<'a> {
    gradients: &'a GradientsParams,
    squares: f64,
}

impl ModuleVisitor for Norm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.squares += f64::from(gradient.square().sum().into_scalar::<f32>());
        }
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}

//! The length of each layer's weights W, and the angle between W and its gradient.
//!
//! ```text
//! L(k·W) = L(W) for all k > 0   ⇒   ⟨W, ∂L/∂W⟩ = 0   ⇒   ‖W − η·∂L/∂W‖² = ‖W‖² + η²·‖∂L/∂W‖²
//! ```
//!
//! If the loss does not depend on the scale of W, the gradient is orthogonal to W, and plain gradient descent lengthens
//! W in every step. With batch norm and weight norm this holds for the W of each unit (with weight norm for v). Layer
//! norm does not see the common scale of all its summed inputs W·x + b, so it holds for all W and b of a layer together.

use super::super::evaluate::{Cases, loss, numbers};
use super::super::events::{Angle, Weights, finite};
use crate::models::{DenseLayer, Net, Taps};
use crate::studies::Error;
use crate::training::Spec;
use burn::optim::GradientsParams;

/// The layers of an MLP; `None` for other networks.
pub(super) fn of_layers(net: &Net, spec: &Spec, step: usize, batch: &Cases) -> Result<Option<Weights>, Error> {
    let layers = net.dense_layers();
    if layers.is_empty() {
        return Ok(None);
    }
    let logits = net.forward(batch.images.clone(), &mut Taps::closed());
    let gradients = GradientsParams::from_grads(loss(logits, &batch.classes).backward(), net);
    let angles: Vec<[Angle; 2]> =
        layers.iter().map(|layer| angles(layer, &gradients).map_err(Error::Run)).collect::<Result<_, Error>>()?;
    Ok(Some(Weights {
        step,
        rate: spec.rate(step),
        layers: layers.into_iter().map(|layer| layer.name).collect(),
        weight: angles.iter().map(|[weight, _]| *weight).collect(),
        with_bias: angles.iter().map(|[_, with_bias]| *with_bias).collect(),
    }))
}

/// The angles of W, and of W and b together.
fn angles(layer: &DenseLayer<'_>, gradients: &GradientsParams) -> Result<[Angle; 2], String> {
    let dense = layer.dense;
    let (mut values, bias) = (numbers(dense.weight.val())?, numbers(dense.bias.val())?);
    let of_bias = gradients.get::<1>(dense.bias.id).map_or_else(|| Ok(vec![0.0; bias.len()]), numbers)?;
    let mut of_values = gradients.get::<2>(dense.weight.id).map_or_else(|| Ok(vec![0.0; values.len()]), numbers)?;
    let weight = angle(&values, &of_values);
    values.extend(bias);
    of_values.extend(of_bias);
    Ok([weight, angle(&values, &of_values)])
}

/// The angle between parameters and their gradient.
pub(super) fn angle(values: &[f32], gradient: &[f32]) -> Angle {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let (length, slope) = (dot(values, values).sqrt(), dot(gradient, gradient).sqrt());
    let cosine = finite(dot(values, gradient) / (length * slope));
    Angle { length: finite(length), gradient: finite(slope), cosine }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_are_those_of_a_textbook() {
        let expected = Angle { length: Some(5.0), gradient: Some(2.0), cosine: Some(0.6) };
        assert_eq!(angle(&[3.0, 4.0], &[2.0, 0.0]), expected);
        assert_eq!(angle(&[3.0, 4.0], &[-4.0, 3.0]).cosine, Some(0.0));
        assert_eq!(angle(&[3.0, 4.0], &[0.0, 0.0]).cosine, None, "a gradient of 0 has no direction");
    }
}

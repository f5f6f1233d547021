//! A norm over rows with its statistics: of a layer of the MLP, or of a place of the LSTM at one time step.

use crate::error::Error;
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::{Affine, Context, Float, Gradients, NormConfig, Saved, View, ViewMut, layer_norm, rms_norm};

/// Which norm a network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormKind {
    None,
    Batch,
    Layer,
    Rms,
}

impl NormKind {
    pub(crate) const NAMES: [(&'static str, NormKind); 4] =
        [("none", NormKind::None), ("batch", NormKind::Batch), ("layer", NormKind::Layer), ("rms", NormKind::Rms)];
}

/// ε of all norms.
const EPS: f64 = 1e-5;

/// Which statistics batch norm takes; the other norms compute the same in every pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pass {
    /// Those of the batch, which enter the running statistics with this weight.
    Training(Momentum),
    /// The running statistics.
    Inference,
}

/// A norm over rows of `width` units. γ and β belong to the network's parameters.
#[derive(Debug)]
pub(super) struct Norm<A> {
    kind: NormKind,
    width: usize,
    saved: Saved<A>,
    /// Running statistics of batch norm; empty for the others.
    running_mean: Vec<A>,
    running_var: Vec<A>,
}

/// γ and, if the norm has one, β; or their gradients.
pub(super) struct Pair<T> {
    pub(super) gain: T,
    pub(super) bias: Option<T>,
}

impl<A: Float> Norm<A> {
    pub(super) fn new(kind: NormKind, width: usize) -> Self {
        let count = if kind == NormKind::Batch { width } else { 0 };
        let (running_mean, running_var) = (vec![A::ZERO; count], vec![A::ONE; count]);
        Norm { kind, width, saved: Saved::default(), running_mean, running_var }
    }

    fn affine<'a>(&self, parameters: &Pair<&'a [A]>) -> Result<Affine<'a, A>, Error> {
        let width = [self.width];
        let gain = View::new(parameters.gain, &width)?;
        let bias = parameters.bias.map(|bias| View::new(bias, &width)).transpose()?;
        Ok(Affine { weight: Some(gain.into()), bias: bias.map(Into::into), ..Affine::default() })
    }

    /// Computes a = norm(z).
    pub(super) fn forward(
        &mut self,
        z: &[A],
        a: &mut [A],
        p: &Pair<&[A]>,
        pass: Pass,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let shape = [z.len() / self.width, self.width];
        let affine = self.affine(p)?;
        let (from, to) = (View::new(z, &shape)?, ViewMut::new(a, &shape)?);
        let statistics = if self.kind == NormKind::Batch { self.width } else { shape[0] };
        self.saved.try_resize(statistics)?;
        let config = BatchConfig { affine, eps: EPS };
        let (mean, var) = (&mut self.running_mean[..], &mut self.running_var[..]);
        match (self.kind, pass) {
            (NormKind::Batch, Pass::Training(momentum)) => {
                // A single sample has no unbiased variance.
                let variance = if shape[0] == 1 { RunningVariance::Biased } else { RunningVariance::Unbiased };
                let running = Running { mean, var, momentum, variance };
                Ok(batch_norm::forward_running(from, to, self.saved.as_mut(), running, &config, cx)?)
            }
            (NormKind::Batch, Pass::Inference) => Ok(batch_norm::infer(from, to, Moments { mean, var }, &config, cx)?),
            _ => self.rows(from, to, affine, cx),
        }
    }

    fn rows(&mut self, from: View<A>, to: ViewMut<A>, affine: Affine<A>, cx: &mut Context) -> Result<(), Error> {
        let config = NormConfig::new().affine(affine).eps(EPS);
        let stats = Some(self.saved.as_mut());
        match self.kind {
            NormKind::Rms => rms_norm::forward(from, to, stats, &config, cx)?,
            _ => layer_norm::forward(from, to, stats, &config, cx)?,
        }
        Ok(())
    }

    /// Computes dz and the gradients of γ and β after [`Norm::forward`] in training on the same z.
    pub(super) fn backward(
        &mut self,
        z: &[A],
        da: &[A],
        dz: &mut [A],
        p: &Pair<&[A]>,
        d: Pair<&mut [A]>,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let (shape, width) = ([z.len() / self.width, self.width], [self.width]);
        let affine = self.affine(p)?;
        let gradients = Gradients {
            input: Some(ViewMut::new(dz, &shape)?),
            weight: Some(ViewMut::new(d.gain, &width)?.into()),
            bias: d.bias.map(|bias| ViewMut::new(bias, &width)).transpose()?.map(Into::into),
        };
        let (x, dy, stats) = (View::new(z, &shape)?, View::new(da, &shape)?, self.saved.as_ref());
        let config = NormConfig::new().affine(affine).eps(EPS);
        match self.kind {
            NormKind::Batch => batch_norm::backward(x, dy, stats, gradients, &BatchConfig { affine, eps: EPS }, cx)?,
            NormKind::Rms => rms_norm::backward(x, dy, stats, gradients, &config, cx)?,
            _ => layer_norm::backward(x, dy, stats, gradients, &config, cx)?,
        }
        Ok(())
    }
}

//! Layer norm and RMS norm over rows in plain slices, called by both the checks and the measurements.

use layernorm::{Affine, Context, Element, Error, Gradients, NormConfig, StatsMut, StatsRef, View, ViewMut};
use layernorm::{layer_norm, rms_norm};

/// ε in every check and measurement.
pub const EPS: f64 = 1e-5;

/// The kind of normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowNorm {
    /// Layer normalization.
    Layer,
    /// RMS normalization.
    Rms,
}

/// The inputs. `[R, N]` means R rows of N elements.
#[derive(Debug)]
pub struct Inputs<'a, T> {
    /// N.
    pub n: usize,
    /// x, `[R, N]`.
    pub x: &'a [T],
    /// The gradient of the output, `[R, N]`.
    pub dy: &'a [T],
    /// γ, `[N]`.
    pub gain: &'a [T],
    /// β, `[N]`.
    pub bias: &'a [T],
}

/// The gradients to write.
#[derive(Debug)]
pub struct GradientSlices<'a, T> {
    /// The gradient of x, `[R, N]`.
    pub dx: &'a mut [T],
    /// The gradient of γ, `[N]`.
    pub dgain: &'a mut [T],
    /// The gradient of β, `[N]`.
    pub dbias: &'a mut [T],
}

impl<T: Element> Inputs<'_, T> {
    fn shape(&self) -> [usize; 2] {
        [self.x.len() / self.n.max(1), self.n]
    }

    fn config(&self) -> Result<NormConfig<'_, T>, Error> {
        let affine = Affine::new(View::new(self.gain, &[self.n])?, View::new(self.bias, &[self.n])?);
        Ok(NormConfig::new().affine(affine).eps(EPS))
    }
}

impl RowNorm {
    /// Whether the mean of each row is subtracted.
    pub fn centered(self) -> bool {
        self == RowNorm::Layer
    }

    /// Computes y and the statistics that backward needs.
    pub fn forward<T: Element>(
        self,
        of: &Inputs<T>,
        y: &mut [T],
        stats: StatsMut<T::Acc>,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let shape = of.shape();
        let forward = if self.centered() { layer_norm::forward } else { rms_norm::forward };
        forward(View::new(of.x, &shape)?, ViewMut::new(y, &shape)?, Some(stats), &of.config()?, cx)
    }

    /// Computes h = x + residual and y = norm(h). The residual is the inputs' dy: any tensor of that shape will do.
    pub fn forward_residual<T: Element>(
        self,
        of: &Inputs<T>,
        h: &mut [T],
        y: &mut [T],
        stats: StatsMut<T::Acc>,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let shape = of.shape();
        let forward = if self.centered() { layer_norm::forward_residual } else { rms_norm::forward_residual };
        let (x, residual) = (View::new(of.x, &shape)?, View::new(of.dy, &shape)?);
        forward(x, residual, ViewMut::new(h, &shape)?, ViewMut::new(y, &shape)?, Some(stats), &of.config()?, cx)
    }

    /// Computes all three gradients.
    pub fn backward<T: Element>(
        self,
        of: &Inputs<T>,
        stats: StatsRef<T::Acc>,
        to: GradientSlices<T>,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let shape = of.shape();
        let gradients = Gradients {
            input: Some(ViewMut::new(to.dx, &shape)?),
            weight: Some(ViewMut::new(to.dgain, &[of.n])?.into()),
            bias: Some(ViewMut::new(to.dbias, &[of.n])?.into()),
        };
        let backward = if self.centered() { layer_norm::backward } else { rms_norm::backward };
        backward(View::new(of.x, &shape)?, View::new(of.dy, &shape)?, stats, gradients, &of.config()?, cx)
    }
}

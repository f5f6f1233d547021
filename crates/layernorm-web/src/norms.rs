//! The normalizations: from the options of a call to the crate `layernorm` and back.

use crate::error::Error;
use crate::message::Value;
use crate::options::Options;
use layernorm::batch_norm::BatchConfig;
use layernorm::group_norm::GroupConfig;
use layernorm::weight_norm::WeightGradients;
use layernorm::{Affine, Context, Gradients, NormConfig, Param, Saved, View, ViewMut};
use layernorm::{batch_norm, group_norm, layer_norm, rms_norm, weight_norm};

/// Which normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Layer,
    Rms,
    Batch,
    Group,
    Instance,
    Weight,
}

impl Kind {
    pub(crate) const NAMES: [(&'static str, Kind); 6] = [
        ("layer", Kind::Layer),
        ("rms", Kind::Rms),
        ("batch", Kind::Batch),
        ("group", Kind::Group),
        ("instance", Kind::Instance),
        ("weight", Kind::Weight),
    ];

    fn has_mean(self) -> bool {
        !matches!(self, Kind::Rms | Kind::Weight)
    }
}

/// A normalization of one tensor.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) kind: Kind,
    pub(crate) x: Vec<f32>,
    /// The last axis is a row of layer and RMS norm; axis 1 holds the channels of batch, group and instance norm; axis 0
    /// holds the rows of weight norm.
    pub(crate) shape: Vec<usize>,
    /// γ; of weight norm: the lengths g. 1 if absent.
    pub(crate) gain: Option<Vec<f32>>,
    /// β; 0 if absent.
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) eps: f64,
    /// Groups of group norm.
    pub(crate) groups: usize,
}

/// What forward returns.
#[derive(Debug)]
pub(crate) struct Normalized {
    pub(crate) y: Vec<f32>,
    pub(crate) saved: Saved<f32>,
}

/// What backward returns; empty where the norm has no such parameter.
#[derive(Debug)]
pub(crate) struct NormGradients {
    pub(crate) dx: Vec<f32>,
    pub(crate) dgain: Vec<f32>,
    pub(crate) dbias: Vec<f32>,
}

impl Norm {
    fn new(options: &mut Options) -> Result<Norm, Error> {
        let kind = options.choice("kind", &Kind::NAMES)?;
        let x = options.floats("x")?;
        let shape = options.sizes("shape")?;
        let gain = options.floats_or_none("gain")?;
        let bias = options.floats_or_none("bias")?;
        let eps = options.number("eps", 1e-5)?;
        let groups = options.whole("groups", 1, u32::MAX, Some(1))?;
        Norm { kind, x, shape, gain, bias, eps, groups }.checked()
    }

    /// Fails if the numbers do not fill the shape, or if an option does not belong to the kind.
    fn checked(self) -> Result<Norm, Error> {
        let wrong = |option: &str, expected: &str, found: String| Error::Value {
            option: option.to_owned(),
            expected: expected.to_owned(),
            found,
        };
        let count = self.shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        if count != Some(self.x.len()) {
            let expected = count.unwrap_or(usize::MAX);
            return Err(Error::Length {
                option: "x",
                shape: format!("{:?}", self.shape),
                expected,
                found: self.x.len(),
            });
        }
        let (least, axes) = match self.kind {
            Kind::Layer | Kind::Rms | Kind::Weight => (1, "at least 1 axis"),
            Kind::Batch | Kind::Group | Kind::Instance => (2, "at least 2 axes, [N, C, …]"),
        };
        if self.shape.len() < least {
            return Err(wrong("shape", axes, format!("{:?}", self.shape)));
        }
        if self.kind == Kind::Weight && self.bias.is_some() {
            return Err(wrong("bias", "none for weight norm", "one".to_owned()));
        }
        if self.kind != Kind::Group && self.groups != 1 {
            return Err(wrong("groups", "none but for group norm", self.groups.to_string()));
        }
        Ok(self)
    }

    /// Returns the number of elements of γ and β.
    pub(crate) fn parameters(&self) -> usize {
        match self.kind {
            Kind::Layer | Kind::Rms => self.shape[self.shape.len() - 1],
            Kind::Batch | Kind::Group | Kind::Instance => self.shape[1],
            Kind::Weight => self.shape[0],
        }
    }

    /// Returns the number of statistics of each kind.
    fn statistics(&self) -> usize {
        match self.kind {
            Kind::Layer | Kind::Rms => self.shape[..self.shape.len() - 1].iter().product(),
            Kind::Batch => self.shape[1],
            Kind::Group => self.shape[0].saturating_mul(self.groups),
            Kind::Instance => self.shape[0].saturating_mul(self.shape[1]),
            Kind::Weight => self.shape[0],
        }
    }

    /// Returns γ and β as the operations take them.
    fn affine(&self) -> Result<Affine<'_, f32>, Error> {
        let (weight, bias) = (self.parameter("gain", &self.gain)?, self.parameter("bias", &self.bias)?);
        Ok(Affine { weight, bias, zero_centered: false })
    }

    fn parameter<'a>(
        &self,
        option: &'static str,
        values: &'a Option<Vec<f32>>,
    ) -> Result<Option<Param<'a, f32>>, Error> {
        let Some(values) = values else { return Ok(None) };
        let expected = self.parameters();
        if values.len() != expected {
            return Err(Error::Length {
                option,
                shape: format!("shape {:?}", self.shape),
                expected,
                found: values.len(),
            });
        }
        Ok(Some(View::new(values, &[expected])?.into()))
    }

    /// Returns the lengths g of weight norm.
    fn lengths(&self) -> Result<Vec<f32>, Error> {
        self.parameter("gain", &self.gain)?;
        Ok(self.gain.clone().unwrap_or_else(|| vec![1.0; self.parameters()]))
    }

    fn row_config(&self) -> Result<NormConfig<'_, f32>, Error> {
        Ok(NormConfig::new().affine(self.affine()?).eps(self.eps))
    }

    fn batch_config(&self) -> Result<BatchConfig<'_, f32>, Error> {
        Ok(BatchConfig { affine: self.affine()?, eps: self.eps })
    }

    fn group_config(&self) -> Result<GroupConfig<'_, f32>, Error> {
        let groups = if self.kind == Kind::Instance { self.shape[1] } else { self.groups };
        Ok(GroupConfig { groups, affine: self.affine()?, eps: self.eps })
    }

    /// Computes y and the statistics.
    pub(crate) fn forward(&self, cx: &mut Context) -> Result<Normalized, Error> {
        let mut y = zeros(self.x.len())?;
        if self.kind == Kind::Group && !self.shape[1].is_multiple_of(self.groups) {
            return Err(layernorm::Error::Groups { groups: self.groups, channels: self.shape[1] }.into());
        }
        let mut saved = Saved::try_new(self.statistics())?;
        let (from, to) = (View::new(&self.x, &self.shape)?, ViewMut::new(&mut y, &self.shape)?);
        let stats = saved.as_mut();
        match self.kind {
            Kind::Layer => layer_norm::forward(from, to, Some(stats), &self.row_config()?, cx)?,
            Kind::Rms => rms_norm::forward(from, to, Some(stats), &self.row_config()?, cx)?,
            Kind::Batch => batch_norm::forward(from, to, stats, &self.batch_config()?, cx)?,
            Kind::Group | Kind::Instance => group_norm::forward(from, to, Some(stats), &self.group_config()?, cx)?,
            Kind::Weight => {
                let g = self.lengths()?;
                weight_norm::forward(from, View::new(&g, &[g.len()])?, to, Some(stats), Some(0), cx)?;
            }
        }
        Ok(Normalized { y, saved })
    }

    /// Computes the gradients from that of y.
    pub(crate) fn backward(&self, dy: &[f32], saved: &Saved<f32>, cx: &mut Context) -> Result<NormGradients, Error> {
        if dy.len() != self.x.len() {
            let shape = format!("shape {:?}", self.shape);
            return Err(Error::Length { option: "dy", shape, expected: self.x.len(), found: dy.len() });
        }
        let width = [self.parameters()];
        let (mut dx, mut dgain) = (zeros(self.x.len())?, zeros(width[0])?);
        let mut dbias = zeros(if self.kind == Kind::Weight { 0 } else { width[0] })?;
        let (x, dy, stats) = (View::new(&self.x, &self.shape)?, View::new(dy, &self.shape)?, saved.as_ref());
        if self.kind == Kind::Weight {
            let g = self.lengths()?;
            let gradients = WeightGradients {
                v: Some(ViewMut::new(&mut dx, &self.shape)?),
                g: Some(ViewMut::new(&mut dgain, &width)?),
            };
            weight_norm::backward(x, View::new(&g, &width)?, dy, stats, gradients, Some(0), cx)?;
            return Ok(NormGradients { dx, dgain, dbias });
        }
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &self.shape)?),
            weight: Some(ViewMut::new(&mut dgain, &width)?.into()),
            bias: Some(ViewMut::new(&mut dbias, &width)?.into()),
        };
        match self.kind {
            Kind::Layer => layer_norm::backward(x, dy, stats, gradients, &self.row_config()?, cx)?,
            Kind::Rms => rms_norm::backward(x, dy, stats, gradients, &self.row_config()?, cx)?,
            Kind::Batch => batch_norm::backward(x, dy, stats, gradients, &self.batch_config()?, cx)?,
            _ => group_norm::backward(x, dy, stats, gradients, &self.group_config()?, cx)?,
        }
        Ok(NormGradients { dx, dgain, dbias })
    }
}

pub(crate) fn zeros(count: usize) -> Result<Vec<f32>, Error> {
    Ok(layernorm::parts::memory::zeros(count)?)
}

/// The command `norm`.
pub(crate) fn forward(options: &mut Options, cx: &mut Context) -> Result<Value, Error> {
    let norm = Norm::new(options)?;
    let Normalized { y, saved } = norm.forward(cx)?;
    let mean = if norm.kind.has_mean() { Value::Floats(saved.mean()) } else { Value::Absent };
    Ok(Value::object([("y", Value::Floats(y)), ("mean", mean), ("rstd", Value::Floats(saved.rstd))]))
}

/// The command `normBackward`.
pub(crate) fn backward(options: &mut Options, cx: &mut Context) -> Result<Value, Error> {
    let norm = Norm::new(options)?;
    let dy = options.floats("dy")?;
    let saved = norm.forward(cx)?.saved;
    let NormGradients { dx, dgain, dbias } = norm.backward(&dy, &saved, cx)?;
    let dbias = if norm.kind == Kind::Weight { Value::Absent } else { Value::Floats(dbias) };
    Ok(Value::object([("dx", Value::Floats(dx)), ("dgain", Value::Floats(dgain)), ("dbias", dbias)]))
}

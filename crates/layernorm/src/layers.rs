//! Layers that own their parameters and take and return slices and vectors.
//!
//! ```
//! use layernorm::LayerNorm;
//!
//! let norm = LayerNorm::new([4]);
//! let x = [1.0f32, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
//! let y = norm.forward(&x)?;
//!
//! // Training: keep what forward saved and pass it to backward.
//! let (y2, saved) = norm.forward_train(&x)?;
//! assert_eq!(y, y2);
//! let gradients = norm.backward(&x, &[1.0; 8], &saved)?;
//! assert_eq!(gradients.bias, Some(vec![2.0; 4]));
//! # Ok::<(), layernorm::Error>(())
//! ```

use crate::axes::Axes;
use crate::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use crate::context::Context;
use crate::element::{Element, Float};
use crate::error::Error;
use crate::group_norm::{self, GroupConfig};
use crate::memory::{self, zeros};
use crate::params::{Affine, Gradients, Param, Saved, check_eps};
use crate::row_norm::NormConfig;
use crate::view::{MAX_RANK, View, ViewMut, element_count};
use crate::{layer_norm, rms_norm};

/// Gradients of a layer, as vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerGradients<T> {
    /// Gradient of the input.
    pub input: Vec<T>,
    /// Gradient of γ, if the layer has one.
    pub weight: Option<Vec<T>>,
    /// Gradient of β, if the layer has one.
    pub bias: Option<Vec<T>>,
}

/// Shape of consecutive whole rows, without an allocation.
struct InputShape {
    dims: [usize; MAX_RANK],
    rank: usize,
}

impl InputShape {
    fn new(what: &'static str, len: usize, row: &[usize]) -> Result<Self, Error> {
        let n = element_count(row)?;
        let rank = row.len() + 1;
        if rank > MAX_RANK {
            return Err(Error::Rank { max: MAX_RANK, found: rank });
        }
        let rows = len.checked_div(n).unwrap_or(0);
        if rows * n != len {
            return Err(Error::Length { what, expected: if n == 0 { 0 } else { len.next_multiple_of(n) }, found: len });
        }
        let mut dims = [rows; MAX_RANK];
        dims[1..rank].copy_from_slice(row);
        Ok(InputShape { dims, rank })
    }
}

impl std::ops::Deref for InputShape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank]
    }
}

/// Returns a context for freshly allocated outputs.
fn fresh() -> Context {
    Context::new().with_fresh_outputs(true)
}

/// Returns the initial γ of a layer. It is empty if it cannot be allocated; the first call then reports that.
fn ones<T: Element>(count: usize) -> Option<Vec<T>> {
    Some(memory::filled(count, T::narrow(T::Acc::ONE)).unwrap_or_default())
}

/// Returns the initial β, all zeros; empty like `ones` if it cannot be allocated.
fn no_bias<T: Element>(count: usize) -> Option<Vec<T>> {
    Some(zeros(count).unwrap_or_default())
}

/// Returns γ and β of a layer as the operations take them.
fn affine<'a, T: Element>(
    weight: &'a Option<Vec<T>>,
    bias: &'a Option<Vec<T>>,
    zero_centered: bool,
    shape: &[usize],
) -> Result<Affine<'a, T>, Error> {
    let named = |values: &'a Vec<T>, what| {
        let expected = element_count(shape)?;
        if values.len() != expected {
            return Err(Error::Length { what, expected, found: values.len() });
        }
        Ok(Param::Same(View::new(values, shape)?))
    };
    Ok(Affine {
        weight: weight.as_ref().map(|weight| named(weight, "weight")).transpose()?,
        bias: bias.as_ref().map(|bias| named(bias, "bias")).transpose()?,
        zero_centered,
    })
}

/// Runs a backward operation and returns its gradients in new vectors.
fn collect_gradients<T: Element>(
    len: usize,
    shape: &[usize],
    parameter_shape: &[usize],
    has: (bool, bool),
    run: impl FnOnce(Gradients<T>) -> Result<(), Error>,
) -> Result<LayerGradients<T>, Error> {
    let count = element_count(parameter_shape)?;
    let mut input = zeros(len)?;
    let parameter = |has: bool| has.then(|| zeros(count)).transpose();
    let (mut weight, mut bias) = (parameter(has.0)?, parameter(has.1)?);
    run(Gradients {
        input: Some(ViewMut::new(&mut input, shape)?),
        weight: weight.as_mut().map(|weight| ViewMut::new(weight, parameter_shape)).transpose()?.map(Into::into),
        bias: bias.as_mut().map(|bias| ViewMut::new(bias, parameter_shape)).transpose()?.map(Into::into),
    })?;
    Ok(LayerGradients { input, weight, bias })
}

macro_rules! row_layer {
    ($(#[$doc:meta])* $name:ident, $op:ident, $new_doc:literal, $bias:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name<T> {
            normalized_shape: Vec<usize>,
            /// γ, one per feature; `None` for no gain.
            pub weight: Option<Vec<T>>,
            /// β, one per feature; `None` for no bias.
            pub bias: Option<Vec<T>>,
            /// Whether the gain is 1 + γ. If so, initialize γ with zeros.
            pub zero_centered: bool,
            /// ε.
            pub eps: f64,
        }

        impl<T: Element> $name<T> {
            #[doc = $new_doc]
            pub fn new(normalized_shape: impl Into<Vec<usize>>) -> Self {
                let normalized_shape = normalized_shape.into();
                // A shape too large for memory is rejected by the first call; there is nothing to fill here.
                let count = element_count(&normalized_shape).unwrap_or(0);
                let bias: fn(usize) -> Option<Vec<T>> = $bias;
                $name {
                    weight: ones(count),
                    bias: bias(count),
                    normalized_shape,
                    zero_centered: false,
                    eps: 1e-5,
                }
            }

            /// Removes γ and β.
            pub fn without_parameters(self) -> Self {
                $name { weight: None, bias: None, ..self }
            }

            /// Sets ε.
            pub fn with_eps(self, eps: f64) -> Self {
                $name { eps, ..self }
            }

            /// Returns the trailing dimensions that are normalized together.
            pub fn normalized_shape(&self) -> &[usize] {
                &self.normalized_shape
            }

            /// Returns the shape `[rows, …normalized_shape]` of a slice. Fails if the slice is not a whole number of
            /// rows.
            fn shape_of(&self, what: &'static str, len: usize) -> Result<InputShape, Error> {
                InputShape::new(what, len, &self.normalized_shape)
            }

            fn config(&self) -> Result<NormConfig<'_, T>, Error> {
                Ok(NormConfig {
                    axes: Axes::Last(self.normalized_shape.len()),
                    affine: affine(&self.weight, &self.bias, self.zero_centered, &self.normalized_shape)?,
                    eps: self.eps,
                })
            }

            /// Computes y = norm(x) for consecutive whole rows.
            pub fn forward(&self, x: &[T]) -> Result<Vec<T>, Error> {
                let mut y = zeros(x.len())?;
                self.forward_into(x, &mut y, None, &mut fresh())?;
                Ok(y)
            }

            /// Computes y = norm(x) and saves what [`Self::backward`] needs.
            pub fn forward_train(&self, x: &[T]) -> Result<(Vec<T>, Saved<T::Acc>), Error> {
                let (mut y, mut saved) = (zeros(x.len())?, Saved::default());
                self.forward_into(x, &mut y, Some(&mut saved), &mut fresh())?;
                Ok((y, saved))
            }

            /// Computes y = norm(x) into the caller's memory, with the caller's context.
            pub fn forward_into(
                &self,
                x: &[T],
                y: &mut [T],
                saved: Option<&mut Saved<T::Acc>>,
                cx: &mut Context,
            ) -> Result<(), Error> {
                let shape = self.shape_of("input", x.len())?;
                if y.len() != x.len() {
                    return Err(Error::Length { what: "output", expected: x.len(), found: y.len() });
                }
                let config = self.config()?;
                // A rejected call must change nothing, so check for all errors first.
                check_eps::<T::Acc>(self.eps).and(cx.isa())?;
                let stats = match saved {
                    Some(saved) => {
                        saved.try_resize(shape[0])?;
                        Some(saved.as_mut())
                    }
                    None => None,
                };
                $op::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, stats, &config, cx)
            }

            /// Computes x = norm(x) in place.
            pub fn forward_in_place(&self, x: &mut [T], cx: &mut Context) -> Result<(), Error> {
                let shape = self.shape_of("input", x.len())?;
                $op::forward_in_place(ViewMut::new(x, &shape)?, None, &self.config()?, cx)
            }

            /// Computes the gradients from dy and what [`Self::forward_train`] saved for the same x.
            pub fn backward(&self, x: &[T], dy: &[T], saved: &Saved<T::Acc>) -> Result<LayerGradients<T>, Error> {
                let shape = self.shape_of("input", x.len())?;
                if dy.len() != x.len() {
                    return Err(Error::Length { what: "gradient of the output", expected: x.len(), found: dy.len() });
                }
                let has = (self.weight.is_some(), self.bias.is_some());
                let config = self.config()?;
                collect_gradients(x.len(), &shape, &self.normalized_shape, has, |gradients| {
                    let (x, dy) = (View::new(x, &shape)?, View::new(dy, &shape)?);
                    $op::backward(x, dy, saved.as_ref(), gradients, &config, &mut fresh())
                })
            }
        }
    };
}

row_layer!(
    /// Layer normalization with its parameters. Initially γ = 1, β = 0 and ε = 10⁻⁵.
    LayerNorm,
    layer_norm,
    "Normalizes over these trailing dimensions: `LayerNorm::new([768])`, `LayerNorm::new([32, 28])`.",
    no_bias
);

row_layer!(
    /// RMS normalization with its parameters. Initially γ = 1 and ε = 10⁻⁵; there is no β.
    RmsNorm,
    rms_norm,
    "Normalizes over these trailing dimensions: `RmsNorm::new([768])`.",
    |_| None
);

/// Group normalization with its parameters. Initially γ = 1, β = 0 and ε = 10⁻⁵. With as many groups as channels it
/// is instance normalization.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNorm<T> {
    groups: usize,
    channels: usize,
    /// γ, one per channel; `None` for no gain.
    pub weight: Option<Vec<T>>,
    /// β, one per channel; `None` for no bias.
    pub bias: Option<Vec<T>>,
    /// ε.
    pub eps: f64,
}

impl<T: Element> GroupNorm<T> {
    /// Creates a layer with `groups` groups of `channels` channels in total. If the parameters do not fit in memory,
    /// the first call fails.
    pub fn new(groups: usize, channels: usize) -> Self {
        GroupNorm { groups, channels, weight: ones(channels), bias: no_bias(channels), eps: 1e-5 }
    }

    /// Creates an instance normalization layer: one group per channel, without γ and β unless they are set.
    pub fn instance(channels: usize) -> Self {
        GroupNorm { groups: channels.max(1), channels, weight: None, bias: None, eps: 1e-5 }
    }

    fn config(&self) -> Result<GroupConfig<'_, T>, Error> {
        let affine = affine(&self.weight, &self.bias, false, &[self.channels])?;
        Ok(GroupConfig { groups: self.groups, affine, eps: self.eps })
    }

    fn check(&self, shape: &[usize]) -> Result<(), Error> {
        check_channels(shape, self.channels)
    }

    /// Computes y = norm(x) for x of the given shape, `[N, C, …]`.
    pub fn forward(&self, x: &[T], shape: &[usize]) -> Result<Vec<T>, Error> {
        Ok(self.forward_train(x, shape)?.0)
    }

    /// Computes y = norm(x) and saves what [`GroupNorm::backward`] needs.
    pub fn forward_train(&self, x: &[T], shape: &[usize]) -> Result<(Vec<T>, Saved<T::Acc>), Error> {
        self.check(shape)?;
        let from = View::new(x, shape)?;
        // There are at most as many rows as elements, unless there are no elements.
        let rows = if x.is_empty() { 0 } else { shape[0] * self.groups };
        let (mut y, mut saved) = (zeros(x.len())?, Saved::try_new(rows)?);
        let stats = (!x.is_empty()).then(|| saved.as_mut());
        let to = ViewMut::new(&mut y, shape)?;
        group_norm::forward(from, to, stats, &self.config()?, &mut fresh())?;
        Ok((y, saved))
    }

    /// Computes the gradients from dy and what [`GroupNorm::forward_train`] saved for the same x.
    pub fn backward(
        &self,
        x: &[T],
        dy: &[T],
        shape: &[usize],
        saved: &Saved<T::Acc>,
    ) -> Result<LayerGradients<T>, Error> {
        self.check(shape)?;
        let has = (self.weight.is_some(), self.bias.is_some());
        let config = self.config()?;
        collect_gradients(x.len(), shape, &[self.channels], has, |gradients| {
            let (x, dy) = (View::new(x, shape)?, View::new(dy, shape)?);
            if x.is_empty() {
                // The gradients are already zero.
                return Ok(());
            }
            group_norm::backward(x, dy, saved.as_ref(), gradients, &config, &mut fresh())
        })
    }
}

fn check_channels(shape: &[usize], channels: usize) -> Result<(), Error> {
    match *shape {
        [_, found, ..] if found == channels => Ok(()),
        [samples, _, ref space @ ..] => {
            let expected = [samples, channels].into_iter().chain(space.iter().copied()).collect();
            Err(Error::Shape { what: "input", expected, found: shape.to_vec() })
        }
        _ => Err(Error::TooFewDimensions { what: "input", min: 2, found: shape.len() }),
    }
}

/// Batch normalization with its parameters and running statistics. Initially γ = 1, β = 0, the running mean is 0, the
/// running variance is 1, ε = 10⁻⁵ and the momentum is 0.1.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm<T: Element> {
    channels: usize,
    /// γ, one per channel; `None` for no gain.
    pub weight: Option<Vec<T>>,
    /// β, one per channel; `None` for no bias.
    pub bias: Option<Vec<T>>,
    /// Running means, one per channel.
    pub running_mean: Vec<T::Acc>,
    /// Running variances, one per channel.
    pub running_var: Vec<T::Acc>,
    /// Weight of a batch in the running statistics; `None` for the plain average over all batches.
    pub momentum: Option<f64>,
    /// Number of training batches seen.
    pub batches: u64,
    /// ε.
    pub eps: f64,
}

impl<T: Element> BatchNorm<T> {
    /// Creates a layer for this many channels. If the parameters do not fit in memory, the first call fails.
    pub fn new(channels: usize) -> Self {
        BatchNorm {
            channels,
            weight: ones(channels),
            bias: no_bias(channels),
            running_mean: zeros(channels).unwrap_or_default(),
            running_var: memory::filled(channels, T::Acc::ONE).unwrap_or_default(),
            momentum: Some(0.1),
            batches: 0,
            eps: 1e-5,
        }
    }

    fn config(&self) -> Result<BatchConfig<'_, T>, Error> {
        Ok(BatchConfig { affine: affine(&self.weight, &self.bias, false, &[self.channels])?, eps: self.eps })
    }

    /// Inference: normalizes by the running statistics.
    pub fn forward(&self, x: &[T], shape: &[usize]) -> Result<Vec<T>, Error> {
        check_channels(shape, self.channels)?;
        let mut y = zeros(x.len())?;
        let moments = Moments { mean: &self.running_mean, var: &self.running_var };
        let (from, to) = (View::new(x, shape)?, ViewMut::new(&mut y, shape)?);
        batch_norm::infer(from, to, moments, &self.config()?, &mut fresh())?;
        Ok(y)
    }

    /// Training: normalizes by the batch's statistics and updates the running ones.
    pub fn forward_train(&mut self, x: &[T], shape: &[usize]) -> Result<(Vec<T>, Saved<T::Acc>), Error> {
        check_channels(shape, self.channels)?;
        let (mut y, mut saved) = (zeros(x.len())?, Saved::try_new(self.channels)?);
        let (mut mean, mut var) = (memory::copied(&self.running_mean)?, memory::copied(&self.running_var)?);
        let running = Running {
            mean: &mut mean,
            var: &mut var,
            momentum: self.momentum.map_or(Momentum::Cumulative(self.batches), Momentum::Exponential),
            variance: RunningVariance::Unbiased,
        };
        let (from, to) = (View::new(x, shape)?, ViewMut::new(&mut y, shape)?);
        batch_norm::forward_running(from, to, saved.as_mut(), running, &self.config()?, &mut fresh())?;
        if !x.is_empty() {
            (self.running_mean, self.running_var) = (mean, var);
            self.batches += 1;
        }
        Ok((y, saved))
    }

    /// Computes the gradients of a training pass from dy and what [`BatchNorm::forward_train`] saved for the same x.
    pub fn backward(
        &self,
        x: &[T],
        dy: &[T],
        shape: &[usize],
        saved: &Saved<T::Acc>,
    ) -> Result<LayerGradients<T>, Error> {
        check_channels(shape, self.channels)?;
        let has = (self.weight.is_some(), self.bias.is_some());
        let config = self.config()?;
        collect_gradients(x.len(), shape, &[self.channels], has, |gradients| {
            let (x, dy) = (View::new(x, shape)?, View::new(dy, shape)?);
            batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, &mut fresh())
        })
    }
}

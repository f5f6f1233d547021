//! Layer, RMS and group norm as one operation each. The statistics m, δ and r are saved between forward and backward.

use super::memory::{Number, Room, Stored, by_type, on_cpu, refused, room, tensor, with_context, with_stored};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Affine, Gradients, NormConfig, Saved, ViewMut, layer_norm, rms_norm};
use std::sync::OnceLock;

/// Which norm, and its ε.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NormOp {
    /// Over the last axis; γ and β `[d]`.
    Layer { eps: f64 },
    /// Over the last axis; γ and β `[d]`.
    Rms { eps: f64 },
    /// x `[N, C, …]` in groups of channels; γ and β `[C]`.
    Group { groups: usize, eps: f64 },
}

impl NormOp {
    fn name(self) -> &'static str {
        match self {
            NormOp::Layer { .. } => "layernorm layer_norm",
            NormOp::Rms { .. } => "layernorm rms_norm",
            NormOp::Group { .. } => "layernorm group_norm",
        }
    }

    /// Number of rows that have statistics. If a shape lacks axes, the core reports the error.
    fn rows(self, shape: &[usize]) -> usize {
        match (self, shape) {
            (NormOp::Layer { .. } | NormOp::Rms { .. }, [rows @ .., _]) => rows.iter().product(),
            (NormOp::Group { groups, .. }, [samples, ..]) => samples.saturating_mul(groups),
            (_, []) => 0,
        }
    }
}

/// One call of a norm. Its arguments are x, then γ and β if they exist.
struct Op<T: Number> {
    norm: NormOp,
    has_weight: bool,
    /// Whether a backward pass may follow.
    save: bool,
    saved: OnceLock<Saved<T::Acc>>,
}

/// γ and β.
type Pair<X> = (Option<X>, Option<X>);

fn affine<'a, T: Number>((weight, bias): &Pair<Stored<'a>>) -> Result<Affine<'a, T>> {
    let part = |part: &Option<Stored<'a>>| part.as_ref().map(Stored::param).transpose();
    Ok(Affine { weight: part(weight)?, bias: part(bias)?, zero_centered: false })
}

impl<T: Number> Op<T> {
    /// The arguments after x, as γ and β.
    fn pair<X: Clone>(&self, rest: &[X]) -> Pair<X> {
        match (rest, self.has_weight) {
            ([bias], false) => (None, Some(bias.clone())),
            (rest, _) => (rest.first().cloned(), rest.get(1).cloned()),
        }
    }

    fn forward(&self, x: Stored, rest: &[Stored]) -> Result<(CpuStorage, Shape)> {
        let shape = x.shape();
        // Creating the view checks the shape, so it must come before any allocation.
        let (from, affine) = (x.view::<T>()?, affine(&self.pair(rest))?);
        let mut saved = Saved::try_new(if self.save { self.norm.rows(shape) } else { 0 }).map_err(refused)?;
        let mut y = room::<T>(shape)?;
        let to = ViewMut::new(&mut y, shape).map_err(refused)?;
        let keep = self.save.then(|| saved.as_mut());
        with_context(|cx| match self.norm {
            NormOp::Layer { eps } => {
                layer_norm::forward(from, to, keep, &NormConfig::new().affine(affine).eps(eps), cx)
            }
            NormOp::Rms { eps } => rms_norm::forward(from, to, keep, &NormConfig::new().affine(affine).eps(eps), cx),
            NormOp::Group { groups, eps } => {
                group_norm::forward(from, to, keep, &GroupConfig { groups, affine, eps }, cx)
            }
        })
        .map_err(refused)?;
        self.saved.get_or_init(|| saved);
        Ok((T::to_cpu_storage_owned(y), x.layout.shape().clone()))
    }

    /// The gradients of the arguments that want them.
    fn backward(&self, x: &Tensor, rest: &[&Tensor], dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (weight, bias) = self.pair(rest);
        let wanted = |tensor: Option<&Tensor>| tensor.is_some_and(Tensor::track_op);
        let wanted = [wanted(Some(x)), wanted(weight), wanted(bias)];
        let [dx, dweight, dbias] = with_stored(x, |x| {
            with_stored(dy, |dy| {
                with_optional(weight, |weight| {
                    with_optional(bias, |bias| self.gradients(x, &(weight, bias), dy, wanted))
                })
            })
        })?;
        let parameters = [(weight, dweight), (bias, dbias)].into_iter().filter(|(tensor, _)| tensor.is_some());
        Ok(std::iter::once(dx).chain(parameters.map(|(_, gradient)| gradient)).collect())
    }

    fn gradients(
        &self,
        x: Stored,
        parameters: &Pair<Stored>,
        dy: Stored,
        wanted: [bool; 3],
    ) -> Result<[Option<Tensor>; 3]> {
        let Some(saved) = self.saved.get() else { candle_core::bail!("layernorm: backward before forward") };
        let (affine, view, dy) = (affine::<T>(parameters)?, x.view::<T>()?, dy.view::<T>()?);
        let mut dx = wanted[0].then(|| room::<T>(x.shape())).transpose()?;
        let mut places = [place::<T>(&parameters.0, wanted[1])?, place(&parameters.1, wanted[2])?];
        let [dweight, dbias] = &mut places;
        let gradients = Gradients {
            input: dx.as_mut().map(|dx| ViewMut::new(dx, x.shape())).transpose().map_err(refused)?,
            weight: dweight.as_mut().map(|(room, shape)| room.view(shape)).transpose().map_err(refused)?,
            bias: dbias.as_mut().map(|(room, shape)| room.view(shape)).transpose().map_err(refused)?,
        };
        let saved = saved.as_ref();
        with_context(|cx| match self.norm {
            NormOp::Layer { eps } => {
                layer_norm::backward(view, dy, saved, gradients, &NormConfig::new().affine(affine).eps(eps), cx)
            }
            NormOp::Rms { eps } => {
                rms_norm::backward(view, dy, saved, gradients, &NormConfig::new().affine(affine).eps(eps), cx)
            }
            NormOp::Group { groups, eps } => {
                group_norm::backward(view, dy, saved, gradients, &GroupConfig { groups, affine, eps }, cx)
            }
        })
        .map_err(refused)?;
        let [dweight, dbias] = places.map(|place| place.map(|(room, shape)| room.tensor(shape)).transpose());
        Ok([dx.map(|dx| tensor(dx, x.shape())).transpose()?, dweight?, dbias?])
    }
}

/// Allocates a parameter's gradient, if there is a parameter and its gradient is wanted.
fn place<'a, T: Number>(parameter: &Option<Stored<'a>>, wanted: bool) -> Result<Option<(Room<T>, &'a [usize])>> {
    let parameter = parameter.as_ref().filter(|_| wanted);
    parameter.map(|parameter| Ok((Room::like(parameter)?, parameter.shape()))).transpose()
}

fn with_optional<R>(tensor: Option<&Tensor>, read: impl FnOnce(Option<Stored>) -> Result<R>) -> Result<R> {
    match tensor {
        Some(tensor) => with_stored(tensor, |stored| read(Some(stored))),
        None => read(None),
    }
}

/// Takes the next gradient.
fn next(gradients: &mut impl Iterator<Item = Option<Tensor>>) -> Option<Tensor> {
    gradients.next().flatten()
}

impl<T: Number> CustomOp1 for Op<T> {
    fn name(&self) -> &'static str {
        self.norm.name()
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(Stored { storage, layout }, &[])
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        Ok(next(&mut self.backward(x, &[], dy)?.into_iter()))
    }
}

impl<T: Number> CustomOp2 for Op<T> {
    fn name(&self) -> &'static str {
        self.norm.name()
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(Stored { storage: s1, layout: l1 }, &[Stored { storage: s2, layout: l2 }])
    }

    fn bwd(&self, x: &Tensor, second: &Tensor, _: &Tensor, dy: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradients = &mut self.backward(x, &[second], dy)?.into_iter();
        Ok((next(gradients), next(gradients)))
    }
}

impl<T: Number> CustomOp3 for Op<T> {
    fn name(&self) -> &'static str {
        self.norm.name()
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let rest = [Stored { storage: s2, layout: l2 }, Stored { storage: s3, layout: l3 }];
        self.forward(Stored { storage: s1, layout: l1 }, &rest)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradients = &mut self.backward(x, &[weight, bias], dy)?.into_iter();
        Ok((next(gradients), next(gradients), next(gradients)))
    }
}

/// A norm of x. Parameters whose type is neither that of x nor f32 are cast to the type of x.
pub(crate) fn norm(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, norm: NormOp) -> Result<Tensor> {
    on_cpu([Some(x), weight, bias].into_iter().flatten())?;
    let part = |tensor: Option<&Tensor>| tensor.map(|tensor| parameter(tensor, x)).transpose();
    by_type!(x.dtype(), T => norm_as::<T>(x, part(weight)?.as_ref(), part(bias)?.as_ref(), norm))
}

fn parameter(tensor: &Tensor, x: &Tensor) -> Result<Tensor> {
    if tensor.dtype() == candle_core::DType::F32 { Ok(tensor.clone()) } else { tensor.to_dtype(x.dtype()) }
}

fn norm_as<T: Number>(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, norm: NormOp) -> Result<Tensor> {
    let save = [Some(x), weight, bias].into_iter().flatten().any(Tensor::track_op);
    let op = Op::<T> { norm, has_weight: weight.is_some(), save, saved: OnceLock::new() };
    match (weight, bias) {
        (None, None) => x.apply_op1(op),
        (Some(one), None) | (None, Some(one)) => x.apply_op2(one, op),
        (Some(weight), Some(bias)) => x.apply_op3(weight, bias, op),
    }
}

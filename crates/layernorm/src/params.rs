//! Parameters γ and β, the statistics that forward saves for backward, and the gradients that backward computes.

use crate::context::{Need, Scratch};
use crate::element::{Element, Float};
use crate::error::{Error, same_shape};
use crate::memory;
use crate::view::{View, ViewMut};

/// A parameter, of the input's type or f32.
#[derive(Debug)]
pub enum Param<'a, T> {
    /// Of the input's type.
    Same(View<'a, T>),
    /// f32, whatever the input's type.
    F32(View<'a, f32>),
}

impl<T> Clone for Param<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Param<'_, T> {}

impl<'a, T> From<View<'a, T>> for Param<'a, T> {
    fn from(view: View<'a, T>) -> Self {
        Param::Same(view)
    }
}

impl<T: Element> Param<'_, T> {
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Param::Same(view) => view.shape(),
            Param::F32(view) => view.shape(),
        }
    }

    fn len(&self) -> usize {
        crate::view::count(self.shape())
    }

    /// Visits the elements in row-major order, widened.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, T::Acc)) {
        match self {
            Param::Same(view) => each_offset(view.shape(), view.strides(), |i, offset| {
                // SAFETY: the offset belongs to an element of the view.
                visit(i, unsafe { *view.ptr().offset(offset) }.widen())
            }),
            Param::F32(view) => each_offset(view.shape(), view.strides(), |i, offset| {
                // SAFETY: the offset belongs to an element of the view.
                visit(i, T::Acc::from_f64(f64::from(unsafe { *view.ptr().offset(offset) })))
            }),
        }
    }

    /// Returns a pointer to the elements if they are contiguous and already of the arithmetic type.
    fn in_place(&self) -> Option<*const T::Acc> {
        let contiguous = |shape: &[usize], strides: &[isize]| {
            let mut step = 1;
            shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
                let fits = dim == 1 || stride == step;
                // It can overflow only if there are no elements.
                step = isize::wrapping_mul(step, dim as isize);
                fits
            })
        };
        match self {
            Param::Same(view) if is_same::<T, T::Acc>() && contiguous(view.shape(), view.strides()) => {
                Some(view.ptr().cast())
            }
            Param::F32(view) if is_same::<f32, T::Acc>() && contiguous(view.shape(), view.strides()) => {
                Some(view.ptr().cast())
            }
            _ => None,
        }
    }
}

fn is_same<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

/// Walks a tensor in row-major order and calls `visit(index, offset)`.
pub(crate) fn each_offset(shape: &[usize], strides: &[isize], mut visit: impl FnMut(usize, isize)) {
    let count = crate::view::count(shape);
    let mut index = [0usize; crate::view::MAX_RANK];
    let mut offset = 0isize;
    for i in 0..count {
        visit(i, offset);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            // The stride of an axis of size 1 can be any number: what it adds is subtracted again.
            offset = offset.wrapping_add(strides[axis]);
            if index[axis] < shape[axis] {
                break;
            }
            offset = offset.wrapping_sub(strides[axis].wrapping_mul(shape[axis] as isize));
            index[axis] = 0;
        }
    }
}

/// γ ("weight") and β ("bias"), each optional. `T` is the input's type.
#[derive(Debug)]
pub struct Affine<'a, T> {
    /// γ.
    pub weight: Option<Param<'a, T>>,
    /// β.
    pub bias: Option<Param<'a, T>>,
    /// Whether the gain is 1 + γ, so that γ = 0 leaves the normalized values unchanged.
    pub zero_centered: bool,
}

impl<T> Clone for Affine<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Affine<'_, T> {}

impl<T> Default for Affine<'_, T> {
    fn default() -> Self {
        Affine { weight: None, bias: None, zero_centered: false }
    }
}

impl<'a, T> Affine<'a, T> {
    /// Creates γ and β of the input's type.
    pub fn new(weight: View<'a, T>, bias: View<'a, T>) -> Self {
        Affine { weight: Some(weight.into()), bias: Some(bias.into()), zero_centered: false }
    }
}

impl<T: Element> Affine<'_, T> {
    pub(crate) fn check(&self, expected: &[usize]) -> Result<(), Error> {
        if let Some(weight) = self.weight {
            same_shape("weight", expected, weight.shape())?;
        }
        self.bias.map_or(Ok(()), |bias| same_shape("bias", expected, bias.shape()))
    }

    /// Returns whether both γ and β are absent.
    pub(crate) fn is_none(&self) -> bool {
        self.weight.is_none() && self.bias.is_none()
    }

    /// Returns the scratch memory that [`Affine::widen`] takes.
    pub(crate) fn need(&self, count: usize) -> Need {
        let count = if self.is_none() { 1 } else { count };
        let one = |param: Option<Param<T>>, plus_one: bool| match param.and_then(|param| param.in_place()) {
            Some(_) if !plus_one => Need::default(),
            _ => Need::default().plus::<T::Acc>(count),
        };
        one(self.weight, self.zero_centered).and(one(self.bias, false))
    }

    /// Returns γ and β in the arithmetic type: `count` of each, or one of each if both are absent.
    pub(crate) fn widen(&self, count: usize, scratch: &mut Scratch) -> (*const T::Acc, *const T::Acc) {
        let count = if self.is_none() { 1 } else { count };
        let fill = |param: Option<Param<T>>, absent: T::Acc, plus_one: bool, scratch: &mut Scratch| {
            if !plus_one && let Some(in_place) = param.and_then(|param| param.in_place()) {
                return in_place;
            }
            let to = scratch.take::<T::Acc>(count);
            // SAFETY: `to` has room for `count` elements.
            let write = |i: usize, value| unsafe { *to.add(i) = value };
            match param {
                Some(param) => {
                    debug_assert_eq!(param.len(), count);
                    param.for_each(|i, value| write(i, if plus_one { T::Acc::ONE + value } else { value }));
                }
                None => (0..count).for_each(|i| write(i, absent)),
            }
            to.cast_const()
        };
        let gain = fill(self.weight, T::Acc::ONE, self.zero_centered, scratch);
        (gain, fill(self.bias, T::Acc::NEG_ZERO, false, scratch))
    }
}

/// Destination of a parameter's gradient, of the input's type or f32.
#[derive(Debug)]
pub enum ParamMut<'a, T> {
    /// Of the input's type.
    Same(ViewMut<'a, T>),
    /// f32, whatever the input's type.
    F32(ViewMut<'a, f32>),
}

impl<'a, T> From<ViewMut<'a, T>> for ParamMut<'a, T> {
    fn from(view: ViewMut<'a, T>) -> Self {
        ParamMut::Same(view)
    }
}

impl<T: Element> ParamMut<'_, T> {
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            ParamMut::Same(view) => view.shape(),
            ParamMut::F32(view) => view.shape(),
        }
    }

    /// Writes the elements in row-major order, each rounded once.
    pub(crate) fn fill(&mut self, value: impl Fn(usize) -> T::Acc) {
        match self {
            ParamMut::Same(view) => each_offset(view.shape(), view.strides(), |i, offset| {
                // SAFETY: the offset belongs to an element of the view.
                unsafe { *view.ptr().offset(offset) = T::narrow(value(i)) }
            }),
            ParamMut::F32(view) => each_offset(view.shape(), view.strides(), |i, offset| {
                // SAFETY: the offset belongs to an element of the view.
                unsafe { *view.ptr().offset(offset) = value(i).to_f64() as f32 }
            }),
        }
    }
}

/// Destinations of the gradients. Those that are `None` are not computed.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// Gradient of the input, of the input's shape.
    pub input: Option<ViewMut<'a, T>>,
    /// Gradient of γ, of γ's shape.
    pub weight: Option<ParamMut<'a, T>>,
    /// Gradient of β, of β's shape.
    pub bias: Option<ParamMut<'a, T>>,
}

impl<T> Default for Gradients<'_, T> {
    fn default() -> Self {
        Gradients { input: None, weight: None, bias: None }
    }
}

impl<T: Element> Gradients<'_, T> {
    pub(crate) fn check(&self, input: &[usize], parameter: &[usize]) -> Result<(), Error> {
        if let Some(view) = &self.input {
            same_shape("gradient of the input", input, view.shape())?;
        }
        if let Some(view) = &self.weight {
            same_shape("gradient of the weight", parameter, view.shape())?;
        }
        match &self.bias {
            Some(view) => same_shape("gradient of the bias", parameter, view.shape()),
            None => Ok(()),
        }
    }

    pub(crate) fn wants_parameters(&self) -> bool {
        self.weight.is_some() || self.bias.is_some()
    }

    /// Sets the gradients of γ and β to 0, for inputs without rows.
    pub(crate) fn zero_parameters(&mut self) {
        for gradient in [&mut self.weight, &mut self.bias].into_iter().flatten() {
            gradient.fill(|_| T::Acc::ZERO);
        }
    }

    /// Writes the sums for γ and β to the gradients, rounded once.
    ///
    /// # Safety
    /// The sums have as many elements as the parameters.
    pub(crate) unsafe fn write_parameters(&mut self, gain: *const T::Acc, bias: *const T::Acc) {
        if let Some(weight) = &mut self.weight {
            // SAFETY: guaranteed by the caller.
            weight.fill(|i| unsafe { *gain.add(i) });
        }
        if let Some(to) = &mut self.bias {
            // SAFETY: guaranteed by the caller.
            to.fill(|i| unsafe { *bias.add(i) });
        }
    }
}

/// Statistics that forward saves for backward, one of each per row: m, the rounded mean; δ, its rounding error; and
/// r = 1/σ. The mean of the row is m + δ. RMS norm has m = δ = 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved<A> {
    /// m, the rounded mean.
    pub m: Vec<A>,
    /// δ, the rounding error of m.
    pub delta: Vec<A>,
    /// r = 1/sqrt(v + ε).
    pub rstd: Vec<A>,
}

impl<A: Float> Saved<A> {
    /// Allocates statistics for this many rows. Aborts if memory runs out, as `Vec` does; see [`Saved::try_new`].
    pub fn new(rows: usize) -> Self {
        let mut saved = Saved::default();
        saved.resize(rows);
        saved
    }

    /// Allocates statistics for this many rows. Fails if memory runs out.
    pub fn try_new(rows: usize) -> Result<Self, Error> {
        Ok(Saved { m: memory::zeros(rows)?, delta: memory::zeros(rows)?, rstd: memory::zeros(rows)? })
    }

    /// Changes the number of rows. Allocates only to grow.
    pub fn resize(&mut self, rows: usize) {
        self.arrays().for_each(|array| array.resize(rows, A::ZERO));
    }

    /// Changes the number of rows. Fails if memory runs out and then leaves the statistics unchanged.
    pub fn try_resize(&mut self, rows: usize) -> Result<(), Error> {
        for array in self.arrays() {
            let more = rows.saturating_sub(array.len());
            array.try_reserve_exact(more).map_err(|_| memory::out_of_memory::<A>(rows))?;
        }
        self.resize(rows);
        Ok(())
    }

    fn arrays(&mut self) -> impl Iterator<Item = &mut Vec<A>> {
        [&mut self.m, &mut self.delta, &mut self.rstd].into_iter()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rstd.len()
    }

    /// Returns the mean of every row, m + δ.
    pub fn mean(&self) -> Vec<A> {
        self.m.iter().zip(&self.delta).map(|(&m, &delta)| m + delta).collect()
    }

    /// Borrows the statistics for a forward pass to write.
    pub fn as_mut(&mut self) -> StatsMut<'_, A> {
        StatsMut { m: &mut self.m, delta: &mut self.delta, rstd: &mut self.rstd }
    }

    /// Borrows the statistics for a backward pass to read.
    pub fn as_ref(&self) -> StatsRef<'_, A> {
        StatsRef { m: &self.m, delta: &self.delta, rstd: &self.rstd }
    }
}

/// Mutable [`Saved`] statistics in the caller's memory.
#[derive(Debug)]
pub struct StatsMut<'a, A> {
    /// m, one per row.
    pub m: &'a mut [A],
    /// δ, one per row.
    pub delta: &'a mut [A],
    /// r, one per row.
    pub rstd: &'a mut [A],
}

/// [`Saved`] statistics in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct StatsRef<'a, A> {
    /// m, one per row.
    pub m: &'a [A],
    /// δ, one per row.
    pub delta: &'a [A],
    /// r, one per row.
    pub rstd: &'a [A],
}

fn check_rows(rows: usize, lengths: [usize; 3]) -> Result<(), Error> {
    match lengths.into_iter().find(|&len| len != rows) {
        Some(found) => Err(Error::Length { what: "statistics", expected: rows, found }),
        None => Ok(()),
    }
}

impl<A> StatsMut<'_, A> {
    pub(crate) fn check(&mut self, rows: usize) -> Result<crate::kernels::Stats<A>, Error> {
        check_rows(rows, [self.m.len(), self.delta.len(), self.rstd.len()])?;
        Ok(crate::kernels::Stats { m: self.m.as_mut_ptr(), delta: self.delta.as_mut_ptr(), r: self.rstd.as_mut_ptr() })
    }
}

impl<A> StatsRef<'_, A> {
    /// Checks the lengths. The returned pointers are only read from.
    pub(crate) fn check(&self, rows: usize) -> Result<crate::kernels::Stats<A>, Error> {
        check_rows(rows, [self.m.len(), self.delta.len(), self.rstd.len()])?;
        Ok(crate::kernels::Stats {
            m: self.m.as_ptr().cast_mut(),
            delta: self.delta.as_ptr().cast_mut(),
            r: self.rstd.as_ptr().cast_mut(),
        })
    }
}

/// Converts ε to the arithmetic type. Fails if it is negative or not finite.
pub(crate) fn check_eps<A: Float>(eps: f64) -> Result<A, Error> {
    // Turns −0 into +0.
    let rounded = A::from_f64(eps) + A::ZERO;
    if eps >= 0.0 && rounded.is_finite() { Ok(rounded) } else { Err(Error::Epsilon { found: eps }) }
}

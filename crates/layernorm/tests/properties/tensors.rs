//! Tensors and parameters in any layout, and the numbers in them.

use super::common::Random;
use layernorm::{Context, Element, Float, Isa, Param, ParamMut, View, ViewMut, bf16, f16};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    Contiguous,
    /// The axes in another order.
    Permuted,
    /// Some of them backwards.
    Reversed,
    /// And some in steps, so that there is other memory in between.
    Sliced,
}

/// A tensor as a caller holds it. What is not an element is NaN: to read it shows in the result.
pub struct Tensor<T> {
    memory: Vec<T>,
    pub shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

impl<T: Element> Tensor<T> {
    /// All NaN.
    pub fn new(shape: &[usize], layout: Layout, random: &mut Random) -> Self {
        let mut order: Vec<usize> = (0..shape.len()).rev().collect();
        if layout != Layout::Contiguous {
            (1..order.len()).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        let (mut strides, mut offset, mut step, mut reach) = (vec![0; shape.len()], 0, 1, 0);
        for axis in order {
            let apart = if layout == Layout::Sliced { 1 + random.below(3) } else { 1 };
            let stride = step * apart;
            let span = stride * shape[axis].saturating_sub(1);
            let backwards = matches!(layout, Layout::Reversed | Layout::Sliced) && random.below(2) == 1;
            strides[axis] = if backwards { -(stride as isize) } else { stride as isize };
            offset += if backwards { span } else { 0 };
            reach += span;
            step = span + stride;
        }
        let len = if shape.contains(&0) { 0 } else { reach + 1 };
        Tensor { memory: vec![T::narrow(T::Acc::from_f64(f64::NAN)); len], shape: shape.to_vec(), strides, offset }
    }

    /// These elements, in row-major order.
    pub fn of(values: &[T], shape: &[usize], layout: Layout, random: &mut Random) -> Self {
        let mut tensor = Tensor::new(shape, layout, random);
        for (place, &value) in tensor.places().into_iter().zip(values) {
            tensor.memory[place] = value;
        }
        tensor
    }

    pub fn view(&self) -> View<'_, T> {
        View::strided(&self.memory, &self.shape, &self.strides, self.offset).unwrap()
    }

    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::strided(&mut self.memory, &self.shape, &self.strides, self.offset).unwrap()
    }

    /// Where the elements are, in row-major order.
    pub fn places(&self) -> Vec<usize> {
        let place = |i: usize| {
            let along = |(i, &stride): (usize, &isize)| i as isize * stride;
            let offset: isize = index(i, &self.shape).into_iter().zip(&self.strides).map(along).sum();
            self.offset.strict_add_signed(offset)
        };
        (0..self.shape.iter().product()).map(place).collect()
    }

    /// The elements, in row-major order. Everything else must be as it was.
    pub fn elements(&self) -> Vec<T> {
        let (places, mut between) = (self.places(), vec![true; self.memory.len()]);
        places.iter().for_each(|&place| between[place] = false);
        let written = between.iter().zip(&self.memory).any(|(&between, &x)| between && !is_nan(x));
        assert!(!written, "written beside the elements: shape {:?}, strides {:?}", self.shape, self.strides);
        places.iter().map(|&place| self.memory[place]).collect()
    }
}

/// The index of an element along each axis, from its row-major number.
pub fn index(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (index, &dim) in index.iter_mut().zip(shape).rev() {
        (*index, i) = (i % dim, i / dim);
    }
    index
}

pub fn is_nan<T: Element>(x: T) -> bool {
    x.widen().to_f64().is_nan()
}

/// Normal numbers, times a scale, plus a mean.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// As powers of ten.
    pub scale: i32,
    /// The mean in units of the scale.
    pub mean: f64,
}

impl Numbers {
    /// What the type cannot hold becomes its largest number.
    pub fn draw<T: Element>(self, count: usize, random: &mut Random) -> Vec<T> {
        let most = largest::<T>();
        let scale = 10f64.powi(self.scale);
        random.map(count, |z| ((self.mean + z) * scale).clamp(-most, most))
    }
}

pub fn largest<T: Element>() -> f64 {
    match T::NAME {
        "f16" => f16::MAX.to_f64(),
        "bf16" => bf16::MAX.to_f64(),
        "f32" => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// Numbers that the oracle can follow: those of f16 stay in its range.
pub fn moderate<T: Element>() -> BoxedStrategy<Numbers> {
    let scales = if T::NAME == "f16" { -6..=1 } else { -30..=30 };
    (scales, select(vec![0.0, 0.0, 1.0, -30.0, 1e3, 1e6, -3e7]))
        .prop_map(|(scale, mean)| Numbers { scale, mean })
        .boxed()
}

/// Numbers of any size that the type has.
pub fn any_size<T: Element>() -> BoxedStrategy<Numbers> {
    let scales = if T::NAME == "f64" { -320..=308 } else { -45..=38 };
    (scales, select(vec![0.0, 1.0, -1e6])).prop_map(|(scale, mean)| Numbers { scale, mean }).boxed()
}

/// Up to 8 dimensions and some thousand elements; now and then enough for several threads.
pub fn shapes(ranks: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<usize>> {
    let dim = prop_oneof![1 => Just(0), 4 => Just(1), 12 => 2..6usize, 4 => 6..40usize, 2 => 40..1500usize];
    let small = vec(dim, ranks).prop_map(|dims| limited(dims, 3000));
    let large = (150..300usize, 120..300usize).prop_map(|(rows, n)| vec![rows, n]);
    prop_oneof![30 => small, 1 => large]
}

/// Dimensions cut so that there are at most so many elements.
pub fn limited(mut dims: Vec<usize>, mut most: usize) -> Vec<usize> {
    for dim in &mut dims {
        *dim = (*dim).min(most);
        most /= (*dim).max(1);
    }
    dims
}

pub fn layout() -> impl Strategy<Value = Layout> {
    select(vec![Layout::Contiguous, Layout::Permuted, Layout::Reversed, Layout::Sliced])
}

pub fn context(isa: Index, threads: usize) -> Context {
    Context::new().with_isa(*isa.get(&Isa::available())).unwrap().with_threads(threads).unwrap()
}

/// The plainest way to run.
pub fn scalar() -> Context {
    Context::new().with_isa(Isa::Scalar).unwrap().with_threads(1).unwrap()
}

/// Whether there is a parameter, and of which type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Absent,
    Same,
    F32,
}

pub fn kind() -> impl Strategy<Value = Kind> {
    select(vec![Kind::Absent, Kind::Same, Kind::F32])
}

/// γ, β, or where a gradient goes.
pub enum Parameter<T> {
    Absent,
    Same(Tensor<T>),
    F32(Tensor<f32>),
}

impl<T: Element> Parameter<T> {
    /// `value(i)` of type T is the element of row-major number i; if it is f32's, the same number.
    pub fn of(kind: Kind, values: &[T], shape: &[usize], layout: Layout, random: &mut Random) -> Self {
        let narrow = |x: &T| x.widen().to_f64().clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        match kind {
            Kind::Absent => Parameter::Absent,
            Kind::Same => Parameter::Same(Tensor::of(values, shape, layout, random)),
            Kind::F32 => {
                let values: Vec<f32> = values.iter().map(narrow).collect();
                Parameter::F32(Tensor::of(&values, shape, layout, random))
            }
        }
    }

    pub fn new(kind: Kind, shape: &[usize], layout: Layout, random: &mut Random) -> Self {
        match kind {
            Kind::Absent => Parameter::Absent,
            Kind::Same => Parameter::Same(Tensor::new(shape, layout, random)),
            Kind::F32 => Parameter::F32(Tensor::new(shape, layout, random)),
        }
    }

    pub fn view(&self) -> Option<Param<'_, T>> {
        match self {
            Parameter::Absent => None,
            Parameter::Same(tensor) => Some(Param::Same(tensor.view())),
            Parameter::F32(tensor) => Some(Param::F32(tensor.view())),
        }
    }

    pub fn view_mut(&mut self) -> Option<ParamMut<'_, T>> {
        match self {
            Parameter::Absent => None,
            Parameter::Same(tensor) => Some(ParamMut::Same(tensor.view_mut())),
            Parameter::F32(tensor) => Some(ParamMut::F32(tensor.view_mut())),
        }
    }

    /// The elements in row-major order; none if it is absent.
    pub fn elements(&self) -> Vec<f64> {
        match self {
            Parameter::Absent => Vec::new(),
            Parameter::Same(tensor) => tensor.elements().iter().map(|x| x.widen().to_f64()).collect(),
            Parameter::F32(tensor) => tensor.elements().iter().map(|&x| f64::from(x)).collect(),
        }
    }
}

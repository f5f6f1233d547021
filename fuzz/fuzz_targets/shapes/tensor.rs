//! Tensors in every layout, with checks of the memory between their elements.

use crate::bytes::Bytes;
use layernorm::{Element, Error, Float, View, ViewMut};

/// Maximum number of elements of a tensor that is computed on. It is enough for two threads to share rows of 32768
/// elements, in more than one row.
pub const MAX_ELEMENTS: usize = 110_000;

/// Sizes and strides that no tensor has, and those next to ones that exist.
const ODD: [usize; 12] =
    [0, 1, 2, 3, 255, 1 << 31, 1 << 59, 1 << 60, isize::MAX as usize, 1 << 63, usize::MAX - 1, usize::MAX];

/// Returns a shape, mostly of a tensor that can exist.
pub fn shape(bytes: &mut Bytes) -> Vec<usize> {
    let rank = if bytes.rarely(16) { bytes.below(18) } else { bytes.below(6) };
    if bytes.rarely(8) {
        // An empty tensor can have any other sizes.
        return (0..rank).map(|_| if bytes.below(3) == 0 { 0 } else { bytes.of(&ODD) }).collect();
    }
    if rank == 2 && bytes.rarely(16) {
        return vec![1 + bytes.below(2), 32_000 + bytes.word() as usize % 20_000];
    }
    let most = if bytes.rarely(16) { 40_000 } else { 2048 };
    let mut left = most;
    (0..rank)
        .map(|_| {
            let dim = if bytes.rarely(4) { bytes.word() as usize % most } else { bytes.below(20) };
            let dim = dim.min(left);
            left /= dim.max(1);
            dim
        })
        .collect()
}

/// Returns the number of elements; a tensor beyond memory counts as too large to run.
pub fn count(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |count: usize, &dim| count.saturating_mul(dim)) }
}

/// A tensor as a caller holds it. The layout may be one that views reject.
#[derive(Clone, Debug)]
pub struct Tensor<T> {
    pub memory: Vec<T>,
    pub shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

impl<T: Element> Tensor<T> {
    /// Creates a tensor whose whole memory is NaN, so that reads and writes outside its elements are detected.
    pub fn new(bytes: &mut Bytes, shape: &[usize]) -> Self {
        let mut shape = shape.to_vec();
        if bytes.rarely(64) {
            shape.push(bytes.below(3));
        }
        let elements = count(&shape);
        let (strides, offset, len) = match bytes.below(8) {
            _ if elements > MAX_ELEMENTS => odd(bytes, shape.len()),
            7 => odd(bytes, shape.len()),
            0..=2 => contiguous(&shape),
            _ => sliced(bytes, &shape),
        };
        let len = if bytes.rarely(64) { len.saturating_sub(1) } else { len };
        Tensor { memory: vec![T::narrow(T::Acc::from_f64(f64::NAN)); len], shape, strides, offset }
    }

    pub fn view(&self) -> Result<View<'_, T>, Error> {
        View::strided(&self.memory, &self.shape, &self.strides, self.offset)
    }

    pub fn view_mut(&mut self) -> Result<ViewMut<'_, T>, Error> {
        ViewMut::strided(&mut self.memory, &self.shape, &self.strides, self.offset)
    }

    /// Writes every element of a tensor that exists; those of a broadcast several times.
    pub fn fill(mut self, mut value: impl FnMut() -> T) -> Self {
        for at in self.places() {
            self.memory[at] = value();
        }
        self
    }

    pub fn elements(&self) -> Vec<T> {
        self.places().into_iter().map(|at| self.memory[at]).collect()
    }

    /// Returns the positions of the elements in row-major order; none if the tensor does not exist.
    fn places(&self) -> Vec<usize> {
        let elements = count(&self.shape);
        if self.view().is_err() || elements > MAX_ELEMENTS {
            return Vec::new();
        }
        let place = |mut index: usize| {
            let along = |(&dim, &stride): (&usize, &isize)| {
                let i = index % dim;
                index /= dim;
                (i as isize).wrapping_mul(stride)
            };
            let dims = self.shape.iter().zip(&self.strides).rev();
            self.offset.wrapping_add_signed(dims.map(along).fold(0, isize::wrapping_add))
        };
        (0..elements).map(place).collect()
    }

    /// Returns whether everything but the elements is still NaN.
    pub fn is_clean(&self) -> bool {
        let mut between = vec![true; self.memory.len()];
        self.places().into_iter().for_each(|at| between[at] = false);
        between.iter().zip(&self.memory).all(|(&between, x)| !between || is_nan(*x))
    }

    pub fn is_untouched(&self) -> bool {
        self.memory.iter().all(|&x| is_nan(x))
    }
}

pub fn is_nan<T: Element>(x: T) -> bool {
    x.widen().to_f64().is_nan()
}

type Layout = (Vec<isize>, usize, usize);

fn contiguous(shape: &[usize]) -> Layout {
    let mut step = 1isize;
    let mut strides: Vec<isize> = shape
        .iter()
        .rev()
        .map(|&dim| {
            let stride = step;
            step = stride.wrapping_mul(dim.max(1) as isize);
            stride
        })
        .collect();
    strides.reverse();
    (strides, 0, count(shape))
}

/// Returns a layout with axes in any order, each possibly reversed, with gaps, or (for inputs) with stride 0.
fn sliced(bytes: &mut Bytes, shape: &[usize]) -> Layout {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, bytes.below(i + 1));
    }
    let (mut strides, mut offset, mut reach, mut step) = (vec![0; shape.len()], bytes.below(9), 0usize, 1usize);
    for axis in order {
        let choice = bytes.byte();
        if shape[axis] == 1 && choice & 1 == 1 {
            // A stride that is never used.
            strides[axis] = bytes.of(&ODD) as isize;
            continue;
        }
        // Larger gaps only where memory stays small.
        let apart = if step < 4096 { 1 + usize::from(choice >> 2 & 1) } else { 1 };
        let stride = step.saturating_mul(apart).min(isize::MAX as usize);
        let span = stride.saturating_mul(shape[axis].saturating_sub(1));
        match choice & 31 {
            31 => strides[axis] = 0,
            low if low & 1 == 1 => {
                strides[axis] = -(stride as isize);
                offset = offset.saturating_add(span);
                step = span.saturating_add(stride);
            }
            _ => {
                strides[axis] = stride as isize;
                reach = reach.saturating_add(span);
                step = span.saturating_add(stride);
            }
        }
    }
    let len = if count(shape) == 0 { 0 } else { offset + reach + 1 + bytes.below(5) };
    (strides, offset, len)
}

/// Returns a layout with arbitrary strides over little memory.
fn odd(bytes: &mut Bytes, rank: usize) -> Layout {
    let rank = if bytes.rarely(32) { rank + 1 } else { rank };
    let stride = |_| match bytes.below(4) {
        0 => bytes.below(7) as isize - 3,
        1 => isize::MIN,
        2 => bytes.of(&ODD) as isize,
        _ => 0,
    };
    let strides = (0..rank).map(stride).collect();
    let offset = if bytes.rarely(8) { bytes.of(&ODD) } else { bytes.below(32) };
    (strides, offset, bytes.below(64))
}

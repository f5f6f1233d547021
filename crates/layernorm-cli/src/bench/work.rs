//! The contestants of a measurement and the memory they use.

use super::buffer::Buffer;
use super::shape::Shape;
use crate::dtype::Type;
use crate::failure::Failure;
use crate::norm::{GradientSlices, Inputs, RowNorm};
use crate::random::Random;
use layernorm::{Context, Element, Float, Saved, baseline};

/// What to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// `memcpy`.
    Copy,
    /// y = a·x.
    Scale,
    /// z = a·x + y.
    Triad,
    /// y and the statistics.
    Forward,
    /// h = x + residual, y = norm(h) and the statistics.
    Residual,
    /// dx, dγ and dβ.
    Backward,
}

impl Contestant {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Copy => "copy",
            Contestant::Scale => "scale",
            Contestant::Triad => "triad",
            Contestant::Forward => "forward",
            Contestant::Residual => "residual forward",
            Contestant::Backward => "backward",
        }
    }

    /// Number of tensors that must be read and written. γ, β, statistics and their gradients are small and not counted.
    pub fn tensors(self) -> usize {
        match self {
            Contestant::Copy | Contestant::Scale | Contestant::Forward => 2,
            Contestant::Triad | Contestant::Backward => 3,
            Contestant::Residual => 4,
        }
    }

    /// The loop that moves the same tensors and computes next to nothing; for a residual, the norm without it.
    pub fn peer(self) -> Option<Contestant> {
        match self {
            Contestant::Forward => Some(Contestant::Scale),
            Contestant::Backward => Some(Contestant::Triad),
            Contestant::Residual => Some(Contestant::Forward),
            _ => None,
        }
    }
}

/// Number of tensors of this shape in [`Work`], including those of the plain loops.
const TENSORS: usize = 7;

/// The memory for one shape, and the calls on it. Every round uses the same memory.
#[derive(Debug)]
pub struct Work<T: Element> {
    /// The kind of normalization.
    pub norm: RowNorm,
    n: usize,
    x: Buffer<T>,
    dy: Buffer<T>,
    gain: Buffer<T>,
    bias: Buffer<T>,
    /// The output of forward.
    pub y: Buffer<T>,
    /// The output of backward, or the sum of x and the residual.
    pub dx: Buffer<T>,
    /// dγ.
    pub dgain: Buffer<T>,
    /// dβ.
    pub dbias: Buffer<T>,
    saved: Saved<T::Acc>,
    loops: [Buffer<f32>; 3],
}

impl<T: Type> Work<T> {
    /// Bytes of memory that a shape needs.
    pub fn bytes(shape: &Shape) -> u64 {
        (TENSORS * size_of::<T>()) as u64 * shape.len() as u64
    }

    /// Allocates and writes all memory.
    pub fn new(norm: RowNorm, shape: &Shape) -> Result<Self, Failure> {
        let (len, n) = (shape.len(), shape.n());
        let mut random = Random::new(len as u64);
        let mut number = move || T::narrow(T::Acc::from_f64(0.5 + 4.0 * (random.uniform() - 0.5)));
        let zero = T::default;
        let floats = (len * size_of::<T>()).div_ceil(size_of::<f32>());
        let float = || Buffer::new(floats, || 1.5f32);
        Ok(Work {
            norm,
            n,
            x: Buffer::new(len, &mut number)?,
            dy: Buffer::new(len, &mut number)?,
            gain: Buffer::new(n, &mut number)?,
            bias: Buffer::new(n, &mut number)?,
            y: Buffer::new(len, zero)?,
            dx: Buffer::new(len, zero)?,
            dgain: Buffer::new(n, zero)?,
            dbias: Buffer::new(n, zero)?,
            saved: Saved::new(shape.rows()),
            loops: [float()?, float()?, float()?],
        })
    }

    /// The inputs.
    pub fn inputs(&self) -> Inputs<'_, T> {
        Inputs { n: self.n, x: self.x.get(), dy: self.dy.get(), gain: self.gain.get(), bias: self.bias.get() }
    }

    /// Makes one call.
    pub fn call(&mut self, contestant: Contestant, cx: &mut Context) -> Result<(), layernorm::Error> {
        let Work { norm, n, x, dy, gain, bias, y, dx, dgain, dbias, saved, loops: [a, b, c] } = self;
        let of = Inputs { n: *n, x: x.get(), dy: dy.get(), gain: gain.get(), bias: bias.get() };
        match contestant {
            Contestant::Copy => baseline::copy(a.get(), b.get_mut(), cx),
            Contestant::Scale => baseline::scale(0.5, a.get(), b.get_mut(), cx),
            Contestant::Triad => baseline::triad(0.5, a.get(), b.get(), c.get_mut(), cx),
            Contestant::Forward => norm.forward(&of, y.get_mut(), saved.as_mut(), cx),
            Contestant::Residual => norm.forward_residual(&of, dx.get_mut(), y.get_mut(), saved.as_mut(), cx),
            Contestant::Backward => {
                let to = GradientSlices { dx: dx.get_mut(), dgain: dgain.get_mut(), dbias: dbias.get_mut() };
                norm.backward(&of, saved.as_ref(), to, cx)
            }
        }
    }
}

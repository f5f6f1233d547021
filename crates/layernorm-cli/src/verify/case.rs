//! Runs one norm on one tensor along every path and counts differing bits.

use crate::dtype::{Bits, Type};
use crate::norm::{GradientSlices, Inputs, RowNorm};
use crate::random::Random;
use layernorm::{Context, Element, Error, Float, Isa, Saved, StatsMut, StatsRef};
use std::ops::Range;

/// The thread counts to compare.
pub const THREADS: [usize; 4] = [1, 2, 3, 5];

/// How the batch is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// One call.
    Whole,
    /// A few calls.
    Pieces,
    /// A call for each row.
    OneByOne,
}

impl Split {
    /// All of them.
    pub const ALL: [Split; 3] = [Split::Whole, Split::Pieces, Split::OneByOne];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Split::Whole => "whole",
            Split::Pieces => "in three uneven pieces",
            Split::OneByOne => "row by row",
        }
    }

    /// The boundaries between pieces, as row numbers.
    fn ends(self, rows: usize) -> Vec<usize> {
        match self {
            Split::Whole => vec![0, rows],
            Split::Pieces => vec![0, rows / 5, rows - rows / 3, rows],
            Split::OneByOne => (0..=rows).collect(),
        }
    }
}

/// The number of outputs compared and of bits that differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Outputs compared.
    pub outputs: u64,
    /// Bits that differ.
    pub bits: u64,
}

impl Count {
    /// Compares outputs; a missing or extra output counts as if all its bits differed.
    pub fn add<T: Bits>(&mut self, found: &[T], expected: &[T]) {
        let differing = |(f, e): (&T, &T)| u64::from((f.bits() ^ e.bits()).count_ones());
        self.outputs += found.len() as u64;
        self.bits += found.iter().zip(expected).map(differing).sum::<u64>();
        self.bits += 64 * found.len().abs_diff(expected.len()) as u64;
    }
}

/// The counts of each pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// y and the saved statistics.
    pub forward: Count,
    /// The same with a residual, and h, compared with adding first and then normalizing.
    pub residual: Count,
    /// dx, dγ and dβ.
    pub backward: Count,
}

/// One norm of one tensor: x and dy are `[R, N]`, γ and β `[N]`.
#[derive(Debug)]
pub struct Case<T> {
    norm: RowNorm,
    rows: usize,
    n: usize,
    x: Vec<T>,
    dy: Vec<T>,
    gain: Vec<T>,
    bias: Vec<T>,
}

impl<T: Type> Case<T> {
    /// Seeded inputs. If there are more than two rows, the second is so large that its sums overflow.
    pub fn new(norm: RowNorm, rows: usize, n: usize) -> Self {
        let mut random = Random::new((rows * 1_000_003 + n) as u64);
        let mut x = random.normals(rows * n, |z| 3.0 + 2.0 * z);
        if rows > 2 {
            x[n..2 * n].copy_from_slice(&random.normals(n, |z| T::HUGE * (z / 6.0)));
        }
        let dy = random.normals(rows * n, |z| z);
        Case { norm, rows, n, x, dy, gain: random.normals(n, |z| 1.0 + z), bias: random.normals(n, |z| z) }
    }

    /// Compares every path with plain Rust on one thread, for these splits of the batch.
    pub fn check(&self, splits: &[Split], counts: &mut Counts) -> Result<(), Error> {
        let mut plain = Context::new().with_isa(Isa::Scalar)?.with_threads(1)?;
        let mut expected = Outputs::unwritten(self.rows, self.n);
        self.run(Split::Whole, &mut expected, &mut plain)?;
        let mut fused = Outputs::unwritten(self.rows, self.n);
        self.add_then_norm(&mut fused, &mut plain)?;
        let mut found = Outputs::unwritten(self.rows, self.n);
        for isa in Isa::available() {
            for threads in THREADS {
                let mut cx = Context::new().with_isa(isa)?.with_threads(threads)?;
                for &split in splits {
                    found.unwrite();
                    self.run(split, &mut found, &mut cx)?;
                    found.compare(&expected, split, counts);
                }
                found.unwrite();
                let Outputs { y, dx: h, saved, .. } = &mut found;
                self.norm.forward_residual(&self.inputs(&self.x, 0..self.rows), h, y, saved.as_mut(), &mut cx)?;
                counts.residual.add(&found.dx, &fused.dx);
                found.compare_forward(&fused, &mut counts.residual);
            }
        }
        Ok(())
    }

    /// Computes h = x + dy (dy serves as the residual), stored in dx, and y = norm(h).
    fn add_then_norm(&self, to: &mut Outputs<T>, cx: &mut Context) -> Result<(), Error> {
        let Outputs { y, dx: h, saved, .. } = to;
        for ((h, x), residual) in h.iter_mut().zip(&self.x).zip(&self.dy) {
            *h = T::narrow(x.widen() + residual.widen());
        }
        self.norm.forward(&self.inputs(h, 0..self.rows), y, saved.as_mut(), cx)
    }

    /// The inputs of some rows, with this x.
    fn inputs<'a>(&'a self, x: &'a [T], rows: Range<usize>) -> Inputs<'a, T> {
        let cells = rows.start * self.n..rows.end * self.n;
        Inputs { n: self.n, x: &x[cells.clone()], dy: &self.dy[cells], gain: &self.gain, bias: &self.bias }
    }

    /// Runs forward and backward on every piece of the batch.
    fn run(&self, split: Split, to: &mut Outputs<T>, cx: &mut Context) -> Result<(), Error> {
        for ends in split.ends(self.rows).windows(2) {
            let rows = ends[0]..ends[1];
            let cells = rows.start * self.n..rows.end * self.n;
            let of = self.inputs(&self.x, rows.clone());
            self.norm.forward(&of, &mut to.y[cells.clone()], stats_mut(&mut to.saved, rows.clone()), cx)?;
            let gradients = GradientSlices { dx: &mut to.dx[cells], dgain: &mut to.dgain, dbias: &mut to.dbias };
            self.norm.backward(&of, stats_ref(&to.saved, rows), gradients, cx)?;
        }
        Ok(())
    }
}

/// Mutable statistics of some rows.
fn stats_mut<A>(saved: &mut Saved<A>, rows: Range<usize>) -> StatsMut<'_, A> {
    let Saved { m, delta, rstd } = saved;
    StatsMut { m: &mut m[rows.clone()], delta: &mut delta[rows.clone()], rstd: &mut rstd[rows] }
}

/// Statistics of some rows.
fn stats_ref<A>(saved: &Saved<A>, rows: Range<usize>) -> StatsRef<'_, A> {
    StatsRef { m: &saved.m[rows.clone()], delta: &saved.delta[rows.clone()], rstd: &saved.rstd[rows] }
}

/// All outputs of forward and backward.
struct Outputs<T: Element> {
    y: Vec<T>,
    saved: Saved<T::Acc>,
    dx: Vec<T>,
    dgain: Vec<T>,
    dbias: Vec<T>,
}

impl<T: Type> Outputs<T> {
    fn unwritten(rows: usize, n: usize) -> Self {
        let zeros = |count| vec![T::default(); count];
        let mut outputs = Outputs {
            y: zeros(rows * n),
            saved: Saved::new(rows),
            dx: zeros(rows * n),
            dgain: zeros(n),
            dbias: zeros(n),
        };
        outputs.unwrite();
        outputs
    }

    /// Fills everything with NaN, which no result is, so that unwritten outputs are detected.
    fn unwrite(&mut self) {
        let nan = T::Acc::from_f64(f64::NAN);
        for stats in [&mut self.saved.m, &mut self.saved.delta, &mut self.saved.rstd] {
            stats.fill(nan);
        }
        for outputs in [&mut self.y, &mut self.dx, &mut self.dgain, &mut self.dbias] {
            outputs.fill(T::narrow(nan));
        }
    }

    fn compare_forward(&self, expected: &Self, count: &mut Count) {
        count.add(&self.y, &expected.y);
        count.add(&self.saved.m, &expected.saved.m);
        count.add(&self.saved.delta, &expected.saved.delta);
        count.add(&self.saved.rstd, &expected.saved.rstd);
    }

    fn compare(&self, expected: &Self, split: Split, counts: &mut Counts) {
        self.compare_forward(expected, &mut counts.forward);
        counts.backward.add(&self.dx, &expected.dx);
        // dγ and dβ are sums over the batch, so those of a part are different.
        if split == Split::Whole {
            counts.backward.add(&self.dgain, &expected.dgain);
            counts.backward.add(&self.dbias, &expected.dbias);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_differing_bit_is_counted_and_an_unwritten_output_differs() {
        let mut count = Count::default();
        let one_bit_off = f32::from_bits(1.5f32.to_bits() ^ 4);
        count.add(&[1.5, one_bit_off, f32::NAN], &[1.5, 1.5, -f32::NAN]);
        assert_eq!((count.outputs, count.bits), (3, 1));
        count.add(&[0.0f64, f64::NAN], &[-0.0, 0.0]);
        assert_eq!((count.outputs, count.bits), (5, 1 + 1 + 64));
    }

    #[test]
    fn the_pieces_of_a_batch_are_the_batch() {
        for rows in [1, 2, 3, 64, 65] {
            for split in Split::ALL {
                let ends = split.ends(rows);
                assert!(ends.is_sorted() && ends[0] == 0 && ends.last() == Some(&rows), "{split:?} of {rows}");
            }
        }
    }
}

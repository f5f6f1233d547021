//! The norms of a cell: the row norms of the crate `layernorm`, one row per group of gates.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::pointwise::Rows;
use crate::real::Real;
use crate::variant::{EpsPlace, NormSpec, Over};
use layernorm::parts::{Line, MachineIsa, RawLayerNorm, StatRows, memory};

/// m, δ and r of every row of every group.
#[derive(Debug)]
pub(crate) struct Stats<A> {
    numbers: Buffer<A>,
    rows: usize,
    groups: usize,
}

impl<A: Real> Stats<A> {
    pub(crate) const fn new() -> Self {
        Stats { numbers: Buffer::new(), rows: 0, groups: 0 }
    }

    /// Returns the bytes for this many rows and groups; `usize::MAX` if the number overflows.
    pub(crate) fn need(rows: usize, groups: usize) -> usize {
        Buffer::<A>::need(rows.saturating_mul(3 * groups))
    }

    pub(crate) fn reshape(&mut self, rows: usize, groups: usize) -> Result<(), Error> {
        (self.rows, self.groups) = (rows, groups);
        Ok(self.numbers.reserve(rows.saturating_mul(3 * groups))?)
    }

    /// Returns the statistics of a group, from a row on.
    pub(crate) fn of(&self, group: usize, row: usize) -> StatRows<A> {
        let part = |which: usize| self.numbers.ptr().wrapping_add((which * self.groups + group) * self.rows + row);
        StatRows { m: part(0), delta: part(1), r: part(2) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.numbers.bytes()
    }
}

/// A norm of a cell, ready to run.
#[derive(Debug)]
pub(crate) struct CellNorms<A> {
    /// Start and length of each group.
    pub(crate) groups: Vec<(usize, usize)>,
    eps: A,
    eps_outside: A,
    gain: Vec<A>,
    bias: Vec<A>,
}

impl<A: Real> CellNorms<A> {
    /// Creates a norm over rows of `gates` gates of `hidden` numbers each. An absent γ is 1 and an absent β is −0.
    pub(crate) fn new(
        norm: NormSpec,
        gates: usize,
        hidden: usize,
        gain: Option<&[A]>,
        bias: Option<&[A]>,
    ) -> Result<Self, Error> {
        let groups = match norm.over {
            Over::AllGates => vec![(0, gates * hidden)],
            Over::EachGate => (0..gates).map(|gate| (gate * hidden, hidden)).collect(),
            Over::GatesAndCandidate => vec![(0, (gates - 1) * hidden), ((gates - 1) * hidden, hidden)],
        };
        let eps = A::from_f64(norm.eps);
        let (eps, eps_outside) = match norm.eps_place {
            EpsPlace::Variance => (eps, A::ZERO),
            EpsPlace::Deviation => (A::ZERO, eps),
        };
        let fill = |values: Option<&[A]>, absent: A| match values {
            Some(values) => memory::copied(values),
            None => memory::filled(gates * hidden, absent),
        };
        Ok(CellNorms { groups, eps, eps_outside, gain: fill(gain, A::ONE)?, bias: fill(bias, A::NEG_ZERO)? })
    }

    pub(crate) fn part(&self, group: usize) -> RawLayerNorm<A> {
        let (start, n) = self.groups[group];
        let (gain, bias) = (self.gain[start..].as_ptr(), self.bias[start..].as_ptr());
        RawLayerNorm { n, eps: self.eps, eps_outside: self.eps_outside, gain, bias }
    }

    /// Returns the groups that lie entirely within these columns.
    fn within(&self, columns: (usize, usize)) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(move |&group| {
            let (start, n) = self.groups[group];
            start >= columns.0 && start + n <= columns.1
        })
    }

    /// Computes y = LN(x) of some rows, for the groups within these columns. Statistics are indexed from `row` on.
    ///
    /// # Safety
    /// The rows are valid.
    pub(crate) unsafe fn forward(&self, isa: MachineIsa, run: NormRows<'_, A>, x: Rows<A>, y: Rows<A>) {
        for group in self.within(run.columns) {
            let start = self.groups[group].0;
            let (x, y) = (x.from(0, start), y.from(0, start));
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.part(group).forward(
                    isa,
                    Line { ptr: x.ptr.cast_const(), stride: x.stride },
                    Line { ptr: y.ptr, stride: y.stride },
                    run.stats.of(group, run.row),
                    run.rows,
                );
            }
        }
    }

    /// Computes the normalized rows of one group, without γ and β.
    ///
    /// # Safety
    /// The rows are valid.
    pub(crate) unsafe fn normalized(
        &self,
        isa: MachineIsa,
        group: usize,
        x: Rows<A>,
        y: Rows<A>,
        rows: usize,
    ) -> Result<(), Error> {
        let (start, n) = self.groups[group];
        let (gain, bias) = (memory::filled(n, A::ONE)?, memory::filled(n, A::NEG_ZERO)?);
        let mut stats = Stats::new();
        stats.reshape(rows, 1)?;
        let norm = RawLayerNorm { gain: gain.as_ptr(), bias: bias.as_ptr(), ..self.part(group) };
        let (x, y) = (x.from(0, start), y.from(0, start));
        // SAFETY: guaranteed by the caller.
        unsafe {
            norm.forward(
                isa,
                Line { ptr: x.ptr.cast_const(), stride: x.stride },
                Line { ptr: y.ptr, stride: y.stride },
                stats.of(0, 0),
                rows,
            );
        }
        Ok(())
    }

    /// Computes dx from x and dy for the same rows and groups. dx may be dy.
    ///
    /// # Safety
    /// The rows are valid.
    pub(crate) unsafe fn backward(&self, isa: MachineIsa, run: NormRows<'_, A>, x: Rows<A>, dy: Rows<A>, dx: Rows<A>) {
        for group in self.within(run.columns) {
            let start = self.groups[group].0;
            let (x, dy, dx) = (x.from(0, start), dy.from(0, start), dx.from(0, start));
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.part(group).backward(
                    isa,
                    Line { ptr: x.ptr.cast_const(), stride: x.stride },
                    Line { ptr: dy.ptr.cast_const(), stride: dy.stride },
                    Line { ptr: dx.ptr, stride: dx.stride },
                    run.stats.of(group, run.row),
                    run.rows,
                );
            }
        }
    }
}

/// Rows that a norm runs over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormRows<'a, A> {
    pub(crate) stats: &'a Stats<A>,
    /// Index of the first row's statistics.
    pub(crate) row: usize,
    pub(crate) rows: usize,
    /// First column and end column.
    pub(crate) columns: (usize, usize),
}

//! Backward over the rows of a tensor, including the sums for γ and β down the rows.

use super::chunks::Chunks;
use super::team::Team;
use super::{Shared, Tiles, finish, input, output};
use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::Error;
use crate::kernels::backward::{Backward, ParameterSums};
use crate::kernels::extreme::{self, Line, Scaled, column_sum};
use crate::kernels::{Affine, RowNorm, Stats};
use crate::memory;
use crate::pages;
use crate::plan::Operand;
use crate::tune::{self, Memory};

/// A backward pass. There is one γ per feature or one per row.
pub(crate) struct BackwardJob<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Operand<*const T>,
    pub(crate) dh: Option<Operand<*const T>>,
    pub(crate) dx: Option<Operand<*mut T>>,
    pub(crate) norm: RowNorm<T::Acc>,
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Stats<T::Acc>,
    /// Whether to compute the sums for γ and β, one per feature.
    pub(crate) sums: bool,
}

impl<T: Element> BackwardJob<T> {
    fn is_direct(&self) -> bool {
        let optional = self.dh.is_none_or(|dh| dh.direct().is_some()) && self.dx.is_none_or(|dx| dx.direct().is_some());
        self.x.direct().is_some() && self.dy.direct().is_some() && optional
    }

    fn chunks(&self, cx: &Context) -> Chunks {
        let (rows, n) = (self.x.rows(), self.x.n());
        let tiles = if self.is_direct() { Need::default() } else { Tiles::<T>::need(n) };
        Chunks::new(rows, n, if self.sums { 2 * n } else { 0 }, tiles, cx)
    }

    /// Returns the scratch memory that [`BackwardJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        let team = self.team(cx).map(|team| team.need::<T>()).unwrap_or_default();
        team.and(self.chunks(cx).need::<T::Acc>())
    }

    /// Returns the memory access hints for the kernels.
    pub(super) fn memory(&self) -> Memory {
        let direct = self.dx.is_some_and(|dx| dx.direct().is_some());
        Memory::of::<T>(self.x.rows(), self.x.n(), direct)
    }

    /// Returns the team that shares each row, if the rows are few and long.
    fn team(&self, cx: &Context) -> Option<Team> {
        let (rows, n, threads) = (self.x.rows(), self.x.n(), cx.threads());
        let wanted = self.sums && self.is_direct() && tune::share_rows(threads, rows, n);
        wanted.then(|| Team::new(rows, n, threads))
    }

    /// Runs the pass and returns the sums for γ and β, if requested.
    ///
    /// # Safety
    /// The operands, parameters and statistics are valid, and dx overlaps no input.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<ParameterSums<T::Acc>, Error> {
        let isa = cx.machine_isa()?;
        let n = self.x.n();
        let direct = self.is_direct();
        if cx.fresh_outputs() {
            // SAFETY: the output is valid.
            unsafe { pages::ask_for_large(self.dx.and_then(|dx| dx.direct()), self.x.rows(), n) };
        }
        let shared = Shared(&raw const self);
        let visit = |first: usize, end: usize, sums: *mut T::Acc, scratch: &mut Scratch| {
            let sums = (!sums.is_null()).then(|| ParameterSums { gain: sums, bias: sums.wrapping_add(n) });
            let tiles = if direct { Tiles::none() } else { Tiles::new(n, scratch) };
            // SAFETY: `self` outlives the call; the rows and the scratch memory belong to this task.
            unsafe { (*shared.get()).rows(isa, first, end, sums, &tiles) }
        };
        // SAFETY: the rows are contiguous, as `team` has checked.
        let shared_rows = self.team(cx).and_then(|team| unsafe { team.run(&self, isa, scratch) });
        // SAFETY: calls for different rows access different memory.
        let gain = shared_rows.unwrap_or_else(|| unsafe { self.chunks(cx).run(scratch, &visit) });
        let sums = ParameterSums { gain, bias: gain.wrapping_add(n) };
        if self.sums {
            // SAFETY: the sums have n elements each.
            unsafe { self.redo_overflown(sums)? };
        }
        Ok(sums)
    }

    unsafe fn rows(
        &self,
        isa: MachineIsa,
        first: usize,
        end: usize,
        sums: Option<ParameterSums<T::Acc>>,
        tiles: &Tiles<T>,
    ) {
        let n = self.x.n();
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; the tiles have room for them.
            unsafe {
                let kernel = Backward {
                    x: input(&self.x, row, count, tiles.at[0]),
                    dy: input(&self.dy, row, count, tiles.at[1]),
                    dh: self.dh.map(|dh| input(&dh, row, count, tiles.at[2])),
                    dx: self.dx.map(|dx| output(&dx, row, tiles.at[3])),
                    rows: count,
                    n,
                    first_row: row,
                    norm: self.norm,
                    affine: self.affine,
                    stats: self.stats,
                    sums,
                    memory: self.memory(),
                };
                T::backward(isa, kernel);
                if let Some(dx) = self.dx {
                    finish(&dx, row, count, tiles.at[3]);
                }
            }
            row += count;
        }
    }

    /// Applies rule 6 to the sums for γ and β.
    unsafe fn redo_overflown(&self, sums: ParameterSums<T::Acc>) -> Result<(), Error> {
        let (rows, n) = (self.x.rows(), self.x.n());
        let mut lines = Vec::new();
        for i in 0..n {
            // SAFETY: i < n, and every row exists.
            unsafe {
                let (gain, bias) = (sums.gain.add(i), sums.bias.add(i));
                let dy = |row: usize| self.dy.element(row, i).widen();
                if !(*gain).is_finite() {
                    if lines.is_empty() {
                        lines = memory::reserved(rows)?;
                        lines.extend((0..rows).map(|row| self.line(row)));
                    }
                    let x_hat = |row: usize| lines[row].x_hat(self.x.element(row, i).widen());
                    *gain = column_sum(rows, dy, x_hat).unwrap_or(*gain);
                }
                if !(*bias).is_finite() {
                    *bias = column_sum(rows, dy, |_| T::Acc::ONE).unwrap_or(*bias);
                }
            }
        }
        Ok(())
    }

    /// Returns the statistics from which x̂ of a row is computed.
    #[cold]
    unsafe fn line(&self, row: usize) -> Scaled<T::Acc> {
        // SAFETY: the row exists and has n elements.
        let value = |i: usize| unsafe { self.x.element(row, i) }.widen();
        // SAFETY: the row exists.
        let stat = unsafe { self.stats.get(row) };
        Scaled::again(Line::Row, self.x.n(), value, &self.norm, stat)
    }
}

/// Returns whether the statistics of any row show that rule 6 scaled it.
///
/// # Safety
/// There are statistics for `rows` rows.
pub(crate) unsafe fn any_scaled<A: Float>(norm: &RowNorm<A>, stats: Stats<A>, rows: usize) -> bool {
    // SAFETY: guaranteed by the caller.
    (0..rows).any(|row| extreme::was_scaled(norm, unsafe { stats.get(row) }.r))
}

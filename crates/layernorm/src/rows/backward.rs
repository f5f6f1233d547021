//! Backward over the rows of a tensor, including the sums for γ and β down the rows.

use super::chunks::Chunks;
use super::team::Team;
use super::{Tiles, finish, input, output};
use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::Error;
use crate::kernels::backward::{Backward, ParameterSums};
use crate::kernels::extreme::{self, Line, Scaled, column_sum};
use crate::kernels::{Affine, RowNorm, Stats};
use crate::memory;
use crate::operand::Operand;
use crate::pages;
use crate::threads::Shared;
use crate::tune::{self, Memory};

/// Tensors of a backward pass.
pub(crate) struct BackwardTensors<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Operand<*const T>,
    pub(crate) dh: Option<Operand<*const T>>,
    pub(crate) dx: Option<Operand<*mut T>>,
}

/// Tensors of a backward pass, and how their rows are divided among tasks.
pub(crate) struct BackwardPlan<T: Element> {
    pub(super) tensors: BackwardTensors<T>,
    n: usize,
    /// Whether to compute the sums for γ and β, one per feature.
    sums: bool,
    /// Whether the rows of all tensors are processed in place.
    direct: bool,
    /// Memory access hints for the kernels.
    pub(super) memory: Memory,
    chunks: Chunks,
    /// The team that shares each row, if the rows are few and long.
    team: Option<Team>,
}

impl<T: Element> BackwardPlan<T> {
    /// Plans a pass, with the sums for γ and β or without.
    pub(crate) fn new(tensors: BackwardTensors<T>, sums: bool, cx: &Context) -> Self {
        let BackwardTensors { x, dy, dh, dx } = &tensors;
        let (rows, n, threads) = (x.rows(), x.n(), cx.threads());
        let in_place = dx.is_some_and(|dx| dx.direct().is_some());
        let optional = dh.is_none_or(|dh| dh.direct().is_some()) && (dx.is_none() || in_place);
        let direct = x.direct().is_some() && dy.direct().is_some() && optional;
        let tiles = if direct { Need::default() } else { Tiles::<T>::need(n) };
        let chunks = Chunks::new(rows, n, if sums { 2 * n } else { 0 }, tiles, cx);
        let shares_rows = sums && direct && tune::share_rows(threads, rows, n);
        let team = shares_rows.then(|| Team::new(rows, n, threads));
        let memory = Memory::of::<T>(rows, n, in_place);
        BackwardPlan { tensors, n, sums, direct, memory, chunks, team }
    }

    /// Returns the scratch memory that [`BackwardPlan::run`] takes.
    pub(crate) fn need(&self) -> Need {
        let team = self.team.as_ref().map(|team| team.need::<T::Acc>()).unwrap_or_default();
        team.and(self.chunks.need::<T::Acc>())
    }

    /// Runs the pass and returns the sums for γ and β, if requested. There is one γ per feature or one per row.
    ///
    /// # Safety
    /// The operands, parameters and statistics are valid, and dx overlaps no input.
    pub(crate) unsafe fn run(
        &self,
        norm: RowNorm<T::Acc>,
        affine: Affine<T::Acc>,
        stats: Stats<T::Acc>,
        cx: &Context,
        scratch: &mut Scratch,
    ) -> Result<ParameterSums<T::Acc>, Error> {
        let (isa, n) = (cx.machine_isa()?, self.n);
        if cx.fresh_outputs() {
            // SAFETY: the output is valid.
            unsafe { pages::ask_for_large(self.tensors.dx.and_then(|dx| dx.direct()), self.tensors.x.rows(), n) };
        }
        let pass = BackwardPass { plan: self, isa, norm, affine, stats };
        // SAFETY: the rows are contiguous, as `new` has checked.
        let shared_rows = self.team.as_ref().and_then(|team| unsafe { team.run(&pass, scratch) });
        let gain = shared_rows.unwrap_or_else(|| {
            // SAFETY: tasks have separate rows.
            let shared = unsafe { Shared::new(&raw const pass) };
            let visit = |first: usize, end: usize, sums: *mut T::Acc, scratch: &mut Scratch| {
                // SAFETY: `pass` outlives the call; the rows and the scratch memory belong to this task.
                unsafe { (*shared.get()).rows(first, end, sums, scratch) }
            };
            // SAFETY: calls for different rows access different memory.
            unsafe { self.chunks.run(scratch, &visit) }
        });
        let sums = ParameterSums { gain, bias: gain.wrapping_add(n) };
        if self.sums {
            // SAFETY: the sums have n elements each.
            unsafe { pass.redo_overflown(sums)? };
        }
        Ok(sums)
    }
}

/// A planned pass with its parameters.
pub(super) struct BackwardPass<'a, T: Element> {
    pub(super) plan: &'a BackwardPlan<T>,
    pub(super) isa: MachineIsa,
    pub(super) norm: RowNorm<T::Acc>,
    pub(super) affine: Affine<T::Acc>,
    pub(super) stats: Stats<T::Acc>,
}

impl<T: Element> BackwardPass<'_, T> {
    /// Processes some rows. Adds to the sums for γ and β unless `sums` is null.
    unsafe fn rows(&self, first: usize, end: usize, sums: *mut T::Acc, scratch: &mut Scratch) {
        let (plan, tensors, n) = (self.plan, &self.plan.tensors, self.plan.n);
        let sums = (!sums.is_null()).then(|| ParameterSums { gain: sums, bias: sums.wrapping_add(n) });
        let tiles = if plan.direct { Tiles::none() } else { Tiles::new(n, scratch) };
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; the tiles have room for them.
            unsafe {
                let kernel = Backward {
                    x: input(&tensors.x, row, count, tiles.at[0]),
                    dy: input(&tensors.dy, row, count, tiles.at[1]),
                    dh: tensors.dh.map(|dh| input(&dh, row, count, tiles.at[2])),
                    dx: tensors.dx.map(|dx| output(&dx, row, tiles.at[3])),
                    rows: count,
                    n,
                    first_row: row,
                    norm: self.norm,
                    affine: self.affine,
                    stats: self.stats,
                    sums,
                    memory: plan.memory,
                };
                T::backward(self.isa, kernel);
                if let Some(dx) = tensors.dx {
                    finish(&dx, row, count, tiles.at[3]);
                }
            }
            row += count;
        }
    }

    /// Applies rule 6 to the sums for γ and β.
    unsafe fn redo_overflown(&self, sums: ParameterSums<T::Acc>) -> Result<(), Error> {
        let BackwardTensors { x, dy, .. } = &self.plan.tensors;
        let (rows, n) = (x.rows(), self.plan.n);
        let mut lines = Vec::new();
        for i in 0..n {
            // SAFETY: i < n, and every row exists.
            unsafe {
                let (gain, bias) = (sums.gain.add(i), sums.bias.add(i));
                let dy = |row: usize| dy.element(row, i).widen();
                if !(*gain).is_finite() {
                    if lines.is_empty() {
                        lines = memory::reserved(rows)?;
                        lines.extend((0..rows).map(|row| self.line(row)));
                    }
                    let x_hat = |row: usize| lines[row].x_hat(x.element(row, i).widen());
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
        let value = |i: usize| unsafe { self.plan.tensors.x.element(row, i) }.widen();
        // SAFETY: the row exists.
        let stat = unsafe { self.stats.get(row) };
        Scaled::again(Line::Row, self.plan.n, value, &self.norm, stat)
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

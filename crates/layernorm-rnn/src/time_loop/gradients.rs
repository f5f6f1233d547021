//! Gradients of a cell's parameters and inputs from a segment's gradients: one product over all its rows for each
//! weight matrix, one sum down its rows for each vector. Members share the columns, so each sum has one order.

use super::backward::BackwardPass;
use super::cell_params::fused;
use super::forward::rows;
use super::norms::{CellNorms, Stats};
use super::product::Product;
use super::team::Member;
use crate::buffer::Matrix;
use crate::error::Error;
use crate::matmul::{Left, Matmul, Right, Start, panel};
use crate::params::Slot;
use crate::pointwise::Rows;
use crate::pointwise::sums::{ColumnSum, Factor, SAME_SUMS};
use crate::real::Real;
use crate::variant::{Kind, Reset};
use layernorm::parts::StatRows;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Where the gradients of a cell's parameters are added: one pointer per slot (null if there is no such parameter).
#[derive(Clone, Copy, Debug)]
pub(crate) struct GradientTargets<A> {
    pub(crate) slots: [*mut A; Slot::ALL.len()],
}

impl<A> GradientTargets<A> {
    /// Sets another destination for a slot.
    pub(crate) fn set(&mut self, slot: Slot, to: *mut A) {
        if let Some(index) = Slot::ALL.iter().position(|&s| s == slot) {
            self.slots[index] = to;
        }
    }

    fn of(&self, slot: Slot) -> Option<*mut A> {
        let index = Slot::ALL.iter().position(|&s| s == slot)?;
        Some(self.slots[index]).filter(|ptr| !ptr.is_null())
    }
}

/// A sum that gives the gradient of a norm's gain, for some columns of one of its groups.
struct GainSum<'a, A> {
    /// Gradient of the gain.
    to: *mut A,
    norm: &'a CellNorms<A>,
    group: usize,
    /// Gradient of the norm's output.
    d: Rows<A>,
    /// The norm's input, and its statistics.
    z: Rows<A>,
    stats: StatRows<A>,
    rows: usize,
    columns: Range<usize>,
}

impl<A: Real> BackwardPass<'_, A> {
    /// Computes the gradients of a segment's parameters and inputs, as one member.
    ///
    /// # Safety
    /// All members have finished the segment's steps; `targets` has room for every parameter; with `inputs`, the
    /// gradients of the inputs may be emitted.
    pub(crate) unsafe fn parameters(
        &self,
        member: &Member<'_>,
        steps: Range<usize>,
        targets: &GradientTargets<A>,
        inputs: bool,
    ) {
        let (pass, w) = (self.pass, self.gradients);
        let base = &pass.schedule.base;
        let count = base[steps.end] - base[steps.start];
        let first = base[steps.start] - pass.first_row;
        // Whole tiles of eight rows of a weight matrix.
        let width = pass.config.gate_width();
        let eights = member.part(width.div_ceil(8));
        let columns = (eights.start * 8).min(width)..(eights.end * 8).min(width);
        // SAFETY: guaranteed by the caller; the columns and rows belong to this member.
        unsafe {
            self.weights(targets, first, count, columns.clone());
            self.vectors(targets, first, count, columns);
            self.cell_vectors(member, targets, first, count);
            if let Some(to) = targets.of(Slot::Projection) {
                let part = member.part(pass.config.output());
                let x = rows(&pass.tape.unprojected, first);
                self.outer(to, pass.config.hidden, (rows(&w.dprojected, 0), x), count, part);
            }
            if inputs {
                self.inputs(member, steps, count);
            }
        }
    }

    /// Computes `to[part, :] += dᵀ x` over some rows.
    unsafe fn outer(&self, to: *mut A, n: usize, sides: (Rows<A>, Rows<A>), count: usize, part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        let ((d, x), width) = (sides, panel::<A>(self.pass.isa));
        let product = Matmul {
            a: Left { ptr: d.at(0, part.start).cast_const(), row: 1, step: d.stride },
            b: Right { ptr: x.ptr.cast_const(), panel: width, step: x.stride },
            c: to.wrapping_add(part.start * n),
            c_row: n,
            start: Start::Sum,
            rows: part.len(),
            n,
            k: count,
            panels: (0, n.div_ceil(width)),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { A::matmul(self.pass.isa, product) }
    }

    unsafe fn weights(&self, targets: &GradientTargets<A>, first: usize, count: usize, columns: Range<usize>) {
        let (pass, w, t) = (self.pass, self.gradients, self.pass.tape);
        let (input, output) = (pass.params.input.k, pass.config.output());
        let v = &pass.config.variant;
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(to) = targets.of(Slot::InputWeight) {
                let x = rows(&t.x, first + pass.first_row - pass.first_input);
                self.outer(to, input, (rows(w.dzx(), 0), x), count, columns.clone());
            }
            if let Some(to) = targets.of(Slot::RecurrentWeight) {
                let reset_state = v.kind == Kind::Gru && v.reset == Reset::State;
                // The candidate's rows of U were multiplied by r∘h.
                let split = if reset_state { 2 * pass.config.hidden } else { pass.config.gate_width() };
                let (early, late) = split_at(columns, split);
                self.outer(to, output, (rows(w.dzh(), 0), rows(t.operand(), first)), count, early);
                if reset_state {
                    self.outer(to, output, (rows(w.dzh(), 0), rows(&t.reset, first)), count, late);
                }
            }
        }
    }

    /// Adds the gradients of the biases of gates and norms, each a column sum Σ of some gradient. In most cells
    /// several are equal.
    unsafe fn biases(&self, targets: &GradientTargets<A>, count: usize, columns: Range<usize>) {
        let w = self.gradients;
        let v = &self.pass.config.variant;
        let sums = [
            (Slot::Bias, &w.da),
            (Slot::InputBias, w.dzx()),
            (Slot::RecurrentBias, w.dzh()),
            (Slot::InputNormBias, w.dx_norm()),
            (Slot::RecurrentNormBias, w.dh_norm()),
            (Slot::SumNormBias, w.dnormalized_sum()),
            (Slot::Bias, w.dzx()),
        ];
        // The last entry exists only for a tied bias.
        let sums = &sums[..if v.tied_bias { 7 } else { 6 }];
        for (i, &(_, d)) in sums.iter().enumerate() {
            if sums[..i].iter().any(|&(_, other)| std::ptr::eq(other, d)) {
                continue;
            }
            let mut to = [std::ptr::null_mut(); SAME_SUMS];
            let same = sums.iter().filter(|&&(_, other)| std::ptr::eq(other, d));
            let targets = same.filter_map(|&(slot, _)| targets.of(slot));
            to.iter_mut().zip(targets).for_each(|(to, target)| *to = target.wrapping_add(columns.start));
            // SAFETY: guaranteed by the caller.
            unsafe { self.column_sums(to, rows(d, 0), Factor::One, count, columns.clone()) };
        }
    }

    /// Adds the gradients of the biases and of the norms of the gates.
    unsafe fn vectors(&self, targets: &GradientTargets<A>, first: usize, count: usize, columns: Range<usize>) {
        let (pass, w, t, p) = (self.pass, self.gradients, self.pass.tape, self.pass.params);
        // SAFETY: guaranteed by the caller.
        unsafe { self.biases(targets, count, columns.clone()) };
        let gain = |slot: Slot, d: &Matrix<A>, z: Rows<A>, stats: &Stats<A>, norm: &CellNorms<A>| {
            let Some(to) = targets.of(slot) else { return };
            for (group, &(start, n)) in norm.groups.iter().enumerate() {
                let part = columns.start.max(start)..columns.end.min(start + n);
                if !part.is_empty() {
                    let stats = stats.of(group, first);
                    let sum = GainSum { to, norm, group, d: rows(d, 0), z, stats, rows: count, columns: part };
                    // SAFETY: guaranteed by the caller.
                    unsafe { self.gain_sum(sum) };
                }
            }
        };
        if let Some(norm) = &p.input_norm {
            let d = w.dx_norm();
            gain(Slot::InputNormGain, d, rows(&t.zx, first), &t.input_stats, norm);
        }
        if let Some(norm) = &p.recurrent_norm {
            gain(Slot::RecurrentNormGain, w.dh_norm(), rows(&t.zh, first), &t.recurrent_stats, norm);
        }
        if let Some(norm) = &p.sum_norm {
            let d = w.dnormalized_sum();
            let s = if fused(pass.config) { rows(&t.zx, first) } else { rows(&t.s, first) };
            gain(Slot::SumNormGain, d, s, &t.sum_stats, norm);
        }
    }

    /// Adds the gradients of the cell's norm, the peepholes and the projection's bias.
    unsafe fn cell_vectors(&self, member: &Member<'_>, targets: &GradientTargets<A>, first: usize, count: usize) {
        let (pass, w, t) = (self.pass, self.gradients, self.pass.tape);
        let hidden = pass.config.hidden;
        let part = member.part(hidden);
        if let (Some(to), Some(norm)) = (targets.of(Slot::CellNormGain), &pass.params.cell_norm) {
            let (d, z, stats) = (rows(&w.dn, 0), rows(&t.cell, first), t.cell_stats.of(0, first));
            let sum = GainSum { to, norm, group: 0, d, z, stats, rows: count, columns: part.clone() };
            // SAFETY: guaranteed by the caller.
            unsafe { self.gain_sum(sum) };
        }
        if let Some(to) = targets.of(Slot::CellNormBias) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.column_sum(to, rows(&w.dn, 0), Factor::One, count, part.clone()) };
        }
        if let Some(to) = targets.of(Slot::Peephole) {
            let ds = rows(w.dx_norm(), 0);
            let gates = pass.config.variant.gates().len();
            let cell = rows(&t.cell, first);
            // Of i and f (or f), then of o, which is the last gate; the candidate before it has none.
            for hole in 0..gates - 1 {
                let late = hole == gates - 2;
                let z = if late { cell } else { rows(&t.cell_before, first) };
                let d = ds.from(0, if late { gates - 1 } else { hole } * hidden);
                // SAFETY: guaranteed by the caller.
                unsafe { self.column_sum(to.wrapping_add(hole * hidden), d, Factor::Of(z), count, part.clone()) };
            }
        }
        if let Some(to) = targets.of(Slot::ProjectionBias) {
            let part = member.part(pass.config.output());
            // SAFETY: guaranteed by the caller.
            unsafe { self.column_sum(to, rows(&w.dprojected, 0), Factor::One, count, part) };
        }
    }

    /// Computes `to[columns] += Σ d∘ẑ`. If a row was scaled by rule 6, ẑ is that of the scaled row.
    unsafe fn gain_sum(&self, sum: GainSum<'_, A>) {
        let GainSum { to, norm, group, d, z, stats, rows: count, columns } = sum;
        let own = norm.part(group);
        // SAFETY: there are statistics for every row of the segment.
        let scaled = (0..count).any(|row| own.was_scaled(unsafe { *stats.r.add(row) }));
        if !scaled {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.column_sum(to, d, Factor::Normalized(z, stats), count, columns) };
        }
        let mut again = Matrix::new();
        let room = again.reshape(count, self.pass.config.gate_width()).map_err(Error::from);
        // SAFETY: the rows are those of the segment.
        match room.and_then(|()| unsafe { norm.normalized(self.pass.isa, group, z, rows(&again, 0), count) }) {
            // SAFETY: guaranteed by the caller.
            Ok(()) => unsafe { self.column_sum(to, d, Factor::Of(rows(&again, 0)), count, columns) },
            Err(Error::OutOfMemory { bytes }) => self.gradients.missing.store(bytes, Ordering::Relaxed),
            Err(error) => unreachable!("only an allocation can fail here: {error}"),
        }
    }

    unsafe fn column_sum(&self, to: *mut A, d: Rows<A>, factor: Factor<A>, count: usize, part: Range<usize>) {
        let mut all = [std::ptr::null_mut(); SAME_SUMS];
        all[0] = to.wrapping_add(part.start);
        // SAFETY: guaranteed by the caller.
        unsafe { self.column_sums(all, d, factor, count, part) };
    }

    /// Adds one sum to several destinations.
    unsafe fn column_sums(
        &self,
        to: [*mut A; SAME_SUMS],
        d: Rows<A>,
        factor: Factor<A>,
        count: usize,
        part: Range<usize>,
    ) {
        if to[0].is_null() {
            return;
        }
        let factor = match factor {
            Factor::One => Factor::One,
            Factor::Of(z) => Factor::Of(z.from(0, part.start)),
            Factor::Normalized(z, stats) => Factor::Normalized(z.from(0, part.start), stats),
        };
        let sum = ColumnSum { rows: count, n: part.len(), d: d.from(0, part.start), factor, to };
        // SAFETY: the rows are those of the segment, and the columns belong to this member.
        unsafe { A::column_sum(self.pass.isa, sum) }
    }

    /// Computes dx = dzx·W and emits it row by row.
    unsafe fn inputs(&self, member: &Member<'_>, steps: Range<usize>, count: usize) {
        let (pass, w, p) = (self.pass, self.gradients, self.pass.params);
        let part = member.part(count);
        // SAFETY: the rows belong to this member.
        unsafe {
            Product {
                a: rows(w.dzx(), part.start),
                b: &p.input_back,
                k: (0, p.input_back.k),
                c: rows(&w.dx, part.start),
                rows: part.len(),
                start: Start::Nothing,
                panels: (0, p.input_back.panels()),
            }
            .run(pass.isa);
        }
        let base = &pass.schedule.base;
        for row in part {
            let (s, j) = pass.schedule.place(base[steps.start] + row);
            // SAFETY: the sequence is running at this step, and the row belongs to this member.
            unsafe { self.io.emit(pass.time(s, j), j, w.dx.row(row)) };
        }
    }
}

fn split_at(range: Range<usize>, at: usize) -> (Range<usize>, Range<usize>) {
    (range.start.min(at)..range.end.min(at), range.start.max(at)..range.end.max(at))
}

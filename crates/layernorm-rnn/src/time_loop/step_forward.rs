//! Forward arithmetic of one step of a few sequences after the products: norms, sums of the gates, the cell.

use super::cell_params::fused;
use super::forward::{ForwardPass, Scratch, rows};
use super::norms::NormRows;
use crate::noise::Purpose;
use crate::pointwise::{Rows, gru, lstm, rnn};
use crate::real::Real;
use crate::variant::{Activation, Kind, Reset, Update};

impl<A: Real> ForwardPass<'_, A> {
    /// Returns the sums of the gates of some rows: one matrix of rows, or two that are still to be added. Columns
    /// from `columns` on are computed later, from the new cell.
    unsafe fn sums(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize, columns: usize) -> (Rows<A>, Rows<A>) {
        let (p, t) = (self.params, self.tape);
        let (row, step_row, width) = (self.row(s, j), self.step_row(s, j), self.config.gate_width());
        let run = |stats, columns| NormRows { stats, row: step_row, rows: n, columns };
        // SAFETY: the rows belong to this member.
        unsafe {
            let mut x = rows(&t.zx, row);
            if let Some(norm) = &p.input_norm {
                let to = rows(&scratch.x, 0);
                norm.forward(self.isa, run(&t.input_stats, (0, width)), x, to);
                x = to;
            }
            let mut h = Rows::NONE;
            if !fused(self.config) {
                h = rows(&t.zh, step_row);
                if let Some(norm) = &p.recurrent_norm {
                    let to = rows(&scratch.h, 0);
                    // The candidate of a GRU may not be available yet: it is normalized later.
                    let late = self.config.variant.kind == Kind::Gru && self.config.variant.reset == Reset::State;
                    let there = if late { width - self.config.hidden } else { width };
                    norm.forward(self.isa, run(&t.recurrent_stats, (0, there)), h, to);
                    h = to;
                }
            }
            if p.sum_norm.is_none() && !self.config.variant.peephole {
                return (x, h);
            }
            let sum = self.sum_rows(s, j);
            if h.is_some() {
                for i in 0..n {
                    (0..width).for_each(|k| *sum.at(i, k) = *x.at(i, k) + *h.at(i, k));
                }
            }
            if self.config.variant.peephole {
                self.peep_before(sum, step_row, n);
            }
            match &p.sum_norm {
                Some(norm) => {
                    let to = rows(&scratch.x, 0);
                    norm.forward(self.isa, run(&t.sum_stats, (0, columns)), sum, to);
                    (to, Rows::NONE)
                }
                None => (sum, Rows::NONE),
            }
        }
    }

    /// Returns the rows of s.
    pub(crate) fn sum_rows(&self, s: usize, j: usize) -> Rows<A> {
        if fused(self.config) { rows(&self.tape.zx, self.row(s, j)) } else { rows(&self.tape.s, self.step_row(s, j)) }
    }

    /// Adds the peepholes of i and f.
    unsafe fn peep_before(&self, sum: Rows<A>, step_row: usize, n: usize) {
        let (hidden, before) = (self.config.hidden, rows(&self.tape.cell_before, step_row));
        let peepholes = self.params.peephole.chunks(hidden);
        let early = peepholes.len() - 1;
        for (gate, p) in peepholes.take(early).enumerate() {
            // SAFETY: the rows belong to this member.
            unsafe { add_product(n, hidden, sum.from(0, gate * hidden), p, before) };
        }
    }

    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn lstm(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (v, p, t, isa) = (&self.config.variant, self.params, self.tape, self.isa);
        let (hidden, width, step_row) = (self.config.hidden, self.config.gate_width(), self.step_row(s, j));
        let late = width - hidden;
        let gates = rows(&t.gates, step_row);
        let cell = rows(&t.cell, step_row);
        // SAFETY: the rows belong to this member.
        unsafe {
            let (a, a2) = self.sums(scratch, s, j, n, if v.peephole { late } else { width });
            let bias = p.bias.as_ptr();
            let before = rows(&t.cell_before, step_row);
            let (coupled, output) = (v.coupled, !v.peephole);
            A::lstm_gates(isa, lstm::Gates { rows: n, hidden, coupled, output, a, a2, bias, before, gates, cell });
            if let Some(clip) = v.cell_clip {
                clamp(n, hidden, cell, A::from_f64(clip));
            }
            if v.peephole {
                let sum = self.sum_rows(s, j).from(0, late);
                add_product(n, hidden, sum, &p.peephole[late - hidden..], cell);
                let mut a = sum;
                if let Some(norm) = &p.sum_norm {
                    let run = NormRows { stats: &t.sum_stats, row: step_row, rows: n, columns: (late, width) };
                    norm.forward(isa, run, self.sum_rows(s, j), rows(&scratch.x, 0));
                    a = rows(&scratch.x, 0).from(0, late);
                }
                let (bias, o) = (p.bias[late..].as_ptr(), gates.from(0, late));
                A::lstm_late_gate(isa, lstm::LateGate { rows: n, hidden, a, bias, o });
            }
            let mut shown = cell;
            if let Some(norm) = &p.cell_norm {
                shown = rows(&scratch.cell, 0);
                let run = NormRows { stats: &t.cell_stats, row: step_row, rows: n, columns: (0, hidden) };
                norm.forward(isa, run, cell, shown);
            }
            let h =
                if self.config.projection.is_some() { rows(&t.unprojected, step_row) } else { rows(&self.state.h, j) };
            let o = gates.from(0, late);
            A::lstm_show(isa, lstm::Show { rows: n, hidden, o, n: shown, t: rows(&t.t, step_row), h });
            let carried = if v.cell_norm.is_some_and(|norm| norm.carried) { shown } else { cell };
            for i in 0..n {
                std::ptr::copy_nonoverlapping(carried.at(i, 0), self.state.c.row(j + i), hidden);
                if let Some(zoneout) = self.zoneout(Purpose::ZoneoutCell) {
                    zoneout.keep(self.noise_index(s, j + i, hidden), hidden, before.at(i, 0), self.state.c.row(j + i));
                }
            }
        }
    }

    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn gru(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (v, p, t, isa) = (&self.config.variant, self.params, self.tape, self.isa);
        let (hidden, width, step_row) = (self.config.hidden, self.config.gate_width(), self.step_row(s, j));
        let gates = rows(&t.gates, step_row);
        // SAFETY: the rows belong to this member.
        unsafe {
            let (a, a2) = self.sums(scratch, s, j, n, width);
            let bias = p.bias.as_ptr();
            let (before, reset) = if v.reset == Reset::State {
                (rows(t.operand(), step_row), rows(&t.reset, step_row))
            } else {
                (Rows::NONE, Rows::NONE)
            };
            A::gru_gates(isa, gru::Gates { rows: n, hidden, a, a2, bias, gates, before, reset });
            if v.reset != Reset::State {
                let (x, q) = if v.reset == Reset::Sum { self.whole_candidate(a, a2, n) } else { (a, a2) };
                self.gru_mix(s, j, n, x.from(0, 2 * hidden), q.from(0, 2 * hidden));
            }
        }
    }

    /// Adds both parts of the candidate, for a reset gate that multiplies their sum.
    unsafe fn whole_candidate(&self, a: Rows<A>, a2: Rows<A>, n: usize) -> (Rows<A>, Rows<A>) {
        if a2.is_some() {
            for i in 0..n {
                for k in 2 * self.config.hidden..self.config.gate_width() {
                    // SAFETY: the caller guarantees that the rows are valid.
                    unsafe { *a2.at(i, k) = *a.at(i, k) + *a2.at(i, k) };
                }
            }
            return (Rows::NONE, a2);
        }
        (Rows::NONE, a)
    }

    /// Computes n and h of a GRU whose reset gate multiplied the state.
    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn gru_after_reset(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (p, t, hidden, width) = (self.params, self.tape, self.config.hidden, self.config.gate_width());
        let (row, step_row) = (self.row(s, j), self.step_row(s, j));
        // SAFETY: the rows belong to this member.
        unsafe {
            let mut x = rows(&t.zx, row);
            if let Some(norm) = &p.input_norm {
                let run = NormRows { stats: &t.input_stats, row: step_row, rows: n, columns: (0, width) };
                norm.forward(self.isa, run, x, rows(&scratch.x, 0));
                x = rows(&scratch.x, 0);
            }
            let mut q = rows(&t.zh, step_row);
            if let Some(norm) = &p.recurrent_norm {
                let columns = (2 * hidden, width);
                let run = NormRows { stats: &t.recurrent_stats, row: step_row, rows: n, columns };
                norm.forward(self.isa, run, q, rows(&scratch.h, 0));
                q = rows(&scratch.h, 0);
            }
            self.gru_mix(s, j, n, x.from(0, 2 * hidden), q.from(0, 2 * hidden));
        }
    }

    unsafe fn gru_mix(&self, s: usize, j: usize, n: usize, x: Rows<A>, q: Rows<A>) {
        let (v, t, hidden, step_row) = (&self.config.variant, self.tape, self.config.hidden, self.step_row(s, j));
        let mix = gru::Mix {
            rows: n,
            hidden,
            reset: v.reset != Reset::State,
            keeps: v.update == Update::KeepsOld,
            x,
            q,
            bias: self.params.bias[2 * hidden..].as_ptr(),
            gates: rows(&t.gates, step_row),
            before: rows(&t.before, step_row),
            saved: rows(&t.q, step_row),
            h: rows(&self.state.h, j),
        };
        // SAFETY: the rows belong to this member.
        unsafe { A::gru_mix(self.isa, mix) }
    }

    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn rnn(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let hidden = self.config.hidden;
        // SAFETY: the rows belong to this member.
        unsafe {
            let (a, a2) = self.sums(scratch, s, j, n, hidden);
            let activate = rnn::Activate {
                rows: n,
                hidden,
                relu: self.config.variant.activation == Activation::Relu,
                a,
                a2,
                bias: self.params.bias.as_ptr(),
                gates: rows(&self.tape.gates, self.step_row(s, j)),
                h: rows(&self.state.h, j),
            };
            A::rnn_activate(self.isa, activate);
        }
    }
}

/// Adds p∘c to a gate.
///
/// # Safety
/// The rows are valid.
pub(crate) unsafe fn add_product<A: Real>(n: usize, columns: usize, to: Rows<A>, p: &[A], c: Rows<A>) {
    for row in 0..n {
        for (k, &p) in p[..columns].iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.at(row, k) = p.fma(*c.at(row, k), *to.at(row, k)) };
        }
    }
}

/// Clamps numbers to ±limit. A NaN stays a NaN.
///
/// # Safety
/// The rows are valid.
pub(super) unsafe fn clamp<A: Real>(n: usize, columns: usize, to: Rows<A>, limit: A) {
    for row in 0..n {
        for k in 0..columns {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let x = *to.at(row, k);
                if x > limit {
                    *to.at(row, k) = limit;
                } else if x < -limit {
                    *to.at(row, k) = -limit;
                }
            }
        }
    }
}

//! Backward arithmetic of one step of a few sequences: from dh and dc to the gradients of both products.

use super::backward::BackwardPass;
use super::forward::{Scratch, rows};
use super::norms::NormRows;
use super::step_forward::add_product;
use crate::noise::Purpose;
use crate::pointwise::{Rows, gru, lstm, rnn};
use crate::real::Real;
use crate::variant::{Activation, Reset, Update};

impl<A: Real> BackwardPass<'_, A> {
    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn lstm(&self, scratch: &Scratch<A>, first: usize, s: usize, j: usize, n: usize, dh: Rows<A>) {
        let (pass, w, p) = (self.pass, self.gradients, self.pass.params);
        let (config, t, isa) = (pass.config, pass.tape, pass.isa);
        let (v, hidden, width) = (&config.variant, config.hidden, config.gate_width());
        let (row, step_row, late) = (self.row(first, s, j), pass.step_row(s, j), width - hidden);
        let (da, dn, dc) = (rows(&w.da, row), rows(&w.dn, row), rows(&w.dc, j));
        let gates = rows(&t.gates, step_row);
        let before = rows(&t.cell_before, step_row);
        // SAFETY: the rows belong to this member.
        unsafe {
            let mut kept = Rows::NONE;
            if let Some(zoneout) = pass.zoneout(Purpose::ZoneoutCell) {
                kept = rows(&scratch.h, 0);
                for i in 0..n {
                    std::ptr::write_bytes(kept.at(i, 0), 0, hidden);
                    zoneout.part(pass.noise_index(s, j + i, hidden), hidden, dc.at(i, 0), kept.at(i, 0));
                }
            }
            let shown_only = v.cell_norm.is_some_and(|norm| !norm.carried);
            A::lstm_show_back(
                isa,
                lstm::ShowBack {
                    rows: n,
                    hidden,
                    dh,
                    o: gates.from(0, late),
                    t: rows(&t.t, step_row),
                    dc: if shown_only { Rows::NONE } else { dc },
                    da: da.from(0, late),
                    dn,
                },
            );
            let mut dcell = dn;
            if let Some(norm) = &p.cell_norm {
                dcell = rows(&scratch.cell, 0);
                let run = NormRows { stats: &t.cell_stats, row: step_row, rows: n, columns: (0, hidden) };
                norm.backward(isa, run, rows(&t.cell, step_row), dn, dcell);
                if shown_only {
                    add(n, hidden, dcell, dc);
                }
            }
            if v.peephole {
                let mut ds = da;
                if let Some(norm) = &p.sum_norm {
                    ds = rows(&w.ds, row);
                    let run = NormRows { stats: &t.sum_stats, row: step_row, rows: n, columns: (late, width) };
                    norm.backward(isa, run, pass.sum_rows(s, j), da, ds);
                }
                add_product(n, hidden, dcell, &p.peephole[late - hidden..], ds.from(0, late));
            }
            if let Some(clip) = v.cell_clip {
                (0..n).for_each(|i| cut(hidden, dcell.at(i, 0), t.cell.row(step_row + i), A::from_f64(clip)));
            }
            let coupled = v.coupled;
            let back = lstm::GatesBack { rows: n, hidden, coupled, dc: dcell, gates, before, da, dbefore: dc };
            A::lstm_gates_back(isa, back);
            if kept.is_some() {
                add(n, hidden, dc, kept);
            }
        }
    }

    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn gru(&self, first: usize, s: usize, j: usize, n: usize, dh: Rows<A>) {
        let (pass, w, hidden) = (self.pass, self.gradients, self.pass.config.hidden);
        let (v, t) = (&pass.config.variant, pass.tape);
        let (row, step_row) = (self.row(first, s, j), pass.step_row(s, j));
        let back = gru::MixBack {
            rows: n,
            hidden,
            reset: v.reset != Reset::State,
            keeps: v.update == Update::KeepsOld,
            dh,
            gates: rows(&t.gates, step_row),
            q: rows(&t.q, step_row),
            before: rows(&t.before, step_row),
            da: rows(&w.da, row),
            dq: if v.reset == Reset::State { Rows::NONE } else { rows(&w.dq, row) },
            dbefore: rows(&w.direct, j),
        };
        // SAFETY: the rows belong to this member.
        unsafe { A::gru_mix_back(pass.isa, back) }
    }

    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn rnn(&self, first: usize, s: usize, j: usize, n: usize, dh: Rows<A>) {
        let pass = self.pass;
        let back = rnn::ActivateBack {
            rows: n,
            hidden: pass.config.hidden,
            relu: pass.config.variant.activation == Activation::Relu,
            dh,
            gates: rows(&pass.tape.gates, pass.step_row(s, j)),
            da: rows(&self.gradients.da, self.row(first, s, j)),
        };
        // SAFETY: the rows belong to this member.
        unsafe { A::rnn_activate_back(pass.isa, back) }
    }

    /// Computes the gradients through the norms of the gates, for the groups within some columns.
    ///
    /// # Safety
    /// The rows belong to this member.
    pub(super) unsafe fn norms(&self, first: usize, s: usize, j: usize, n: usize, columns: (usize, usize)) {
        let (pass, w, p, t) = (self.pass, self.gradients, self.pass.params, self.pass.tape);
        let (v, hidden, width) = (&pass.config.variant, pass.config.hidden, pass.config.gate_width());
        let (row, step_row) = (self.row(first, s, j), pass.step_row(s, j));
        let run = |stats, columns| NormRows { stats, row: step_row, rows: n, columns };
        // SAFETY: the rows belong to this member.
        unsafe {
            if let Some(norm) = &p.sum_norm {
                // The output gate's norm was already done, on the way to the cell.
                let columns = if v.peephole { (0, width - hidden) } else { columns };
                let from = w.dnormalized_sum();
                norm.backward(
                    pass.isa,
                    run(&t.sum_stats, columns),
                    pass.sum_rows(s, j),
                    rows(from, row),
                    rows(&w.ds, row),
                );
            }
            if v.peephole {
                let ds = rows(w.dx_norm(), row);
                let peepholes = p.peephole.chunks(hidden);
                let early = peepholes.len() - 1;
                for (gate, p) in peepholes.take(early).enumerate() {
                    add_product(n, hidden, rows(&w.dc, j), p, ds.from(0, gate * hidden));
                }
            }
            if let Some(norm) = &p.input_norm {
                let from = rows(w.dx_norm(), row);
                let z = rows(&t.zx, pass.row(s, j));
                norm.backward(pass.isa, run(&t.input_stats, columns), z, from, rows(&w.dzx, row));
            }
            if let Some(norm) = &p.recurrent_norm {
                let z = rows(&t.zh, step_row);
                norm.backward(pass.isa, run(&t.recurrent_stats, columns), z, rows(w.dh_norm(), row), rows(&w.dzh, row));
            }
        }
    }
}

/// Zeroes the gradient where a number was clipped.
///
/// # Safety
/// There are `count` numbers.
pub(super) unsafe fn cut<A: Real>(count: usize, gradient: *mut A, clipped: *const A, limit: A) {
    for k in 0..count {
        // SAFETY: the caller guarantees that the numbers are valid.
        unsafe {
            if (*clipped.add(k)).abs() >= limit {
                *gradient.add(k) = A::ZERO;
            }
        }
    }
}

/// Computes to += from.
unsafe fn add<A: Real>(n: usize, columns: usize, to: Rows<A>, from: Rows<A>) {
    for row in 0..n {
        for k in 0..columns {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe { *to.at(row, k) = *to.at(row, k) + *from.at(row, k) };
        }
    }
}

//! One cell over its sequences, forward.
//!
//! A segment of steps starts with one product for all its inputs, zx = W x + bx; then step follows step: the state is
//! copied to where the backward pass will look for it, zh = U h + bh, the norms, the cell's arithmetic.

use super::prepared::{Prepared, fused};
use super::tape::Tape;
use super::team::Lane;
use super::tune::TILE;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::engine::norms::NormRows;
use crate::matmul::{Left, Matmul, Packed, Right, Start};
use crate::noise::{Random, Use};
use crate::point::{Rows, gru, lstm, rnn};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::variant::{Activation, Kind, Reset, Update};
use layernorm::parts::Isa;
use std::ops::Range;

/// h and c of every sequence of one cell, in the order of the schedule.
#[derive(Debug)]
pub(crate) struct CellState<A> {
    pub(crate) h: Matrix<A>,
    pub(crate) c: Matrix<A>,
}

impl<A: Real> CellState<A> {
    pub(crate) fn bytes(&self) -> usize {
        self.h.bytes() + self.c.bytes()
    }

    pub(crate) const fn new() -> Self {
        CellState { h: Matrix::new(), c: Matrix::new() }
    }

    pub(crate) fn reshape(&mut self, config: &Config, batch: usize) {
        self.h.reshape(batch, config.output());
        self.c.reshape(if config.has_cell() { batch } else { 0 }, config.hidden);
    }
}

/// Room for one member to work in: a few rows each.
#[derive(Debug)]
pub(crate) struct Scratch<A> {
    pub(crate) x: Matrix<A>,
    pub(crate) h: Matrix<A>,
    pub(crate) cell: Matrix<A>,
    pub(crate) dh: Matrix<A>,
}

impl<A: Real> Scratch<A> {
    pub(crate) fn new(config: &Config) -> Self {
        let mut scratch = Scratch { x: Matrix::new(), h: Matrix::new(), cell: Matrix::new(), dh: Matrix::new() };
        scratch.x.reshape(TILE, config.gate_width());
        scratch.h.reshape(TILE, config.gate_width());
        scratch.cell.reshape(TILE, config.hidden);
        scratch.dh.reshape(TILE, config.hidden.max(config.output()));
        scratch
    }

    /// Whether it is large enough for this network.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        self.x.columns == config.gate_width()
            && self.cell.columns == config.hidden
            && self.dh.columns == config.hidden.max(config.output())
    }
}

/// Zoneout of a number: what is kept of the old one, by chance in training, else in expectation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zoneout {
    pub(crate) random: Random,
    pub(crate) rate: f64,
    pub(crate) training: bool,
}

/// One cell over its sequences.
pub(crate) struct Pass<'a, A> {
    pub(crate) config: &'a Config,
    pub(crate) prepared: &'a Prepared<A>,
    pub(crate) schedule: &'a Schedule,
    pub(crate) isa: Isa,
    /// Which layer and direction; and whether that is against time.
    pub(crate) cell: (usize, usize),
    pub(crate) reverse: bool,
    /// The seed in training.
    pub(crate) seed: Option<u64>,
    /// Whether each step has its own rows on the tape.
    pub(crate) recorded: bool,
    /// The row that stands first on the tape; and that of the inputs.
    pub(crate) first_row: usize,
    pub(crate) first_input: usize,
    pub(crate) tape: &'a Tape<A>,
    pub(crate) state: &'a CellState<A>,
    /// Recurrent dropout's factors `[B, P]`.
    pub(crate) mask: Option<&'a Matrix<A>>,
    pub(crate) scratch: &'a [Scratch<A>],
    /// Writes the input of a time and sequence.
    pub(crate) fetch: &'a (dyn Fn(usize, usize, *mut A) + Sync),
    /// Takes the output of a time and sequence.
    pub(crate) emit: &'a (dyn Fn(usize, usize, *const A) + Sync),
}

/// Rows of a matrix, from a row on.
pub(crate) fn rows<A: Real>(matrix: &Matrix<A>, row: usize) -> Rows<A> {
    Rows { ptr: matrix.row(row), stride: matrix.stride() }
}

/// Adds p∘c to a gate.
///
/// # Safety
/// The rows are valid.
pub(crate) unsafe fn add_product<A: Real>(n: usize, columns: usize, to: Rows<A>, p: &[A], c: Rows<A>) {
    for row in 0..n {
        for (k, &p) in p[..columns].iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *to.at(row, k) = p.fma(*c.at(row, k), *to.at(row, k)) };
        }
    }
}

/// C (+)= A·B for some rows, by a packed matrix.
pub(crate) struct Product<'a, A> {
    pub(crate) a: Rows<A>,
    pub(crate) b: &'a Packed<A>,
    /// Which of B's rows are multiplied: from the first, so many.
    pub(crate) k: (usize, usize),
    pub(crate) c: Rows<A>,
    pub(crate) rows: usize,
    pub(crate) start: Start<A>,
    pub(crate) panels: (usize, usize),
}

impl<A: Real> Product<'_, A> {
    /// # Safety
    /// The rows are valid.
    pub(crate) unsafe fn run(self, isa: Isa) {
        if self.rows == 0 {
            return;
        }
        let right = self.b.right();
        let product = Matmul {
            a: Left { ptr: self.a.ptr.cast_const(), row: self.a.stride, step: 1 },
            b: Right { ptr: right.ptr.wrapping_add(self.k.0 * right.step), ..right },
            c: self.c.ptr,
            c_row: self.c.stride,
            start: self.start,
            rows: self.rows,
            n: self.b.n,
            k: self.k.1,
            panels: self.panels,
        };
        // SAFETY: the caller's promise.
        unsafe { A::matmul(isa, product) }
    }
}

impl<'a, A: Real> Pass<'a, A> {
    /// The row of a segment's matrix.
    pub(crate) fn row(&self, s: usize, j: usize) -> usize {
        self.schedule.base[s] - self.first_row + j
    }

    /// The row of a step's matrix.
    pub(crate) fn step_row(&self, s: usize, j: usize) -> usize {
        if self.recorded { self.row(s, j) } else { j }
    }

    pub(crate) fn time(&self, s: usize, j: usize) -> usize {
        self.schedule.time(self.reverse, s, j)
    }

    pub(crate) fn zoneout(&self, use_for: Use) -> Option<Zoneout> {
        let noise = &self.config.noise;
        let rate = if use_for == Use::ZoneoutCell { noise.zoneout_cell } else { noise.zoneout_hidden };
        let random = Random::new(self.seed.unwrap_or(0), use_for, self.cell.0, self.cell.1);
        (rate > 0.0).then_some(Zoneout { random, rate, training: self.seed.is_some() })
    }

    /// The place of a number in the streams of noise.
    pub(crate) fn noise_index(&self, s: usize, j: usize, width: usize) -> usize {
        (self.time(s, j) * self.schedule.batch + self.schedule.order[j]) * width
    }

    /// A segment, as one member.
    ///
    /// # Safety
    /// The tape, the state and the scratch memory are large enough, and all members run the same segment.
    pub(crate) unsafe fn segment(&self, lane: &Lane<'_>, steps: Range<usize>) {
        // SAFETY: the caller's promise; rows of one's own are written between meetings, and all rows are read after them.
        unsafe {
            self.fetch_inputs(lane, steps.clone());
            lane.meet();
            self.inputs(lane, steps.clone());
            lane.meet();
            for s in steps {
                self.remember(lane, s);
                lane.meet_in_step();
                self.recurrent_product(lane, s);
                lane.meet_in_step();
                self.finish_step(lane, s);
            }
        }
        lane.meet();
    }

    /// The inputs of a segment.
    unsafe fn fetch_inputs(&self, lane: &Lane<'_>, steps: Range<usize>) {
        let base = &self.schedule.base;
        let first = base[steps.start];
        let part = lane.part(base[steps.end] - first);
        let (from, to) = (first + part.start, first + part.end);
        for s in steps {
            let active = self.schedule.active[s];
            for j in from.saturating_sub(base[s]).min(active)..to.saturating_sub(base[s]).min(active) {
                (self.fetch)(self.time(s, j), j, self.tape.x.row(base[s] + j - self.first_input));
            }
        }
    }

    /// zx = W x + bx for the rows of a segment. Members share the rows, or the columns if there are few rows.
    unsafe fn inputs(&self, lane: &Lane<'_>, steps: Range<usize>) {
        let base = &self.schedule.base;
        let (first, end) = (base[steps.start], base[steps.end]);
        let part = lane.part(end - first);
        let (mut from, mut to) = (first + part.start, first + part.end);
        let p = self.prepared;
        let mut panels = 0..p.input.panels();
        if end - first < lane.members * TILE {
            (from, to) = (first, end);
            panels = lane.part(panels.end);
        }
        let row = from - self.first_row;
        // SAFETY: the rows are this member's own.
        unsafe {
            Product {
                a: rows(&self.tape.x, from - self.first_input),
                b: &p.input,
                k: (0, p.input.k),
                c: rows(&self.tape.zx, row),
                rows: to - from,
                start: Start::Row(p.input_start.as_ptr()),
                panels: (panels.start, panels.end),
            }
            .run(self.isa);
        }
    }

    /// What is left of a step when its products are there.
    unsafe fn finish_step(&self, lane: &Lane<'_>, s: usize) {
        let running = self.schedule.active[s];
        let own = lane.own(running);
        let scratch = &self.scratch[lane.member];
        // SAFETY: rows of one's own are written between meetings, and all rows are read after them.
        unsafe {
            for (j, n) in tiles(own.clone()) {
                match self.config.variant.kind {
                    Kind::Lstm => self.lstm(scratch, s, j, n),
                    Kind::Gru => self.gru(scratch, s, j, n),
                    Kind::Rnn => self.rnn(scratch, s, j, n),
                }
            }
            if self.config.variant.kind == Kind::Gru && self.config.variant.reset == Reset::State {
                lane.meet_in_step();
                self.candidate_product(lane, s, running);
                lane.meet_in_step();
                for (j, n) in tiles(own.clone()) {
                    self.gru_after_reset(scratch, s, j, n);
                }
            }
            if self.config.projection.is_some() {
                lane.meet_in_step();
                self.projection(lane, s, running);
                lane.meet_in_step();
            }
            for j in own {
                self.finish(s, j);
            }
        }
    }

    /// Copies the state to where this step's products and the backward pass find it.
    unsafe fn remember(&self, lane: &Lane<'_>, s: usize) {
        for j in lane.own(self.schedule.active[s]) {
            // SAFETY: the row is this member's own.
            unsafe { self.remember_one(s, j) };
        }
    }

    unsafe fn remember_one(&self, s: usize, j: usize) {
        let (row, output, hidden) = (self.step_row(s, j), self.config.output(), self.config.hidden);
        // SAFETY: the rows exist and are this member's own.
        unsafe {
            let h = self.state.h.row(j);
            std::ptr::copy_nonoverlapping(h, self.tape.before.row(row), output);
            if let Some(mask) = self.mask {
                for k in 0..output {
                    *self.tape.masked.row(row).add(k) = *h.add(k) * *mask.row(j).add(k);
                }
            }
            if self.config.has_cell() {
                std::ptr::copy_nonoverlapping(self.state.c.row(j), self.tape.cell_before.row(row), hidden);
            }
        }
    }

    /// zh = U h + bh, or its sum with zx.
    unsafe fn recurrent_product(&self, lane: &Lane<'_>, s: usize) {
        let p = self.prepared;
        let own = lane.product_rows(self.schedule.active[s]);
        let (row, step_row) = (self.row(s, own.start), self.step_row(s, own.start));
        let (c, start) = if fused(self.config) {
            (rows(&self.tape.zx, row), Start::Sum)
        } else {
            (rows(&self.tape.zh, step_row), Start::Row(p.recurrent_start.as_ptr()))
        };
        // SAFETY: these columns of these rows are this member's own.
        unsafe {
            Product {
                a: rows(self.tape.operand(), step_row),
                b: &p.recurrent,
                k: (0, p.recurrent.k),
                c,
                rows: own.len(),
                start,
                panels: lane.panels(p.recurrent.panels()),
            }
            .run(self.isa);
        }
    }

    /// The candidate's part of zh where it is U (r∘h) + bh.
    unsafe fn candidate_product(&self, lane: &Lane<'_>, s: usize, running: usize) {
        let (p, hidden) = (self.prepared, self.config.hidden);
        let own = lane.product_rows(running);
        let step_row = self.step_row(s, own.start);
        // SAFETY: these columns of these rows are this member's own.
        unsafe {
            Product {
                a: rows(&self.tape.reset, step_row),
                b: &p.candidate,
                k: (0, p.candidate.k),
                c: rows(&self.tape.zh, step_row).from(0, 2 * hidden),
                rows: own.len(),
                start: Start::Row(p.recurrent_start[2 * hidden..].as_ptr()),
                panels: lane.panels(p.candidate.panels()),
            }
            .run(self.isa);
        }
    }

    /// h from what is projected.
    unsafe fn projection(&self, lane: &Lane<'_>, s: usize, running: usize) {
        let p = self.prepared;
        let own = lane.product_rows(running);
        // SAFETY: these columns of these rows are this member's own.
        unsafe {
            Product {
                a: rows(&self.tape.unprojected, self.step_row(s, own.start)),
                b: &p.projection,
                k: (0, p.projection.k),
                c: rows(&self.state.h, own.start),
                rows: own.len(),
                start: Start::Row(p.projection_bias.as_ptr()),
                panels: lane.panels(p.projection.panels()),
            }
            .run(self.isa);
        }
    }

    /// The sums of the gates of some rows: one matrix of rows, or two that are still to be added. Columns beyond `columns`
    /// wait for the new cell.
    unsafe fn sums(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize, columns: usize) -> (Rows<A>, Rows<A>) {
        let (p, t) = (self.prepared, self.tape);
        let (row, step_row, width) = (self.row(s, j), self.step_row(s, j), self.config.gate_width());
        let run = |stats, columns| NormRows { stats, row: step_row, rows: n, columns };
        // SAFETY: the rows are this member's own.
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
                    // The candidate of a GRU may not be there yet: it is normalized when it is.
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

    /// Where s is.
    pub(crate) fn sum_rows(&self, s: usize, j: usize) -> Rows<A> {
        if fused(self.config) { rows(&self.tape.zx, self.row(s, j)) } else { rows(&self.tape.s, self.step_row(s, j)) }
    }

    /// The peepholes of i and f.
    unsafe fn peep_before(&self, sum: Rows<A>, step_row: usize, n: usize) {
        let (hidden, before) = (self.config.hidden, rows(&self.tape.cell_before, step_row));
        let peepholes = self.prepared.peephole.chunks(hidden);
        let early = peepholes.len() - 1;
        for (gate, p) in peepholes.take(early).enumerate() {
            // SAFETY: the rows are this member's own.
            unsafe { add_product(n, hidden, sum.from(0, gate * hidden), p, before) };
        }
    }

    unsafe fn lstm(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (v, p, t, isa) = (&self.config.variant, self.prepared, self.tape, self.isa);
        let (hidden, width, step_row) = (self.config.hidden, self.config.gate_width(), self.step_row(s, j));
        let late = width - hidden;
        let gates = rows(&t.gates, step_row);
        let cell = rows(&t.cell, step_row);
        // SAFETY: the rows are this member's own.
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
                if let Some(zoneout) = self.zoneout(Use::ZoneoutCell) {
                    zoneout.keep(self.noise_index(s, j + i, hidden), hidden, before.at(i, 0), self.state.c.row(j + i));
                }
            }
        }
    }

    unsafe fn gru(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (v, p, t, isa) = (&self.config.variant, self.prepared, self.tape, self.isa);
        let (hidden, width, step_row) = (self.config.hidden, self.config.gate_width(), self.step_row(s, j));
        let gates = rows(&t.gates, step_row);
        // SAFETY: the rows are this member's own.
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

    /// The candidate as one number, where the reset gate multiplies all of it.
    unsafe fn whole_candidate(&self, a: Rows<A>, a2: Rows<A>, n: usize) -> (Rows<A>, Rows<A>) {
        if a2.is_some() {
            for i in 0..n {
                for k in 2 * self.config.hidden..self.config.gate_width() {
                    // SAFETY: the caller vouches for the rows.
                    unsafe { *a2.at(i, k) = *a.at(i, k) + *a2.at(i, k) };
                }
            }
            return (Rows::NONE, a2);
        }
        (Rows::NONE, a)
    }

    /// n and h of a GRU whose reset gate multiplied the state.
    unsafe fn gru_after_reset(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let (p, t, hidden, width) = (self.prepared, self.tape, self.config.hidden, self.config.gate_width());
        let (row, step_row) = (self.row(s, j), self.step_row(s, j));
        // SAFETY: the rows are this member's own.
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
            bias: self.prepared.bias[2 * hidden..].as_ptr(),
            gates: rows(&t.gates, step_row),
            before: rows(&t.before, step_row),
            saved: rows(&t.q, step_row),
            h: rows(&self.state.h, j),
        };
        // SAFETY: the rows are this member's own.
        unsafe { A::gru_mix(self.isa, mix) }
    }

    unsafe fn rnn(&self, scratch: &Scratch<A>, s: usize, j: usize, n: usize) {
        let hidden = self.config.hidden;
        // SAFETY: the rows are this member's own.
        unsafe {
            let (a, a2) = self.sums(scratch, s, j, n, hidden);
            let activate = rnn::Activate {
                rows: n,
                hidden,
                relu: self.config.variant.activation == Activation::Relu,
                a,
                a2,
                bias: self.prepared.bias.as_ptr(),
                gates: rows(&self.tape.gates, self.step_row(s, j)),
                h: rows(&self.state.h, j),
            };
            A::rnn_activate(self.isa, activate);
        }
    }

    /// What is left to do to h: the projection's clip, zoneout; and it is handed on.
    unsafe fn finish(&self, s: usize, j: usize) {
        let (output, h) = (self.config.output(), self.state.h.row(j));
        // SAFETY: the rows are this member's own.
        unsafe {
            if self.config.projection.is_some()
                && let Some(clip) = self.config.variant.projection_clip
            {
                clamp(1, output, Rows { ptr: h, stride: 0 }, A::from_f64(clip));
                std::ptr::copy_nonoverlapping(h, self.tape.projected.row(self.step_row(s, j)), output);
            }
            if let Some(zoneout) = self.zoneout(Use::ZoneoutHidden) {
                zoneout.keep(self.noise_index(s, j, output), output, self.tape.before.row(self.step_row(s, j)), h);
            }
        }
        (self.emit)(self.time(s, j), j, h.cast_const());
    }
}

impl Zoneout {
    /// Puts the old in place of the new, here and there; or their mean.
    unsafe fn keep<A: Real>(&self, first: usize, count: usize, old: *const A, new: *mut A) {
        let (rate, rest) = (A::from_f64(self.rate), A::from_f64(1.0 - self.rate));
        for k in 0..count {
            // SAFETY: the caller vouches for the numbers.
            unsafe {
                if !self.training {
                    *new.add(k) = rate.fma(*old.add(k), rest * *new.add(k));
                } else if self.random.hits(first + k, self.rate) {
                    *new.add(k) = *old.add(k);
                }
            }
        }
    }
}

/// Keeps numbers within ±limit. A NaN stays a NaN.
unsafe fn clamp<A: Real>(n: usize, columns: usize, to: Rows<A>, limit: A) {
    for row in 0..n {
        for k in 0..columns {
            // SAFETY: the caller vouches for the rows.
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

/// Runs of a few rows: (first, how many).
pub(crate) fn tiles(range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    range.clone().step_by(TILE).map(move |j| (j, TILE.min(range.end - j)))
}

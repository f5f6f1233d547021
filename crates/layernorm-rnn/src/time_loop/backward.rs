//! Backward pass of one cell over its sequences.
//!
//! Segments are processed from the last to the first, and so are the steps in a segment. A step turns dh and dc into
//! the gradients of the gates' sums, those into dzx and dzh through the norms, and dzh into dh of the previous step:
//! dh₋ = dzh·U. After a segment, [`super::gradients`] computes one product over all its rows for each weight matrix.

use super::forward::{CellState, ForwardPass, rows, tiles};
use super::norms::NormRows;
use super::product::Product;
use super::step_backward::cut;
use super::team::Member;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::error::Error;
use crate::matmul::Start;
use crate::noise::Purpose;
use crate::pointwise::gru;
use crate::real::Real;
use crate::variant::{Kind, Reset};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

/// Gradients of a segment, one row per step of a sequence, and gradients carried from step to step.
#[derive(Debug)]
pub(crate) struct SegmentGradients<A> {
    /// Gradient of the gates before their nonlinearity `[G·H]`.
    pub(crate) da: Matrix<A>,
    /// GRU: gradient of LNh(zh), or of LNs(s) if the reset gate multiplies the whole candidate `[G·H]`.
    pub(crate) dq: Matrix<A>,
    /// Whether dq is the gradient of the whole sum, including the input's part.
    whole: bool,
    /// Gradient of s, if s is normalized.
    pub(crate) ds: Matrix<A>,
    /// Gradients of zx and zh, if they are normalized.
    pub(crate) dzx: Matrix<A>,
    pub(crate) dzh: Matrix<A>,
    /// Gradient of the normalized cell `[H]`.
    pub(crate) dn: Matrix<A>,
    /// Gradient of the projection `[P]`.
    pub(crate) dprojected: Matrix<A>,
    /// Gradient of the input `[I]`.
    pub(crate) dx: Matrix<A>,
    /// Gradient of h by paths other than U `[B, P]`, and of U's operand.
    pub(super) direct: Matrix<A>,
    doperand: Matrix<A>,
    /// Gradient of c `[B, H]`.
    pub(super) dc: Matrix<A>,
    /// Gradient of the projection's input `[B, H]`, and of r∘h `[B, P]`.
    dhidden: Matrix<A>,
    /// Bytes that a member failed to allocate (only rule 6 allocates during the pass), or 0.
    pub(crate) missing: AtomicUsize,
}

impl<A: Real> SegmentGradients<A> {
    pub(crate) const fn new() -> Self {
        SegmentGradients {
            da: Matrix::new(),
            dq: Matrix::new(),
            whole: false,
            ds: Matrix::new(),
            dzx: Matrix::new(),
            dzh: Matrix::new(),
            dn: Matrix::new(),
            dprojected: Matrix::new(),
            dx: Matrix::new(),
            direct: Matrix::new(),
            doperand: Matrix::new(),
            dc: Matrix::new(),
            dhidden: Matrix::new(),
            missing: AtomicUsize::new(0),
        }
    }

    pub(crate) fn reshape(&mut self, config: &Config, layer: usize, rows: usize, batch: usize) -> Result<(), Error> {
        let v = &config.variant;
        let (width, hidden, output) = (config.gate_width(), config.hidden, config.output());
        let need = |matrix: &mut Matrix<A>, columns: usize, wanted: bool| {
            matrix.reshape(if wanted { rows } else { 0 }, columns)
        };
        need(&mut self.da, width, true)?;
        need(&mut self.dq, width, v.kind == Kind::Gru && v.reset != Reset::State)?;
        self.whole = v.kind == Kind::Gru && v.reset == Reset::Sum;
        need(&mut self.ds, width, v.sum_norm.is_some())?;
        need(&mut self.dzx, width, v.input_norm.is_some())?;
        need(&mut self.dzh, width, v.recurrent_norm.is_some())?;
        need(&mut self.dn, hidden, v.kind == Kind::Lstm)?;
        need(&mut self.dprojected, output, config.projection.is_some())?;
        need(&mut self.dx, config.layer_input(layer), true)?;
        self.direct.reshape(batch, output)?;
        self.doperand.reshape(batch, output)?;
        self.dc.reshape(if config.has_cell() { batch } else { 0 }, hidden)?;
        let wide = config.projection.is_some() || (v.kind == Kind::Gru && v.reset == Reset::State);
        self.dhidden.reshape(if wide { batch } else { 0 }, hidden.max(output))?;
        Ok(())
    }

    /// Returns the gradient of zx.
    pub(crate) fn dzx(&self) -> &Matrix<A> {
        if self.dzx.rows > 0 { &self.dzx } else { self.dx_norm() }
    }

    /// Returns the gradient of zh.
    pub(crate) fn dzh(&self) -> &Matrix<A> {
        if self.dzh.rows > 0 { &self.dzh } else { self.dh_norm() }
    }

    /// Returns the gradient of LNx(zx).
    pub(crate) fn dx_norm(&self) -> &Matrix<A> {
        self.dsum(if self.whole { &self.dq } else { &self.da })
    }

    /// Returns the gradient of LNh(zh).
    pub(crate) fn dh_norm(&self) -> &Matrix<A> {
        self.dsum(self.dnormalized_sum())
    }

    /// Returns the gradient of LNs(s).
    pub(crate) fn dnormalized_sum(&self) -> &Matrix<A> {
        if self.dq.rows > 0 { &self.dq } else { &self.da }
    }

    /// Returns the gradient of s if it is normalized, otherwise `without`.
    fn dsum<'a>(&'a self, without: &'a Matrix<A>) -> &'a Matrix<A> {
        if self.ds.rows > 0 { &self.ds } else { without }
    }

    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let all = [&self.da, &self.dq, &self.ds, &self.dzx, &self.dzh, &self.dn, &self.dprojected, &self.dx];
        let carried = [&self.direct, &self.doperand, &self.dc, &self.dhidden];
        all.iter().chain(&carried).map(|matrix| matrix.bytes()).sum()
    }
}

/// Source of the gradients of a cell's outputs and destination of those of its inputs.
pub(crate) trait BackwardIo<A>: Sync {
    /// Adds the gradient of the output of the j-th sequence of the schedule at time t to `to`.
    ///
    /// # Safety
    /// The j-th sequence is longer than t. `to` is valid for reading and writing a row of the cell's output, and no
    /// other thread uses that row during the call.
    unsafe fn fetch(&self, t: usize, j: usize, to: *mut A);

    /// Receives `dx`, the gradient of the input of the j-th sequence of the schedule at time t, and may overwrite it.
    ///
    /// # Safety
    /// The j-th sequence is longer than t, and no other thread emits its gradient at that time during the call. `dx` is
    /// valid for reading and writing a row of the cell's input, and no other thread uses that row during the call.
    unsafe fn emit(&self, t: usize, j: usize, dx: *mut A);
}

/// Backward pass of one cell.
pub(crate) struct BackwardPass<'a, A> {
    /// The corresponding forward pass.
    pub(crate) pass: &'a ForwardPass<'a, A>,
    pub(crate) gradients: &'a SegmentGradients<A>,
    pub(crate) io: &'a dyn BackwardIo<A>,
}

impl<A: Real> BackwardPass<'_, A> {
    /// Returns the row in a segment's gradients.
    pub(crate) fn row(&self, first: usize, s: usize, j: usize) -> usize {
        self.pass.schedule.base[s] - self.pass.schedule.base[first] + j
    }

    /// Initializes the carried gradients from those of the final state.
    ///
    /// # Safety
    /// The matrices have a row for every sequence, and no other thread uses them now.
    pub(crate) unsafe fn start(&self, gradient: &CellState<A>) {
        let config = self.pass.config;
        for j in 0..self.pass.schedule.batch {
            // SAFETY: guaranteed by the caller.
            unsafe {
                std::ptr::copy_nonoverlapping(gradient.h.row(j), self.gradients.direct.row(j), config.output());
                std::ptr::write_bytes(self.gradients.doperand.row(j), 0, config.output());
                if config.has_cell() {
                    std::ptr::copy_nonoverlapping(gradient.c.row(j), self.gradients.dc.row(j), config.hidden);
                }
            }
        }
    }

    /// Writes the gradients of the initial state.
    ///
    /// # Safety
    /// The matrices have a row for every sequence, and no other thread uses them now.
    pub(crate) unsafe fn end(&self, gradient: &CellState<A>) {
        let config = self.pass.config;
        for j in 0..self.pass.schedule.batch {
            // SAFETY: guaranteed by the caller.
            unsafe {
                self.dh(j, gradient.h.row(j));
                if config.has_cell() {
                    std::ptr::copy_nonoverlapping(self.gradients.dc.row(j), gradient.c.row(j), config.hidden);
                }
            }
        }
    }

    /// Computes the dh that a sequence has accumulated so far.
    unsafe fn dh(&self, j: usize, to: *mut A) {
        for k in 0..self.pass.config.output() {
            // SAFETY: the caller guarantees that the row is valid.
            unsafe {
                let mut operand = *self.gradients.doperand.row(j).add(k);
                if let Some(mask) = self.pass.mask {
                    operand = operand * *mask.row(j).add(k);
                }
                *to.add(k) = *self.gradients.direct.row(j).add(k) + operand;
            }
        }
    }

    /// Runs the steps of a segment, as one member.
    ///
    /// # Safety
    /// All matrices are large enough, and all members run the same steps.
    pub(crate) unsafe fn steps(&self, member: &Member<'_>, steps: Range<usize>) {
        for s in steps.clone().rev() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.step(member, steps.start, s) };
        }
    }

    unsafe fn step(&self, member: &Member<'_>, first: usize, s: usize) {
        let (pass, config) = (self.pass, self.pass.config);
        let running = pass.schedule.active[s];
        let own = member.own(running);
        let scratch = &pass.scratch[member.index];
        let reset_state = config.variant.kind == Kind::Gru && config.variant.reset == Reset::State;
        // SAFETY: a member writes only its own rows between barriers, and reads all rows after them.
        unsafe {
            if config.projection.is_some() {
                self.projection(member, first, s, running);
            }
            for (j, n) in tiles(own.clone()) {
                let dh = if config.projection.is_some() {
                    rows(&self.gradients.dhidden, j)
                } else {
                    (0..n).for_each(|i| self.incoming(s, j + i, scratch.dh.row(i)));
                    rows(&scratch.dh, 0)
                };
                match config.variant.kind {
                    Kind::Lstm => self.lstm(scratch, first, s, j, n, dh),
                    Kind::Gru => self.gru(first, s, j, n, dh),
                    Kind::Rnn => self.rnn(first, s, j, n, dh),
                }
                if !reset_state {
                    self.norms(first, s, j, n, (0, config.gate_width()));
                }
            }
            if reset_state {
                self.reset(member, first, s, running, own);
            }
            member.wait_in_step();
            self.recurrent(member, first, s, running);
            member.wait_in_step();
        }
    }

    /// Computes dh of a step: from the output and the next step, without the part that zoneout kept.
    unsafe fn incoming(&self, s: usize, j: usize, to: *mut A) {
        let (pass, output) = (self.pass, self.pass.config.output());
        // SAFETY: the sequence is running at this step, and its rows belong to this member.
        unsafe {
            self.dh(j, to);
            self.io.fetch(pass.time(s, j), j, to);
            let direct = self.gradients.direct.row(j);
            std::ptr::write_bytes(direct, 0, output);
            if let Some(zoneout) = pass.zoneout(Purpose::ZoneoutHidden) {
                zoneout.part(pass.noise_index(s, j, output), output, to, direct);
            }
        }
    }

    /// Computes the gradient of the projection's input.
    unsafe fn projection(&self, member: &Member<'_>, first: usize, s: usize, running: usize) {
        let (pass, p, w) = (self.pass, self.pass.params, self.gradients);
        // SAFETY: a member writes only its own rows between barriers.
        unsafe {
            for j in member.own(running) {
                let to = w.dprojected.row(self.row(first, s, j));
                self.incoming(s, j, to);
                if let Some(clip) = pass.config.variant.projection_clip {
                    cut(pass.config.output(), to, pass.tape.projected.row(pass.step_row(s, j)), A::from_f64(clip));
                }
            }
            member.wait_in_step();
            let own = member.product_rows(running);
            Product {
                a: rows(&w.dprojected, self.row(first, s, own.start)),
                b: &p.projection_back,
                k: (0, p.projection_back.k),
                c: rows(&w.dhidden, own.start),
                rows: own.len(),
                start: Start::Nothing,
                panels: member.panels(p.projection_back.panels()),
            }
            .run(pass.isa);
        }
        member.wait_in_step();
    }

    /// Computes the gradients of a GRU whose reset gate multiplies the state: first the candidate's product, then r,
    /// then the norms.
    unsafe fn reset(&self, member: &Member<'_>, first: usize, s: usize, running: usize, own: Range<usize>) {
        let (pass, w, p) = (self.pass, self.gradients, self.pass.params);
        let (hidden, width) = (pass.config.hidden, pass.config.gate_width());
        // SAFETY: a member writes only its own rows between barriers.
        unsafe {
            for (j, n) in tiles(own.clone()) {
                if let Some(norm) = &p.recurrent_norm {
                    let (row, step_row) = (self.row(first, s, j), pass.step_row(s, j));
                    let columns = (2 * hidden, width);
                    let run = NormRows { stats: &pass.tape.recurrent_stats, row: step_row, rows: n, columns };
                    let z = rows(&pass.tape.zh, step_row);
                    norm.backward(pass.isa, run, z, rows(&w.da, row), rows(&w.dzh, row));
                }
            }
            member.wait_in_step();
            let all = member.product_rows(running);
            Product {
                a: rows(w.dzh(), self.row(first, s, all.start)).from(0, 2 * hidden),
                b: &p.recurrent_back,
                k: (2 * hidden, hidden),
                c: rows(&w.dhidden, all.start),
                rows: all.len(),
                start: Start::Nothing,
                panels: member.panels(p.recurrent_back.panels()),
            }
            .run(pass.isa);
            member.wait_in_step();
            for (j, n) in tiles(own) {
                (0..n).for_each(|i| std::ptr::write_bytes(w.doperand.row(j + i), 0, hidden));
                let step_row = pass.step_row(s, j);
                let back = gru::ResetBack {
                    rows: n,
                    hidden,
                    dreset: rows(&w.dhidden, j),
                    gates: rows(&pass.tape.gates, step_row),
                    before: rows(pass.tape.operand(), step_row),
                    da: rows(&w.da, self.row(first, s, j)),
                    dbefore: rows(&w.doperand, j),
                };
                A::gru_reset_back(pass.isa, back);
                self.norms(first, s, j, n, (0, width));
            }
        }
    }

    /// Computes dh of the previous step through U.
    unsafe fn recurrent(&self, member: &Member<'_>, first: usize, s: usize, running: usize) {
        let (pass, w, p) = (self.pass, self.gradients, self.pass.params);
        let own = member.product_rows(running);
        let reset_state = pass.config.variant.kind == Kind::Gru && pass.config.variant.reset == Reset::State;
        let (k, start) =
            if reset_state { (2 * pass.config.hidden, Start::Sum) } else { (p.recurrent_back.k, Start::Nothing) };
        // SAFETY: these columns of these rows belong to this member.
        unsafe {
            Product {
                a: rows(w.dzh(), self.row(first, s, own.start)),
                b: &p.recurrent_back,
                k: (0, k),
                c: rows(&w.doperand, own.start),
                rows: own.len(),
                start,
                panels: member.panels(p.recurrent_back.panels()),
            }
            .run(pass.isa);
        }
    }
}

impl super::forward::Zoneout {
    /// Moves the gradient of the kept numbers from the new to the old value.
    ///
    /// # Safety
    /// There are `count` numbers of each.
    pub(super) unsafe fn part<A: Real>(&self, first: usize, count: usize, new: *mut A, old: *mut A) {
        for k in 0..count {
            if self.random.hits(first + k, self.rate) {
                // SAFETY: the caller guarantees that the numbers are valid.
                unsafe {
                    *old.add(k) = *old.add(k) + *new.add(k);
                    *new.add(k) = A::ZERO;
                }
            }
        }
    }
}

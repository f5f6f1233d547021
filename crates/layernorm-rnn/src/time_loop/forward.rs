//! Forward pass of one cell over its sequences.
//!
//! A segment of steps starts with one product for all its inputs, zx = W x + bx. Then, for each step: copy the state
//! to where the backward pass will read it, compute zh = U h + bh, then the norms and the cell's arithmetic.

use super::CellId;
use super::cell_params::{CellParams, fused};
use super::product::Product;
use super::step_forward::clamp;
use super::tape::Tape;
use super::team::Member;
use super::tune::TILE;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::error::Error;
use crate::matmul::Start;
use crate::noise::{NoiseStream, Purpose};
use crate::pointwise::Rows;
use crate::real::Real;
use crate::schedule::Schedule;
use crate::variant::{Kind, Reset};
use layernorm::parts::MachineIsa;
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

    pub(crate) fn reshape(&mut self, config: &Config, batch: usize) -> Result<(), Error> {
        self.h.reshape(batch, config.output())?;
        Ok(self.c.reshape(if config.has_cell() { batch } else { 0 }, config.hidden)?)
    }
}

/// Scratch memory of one member: a few rows each.
#[derive(Debug)]
pub(crate) struct Scratch<A> {
    pub(crate) x: Matrix<A>,
    pub(crate) h: Matrix<A>,
    pub(crate) cell: Matrix<A>,
    pub(crate) dh: Matrix<A>,
}

impl<A: Real> Scratch<A> {
    pub(crate) const fn new() -> Self {
        Scratch { x: Matrix::new(), h: Matrix::new(), cell: Matrix::new(), dh: Matrix::new() }
    }

    /// Resizes the memory for this network.
    pub(crate) fn reshape(&mut self, config: &Config) -> Result<(), Error> {
        self.x.reshape(TILE, config.gate_width())?;
        self.h.reshape(TILE, config.gate_width())?;
        self.cell.reshape(TILE, config.hidden)?;
        Ok(self.dh.reshape(TILE, config.hidden.max(config.output()))?)
    }
}

/// Zoneout: how much of the old number is kept, at random in training, otherwise in expectation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zoneout {
    pub(crate) random: NoiseStream,
    pub(crate) rate: f64,
    pub(crate) training: bool,
}

/// Source of a cell's inputs and destination of its outputs.
pub(crate) trait ForwardIo<A>: Sync {
    /// Writes the input of the j-th sequence of the schedule at time t to `to`.
    ///
    /// # Safety
    /// The j-th sequence is longer than t. `to` is valid for writing a row of the cell's input, and no other thread
    /// uses that row during the call.
    unsafe fn fetch(&self, t: usize, j: usize, to: *mut A);

    /// Receives `h`, the output of the j-th sequence of the schedule at time t.
    ///
    /// # Safety
    /// The j-th sequence is longer than t, and no other thread emits its output at that time during the call. `h` is
    /// valid for reading a row of the cell's output, which no thread writes during the call.
    unsafe fn emit(&self, t: usize, j: usize, h: *const A);
}

/// Forward pass of one cell over its sequences.
pub(crate) struct ForwardPass<'a, A> {
    pub(crate) config: &'a Config,
    pub(crate) params: &'a CellParams<A>,
    pub(crate) schedule: &'a Schedule,
    pub(crate) isa: MachineIsa,
    pub(crate) cell: CellId,
    /// Whether the cell runs backward in time.
    pub(crate) reverse: bool,
    /// Seed, in training.
    pub(crate) seed: Option<u64>,
    /// Whether each step has its own rows on the tape.
    pub(crate) recorded: bool,
    /// First row on the tape, and first row of the inputs.
    pub(crate) first_row: usize,
    pub(crate) first_input: usize,
    pub(crate) tape: &'a Tape<A>,
    pub(crate) state: &'a CellState<A>,
    /// Factors of recurrent dropout `[B, P]`.
    pub(crate) mask: Option<&'a Matrix<A>>,
    pub(crate) scratch: &'a [Scratch<A>],
    pub(crate) io: &'a dyn ForwardIo<A>,
}

/// Returns the rows of a matrix from `row` on.
pub(crate) fn rows<A: Real>(matrix: &Matrix<A>, row: usize) -> Rows<A> {
    Rows { ptr: matrix.row(row), stride: matrix.stride() }
}

impl<'a, A: Real> ForwardPass<'a, A> {
    /// Returns the row in a segment's matrix.
    pub(crate) fn row(&self, s: usize, j: usize) -> usize {
        self.schedule.base[s] - self.first_row + j
    }

    /// Returns the row in a step's matrix.
    pub(crate) fn step_row(&self, s: usize, j: usize) -> usize {
        if self.recorded { self.row(s, j) } else { j }
    }

    pub(crate) fn time(&self, s: usize, j: usize) -> usize {
        self.schedule.time(self.reverse, s, j)
    }

    pub(crate) fn zoneout(&self, purpose: Purpose) -> Option<Zoneout> {
        let noise = &self.config.noise;
        let rate = if purpose == Purpose::ZoneoutCell { noise.zoneout_cell } else { noise.zoneout_hidden };
        let random = NoiseStream::new(self.seed.unwrap_or(0), purpose, self.cell.layer, self.cell.direction);
        (rate > 0.0).then_some(Zoneout { random, rate, training: self.seed.is_some() })
    }

    /// Returns the index of a number in the noise streams.
    pub(crate) fn noise_index(&self, s: usize, j: usize, width: usize) -> usize {
        (self.time(s, j) * self.schedule.batch + self.schedule.order[j]) * width
    }

    /// Runs a segment, as one member.
    ///
    /// # Safety
    /// The tape, the state and the scratch memory are large enough, and all members run the same segment.
    pub(crate) unsafe fn segment(&self, member: &Member<'_>, steps: Range<usize>) {
        // SAFETY: guaranteed by the caller; a member writes only its own rows between barriers, and reads all rows
        // after them.
        unsafe {
            self.fetch_inputs(member, steps.clone());
            member.wait();
            self.inputs(member, steps.clone());
            member.wait();
            for s in steps {
                self.remember(member, s);
                member.wait_in_step();
                self.recurrent_product(member, s);
                member.wait_in_step();
                self.finish_step(member, s);
            }
        }
        member.wait();
    }

    /// Fetches the inputs of a segment.
    unsafe fn fetch_inputs(&self, member: &Member<'_>, steps: Range<usize>) {
        let base = &self.schedule.base;
        let first = base[steps.start];
        let part = member.part(base[steps.end] - first);
        let (from, to) = (first + part.start, first + part.end);
        for s in steps {
            let active = self.schedule.active[s];
            for j in from.saturating_sub(base[s]).min(active)..to.saturating_sub(base[s]).min(active) {
                // SAFETY: the sequence is running at this step, and its row on the tape belongs to this member.
                unsafe { self.io.fetch(self.time(s, j), j, self.tape.x.row(base[s] + j - self.first_input)) };
            }
        }
    }

    /// Computes zx = W x + bx for the rows of a segment. Members share the rows, or the columns if there are few
    /// rows.
    unsafe fn inputs(&self, member: &Member<'_>, steps: Range<usize>) {
        let base = &self.schedule.base;
        let (first, end) = (base[steps.start], base[steps.end]);
        let part = member.part(end - first);
        let (mut from, mut to) = (first + part.start, first + part.end);
        let p = self.params;
        let mut panels = 0..p.input.panels();
        if end - first < member.members * TILE {
            (from, to) = (first, end);
            panels = member.part(panels.end);
        }
        let row = from - self.first_row;
        // SAFETY: the rows belong to this member.
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

    /// Completes a step after its products.
    unsafe fn finish_step(&self, member: &Member<'_>, s: usize) {
        let running = self.schedule.active[s];
        let own = member.own(running);
        let scratch = &self.scratch[member.index];
        // SAFETY: a member writes only its own rows between barriers, and reads all rows after them.
        unsafe {
            for (j, n) in tiles(own.clone()) {
                match self.config.variant.kind {
                    Kind::Lstm => self.lstm(scratch, s, j, n),
                    Kind::Gru => self.gru(scratch, s, j, n),
                    Kind::Rnn => self.rnn(scratch, s, j, n),
                }
            }
            if self.config.variant.kind == Kind::Gru && self.config.variant.reset == Reset::State {
                member.wait_in_step();
                self.candidate_product(member, s, running);
                member.wait_in_step();
                for (j, n) in tiles(own.clone()) {
                    self.gru_after_reset(scratch, s, j, n);
                }
            }
            if self.config.projection.is_some() {
                member.wait_in_step();
                self.projection(member, s, running);
                member.wait_in_step();
            }
            for j in own {
                self.finish(s, j);
            }
        }
    }

    /// Copies the state to where this step's products and the backward pass read it.
    unsafe fn remember(&self, member: &Member<'_>, s: usize) {
        for j in member.own(self.schedule.active[s]) {
            // SAFETY: the row belongs to this member.
            unsafe { self.remember_one(s, j) };
        }
    }

    unsafe fn remember_one(&self, s: usize, j: usize) {
        let (row, output, hidden) = (self.step_row(s, j), self.config.output(), self.config.hidden);
        // SAFETY: the rows exist and belong to this member.
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

    /// Computes zh = U h + bh, or its sum with zx.
    unsafe fn recurrent_product(&self, member: &Member<'_>, s: usize) {
        let p = self.params;
        let own = member.product_rows(self.schedule.active[s]);
        let (row, step_row) = (self.row(s, own.start), self.step_row(s, own.start));
        let (c, start) = if fused(self.config) {
            (rows(&self.tape.zx, row), Start::Sum)
        } else {
            (rows(&self.tape.zh, step_row), Start::Row(p.recurrent_start.as_ptr()))
        };
        // SAFETY: these columns of these rows belong to this member.
        unsafe {
            Product {
                a: rows(self.tape.operand(), step_row),
                b: &p.recurrent,
                k: (0, p.recurrent.k),
                c,
                rows: own.len(),
                start,
                panels: member.panels(p.recurrent.panels()),
            }
            .run(self.isa);
        }
    }

    /// Computes the candidate's part of zh where it is U (r∘h) + bh.
    unsafe fn candidate_product(&self, member: &Member<'_>, s: usize, running: usize) {
        let (p, hidden) = (self.params, self.config.hidden);
        let own = member.product_rows(running);
        let step_row = self.step_row(s, own.start);
        // SAFETY: these columns of these rows belong to this member.
        unsafe {
            Product {
                a: rows(&self.tape.reset, step_row),
                b: &p.candidate,
                k: (0, p.candidate.k),
                c: rows(&self.tape.zh, step_row).from(0, 2 * hidden),
                rows: own.len(),
                start: Start::Row(p.recurrent_start[2 * hidden..].as_ptr()),
                panels: member.panels(p.candidate.panels()),
            }
            .run(self.isa);
        }
    }

    /// Projects to h.
    unsafe fn projection(&self, member: &Member<'_>, s: usize, running: usize) {
        let p = self.params;
        let own = member.product_rows(running);
        // SAFETY: these columns of these rows belong to this member.
        unsafe {
            Product {
                a: rows(&self.tape.unprojected, self.step_row(s, own.start)),
                b: &p.projection,
                k: (0, p.projection.k),
                c: rows(&self.state.h, own.start),
                rows: own.len(),
                start: Start::Row(p.projection_bias.as_ptr()),
                panels: member.panels(p.projection.panels()),
            }
            .run(self.isa);
        }
    }

    /// Completes h: applies the projection's clip and zoneout, then emits it.
    unsafe fn finish(&self, s: usize, j: usize) {
        let (output, h) = (self.config.output(), self.state.h.row(j));
        // SAFETY: the sequence is running at this step, and its rows belong to this member.
        unsafe {
            if self.config.projection.is_some()
                && let Some(clip) = self.config.variant.projection_clip
            {
                clamp(1, output, Rows { ptr: h, stride: 0 }, A::from_f64(clip));
                std::ptr::copy_nonoverlapping(h, self.tape.projected.row(self.step_row(s, j)), output);
            }
            if let Some(zoneout) = self.zoneout(Purpose::ZoneoutHidden) {
                zoneout.keep(self.noise_index(s, j, output), output, self.tape.before.row(self.step_row(s, j)), h);
            }
            self.io.emit(self.time(s, j), j, h.cast_const());
        }
    }
}

impl Zoneout {
    /// Replaces some of the new numbers with the old ones, or all of them with the expectation.
    ///
    /// # Safety
    /// There are `count` numbers of each.
    pub(super) unsafe fn keep<A: Real>(&self, first: usize, count: usize, old: *const A, new: *mut A) {
        let (rate, rest) = (A::from_f64(self.rate), A::from_f64(1.0 - self.rate));
        for k in 0..count {
            // SAFETY: the caller guarantees that the numbers are valid.
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

/// Splits a range into tiles of a few rows: (first row, number of rows).
pub(crate) fn tiles(range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    range.clone().step_by(TILE).map(move |j| (j, TILE.min(range.end - j)))
}

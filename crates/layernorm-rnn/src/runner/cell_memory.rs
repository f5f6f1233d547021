//! Memory of one cell, and the passes that run in it.

use super::Keep;
use super::call::CallSettings;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::error::Error;
use crate::network::State;
use crate::noise::{NoiseStream, Purpose};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::time_loop::CellId;
use crate::time_loop::backward::{BackwardIo, BackwardPass, SegmentGradients};
use crate::time_loop::cell_params::CellParams;
use crate::time_loop::forward::{CellState, ForwardIo, ForwardPass, Scratch};
use crate::time_loop::gradients::GradientTargets;
use crate::time_loop::tape::Tape;
use layernorm::parts::{Shared, memory};
use std::ops::Range;

/// Memory of one cell.
#[derive(Debug)]
pub(super) struct CellMemory<A> {
    pub(super) params: CellParams<A>,
    pub(super) tape: Tape<A>,
    pub(super) state: CellState<A>,
    /// States before every segment.
    checkpoints: CellState<A>,
    /// Factors of recurrent dropout.
    mask: Matrix<A>,
    scratch: Vec<Scratch<A>>,
}

/// Which gradients of one cell are computed, and where they go.
pub(super) struct CellGradients<'a, A> {
    pub(super) io: &'a dyn BackwardIo<A>,
    /// Whether the gradients of the inputs are computed.
    pub(super) inputs: bool,
    pub(super) targets: Shared<GradientTargets<A>>,
    /// First step that is covered.
    pub(super) from: usize,
}

/// No inputs and outputs: where a forward pass is repeated, its inputs are on the tape, and its outputs have been
/// emitted.
struct Repeated;

impl<A> ForwardIo<A> for Repeated {
    unsafe fn fetch(&self, _: usize, _: usize, _: *mut A) {}
    unsafe fn emit(&self, _: usize, _: usize, _: *const A) {}
}

impl<A: Real> CellMemory<A> {
    pub(super) fn new() -> Self {
        CellMemory {
            params: CellParams::new(),
            tape: Tape::new(),
            state: CellState::new(),
            checkpoints: CellState::new(),
            mask: Matrix::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.tape.bytes() + self.state.bytes() + self.checkpoints.bytes() + self.mask.bytes()
    }

    /// Packs the weights and reserves the memory of a forward pass.
    pub(super) fn prepare(
        &mut self,
        call: &CallSettings<'_, A>,
        schedule: &Schedule,
        cell: CellId,
    ) -> Result<(), Error> {
        let config = call.config;
        self.params.prepare_forward(&call.params(cell))?;
        self.tape.reshape(config, cell.layer, call.tape_rows(schedule), call.masked())?;
        self.state.reshape(config, schedule.batch)?;
        let recompute = call.keep() == Some(Keep::Recompute);
        self.checkpoints.reshape(config, if recompute { schedule.segments.len() * schedule.batch } else { 0 })?;
        memory::more(&mut self.scratch, call.team(schedule, cell.layer).members, Scratch::new)?;
        for scratch in &mut self.scratch {
            scratch.reshape(config)?;
        }
        self.draw_mask(call, schedule, cell)
    }

    /// Draws the mask of recurrent dropout, if there is any.
    fn draw_mask(&mut self, call: &CallSettings<'_, A>, schedule: &Schedule, cell: CellId) -> Result<(), Error> {
        let (rate, output) = (call.config.noise.recurrent_dropout, call.config.output());
        self.mask.reshape(if call.masked() { schedule.batch } else { 0 }, output)?;
        let Some(training) = call.training.filter(|_| call.masked()) else { return Ok(()) };
        let stream = NoiseStream::new(training.seed, Purpose::Recurrent, cell.layer, cell.direction);
        for j in 0..schedule.batch {
            for (k, factor) in self.mask.values_mut(j).iter_mut().enumerate() {
                let hit = stream.hits(schedule.order[j] * output + k, rate);
                *factor = if hit { A::ZERO } else { A::from_f64(1.0 / (1.0 - rate)) };
            }
        }
        Ok(())
    }

    /// Runs the cell over all its sequences. `prepare` has reserved the memory.
    pub(super) fn forward(&self, call: &CallSettings<'_, A>, schedule: &Schedule, cell: CellId, io: &dyn ForwardIo<A>) {
        let keep = call.keep();
        call.team(schedule, cell.layer).run(schedule, &|member| {
            for (segment, steps) in schedule.segments.iter().enumerate() {
                let first_row = if keep == Some(Keep::All) { 0 } else { schedule.base[steps.start] };
                let pass = self.pass(call, schedule, cell, first_row, io);
                // SAFETY: `prepare` has made all matrices large enough; all members run all segments and write only
                // their own rows.
                unsafe {
                    if keep == Some(Keep::Recompute) {
                        self.checkpoint(call.config, schedule, segment, member.own(schedule.batch), true);
                    }
                    pass.segment(member, steps.clone());
                }
            }
        });
    }

    /// Runs the cell's backward pass. `dstate` holds the gradient of the final state, then that of the initial one.
    pub(super) fn backward(
        &self,
        call: &CallSettings<'_, A>,
        schedule: &Schedule,
        cell: CellId,
        gradients: &SegmentGradients<A>,
        wanted: &CellGradients<'_, A>,
        dstate: &CellState<A>,
    ) {
        let recompute = call.keep() == Some(Keep::Recompute);
        let pass = |first_row| self.pass(call, schedule, cell, first_row, &Repeated);
        let io = wanted.io;
        // SAFETY: `prepare_backward` has made all matrices large enough, and no other thread is running yet.
        unsafe { BackwardPass { pass: &pass(0), gradients, io }.start(dstate) };
        call.team(schedule, cell.layer).run(schedule, &|member| {
            for (segment, steps) in schedule.segments.iter().enumerate().rev() {
                let first_row = if recompute { schedule.base[steps.start] } else { 0 };
                let pass = pass(first_row);
                let back = BackwardPass { pass: &pass, gradients, io };
                let covered = steps.start.max(wanted.from)..steps.end.max(wanted.from);
                // SAFETY: all matrices are large enough; all members run the same steps.
                unsafe {
                    if recompute && !covered.is_empty() {
                        self.checkpoint(call.config, schedule, segment, member.own(schedule.batch), false);
                        pass.segment(member, steps.clone());
                    }
                    back.steps(member, covered.clone());
                    member.wait();
                    if !covered.is_empty() {
                        back.parameters(member, covered, &wanted.targets.get(), wanted.inputs);
                    }
                }
                member.wait();
            }
        });
        // SAFETY: as above; the other threads have finished.
        unsafe { BackwardPass { pass: &pass(0), gradients, io }.end(dstate) };
    }

    /// Returns the cell's pass, whose tape starts at `first_row`.
    fn pass<'a>(
        &'a self,
        call: &CallSettings<'a, A>,
        schedule: &'a Schedule,
        cell: CellId,
        first_row: usize,
        io: &'a dyn ForwardIo<A>,
    ) -> ForwardPass<'a, A> {
        ForwardPass {
            config: call.config,
            params: &self.params,
            schedule,
            isa: call.isa,
            cell,
            reverse: call.config.is_reverse(cell.direction),
            seed: call.training.map(|training| training.seed),
            recorded: call.training.is_some(),
            first_row,
            first_input: if call.training.is_some() { 0 } else { first_row },
            tape: &self.tape,
            state: &self.state,
            mask: (self.mask.rows > 0).then_some(&self.mask),
            scratch: &self.scratch,
            io,
        }
    }

    /// Saves the state before a segment, or restores it.
    ///
    /// # Safety
    /// The checkpoints have room for the segment, and no other thread uses the rows `own` now.
    unsafe fn checkpoint(&self, config: &Config, schedule: &Schedule, segment: usize, own: Range<usize>, store: bool) {
        for j in own {
            let row = segment * schedule.batch + j;
            let pairs = [
                (&self.state.h, &self.checkpoints.h, config.output()),
                (&self.state.c, &self.checkpoints.c, config.hidden),
            ];
            for (state, kept, width) in pairs.into_iter().filter(|(state, ..)| state.rows > 0) {
                let (from, to) = if store { (state.row(j), kept.row(row)) } else { (kept.row(row), state.row(j)) };
                // SAFETY: guaranteed by the caller.
                unsafe { std::ptr::copy_nonoverlapping(from, to, width) };
            }
        }
    }
}

impl<A: Real> CellState<A> {
    /// Loads a state's part for one cell, in the order of the schedule; zeros if there is none.
    pub(super) fn load(&mut self, config: &Config, schedule: &Schedule, from: Option<&State<A>>, number: usize) {
        self.each(config, schedule, number, |values, places, row| match from {
            Some(from) => row.copy_from_slice(&values.of(from)[places]),
            None => row.fill(A::ZERO),
        });
    }

    /// Stores one cell's part of a state.
    pub(super) fn unload(&mut self, config: &Config, schedule: &Schedule, to: &mut State<A>, number: usize) {
        self.each(config, schedule, number, |values, places, row| values.of_mut(to)[places].copy_from_slice(row));
    }

    /// Calls `f(part, range in the state, row)` for every sequence.
    fn each(
        &mut self,
        config: &Config,
        schedule: &Schedule,
        number: usize,
        mut f: impl FnMut(Values, Range<usize>, &mut [A]),
    ) {
        let parts = [(Values::H, &mut self.h, config.output()), (Values::C, &mut self.c, config.hidden)];
        for (values, matrix, width) in parts.into_iter().filter(|(_, matrix, _)| matrix.rows > 0) {
            for j in 0..schedule.batch {
                let place = (number * schedule.batch + schedule.order[j]) * width;
                f(values, place..place + width, matrix.values_mut(j));
            }
        }
    }
}

/// Part of a state.
#[derive(Clone, Copy)]
enum Values {
    H,
    C,
}

impl Values {
    fn of<A>(self, state: &State<A>) -> &[A] {
        match self {
            Values::H => &state.h,
            Values::C => &state.c,
        }
    }

    fn of_mut<A>(self, state: &mut State<A>) -> &mut [A] {
        match self {
            Values::H => &mut state.h,
            Values::C => &mut state.c,
        }
    }
}

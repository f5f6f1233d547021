//! Backward: checks, then all layers from the last to the first.

use super::run::{Run, check_tensor, drop_out};
use super::{Cell, Keep, Places, Recorded, Runner, Shared};
use crate::config::{Config, Direction};
use crate::engine::backward::{Back, Work};
use crate::engine::forward::CellState;
use crate::engine::gradients::Targets;
use crate::engine::prepared::DropConnect;
use crate::error::Error;
use crate::network::{Gradients, Network, State};
use crate::params::{Params, Slot};
use crate::real::Real;
use crate::schedule::Schedule;
use layernorm::Element;
use layernorm::parts::memory;
use std::ops::Range;

/// Sources and destinations of the gradients of one cell.
struct Ends<'a, A> {
    /// Adds the gradient of the output at a time and sequence.
    fetch: &'a (dyn Fn(usize, usize, *mut A) + Sync),
    /// Receives the gradient of the input at a time and sequence, if requested.
    emit: Option<&'a (dyn Fn(usize, usize, *const A) + Sync)>,
    targets: Targets<A>,
    /// First step that is covered.
    from: usize,
}

impl<A: Real> Runner<A> {
    pub(super) fn check_backward<T: Element<Acc = A>>(
        &self,
        network: &Network<A>,
        places: Places,
        dy: &[T],
        dlast: Option<&State<A>>,
        from: usize,
        gradients: &Gradients<T>,
    ) -> Result<(), Error> {
        let config = network.config();
        let width = config.output() * config.directions();
        check_tensor("gradient of the output", "D·P", places, width, dy.len())?;
        if !gradients.input.is_empty() {
            check_tensor("gradient of the input", "I", places, config.input, gradients.input.len())?;
        }
        if let Some(dlast) = dlast {
            dlast.check(config, places.batch, ["gradient of the final h", "gradient of the final c"])?;
        }
        if gradients.params.entries() != network.params().entries() {
            return Err(Error::OtherNetwork);
        }
        if from > 0 && config.direction != Direction::Forward {
            return Err(Error::Unsupported {
                what: format!(
                    "truncated backward: expected a network that goes forward in time, found from = {from} and one that does not"
                ),
            });
        }
        if from > places.steps {
            return Err(Error::Size { what: "from", expected: "a step of the sequences", found: from });
        }
        Ok(())
    }

    /// Reserves all memory of a backward pass and packs the weights: from here on nothing can fail, except for
    /// allocations of rule 6.
    fn ready_back(&mut self, run: &Run<'_, A>, batch: usize, input: bool) -> Result<(), Error> {
        let (config, schedule) = (run.config, &self.schedule);
        *self.work.missing.get_mut() = 0;
        for layer in (0..config.layers).rev() {
            if layer > 0 || input {
                self.dinner[layer % 2].reshape(schedule.rows(), config.layer_input(layer))?;
            }
            self.work.reshape(config, layer, schedule.segment_rows(), batch)?;
            for direction in 0..config.directions() {
                let cell = &mut self.cells[layer * config.directions() + direction];
                cell.prepared.set_back(&run.preparation(layer, direction))?;
            }
        }
        if config.noise.drop_connect > 0.0 {
            memory::refill(&mut self.masked, config.gate_width() * config.output(), A::ZERO)?;
        }
        self.dstate.reshape(config, batch)
    }

    #[allow(clippy::too_many_arguments, reason = "checked by the only caller and consumed here")]
    pub(super) fn back<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        recorded: &Recorded,
        places: Places,
        dy: &[T],
        dlast: Option<&State<A>>,
        from: usize,
        gradients: &mut Gradients<T>,
    ) -> Result<(), Error> {
        let config = network.config();
        let (isa, threads, training) = (recorded.isa, self.context.threads(), Some(recorded.training));
        let run = Run { config, network, isa, threads, training };
        let (directions, output) = (config.directions(), config.output());
        self.ready_back(&run, places.batch, !gradients.input.is_empty())?;
        gradients.state.resize(config, places.batch)?;
        let dy = Shared(dy.as_ptr());
        for layer in (0..config.layers).rev() {
            // Gradients of this layer's input are summed over its directions here, in time order.
            let width = config.layer_input(layer);
            let wanted = layer > 0 || !gradients.input.is_empty();
            let [even, odd] = &mut self.dinner;
            let (below, above) = if layer % 2 == 0 { (even, odd) } else { (odd, even) };
            if wanted {
                below.reshape(self.schedule.rows(), width)?;
                below.clear();
            }
            let (below, above, schedule) = (&*below, &*above, &self.schedule);
            for direction in 0..directions {
                let number = layer * directions + direction;
                let cell = &self.cells[number];
                self.work.reshape(config, layer, schedule.segment_rows(), schedule.batch)?;
                let fetch = |t: usize, j: usize, to: *mut A| {
                    // SAFETY: the tensors contain this time and sequence, and `to` has room for a row.
                    unsafe {
                        if layer + 1 < config.layers {
                            let from = above.row(schedule.base[t] + j).add(direction * output);
                            (0..output).for_each(|k| *to.add(k) = *to.add(k) + *from.add(k));
                        } else {
                            let place = places.at(t, schedule.order[j]) * directions + direction;
                            let from = dy.get().add(place * output);
                            (0..output).for_each(|k| *to.add(k) = *to.add(k) + (*from.add(k)).widen());
                        }
                    }
                };
                let dropout = run.dropout(layer);
                let emit = |t: usize, j: usize, dx: *const A| {
                    let first = (t * schedule.batch + schedule.order[j]) * width;
                    // SAFETY: this row of the segment and this time and sequence belong to this member.
                    unsafe {
                        drop_out(dropout, first, dx.cast_mut(), width);
                        let to = below.row(schedule.base[t] + j);
                        (0..width).for_each(|k| *to.add(k) = *to.add(k) + *dx.add(k));
                    }
                };
                let mut targets = targets(&mut gradients.params, layer, direction);
                self.masked.clear();
                if config.noise.drop_connect > 0.0 {
                    memory::refill(&mut self.masked, config.gate_width() * output, A::ZERO)?;
                    targets.set(Slot::RecurrentWeight, self.masked.as_mut_ptr());
                }
                let ends = Ends { fetch: &fetch, emit: if wanted { Some(&emit) } else { None }, targets, from };
                self.dstate.reshape(config, places.batch)?;
                self.dstate.load(config, schedule, dlast, number);
                cell.backward(&run, schedule, (layer, direction), &self.work, &ends, &self.dstate);
                if from == 0 {
                    self.dstate.unload(config, schedule, &mut gradients.state, number);
                }
                unmask(&run, &self.masked, &mut gradients.params, layer, direction);
            }
        }
        match std::mem::take(self.work.missing.get_mut()) {
            0 => {}
            bytes => return Err(Error::OutOfMemory { bytes }),
        }
        if gradients.input.is_empty() {
            return Ok(());
        }
        let from_rows = &self.dinner[0];
        let width = config.input;
        for s in from..self.schedule.steps() {
            for j in 0..self.schedule.active[s] {
                let to = places.at(s, self.schedule.order[j]) * width;
                let row = from_rows.row(self.schedule.base[s] + j);
                // SAFETY: the matrix has this row.
                let row = unsafe { std::slice::from_raw_parts(row, width) };
                gradients.input[to..to + width].iter_mut().zip(row).for_each(|(to, &dx)| *to = T::narrow(dx));
            }
        }
        Ok(())
    }
}

/// Returns the destinations of the gradients of a cell's parameters.
fn targets<A: Real>(params: &mut Params<A>, layer: usize, direction: usize) -> Targets<A> {
    let start = params.values_mut().as_mut_ptr();
    let slots = Slot::ALL.map(|slot| match params.find(layer, direction, slot) {
        Some(entry) => start.wrapping_add(entry.range.start),
        None => std::ptr::null_mut(),
    });
    Targets { slots }
}

/// Applies DropConnect's mask to the gradient of U and adds it: dropped weights get no gradient.
fn unmask<A: Real>(run: &Run<'_, A>, masked: &[A], params: &mut Params<A>, layer: usize, direction: usize) {
    let Some(seed) = run.preparation(layer, direction).seed else { return };
    let mask = DropConnect::new(run.config, seed, layer, direction);
    if let Some(du) = params.get_mut(layer, direction, Slot::RecurrentWeight) {
        let masked = masked.iter().enumerate().map(|(i, &d)| d * mask.factor::<A>(i));
        du.iter_mut().zip(masked).for_each(|(du, d)| *du = *du + d);
    }
}

impl<A: Real> Cell<A> {
    fn backward(
        &self,
        run: &Run<'_, A>,
        schedule: &Schedule,
        cell: (usize, usize),
        work: &Work<A>,
        ends: &Ends<'_, A>,
        state: &CellState<A>,
    ) {
        let recompute = run.training.is_some_and(|training| training.keep == Keep::Recompute);
        let nothing = |_: usize, _: usize, _: *mut A| {};
        let nowhere = |_: usize, _: usize, _: *const A| {};
        let pass = |first_row| self.pass(run, schedule, cell, first_row, &nothing, &nowhere);
        // SAFETY: `ready_back` has made all matrices large enough, and no other thread is running yet.
        unsafe { Back { pass: &pass(0), work, fetch: ends.fetch }.start(state) };
        run.plan(schedule, cell.0).run(schedule, &|lane| {
            for (segment, steps) in schedule.segments.iter().enumerate().rev() {
                let first_row = if recompute { schedule.base[steps.start] } else { 0 };
                let pass = pass(first_row);
                let back = Back { pass: &pass, work, fetch: ends.fetch };
                let gone_through = steps.start.max(ends.from)..steps.end.max(ends.from);
                // SAFETY: all matrices are large enough; all members run the same steps.
                unsafe {
                    if recompute && !gone_through.is_empty() {
                        self.checkpoint(run.config, schedule, segment, lane.own(schedule.batch), false);
                        pass.segment(lane, steps.clone());
                    }
                    back.steps(lane, gone_through.clone());
                    lane.meet();
                    if !gone_through.is_empty() {
                        back.parameters(lane, gone_through, &ends.targets, ends.emit);
                    }
                }
                lane.meet();
            }
        });
        // SAFETY: as above; the other threads have finished.
        unsafe { Back { pass: &pass(0), work, fetch: ends.fetch }.end(state) };
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

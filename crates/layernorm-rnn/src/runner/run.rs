//! Forward: checks, then layer by layer and direction by direction.

use super::{Cell, Keep, Places, Recorded, Runner, Shared, Training};
use crate::buffer::Matrix;
use crate::config::Config;
use crate::engine::forward::{Pass, Scratch};
use crate::engine::prepared::Preparation;
use crate::engine::tape::{Room, Tape};
use crate::engine::team::Plan;
use crate::error::Error;
use crate::network::{Layout, Network, Output, Sequences, State};
use crate::noise::{Random, Use};
use crate::real::Real;
use crate::schedule::Schedule;
use layernorm::Element;
use layernorm::parts::{MachineIsa, memory};

/// Fails if a tensor of sequences has the wrong length. `letters` names its last dimension.
pub(super) fn check_tensor(
    what: &'static str,
    letters: &str,
    places: Places,
    width: usize,
    found: usize,
) -> Result<(), Error> {
    let Places { layout, steps, batch } = places;
    let expected = steps.checked_mul(batch).and_then(|n| n.checked_mul(width));
    if expected == Some(found) {
        return Ok(());
    }
    let shape = match layout {
        Layout::TimeFirst => format!("[T, B, {letters}] = [{steps}, {batch}, {width}]"),
        Layout::BatchFirst => format!("[B, T, {letters}] = [{batch}, {steps}, {width}]"),
    };
    Err(Error::Length { what, shape, expected: expected.unwrap_or(usize::MAX), found })
}

/// What a layer's cells have in common.
#[derive(Clone, Copy)]
pub(super) struct Run<'a, A> {
    pub(super) config: &'a Config,
    pub(super) network: &'a Network<A>,
    pub(super) isa: MachineIsa,
    pub(super) threads: usize,
    pub(super) training: Option<Training>,
}

impl<'a, A: Real> Run<'a, A> {
    pub(super) fn preparation(&self, layer: usize, direction: usize) -> Preparation<'a, A> {
        let noisy = self.training.filter(|_| self.config.noise.drop_connect > 0.0);
        Preparation {
            config: self.config,
            params: self.network.params(),
            layer,
            direction,
            isa: self.isa,
            threads: self.threads,
            seed: noisy.map(|training| training.seed),
        }
    }

    pub(super) fn plan(&self, schedule: &Schedule, layer: usize) -> Plan {
        let config = self.config;
        Plan::new(self.threads, schedule, config.layer_input(layer), config.output(), config.gate_width())
    }

    /// Returns the number of rows of a tape.
    fn room(&self, schedule: &Schedule) -> Room {
        let (all, segment) = (schedule.rows(), schedule.segment_rows());
        match self.training.map(|training| training.keep) {
            None => Room { inputs: segment, products: segment, steps: schedule.batch },
            Some(Keep::All) => Room { inputs: all, products: all, steps: all },
            Some(Keep::Recompute) => Room { inputs: all, products: segment, steps: segment },
        }
    }

    /// Returns whether there is recurrent dropout.
    fn masked(&self) -> bool {
        self.training.is_some() && self.config.noise.recurrent_dropout > 0.0
    }

    /// Returns the bytes of a cell's tape.
    fn tape_need(&self, schedule: &Schedule, layer: usize) -> usize {
        Tape::<A>::need(self.config, layer, self.room(schedule), self.masked())
    }

    /// Returns the dropout on the input of an inner layer, if any.
    pub(super) fn dropout(&self, layer: usize) -> Option<(Random, f64)> {
        let rate = self.config.noise.dropout;
        let training = self.training.filter(|_| layer > 0 && rate > 0.0)?;
        Some((Random::new(training.seed, Use::Dropout, layer, 0), rate))
    }
}

/// Multiplies a row by the dropout mask.
///
/// # Safety
/// `row` is valid for `width` numbers.
pub(super) unsafe fn drop_out<A: Real>(dropout: Option<(Random, f64)>, first: usize, row: *mut A, width: usize) {
    if let Some((random, rate)) = dropout {
        let scale = A::from_f64(1.0 / (1.0 - rate));
        for k in 0..width {
            // SAFETY: guaranteed by the caller.
            unsafe { *row.add(k) = if random.hits(first + k, rate) { A::ZERO } else { *row.add(k) * scale } };
        }
    }
}

impl<A: Real> Runner<A> {
    /// Allocates the results of a forward pass.
    pub(super) fn room<T: Element<Acc = A>>(
        &self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
    ) -> Result<Output<T>, Error> {
        let config = network.config();
        check_tensor("input", "I", Places::of(sequences), config.input, sequences.data.len())?;
        let width = config.output() * config.directions();
        let count = sequences.steps.checked_mul(sequences.batch).and_then(|n| n.checked_mul(width));
        let y = memory::zeros(count.unwrap_or(usize::MAX))?;
        Ok(Output { y, state: State { h: Vec::new(), c: Vec::new() } })
    }

    pub(super) fn run<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        training: Option<Training>,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        let config = network.config();
        network.check()?;
        let places = Places::of(sequences);
        check_tensor("input", "I", places, config.input, sequences.data.len())?;
        check_tensor("output", "D·P", places, config.output() * config.directions(), y.len())?;
        if let Some(initial) = initial {
            initial.check(config, sequences.batch, ["initial h", "initial c"])?;
        }
        let isa = self.context.machine_isa()?;
        self.recorded = None;
        self.schedule.set(sequences)?;
        let run = Run { config, network, isa, threads: self.context.threads(), training };
        if self.schedule.rows() > 0 {
            self.ready(&run)?;
        }
        last.resize(config, sequences.batch)?;
        if self.schedule.rows() == 0 {
            // Without steps, the state does not change.
            if let Some(initial) = initial {
                last.clone_from(initial);
            }
        } else {
            self.layers(&run, sequences, initial, y, last);
        }
        if let Some(training) = training {
            let (config, version, layout) = (*config, network.params().version(), sequences.layout);
            self.recorded = Some(Recorded { config, version, training, isa, layout, steps: sequences.steps });
        }
        Ok(())
    }

    /// Reserves all memory of a forward pass and packs the weights: from here on nothing can fail.
    fn ready(&mut self, run: &Run<'_, A>) -> Result<(), Error> {
        let (config, rows) = (run.config, self.schedule.rows());
        let (directions, width) = (config.directions(), config.output() * config.directions());
        let inner = Matrix::<A>::need(rows, width).saturating_mul(config.layers - 1);
        let tapes = (0..config.layers).map(|layer| run.tape_need(&self.schedule, layer).saturating_mul(directions));
        let need = tapes.fold(inner, usize::saturating_add);
        let held = self.cells.iter().map(|cell| cell.tape.bytes()).chain(self.inner.iter().map(Matrix::bytes)).sum();
        if need > held {
            self.inner.clear();
            self.cells.iter_mut().for_each(|cell| cell.tape = Tape::new());
            memory::room_for(need)?;
        }
        memory::more(&mut self.cells, config.layers * directions, Cell::new)?;
        memory::more(&mut self.inner, config.layers - 1, Matrix::new)?;
        for matrix in &mut self.inner[..config.layers - 1] {
            matrix.reshape(rows, width)?;
        }
        for layer in 0..config.layers {
            for direction in 0..directions {
                self.cells[layer * directions + direction].ready(run, &self.schedule, layer, direction)?;
            }
        }
        Ok(())
    }

    fn layers<T: Element<Acc = A>>(
        &mut self,
        run: &Run<'_, A>,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        y: &mut [T],
        last: &mut State<A>,
    ) {
        let config = run.config;
        let (directions, output) = (config.directions(), config.output());
        let (places, data, to) = (Places::of(sequences), Shared(sequences.data.as_ptr()), Shared(y.as_mut_ptr()));
        for layer in 0..config.layers {
            for direction in 0..directions {
                let number = layer * directions + direction;
                let cell = &mut self.cells[number];
                cell.load(config, &self.schedule, initial, number);
                let (schedule, width, dropout) = (&self.schedule, config.layer_input(layer), run.dropout(layer));
                let below = layer.checked_sub(1).map(|below| &self.inner[below]);
                let fetch = |t: usize, j: usize, to: *mut A| {
                    let b = schedule.order[j];
                    // SAFETY: the tensors contain this time and sequence, and `to` has room for a row.
                    unsafe {
                        match below {
                            None => {
                                let from = data.get().add(places.at(t, b) * width);
                                (0..width).for_each(|k| *to.add(k) = (*from.add(k)).widen());
                            }
                            Some(below) => {
                                std::ptr::copy_nonoverlapping(below.row(schedule.base[t] + j), to, width);
                                drop_out(dropout, (t * schedule.batch + b) * width, to, width);
                            }
                        }
                    }
                };
                let above = if layer + 1 < config.layers { Some(&self.inner[layer]) } else { None };
                let emit = |t: usize, j: usize, h: *const A| {
                    // SAFETY: the tensors contain this time and sequence, which only this thread writes now.
                    unsafe {
                        match above {
                            Some(above) => {
                                let to = above.row(schedule.base[t] + j).add(direction * output);
                                std::ptr::copy_nonoverlapping(h, to, output);
                            }
                            None => {
                                let place = places.at(t, schedule.order[j]) * directions + direction;
                                let to = to.get().add(place * output);
                                (0..output).for_each(|k| *to.add(k) = T::narrow(*h.add(k)));
                            }
                        }
                    }
                };
                cell.forward(run, schedule, (layer, direction), &fetch, &emit);
                cell.unload(config, schedule, last, number);
            }
        }
    }
}

impl<A: Real> Cell<A> {
    /// Packs the weights and reserves the memory.
    fn ready(&mut self, run: &Run<'_, A>, schedule: &Schedule, layer: usize, direction: usize) -> Result<(), Error> {
        let config = run.config;
        self.prepared.set(&run.preparation(layer, direction))?;
        self.tape.reshape(config, layer, run.room(schedule), run.masked())?;
        self.state.reshape(config, schedule.batch)?;
        let checkpoints = if run.training.is_some_and(|training| training.keep == Keep::Recompute) {
            schedule.segments.len() * schedule.batch
        } else {
            0
        };
        self.checkpoints.reshape(config, checkpoints)?;
        let members = run.plan(schedule, layer).members;
        memory::more(&mut self.scratch, members, Scratch::new)?;
        for scratch in &mut self.scratch {
            scratch.reshape(config)?;
        }
        self.mask.reshape(if run.masked() { schedule.batch } else { 0 }, config.output())?;
        if let Some(training) = run.training.filter(|_| run.masked()) {
            let (rate, output) = (config.noise.recurrent_dropout, config.output());
            let random = Random::new(training.seed, Use::Recurrent, layer, direction);
            for j in 0..schedule.batch {
                for (k, factor) in self.mask.values_mut(j).iter_mut().enumerate() {
                    let hit = random.hits(schedule.order[j] * output + k, rate);
                    *factor = if hit { A::ZERO } else { A::from_f64(1.0 / (1.0 - rate)) };
                }
            }
        }
        Ok(())
    }

    /// Loads the initial state, in the order of the schedule.
    fn load(&mut self, config: &Config, schedule: &Schedule, initial: Option<&State<A>>, number: usize) {
        self.state.load(config, schedule, initial, number);
    }

    /// Stores the final state, in the order of the batch.
    fn unload(&mut self, config: &Config, schedule: &Schedule, last: &mut State<A>, number: usize) {
        self.state.unload(config, schedule, last, number);
    }

    fn forward(
        &self,
        run: &Run<'_, A>,
        schedule: &Schedule,
        cell: (usize, usize),
        fetch: &(dyn Fn(usize, usize, *mut A) + Sync),
        emit: &(dyn Fn(usize, usize, *const A) + Sync),
    ) {
        let keep = run.training.map(|training| training.keep);
        run.plan(schedule, cell.0).run(schedule, &|lane| {
            for (segment, steps) in schedule.segments.iter().enumerate() {
                let first_row = if keep == Some(Keep::All) { 0 } else { schedule.base[steps.start] };
                let pass = self.pass(run, schedule, cell, first_row, fetch, emit);
                // SAFETY: `ready` has made all matrices large enough; all members run all segments and write only
                // their own rows.
                unsafe {
                    if keep == Some(Keep::Recompute) {
                        self.checkpoint(run.config, schedule, segment, lane.own(schedule.batch), true);
                    }
                    pass.segment(lane, steps.clone());
                }
            }
        });
    }

    /// Returns one cell's pass, whose tape starts at `first_row`.
    pub(super) fn pass<'a>(
        &'a self,
        run: &Run<'a, A>,
        schedule: &'a Schedule,
        cell: (usize, usize),
        first_row: usize,
        fetch: &'a (dyn Fn(usize, usize, *mut A) + Sync),
        emit: &'a (dyn Fn(usize, usize, *const A) + Sync),
    ) -> Pass<'a, A> {
        Pass {
            config: run.config,
            prepared: &self.prepared,
            schedule,
            isa: run.isa,
            cell,
            reverse: run.config.is_reverse(cell.1),
            seed: run.training.map(|training| training.seed),
            recorded: run.training.is_some(),
            first_row,
            first_input: if run.training.is_some() { 0 } else { first_row },
            tape: &self.tape,
            state: &self.state,
            mask: (self.mask.rows > 0).then_some(&self.mask),
            scratch: &self.scratch,
            fetch,
            emit,
        }
    }

    /// Saves the state before a segment, or restores it.
    ///
    /// # Safety
    /// The checkpoints have room for the segment, and no other thread uses the rows `own` now.
    pub(super) unsafe fn checkpoint(
        &self,
        config: &Config,
        schedule: &Schedule,
        segment: usize,
        own: std::ops::Range<usize>,
        store: bool,
    ) {
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

//! Forward: checks, then layer by layer and direction by direction.

use super::call::{CallSettings, SequenceShape};
use super::cell_memory::CellMemory;
use super::{Recorded, Runner, Training};
use crate::buffer::Matrix;
use crate::error::Error;
use crate::network::{Network, Output, Sequences, State};
use crate::real::Real;
use crate::time_loop::CellId;
use crate::time_loop::forward::ForwardIo;
use crate::time_loop::tape::Tape;
use layernorm::Element;
use layernorm::parts::{Shared, memory};

impl<A: Real> Runner<A> {
    /// Allocates the results of a forward pass.
    pub(super) fn allocate_output<T: Element<Acc = A>>(
        &self,
        network: &Network<A>,
        sequences: &Sequences<'_, T>,
    ) -> Result<Output<T>, Error> {
        let config = network.config();
        SequenceShape::of(sequences).check("input", "I", config.input, sequences.data.len())?;
        let width = config.output() * config.directions();
        let count = sequences.steps.checked_mul(sequences.batch).and_then(|n| n.checked_mul(width));
        let y = memory::zeros(count.unwrap_or(usize::MAX))?;
        Ok(Output { y, state: State { h: Vec::new(), c: Vec::new() } })
    }

    /// Checks the arguments, prepares and runs a forward pass, and records it in training.
    pub(super) fn run_forward<T: Element<Acc = A>>(
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
        let shape = SequenceShape::of(sequences);
        shape.check("input", "I", config.input, sequences.data.len())?;
        shape.check("output", "D·P", config.output() * config.directions(), y.len())?;
        if let Some(initial) = initial {
            initial.check(config, sequences.batch, ["initial h", "initial c"])?;
        }
        let isa = self.context.machine_isa()?;
        self.recorded = None;
        self.schedule.set(sequences)?;
        let call = CallSettings { config, network, isa, threads: self.context.threads(), training };
        if self.schedule.rows() > 0 {
            self.prepare_forward(&call)?;
        }
        last.resize(config, sequences.batch)?;
        if self.schedule.rows() == 0 {
            // Without steps, the state does not change.
            if let Some(initial) = initial {
                last.clone_from(initial);
            }
        } else {
            // SAFETY: y is exclusively borrowed, and members write to separate rows.
            let y = unsafe { Shared::new(y.as_mut_ptr()) };
            for cell in call.cells() {
                self.forward_cell(&call, cell, sequences, initial, y);
                let number = call.number(cell);
                self.cells[number].state.unload(config, &self.schedule, last, number);
            }
        }
        if let Some(training) = training {
            let (config, version) = (*config, network.params().version());
            self.recorded = Some(Recorded { config, version, training, isa, shape });
        }
        Ok(())
    }

    /// Reserves all memory of a forward pass and packs the weights: from here on nothing can fail.
    fn prepare_forward(&mut self, call: &CallSettings<'_, A>) -> Result<(), Error> {
        let (config, rows) = (call.config, self.schedule.rows());
        let (directions, width) = (config.directions(), config.output() * config.directions());
        let inner = Matrix::<A>::need(rows, width).saturating_mul(config.layers - 1);
        let tapes = (0..config.layers).map(|layer| call.tape_need(&self.schedule, layer).saturating_mul(directions));
        let need = tapes.fold(inner, usize::saturating_add);
        let held = self.cells.iter().map(|cell| cell.tape.bytes()).chain(self.inner.iter().map(Matrix::bytes)).sum();
        if need > held {
            self.inner.clear();
            self.cells.iter_mut().for_each(|cell| cell.tape = Tape::new());
            memory::room_for(need)?;
        }
        memory::more(&mut self.cells, config.layers * directions, CellMemory::new)?;
        memory::more(&mut self.inner, config.layers - 1, Matrix::new)?;
        for matrix in &mut self.inner[..config.layers - 1] {
            matrix.reshape(rows, width)?;
        }
        for cell in call.cells() {
            self.cells[call.number(cell)].prepare(call, &self.schedule, cell)?;
        }
        Ok(())
    }

    /// Runs one cell: from the sequences or the layer below, to the layer above or to `y`.
    fn forward_cell<T: Element<Acc = A>>(
        &mut self,
        call: &CallSettings<'_, A>,
        cell: CellId,
        sequences: &Sequences<'_, T>,
        initial: Option<&State<A>>,
        y: Shared<*mut T>,
    ) {
        let CellId { layer, direction } = cell;
        let (config, schedule, number) = (call.config, &self.schedule, call.number(cell));
        let (directions, output, width) = (config.directions(), config.output(), config.layer_input(layer));
        let (shape, data, dropout) = (SequenceShape::of(sequences), sequences.data, call.dropout(layer));
        self.cells[number].state.load(config, schedule, initial, number);
        let below = layer.checked_sub(1).map(|below| &self.inner[below]);
        let fetch = |t: usize, j: usize, to: *mut A| {
            let b = schedule.order[j];
            // SAFETY: the tensors contain this time and sequence, and `to` has room for a row.
            unsafe {
                match below {
                    None => {
                        let from = data.as_ptr().add(shape.index(t, b) * width);
                        (0..width).for_each(|k| *to.add(k) = (*from.add(k)).widen());
                    }
                    Some(below) => {
                        std::ptr::copy_nonoverlapping(below.row(schedule.base[t] + j), to, width);
                        if let Some(dropout) = dropout {
                            dropout.apply((t * schedule.batch + b) * width, to, width);
                        }
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
                        let place = shape.index(t, schedule.order[j]) * directions + direction;
                        let to = y.get().add(place * output);
                        (0..output).for_each(|k| *to.add(k) = T::narrow(*h.add(k)));
                    }
                }
            }
        };
        self.cells[number].forward(call, schedule, cell, ForwardIo { fetch: &fetch, emit: &emit });
    }
}

//! Forward: checks, then layer by layer and direction by direction.

use super::call::{CallSettings, CheckedSequences, Dropout, SequenceShape};
use super::cell_memory::CellMemory;
use super::{Recorded, Runner, Training};
use crate::buffer::Matrix;
use crate::config::Config;
use crate::error::Error;
use crate::network::{Network, Output, State};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::time_loop::CellId;
use crate::time_loop::forward::ForwardIo;
use crate::time_loop::tape::Tape;
use layernorm::Element;
use layernorm::parts::{Shared, memory};

/// Allocates the results of a forward pass over sequences of this shape.
pub(super) fn allocate_output<T: Element>(config: &Config, shape: SequenceShape) -> Result<Output<T>, Error> {
    let width = config.output() * config.directions();
    let count = shape.steps.checked_mul(shape.batch).and_then(|n| n.checked_mul(width));
    let y = memory::zeros(count.unwrap_or(usize::MAX))?;
    Ok(Output { y, state: State { h: Vec::new(), c: Vec::new() } })
}

impl<A: Real> Runner<A> {
    /// Checks the other arguments, prepares and runs a forward pass, and records it in training.
    pub(super) fn run_forward<T: Element<Acc = A>>(
        &mut self,
        network: &Network<A>,
        input: CheckedSequences<'_, T>,
        initial: Option<&State<A>>,
        training: Option<Training>,
        y: &mut [T],
        last: &mut State<A>,
    ) -> Result<(), Error> {
        let (config, CheckedSequences { sequences, shape }) = (network.config(), input);
        network.check()?;
        shape.check("output", "D·P", config.output() * config.directions(), y.len())?;
        if let Some(initial) = initial {
            initial.check(config, shape.batch, ["initial h", "initial c"])?;
        }
        let isa = self.context.machine_isa()?;
        self.recorded = None;
        self.schedule.set(sequences)?;
        let call = CallSettings { config, network, isa, threads: self.context.threads(), training };
        if self.schedule.rows() > 0 {
            self.prepare_forward(&call)?;
        }
        last.resize(config, shape.batch)?;
        if self.schedule.rows() == 0 {
            // Without steps, the state does not change.
            if let Some(initial) = initial {
                last.clone_from(initial);
            }
        } else {
            // SAFETY: y is exclusively borrowed, and members write to separate rows.
            let y = unsafe { Shared::new(y.as_mut_ptr()) };
            for cell in call.cells() {
                self.forward_cell(&call, cell, input, initial, y);
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
        input: CheckedSequences<'_, T>,
        initial: Option<&State<A>>,
        y: Shared<*mut T>,
    ) {
        let CellId { layer, direction } = cell;
        let (config, schedule, number) = (call.config, &self.schedule, call.number(cell));
        self.cells[number].state.load(config, schedule, initial, number);
        let io = ForwardTensors {
            schedule,
            shape: input.shape,
            x: input.sequences.data,
            below: layer.checked_sub(1).map(|below| &self.inner[below]),
            width: config.layer_input(layer),
            dropout: call.dropout(layer),
            y,
            above: (layer + 1 < config.layers).then(|| &self.inner[layer]),
            output: config.output(),
            directions: config.directions(),
            direction,
        };
        self.cells[number].forward(call, schedule, cell, &io);
    }
}

/// The tensors that one cell's inputs come from and that its outputs go to.
struct ForwardTensors<'a, T, A> {
    schedule: &'a Schedule,
    shape: SequenceShape,
    /// The network's input.
    x: &'a [T],
    /// The output of the layer below, if there is one.
    below: Option<&'a Matrix<A>>,
    /// Width of the cell's input.
    width: usize,
    /// Dropout on the cell's input.
    dropout: Option<Dropout>,
    /// The network's output.
    y: Shared<*mut T>,
    /// The input of the layer above, if there is one.
    above: Option<&'a Matrix<A>>,
    /// Width of the cell's output.
    output: usize,
    directions: usize,
    direction: usize,
}

impl<T: Element<Acc = A>, A: Real> ForwardIo<A> for ForwardTensors<'_, T, A> {
    unsafe fn fetch(&self, t: usize, j: usize, to: *mut A) {
        let (schedule, width, b) = (self.schedule, self.width, self.schedule.order[j]);
        // SAFETY: the tensors contain this time and sequence, and the caller guarantees that `to` has room for a row.
        unsafe {
            match self.below {
                None => {
                    let from = self.x.as_ptr().add(self.shape.index(t, b) * width);
                    (0..width).for_each(|k| *to.add(k) = (*from.add(k)).widen());
                }
                Some(below) => {
                    std::ptr::copy_nonoverlapping(below.row(schedule.base[t] + j), to, width);
                    if let Some(dropout) = self.dropout {
                        dropout.apply((t * schedule.batch + b) * width, to, width);
                    }
                }
            }
        }
    }

    unsafe fn emit(&self, t: usize, j: usize, h: *const A) {
        let output = self.output;
        // SAFETY: the tensors contain this time and sequence, which the caller guarantees only this thread writes now.
        unsafe {
            match self.above {
                Some(above) => {
                    let to = above.row(self.schedule.base[t] + j).add(self.direction * output);
                    std::ptr::copy_nonoverlapping(h, to, output);
                }
                None => {
                    let place = self.shape.index(t, self.schedule.order[j]) * self.directions + self.direction;
                    let to = self.y.get().add(place * output);
                    (0..output).for_each(|k| *to.add(k) = T::narrow(*h.add(k)));
                }
            }
        }
    }
}

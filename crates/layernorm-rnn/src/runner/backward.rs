//! Backward: checks, then all layers from the last to the first.

use super::call::{CallSettings, Dropout, SequenceShape};
use super::cell_memory::CellGradients;
use super::{Recorded, Runner};
use crate::buffer::Matrix;
use crate::config::Direction;
use crate::error::Error;
use crate::network::{Gradients, Network, State};
use crate::params::{Params, Slot};
use crate::real::Real;
use crate::schedule::Schedule;
use crate::time_loop::CellId;
use crate::time_loop::backward::BackwardIo;
use crate::time_loop::cell_params::DropConnect;
use crate::time_loop::gradients::GradientTargets;
use layernorm::Element;
use layernorm::parts::{Shared, memory};

/// Arguments of a backward pass.
#[derive(Clone, Copy)]
pub(super) struct BackwardCall<'a, T, A> {
    pub(super) network: &'a Network<A>,
    /// The forward pass whose gradients are computed.
    pub(super) recorded: Recorded,
    /// Gradient of the output.
    pub(super) dy: &'a [T],
    /// Gradient of the final state.
    pub(super) dlast: Option<&'a State<A>>,
    /// First step that is covered.
    pub(super) from: usize,
}

impl<T: Element<Acc = A>, A: Real> BackwardCall<'_, T, A> {
    pub(super) fn check(&self, gradients: &Gradients<T>) -> Result<(), Error> {
        let (config, shape, from) = (self.network.config(), self.recorded.shape, self.from);
        let width = config.output() * config.directions();
        shape.check("gradient of the output", "D·P", width, self.dy.len())?;
        if !gradients.input.is_empty() {
            shape.check("gradient of the input", "I", config.input, gradients.input.len())?;
        }
        if let Some(dlast) = self.dlast {
            dlast.check(config, shape.batch, ["gradient of the final h", "gradient of the final c"])?;
        }
        if gradients.params.entries() != self.network.params().entries() {
            return Err(Error::OtherNetwork);
        }
        if from > 0 && config.direction != Direction::Forward {
            return Err(Error::Unsupported {
                what: format!(
                    "truncated backward: expected a network that runs forward in time, found one that does not, with from = {from}"
                ),
            });
        }
        if from > shape.steps {
            return Err(Error::Size { what: "from", expected: "a step of the sequences", found: from });
        }
        Ok(())
    }
}

impl<A: Real> Runner<A> {
    /// Runs a backward pass whose arguments have been checked.
    pub(super) fn run_backward<T: Element<Acc = A>>(
        &mut self,
        args: &BackwardCall<'_, T, A>,
        gradients: &mut Gradients<T>,
    ) -> Result<(), Error> {
        let (network, recorded) = (args.network, &args.recorded);
        let (config, isa, threads) = (network.config(), recorded.isa, self.context.threads());
        let call = CallSettings { config, network, isa, threads, training: Some(recorded.training) };
        self.prepare_backward(&call, recorded.shape.batch, !gradients.input.is_empty())?;
        gradients.state.resize(config, recorded.shape.batch)?;
        for layer in (0..config.layers).rev() {
            if layer > 0 || !gradients.input.is_empty() {
                // Gradients of this layer's input are summed over its directions here, in time order.
                let below = &mut self.dinner[layer % 2];
                below.reshape(self.schedule.rows(), config.layer_input(layer))?;
                below.clear();
            }
            for direction in 0..config.directions() {
                self.backward_cell(&call, CellId { layer, direction }, args, gradients)?;
            }
        }
        match std::mem::take(self.segment_gradients.missing.get_mut()) {
            0 => {}
            bytes => return Err(Error::OutOfMemory { bytes }),
        }
        self.write_input_gradients(recorded.shape, config.input, args.from, gradients);
        Ok(())
    }

    /// Reserves all memory of a backward pass and packs the weights: from here on nothing can fail, except for
    /// allocations of rule 6.
    fn prepare_backward(&mut self, call: &CallSettings<'_, A>, batch: usize, input: bool) -> Result<(), Error> {
        let (config, schedule) = (call.config, &self.schedule);
        *self.segment_gradients.missing.get_mut() = 0;
        for layer in (0..config.layers).rev() {
            if layer > 0 || input {
                self.dinner[layer % 2].reshape(schedule.rows(), config.layer_input(layer))?;
            }
            self.segment_gradients.reshape(config, layer, schedule.segment_rows(), batch)?;
            for direction in 0..config.directions() {
                let cell = CellId { layer, direction };
                self.cells[call.number(cell)].params.prepare_backward(&call.params(cell))?;
            }
        }
        if config.noise.drop_connect > 0.0 {
            memory::refill(&mut self.masked, config.gate_width() * config.output(), A::ZERO)?;
        }
        self.dstate.reshape(config, batch)
    }

    /// Runs one cell: from the gradient of its output to those of its parameters, its input and its initial state.
    fn backward_cell<T: Element<Acc = A>>(
        &mut self,
        call: &CallSettings<'_, A>,
        cell: CellId,
        args: &BackwardCall<'_, T, A>,
        gradients: &mut Gradients<T>,
    ) -> Result<(), Error> {
        let CellId { layer, direction } = cell;
        let (config, schedule, number) = (call.config, &self.schedule, call.number(cell));
        let output = config.output();
        let io = BackwardTensors {
            schedule,
            shape: args.recorded.shape,
            dy: args.dy,
            above: (layer + 1 < config.layers).then(|| &self.dinner[(layer + 1) % 2]),
            output,
            directions: config.directions(),
            direction,
            below: &self.dinner[layer % 2],
            width: config.layer_input(layer),
            dropout: call.dropout(layer),
        };
        let mut targets = targets(&mut gradients.params, cell);
        self.masked.clear();
        if config.noise.drop_connect > 0.0 {
            memory::refill(&mut self.masked, config.gate_width() * output, A::ZERO)?;
            targets.set(Slot::RecurrentWeight, self.masked.as_mut_ptr());
        }
        // SAFETY: the gradients and `masked` are exclusively borrowed, and members write to separate columns.
        let targets = unsafe { Shared::new(targets) };
        let inputs = layer > 0 || !gradients.input.is_empty();
        let wanted = CellGradients { io: &io, inputs, targets, from: args.from };
        self.segment_gradients.reshape(config, layer, schedule.segment_rows(), schedule.batch)?;
        self.dstate.reshape(config, schedule.batch)?;
        self.dstate.load(config, schedule, args.dlast, number);
        self.cells[number].backward(call, schedule, cell, &self.segment_gradients, &wanted, &self.dstate);
        if args.from == 0 {
            self.dstate.unload(config, schedule, &mut gradients.state, number);
        }
        unmask(call, &self.masked, &mut gradients.params, cell);
        Ok(())
    }

    /// Writes the gradients of the inputs, if requested, at valid steps from `from` on.
    fn write_input_gradients<T: Element<Acc = A>>(
        &self,
        shape: SequenceShape,
        width: usize,
        from: usize,
        gradients: &mut Gradients<T>,
    ) {
        if gradients.input.is_empty() {
            return;
        }
        for s in from..self.schedule.steps() {
            for j in 0..self.schedule.active[s] {
                let to = shape.index(s, self.schedule.order[j]) * width;
                let row = self.dinner[0].row(self.schedule.base[s] + j);
                // SAFETY: the matrix has this row.
                let row = unsafe { std::slice::from_raw_parts(row, width) };
                gradients.input[to..to + width].iter_mut().zip(row).for_each(|(to, &dx)| *to = T::narrow(dx));
            }
        }
    }
}

/// The tensors that the gradients of one cell's outputs come from and that those of its inputs are added to.
struct BackwardTensors<'a, T, A> {
    schedule: &'a Schedule,
    shape: SequenceShape,
    /// Gradient of the network's output.
    dy: &'a [T],
    /// Gradient of the input of the layer above, if there is one.
    above: Option<&'a Matrix<A>>,
    /// Width of the cell's output.
    output: usize,
    directions: usize,
    direction: usize,
    /// Gradient of the cell's input, summed over the directions.
    below: &'a Matrix<A>,
    /// Width of the cell's input.
    width: usize,
    /// Dropout on the cell's input.
    dropout: Option<Dropout>,
}

impl<T: Element<Acc = A>, A: Real> BackwardIo<A> for BackwardTensors<'_, T, A> {
    unsafe fn fetch(&self, t: usize, j: usize, to: *mut A) {
        let output = self.output;
        // SAFETY: the tensors contain this time and sequence, and the caller guarantees that `to` is a row.
        unsafe {
            match self.above {
                Some(above) => {
                    let from = above.row(self.schedule.base[t] + j).add(self.direction * output);
                    (0..output).for_each(|k| *to.add(k) = *to.add(k) + *from.add(k));
                }
                None => {
                    let place = self.shape.index(t, self.schedule.order[j]) * self.directions + self.direction;
                    let from = self.dy.as_ptr().add(place * output);
                    (0..output).for_each(|k| *to.add(k) = *to.add(k) + (*from.add(k)).widen());
                }
            }
        }
    }

    unsafe fn emit(&self, t: usize, j: usize, dx: *mut A) {
        let (schedule, width) = (self.schedule, self.width);
        // SAFETY: the matrix contains this time and sequence, and the caller guarantees that only this thread uses
        // that row and `dx` now.
        unsafe {
            if let Some(dropout) = self.dropout {
                dropout.apply((t * schedule.batch + schedule.order[j]) * width, dx, width);
            }
            let to = self.below.row(schedule.base[t] + j);
            (0..width).for_each(|k| *to.add(k) = *to.add(k) + *dx.add(k));
        }
    }
}

/// Returns the destinations of the gradients of a cell's parameters.
fn targets<A: Real>(params: &mut Params<A>, cell: CellId) -> GradientTargets<A> {
    let start = params.values_mut().as_mut_ptr();
    let slots = Slot::ALL.map(|slot| match params.find(cell.layer, cell.direction, slot) {
        Some(entry) => start.wrapping_add(entry.range.start),
        None => std::ptr::null_mut(),
    });
    GradientTargets { slots }
}

/// Applies DropConnect's mask to the gradient of U and adds it: dropped weights get no gradient.
fn unmask<A: Real>(call: &CallSettings<'_, A>, masked: &[A], params: &mut Params<A>, cell: CellId) {
    let Some(seed) = call.params(cell).seed else { return };
    let mask = DropConnect::new(call.config, seed, cell);
    if let Some(du) = params.get_mut(cell.layer, cell.direction, Slot::RecurrentWeight) {
        let masked = masked.iter().enumerate().map(|(i, &d)| d * mask.factor::<A>(i));
        du.iter_mut().zip(masked).for_each(|(du, d)| *du = *du + d);
    }
}

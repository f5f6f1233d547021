//! The backward pass: the time loop from the last step to the first, then the products for dx, dW and dU, and the sums
//! for gains and biases.

use super::kernels::{BackwardArgs, BackwardCall, BackwardTape, FinishArgs, GemmArgs};
use super::operands::RunBack;
use super::plan::{BackFunctions, Plan, aligned};
use crate::error::Error;
use crate::launch::{Launch, Stream};
use layernorm_rnn::Slot;

impl Plan {
    /// Computes the gradients of a forward pass in training. Fails with [`Error::GaveUp`] as [`Plan::forward`] does.
    ///
    /// # Safety
    /// As for [`Plan::forward`]; the tape must be as that pass left it.
    pub unsafe fn backward(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        self.device.bind()?;
        self.device.check()?;
        let back = self.functions.back.ok_or_else(|| Error::Operand {
            what: "plan",
            why: "expected one for training, found one without a tape".into(),
        })?;
        self.check_backward(run)?;
        let work = |at: usize| run.workspace + at as u64;
        // SAFETY: guaranteed by the caller and by the plan's memory layout.
        unsafe {
            self.begin(run.workspace, stream)?;
            if let Some(cluster) = &self.cluster {
                self.pack_cluster(cluster, stream, &run.params, work(self.backward_work.matrix), true)?;
                self.cluster_backward(cluster, stream, run, &back.backward)?;
            } else {
                self.pack(stream, &run.params, work(self.backward_work.matrix), true)?;
                self.empty(work(self.backward_work.gates), work(self.backward_work.messages_end), stream)?;
                self.backward_loop(stream, run, &back)?;
            }
            self.input_gradient(stream, run, &back)?;
            self.weight_gradients(stream, run, &back)?;
            self.vector_gradients(stream, run, &back)
        }
    }

    fn check_backward(&self, run: &RunBack) -> Result<(), Error> {
        self.check_params(&run.params)?;
        aligned("x", run.x)?;
        aligned("workspace", run.workspace)?;
        aligned("tape", run.tape)?;
        if run.dy == 0 || run.dy_pitch < self.layer.hidden {
            let why = format!("expected rows of {} elements or more, found {}", self.layer.hidden, run.dy_pitch);
            return Err(Error::Operand { what: "dy", why });
        }
        if self.shape.lengths != (run.lengths != 0) {
            let why = format!("the plan's shape has {}", if self.shape.lengths { "lengths" } else { "no lengths" });
            return Err(Error::Operand { what: "lengths", why });
        }
        Ok(())
    }

    /// The tape as a backward loop reads it.
    pub(super) fn backward_tape(&self, tape: u64) -> BackwardTape {
        let kept = |at: usize| tape + at as u64;
        BackwardTape {
            zx: kept(self.tape.zx),
            zh: kept(self.tape.zh),
            rh: kept(self.tape.rh),
            rx: kept(self.tape.rx),
            state: kept(self.tape.state),
            cell: kept(self.tape.cell),
        }
    }

    /// What a backward loop reads and writes of the caller's operands, and the sums for the parameters.
    pub(super) fn backward_call(&self, run: &RunBack) -> BackwardCall {
        let (row_time, row_batch) = self.strides();
        BackwardCall {
            dy: run.dy,
            y_time: (row_time * run.dy_pitch) as i64,
            y_batch: (row_batch * run.dy_pitch) as i64,
            dh_last: run.dlast.h,
            dc_last: run.dlast.c,
            dh0: run.gradients.first.h,
            dc0: run.gradients.first.c,
            sums: run.workspace + self.backward_work.sums as u64,
        }
    }

    unsafe fn backward_loop(&self, stream: Stream, run: &RunBack, back: &BackFunctions) -> Result<(), Error> {
        let work = |at: usize| run.workspace + at as u64;
        for (round, launch) in self.rounds(run.lengths, work(0)) {
            let args = BackwardArgs {
                ut: work(self.backward_work.matrix),
                tape: self.backward_tape(run.tape),
                dzh: work(self.backward_work.dzh),
                dzx: work(self.backward_work.dzx),
                gates: work(self.backward_work.gates),
                inputs: work(self.backward_work.inputs),
                cells: work(self.backward_work.cells),
                mail: work(self.backward_work.mail),
                consts: run.tape + self.tape.consts as u64,
                call: self.backward_call(run),
                round,
            };
            // SAFETY: guaranteed by the caller.
            unsafe { launch.run(&back.backward, stream, &args)? };
        }
        Ok(())
    }

    /// dx = dzx W.
    unsafe fn input_gradient(&self, stream: Stream, run: &RunBack, back: &BackFunctions) -> Result<(), Error> {
        if run.gradients.x == 0 {
            return Ok(());
        }
        let width = self.geometry.width(&self.cell);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = self.weight(stream, &run.params, run.workspace + self.backward_work.weight as u64)?;
            let args = GemmArgs {
                a: run.workspace + self.backward_work.dzx as u64,
                b: w,
                c: run.gradients.x,
                lda: width as i64,
                ldb: self.sizes.input as i64,
                ldc: self.layer.input as i64,
                m: self.sizes.rows() as i32,
                n: self.layer.input as i32,
                k: width as i32,
                add: i32::from(run.gradients.add_x),
            };
            self.gemm(&back.dx, stream, &args)
        }
    }

    /// dW = Σ dzx xᵀ and dU = Σ dzh hᵀ, over all steps of all sequences.
    unsafe fn weight_gradients(&self, stream: Stream, run: &RunBack, back: &BackFunctions) -> Result<(), Error> {
        let x = if self.sizes.pads_x { run.tape + self.tape.x as u64 } else { run.x };
        let h = run.tape + self.tape.h as u64;
        let params = &run.gradients.params;
        let products = [
            (params.get(Slot::InputWeight), self.backward_work.dzx, x, self.sizes.input, self.layer.input),
            (params.get(Slot::RecurrentWeight), self.backward_work.dzh, h, self.geometry.padded, self.layer.hidden),
        ];
        let (g, width) = (&self.geometry, self.geometry.width(&self.cell));
        // With padding between the gates, each gate is a separate product.
        let (parts, part) =
            if g.padded == g.hidden { (1, self.cell.gates * g.hidden) } else { (self.cell.gates, g.hidden) };
        for (to, gradient, other, pitch, columns) in products.into_iter().filter(|product| product.0 != 0) {
            for gate in 0..parts {
                let from = run.workspace + (gradient + gate * g.padded * self.layer.number.bytes()) as u64;
                let args = GemmArgs {
                    a: from,
                    b: other,
                    c: to + (gate * g.hidden * columns * self.layer.params.bytes()) as u64,
                    lda: width as i64,
                    ldb: pitch as i64,
                    ldc: columns as i64,
                    m: part as i32,
                    n: columns as i32,
                    k: self.sizes.rows() as i32,
                    add: 0,
                };
                // SAFETY: guaranteed by the caller.
                unsafe { self.gemm(&back.dw, stream, &args)? };
            }
        }
        Ok(())
    }

    unsafe fn vector_gradients(&self, stream: Stream, run: &RunBack, back: &BackFunctions) -> Result<(), Error> {
        let g = &self.geometry;
        let args = FinishArgs {
            sums: run.workspace + self.backward_work.sums as u64,
            vectors: run.gradients.params.vectors(),
            batch: self.shape.batch as i32,
            hidden: g.hidden as i32,
            padded: g.padded as i32,
            gates: self.cell.gates as i32,
        };
        let columns = 4 * g.width(&self.cell) + 2 * g.padded;
        // SAFETY: guaranteed by the caller.
        unsafe { Launch::new(columns.div_ceil(128) as u32, 128).run(&back.finish, stream, &args) }
    }
}

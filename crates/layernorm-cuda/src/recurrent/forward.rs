//! The forward pass: W x for all steps, LNx of its rows, then the time loop.

use super::kernels::{
    ConstsArgs, ForwardArgs, ForwardCall, ForwardTape, GemmArgs, InputNormArgs, PackArgs, PadInputArgs, PadWeightArgs,
    StartArgs,
};
use super::operands::{Parameters, Run};
use super::plan::{Plan, aligned};
use crate::error::Error;
use crate::launch::{Launch, Stream};
use layernorm_rnn::{EpsPlace, Slot};

impl Plan {
    /// Runs the layer over a batch of sequences. If an earlier recurrent pass on this device timed out, returns
    /// [`Error::GaveUp`] and launches nothing.
    ///
    /// # Safety
    /// All addresses must be memory of this device with the sizes given in [`Run`], valid until the stream has finished
    /// this call.
    pub unsafe fn forward(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        self.device.bind()?;
        self.device.check()?;
        self.check_forward(run)?;
        let work = |at: usize| run.workspace + at as u64;
        let tape = if self.sizes.training { run.tape } else { work(self.forward_work.tape) };
        // SAFETY: guaranteed by the caller and by the plan's memory layout.
        unsafe {
            self.prepare(stream, run, tape)?;
            self.project(stream, run, tape)?;
            self.begin(run.workspace, stream)?;
            if let Some(cluster) = &self.cluster {
                return self.cluster_forward(cluster, stream, run, tape);
            }
            self.empty(work(self.forward_work.gates), work(self.forward_work.messages_end), stream)?;
            let h = tape + self.tape.h as u64;
            let slot = (self.shape.batch * self.geometry.padded * self.layer.number.bytes()) as u64;
            self.empty(h + slot, h + slot * (self.shape.steps as u64 + 1), stream)?;
            self.forward_loop(stream, run, tape)
        }
    }

    fn check_forward(&self, run: &Run) -> Result<(), Error> {
        self.check_params(&run.params)?;
        aligned("x", run.x)?;
        aligned("workspace", run.workspace)?;
        if self.sizes.training {
            aligned("tape", run.tape)?;
        }
        if !self.sizes.pads_w {
            aligned("W", run.params.get(Slot::InputWeight))?;
        }
        if run.y == 0 || run.y_pitch < self.layer.hidden {
            let why = format!("expected rows of {} elements or more, found {}", self.layer.hidden, run.y_pitch);
            return Err(Error::Operand { what: "y", why });
        }
        if self.shape.lengths != (run.lengths != 0) {
            let why = format!("the plan's shape has {}", if self.shape.lengths { "lengths" } else { "no lengths" });
            return Err(Error::Operand { what: "lengths", why });
        }
        Ok(())
    }

    /// Packs U, combines the biases, and writes h before the first step.
    unsafe fn prepare(&self, stream: Stream, run: &Run, tape: u64) -> Result<(), Error> {
        let (g, f, cell) = (&self.geometry, &self.functions, &self.cell);
        let consts = ConstsArgs {
            vectors: run.params.vectors(),
            out: tape + self.tape.consts as u64,
            hidden: g.hidden as i32,
            padded: g.padded as i32,
            gates: cell.gates as i32,
            // The forget gate of an LSTM, the update gate of a GRU.
            offset_gate: 1,
            offset: cell.offset,
        };
        let start = StartArgs {
            h0: run.first.h,
            h: tape + self.tape.h as u64,
            batch: self.shape.batch as i32,
            hidden: g.hidden as i32,
            padded: g.padded as i32,
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            let packed = run.workspace + self.forward_work.matrix as u64;
            match &self.cluster {
                Some(cluster) => self.pack_cluster(cluster, stream, &run.params, packed, false)?,
                None => self.pack(stream, &run.params, packed, false)?,
            }
            self.over(&f.consts, g.width(cell) + g.padded, stream, &consts)?;
            self.over(&f.start, self.shape.batch * g.padded, stream, &start)
        }
    }

    /// Packs U or Uᵀ in the order of the tensor core fragments.
    pub(super) unsafe fn pack(&self, stream: Stream, params: &Parameters, to: u64, back: bool) -> Result<(), Error> {
        let g = &self.geometry;
        let product = if back { &g.backward } else { &g.forward };
        let args = PackArgs {
            u: params.get(Slot::RecurrentWeight),
            packed: to,
            hidden: g.hidden as i32,
            padded: g.padded as i32,
            gates: self.cell.gates as i32,
            units: g.units as i32,
            group: g.group as i32,
            pairs: product.pairs as i32,
            tiles: product.tiles as i32,
            split: product.split as i32,
            back: i32::from(back),
        };
        let words = g.group * 8 * product.pairs * product.tiles * 256;
        // SAFETY: guaranteed by the caller.
        unsafe { self.over(&self.functions.pack, words, stream, &args) }
    }

    /// W as the products read it, `[G·HP, IP]`: the caller's, or a padded copy.
    pub(super) unsafe fn weight(&self, stream: Stream, params: &Parameters, copy: u64) -> Result<u64, Error> {
        let given = params.get(Slot::InputWeight);
        if !self.sizes.pads_w {
            return Ok(given);
        }
        let (g, gates) = (&self.geometry, self.cell.gates);
        let args = PadWeightArgs {
            w: given,
            out: copy,
            hidden: g.hidden as i32,
            padded: g.padded as i32,
            gates: gates as i32,
            input: self.layer.input as i32,
            input_padded: self.sizes.input as i32,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.over(&self.functions.pad_weight, gates * g.padded * self.sizes.input, stream, &args)? };
        Ok(copy)
    }

    /// Computes zx = W x for all steps, and LNx.
    unsafe fn project(&self, stream: Stream, run: &Run, tape: u64) -> Result<(), Error> {
        let (rows, width) = (self.sizes.rows(), self.geometry.width(&self.cell));
        let (zx, mut x) = (tape + self.tape.zx as u64, run.x);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.sizes.pads_x {
                x = tape + self.tape.x as u64;
                self.pad_input(stream, run, x)?;
            }
            let w = self.weight(stream, &run.params, run.workspace + self.forward_work.weight as u64)?;
            let args = GemmArgs {
                a: x,
                b: w,
                c: zx,
                lda: self.sizes.input as i64,
                ldb: self.sizes.input as i64,
                ldc: width as i64,
                m: rows as i32,
                n: width as i32,
                k: self.sizes.input as i32,
                add: 0,
            };
            self.gemm(&self.functions.project, stream, &args)?;
            if let (Some(function), Some(norm)) = (&self.functions.input_norm, self.cell.input_norm) {
                let args = InputNormArgs {
                    z: zx,
                    r: tape + self.tape.rx as u64,
                    eps: norm.eps as f32 + 0.0,
                    deviation: i32::from(norm.eps_place == EpsPlace::Deviation),
                };
                Launch::new(rows as u32, 256).run(function, stream, &args)?;
            }
        }
        Ok(())
    }

    unsafe fn pad_input(&self, stream: Stream, run: &Run, out: u64) -> Result<(), Error> {
        let (row_time, row_batch) = self.strides();
        let args = PadInputArgs {
            x: run.x,
            x_time: (row_time * self.layer.input) as i64,
            x_batch: (row_batch * self.layer.input) as i64,
            out,
            lengths: run.lengths,
            steps: self.shape.steps as i32,
            batch: self.shape.batch as i32,
            row_time: row_time as i32,
            row_batch: row_batch as i32,
            input: self.layer.input as i32,
            input_padded: self.sizes.input as i32,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.over(&self.functions.pad_input, self.sizes.rows() * self.sizes.input, stream, &args) }
    }

    /// The tape as a forward loop writes it.
    pub(super) fn forward_tape(&self, tape: u64) -> ForwardTape {
        let kept = |at: usize| tape + at as u64;
        ForwardTape {
            zx: kept(self.tape.zx),
            zh: kept(self.tape.zh),
            rh: kept(self.tape.rh),
            state: kept(self.tape.state),
            cell: kept(self.tape.cell),
            h: kept(self.tape.h),
        }
    }

    /// What a forward loop reads and writes of the caller's operands.
    pub(super) fn forward_call(&self, run: &Run) -> ForwardCall {
        let (row_time, row_batch) = self.strides();
        ForwardCall {
            y: run.y,
            y_time: (row_time * run.y_pitch) as i64,
            y_batch: (row_batch * run.y_pitch) as i64,
            h0: run.first.h,
            c0: run.first.c,
            h_last: run.last.h,
            c_last: run.last.c,
        }
    }

    unsafe fn forward_loop(&self, stream: Stream, run: &Run, tape: u64) -> Result<(), Error> {
        let work = |at: usize| run.workspace + at as u64;
        for (round, launch) in self.rounds(run.lengths, work(0)) {
            let args = ForwardArgs {
                u: work(self.forward_work.matrix),
                tape: self.forward_tape(tape),
                gates: work(self.forward_work.gates),
                cells: work(self.forward_work.cells),
                consts: tape + self.tape.consts as u64,
                call: self.forward_call(run),
                round,
            };
            // SAFETY: guaranteed by the caller.
            unsafe { launch.run(&self.functions.forward, stream, &args)? };
        }
        Ok(())
    }
}

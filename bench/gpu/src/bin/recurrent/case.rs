//! One layer with its data, and both ways to run it: on the GPU, and with the CPU engine.

use half::{bf16, f16};
use layernorm::parts::SplitMix64;
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::recurrent::{Gradients, Layer, Number, Order, Parameters, Route, Run, RunBack, Shape, State};
use layernorm_cuda::{Device, Error, Stream};
use layernorm_rnn as rnn;
use layernorm_rnn::{Config, Direction, Layout, Network, Params, Runner, Sequences, Training};

/// A layer and a batch shape to be run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub variant: rnn::Variant,
    pub number: Number,
    pub params: Number,
    pub tf32: bool,
    pub steps: usize,
    pub batch: usize,
    pub input: usize,
    pub hidden: usize,
    pub reverse: bool,
    pub batch_first: bool,
    pub lengths: bool,
    pub state: bool,
}

impl Case {
    pub fn new(
        variant: rnn::Variant,
        number: Number,
        (steps, batch, input, hidden): (usize, usize, usize, usize),
    ) -> Case {
        let (reverse, batch_first, lengths, state) = (false, false, false, false);
        Case {
            variant,
            number,
            params: Number::F32,
            tf32: false,
            steps,
            batch,
            input,
            hidden,
            reverse,
            batch_first,
            lengths,
            state,
        }
    }

    pub fn layer(&self) -> Layer {
        let (variant, input, hidden) = (self.variant, self.input, self.hidden);
        Layer {
            variant,
            input,
            hidden,
            number: self.number,
            params: self.params,
            tf32: self.tf32,
            reverse: self.reverse,
        }
    }

    pub fn shape(&self) -> Shape {
        let order = if self.batch_first { Order::BatchFirst } else { Order::TimeFirst };
        Shape { steps: self.steps, batch: self.batch, order, lengths: self.lengths }
    }

    pub fn config(&self) -> Config {
        let direction = if self.reverse { Direction::Reverse } else { Direction::Forward };
        Config::new(self.variant, self.input, self.hidden).with_direction(direction)
    }

    /// Compiles its kernels if they are not cached.
    pub fn compile(&self, device: &Device) -> Result<(), Error> {
        for training in [true, false] {
            Route::new(device, self.layer(), self.shape(), training)?;
        }
        Ok(())
    }

    pub fn name(&self) -> String {
        let flag = |is: bool, name: &'static str| if is { name } else { "" };
        format!(
            "{} {} {:?}/{:?}{} T{} B{} I{} H{}{}{}{}{}",
            self.variant.kind.name(),
            self.variant.name,
            self.number,
            self.params,
            flag(self.tf32, " tf32"),
            self.steps,
            self.batch,
            self.input,
            self.hidden,
            flag(self.reverse, " reverse"),
            flag(self.batch_first, " batch-first"),
            flag(self.lengths, " lengths"),
            flag(self.state, " state"),
        )
    }
}

/// Pseudorandom numbers within ±1, the same in every run.
pub struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> f32 {
        (self.0.uniform() * 2.0 - 1.0) as f32
    }

    pub fn vec(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| scale * self.next()).collect()
    }
}

pub fn rounded(x: f32, number: Number) -> f32 {
    match number {
        Number::F32 => x,
        Number::F16 => f16::from_f32(x).to_f32(),
        Number::Bf16 => bf16::from_f32(x).to_f32(),
    }
}

/// Converts f32 numbers to the bytes of a type.
pub fn bytes(values: &[f32], number: Number) -> Vec<u8> {
    match number {
        Number::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Number::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Number::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
    }
}

/// The reverse of [`bytes`].
pub fn floats(bytes: &[u8], number: Number) -> Vec<f32> {
    let two = |b: &[u8]| [b[0], b[1]];
    match number {
        Number::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Number::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes(two(b)).to_f32()).collect(),
        Number::Bf16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes(two(b)).to_f32()).collect(),
    }
}

/// Inputs, parameters and incoming gradients.
pub struct Data {
    pub network: Network<f32>,
    pub x: Vec<f32>,
    pub dy: Vec<f32>,
    pub lengths: Vec<usize>,
    pub first: rnn::State<f32>,
    pub dlast: rnn::State<f32>,
}

impl Data {
    /// Random data in which every parameter matters: gains around 1, matrices scaled so that products are about 1.
    pub fn random(case: &Case, seed: u64) -> Data {
        let (mut rng, config) = (Rng::new(seed), case.config());
        let mut params = Params::zeros(&config).unwrap();
        for entry in params.entries().to_vec() {
            let matrix = entry.shape.len() == 2;
            let scale = if matrix { (3.0 / entry.shape[1] as f32).sqrt() } else { 0.4 };
            let number = if matrix && case.number != Number::F32 { case.number } else { case.params };
            let middle = if entry.slot.is_gain() { 1.0 } else { 0.0 };
            for value in &mut params.values_mut()[entry.range] {
                *value = rounded(middle + scale * rng.next(), number);
            }
        }
        let network = Network::from_params(config, params).unwrap();
        let rows = case.steps * case.batch;
        let lengths = (0..case.batch).map(|b| if case.lengths { 1 + (b * 7 + 3) % case.steps } else { case.steps });
        let lengths: Vec<usize> = lengths.collect();
        let state = |rng: &mut Rng| {
            let mut state = network.zero_state(case.batch).unwrap();
            if case.state {
                state.h.iter_mut().for_each(|x| *x = 0.5 * rng.next());
                state.c.iter_mut().for_each(|x| *x = rng.next());
            }
            state
        };
        let (first, dlast) = (state(&mut rng), state(&mut rng));
        let mut numbers = |n| rng.vec(n, 1.0).into_iter().map(|x| rounded(x, case.number)).collect::<Vec<f32>>();
        let (x, dy) = (numbers(rows * case.input), numbers(rows * case.hidden));
        Data { network, x, dy, lengths, first, dlast }
    }
}

/// All results, by name.
pub type Results = Vec<(String, Vec<f32>)>;

/// Runs the CPU engine in f32 on one thread: several cases run in parallel.
pub fn on_cpu(case: &Case, data: &Data) -> Results {
    let mut runner = Runner::<f32>::new(layernorm::Context::new().with_threads(1).unwrap());
    let sequences = Sequences {
        data: &data.x[..],
        steps: case.steps,
        batch: case.batch,
        layout: if case.batch_first { Layout::BatchFirst } else { Layout::TimeFirst },
        lengths: case.lengths.then_some(&data.lengths[..]),
    };
    let out = runner.train(&data.network, &sequences, Some(&data.first), Training::default()).unwrap();
    let back = runner.backward(&data.network, &data.dy[..], Some(&data.dlast)).unwrap();
    let mut results = vec![("y".to_string(), out.y), ("last h".into(), out.state.h), ("last c".into(), out.state.c)];
    results.push(("dx".into(), back.input));
    results.push(("dh0".into(), back.state.h));
    results.push(("dc0".into(), back.state.c));
    for entry in back.params.entries() {
        results.push((entry.slot.name().into(), back.params.values()[entry.range.clone()].to_vec()));
    }
    results
}

/// Device memory with every byte set.
fn filled(device: &Device, bytes: usize, byte: u8) -> Result<Buffer<u8>, Error> {
    let mut buffer = Buffer::new(device, bytes)?;
    if bytes > 0 {
        buffer.fill_bytes(byte, Stream::DEFAULT)?;
    }
    device.synchronize()?;
    Ok(buffer)
}

/// A layer with all of its memory on the GPU.
pub struct OnGpu {
    pub plan: Route,
    pub run: Run,
    pub back: RunBack,
    outputs: Vec<(String, Buffer<u8>, Number)>,
    _inputs: Vec<Buffer<u8>>,
}

impl OnGpu {
    pub fn new(device: &Device, case: &Case, data: &Data, training: bool) -> Result<OnGpu, Error> {
        let plan = Route::new(device, case.layer(), case.shape(), training)?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let mut upload = |values: &[f32], number| -> Result<u64, Error> {
            let buffer = Buffer::from_slice(device, &bytes(values, number))?;
            inputs.push(buffer);
            Ok(inputs.last().unwrap().at(0))
        };
        let mut params = Parameters::default();
        for entry in data.network.params().entries() {
            let values = &data.network.params().values()[entry.range.clone()];
            params = params.with(entry.slot, upload(values, case.params)?);
        }
        let (x, dy) = (upload(&data.x, case.number)?, upload(&data.dy, case.number)?);
        let mut state = |state: &rnn::State<f32>| -> Result<State, Error> {
            let c = if state.c.is_empty() { 0 } else { upload(&state.c, Number::F32)? };
            Ok(if case.state { State { h: upload(&state.h, Number::F32)?, c } } else { State::default() })
        };
        let (first, dlast) = (state(&data.first)?, state(&data.dlast)?);
        let lengths: Vec<u8> = data.lengths.iter().flat_map(|&l| (l as i32).to_le_bytes()).collect();
        let lengths = Buffer::from_slice(device, &lengths)?;
        let length_address = if case.lengths { lengths.at(0) } else { 0 };
        inputs.push(lengths);
        // Poisoned with NaN, except where the CPU writes zeros: past the end of a sequence.
        let mut room = |name: &str, count: usize, number: Number, poison: u8| -> Result<u64, Error> {
            let buffer = filled(device, count * number.bytes(), poison)?;
            outputs.push((name.to_string(), buffer, number));
            Ok(outputs.last().unwrap().1.at(0))
        };
        let (rows, cells) = (case.steps * case.batch, case.batch * case.hidden);
        let poison = if case.lengths { 0 } else { 0xff };
        let y = room("y", rows * case.hidden, case.number, poison)?;
        let lstm = !data.first.c.is_empty();
        let cell = if lstm { cells } else { 0 };
        let mut pair = |h: &str, c: &str| -> Result<State, Error> {
            let h = room(h, cells, Number::F32, 0xff)?;
            let c = room(c, cell, Number::F32, 0xff)?;
            Ok(State { h, c: if lstm { c } else { 0 } })
        };
        let (last, dfirst) = (pair("last h", "last c")?, pair("dh0", "dc0")?);
        let dx = room("dx", rows * case.input, case.number, poison)?;
        let mut gradients = Parameters::default();
        for entry in data.network.params().entries() {
            gradients = gradients.with(entry.slot, room(entry.slot.name(), entry.range.len(), case.params, 0xff)?);
        }
        let tape = filled(device, plan.tape_bytes(), 0xff)?;
        let workspace = filled(device, plan.workspace_bytes(), 0x7f)?;
        let run = Run {
            params,
            x,
            y,
            y_pitch: case.hidden,
            first,
            last,
            lengths: length_address,
            tape: tape.at(0),
            workspace: workspace.at(0),
        };
        let back = RunBack {
            params,
            x,
            dy,
            dy_pitch: case.hidden,
            dlast,
            lengths: length_address,
            tape: tape.at(0),
            workspace: workspace.at(0),
            gradients: Gradients { params: gradients, x: dx, add_x: false, first: dfirst },
        };
        inputs.push(tape);
        inputs.push(workspace);
        Ok(OnGpu { plan, run, back, outputs, _inputs: inputs })
    }

    /// Runs forward and, with a tape, backward; returns all results.
    pub fn results(&self, training: bool) -> Result<Results, Error> {
        // SAFETY: all addresses belong to this structure's buffers, which have the sizes that the plan requires.
        unsafe { self.plan.forward(Stream::DEFAULT, &self.run)? };
        self.plan.check()?;
        if training {
            // SAFETY: as above.
            unsafe { self.plan.backward(Stream::DEFAULT, &self.back)? };
            self.plan.check()?;
        }
        self.read()
    }

    /// The same work captured in a graph and replayed, into outputs that were cleared. `None` if the CPU does the work.
    pub fn replayed(&mut self, device: &Device) -> Result<Option<Results>, Error> {
        if matches!(self.plan, Route::Host { .. }) {
            return Ok(None);
        }
        let stream = OwnedStream::new(device)?;
        for (_, buffer, _) in &mut self.outputs {
            if !buffer.is_empty() {
                buffer.fill_bytes(0, stream.stream())?;
            }
        }
        // SAFETY: as in `results`.
        let graph = stream.capture(|stream| unsafe {
            self.plan.forward(stream, &self.run)?;
            self.plan.backward(stream, &self.back)
        })?;
        // SAFETY: as in `results`.
        unsafe { graph.launch(stream.stream())? };
        stream.synchronize()?;
        self.plan.check()?;
        self.read().map(Some)
    }

    fn read(&self) -> Result<Results, Error> {
        let mut results = Results::new();
        for (name, buffer, number) in &self.outputs {
            let mut bytes = vec![0u8; buffer.len()];
            buffer.read(0, &mut bytes)?;
            results.push((name.clone(), floats(&bytes, *number)));
        }
        Ok(results)
    }
}

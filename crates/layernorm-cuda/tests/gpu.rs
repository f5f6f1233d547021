//! Tests on a GPU: the CPU's bits, a caller's stream, graphs, rejected calls. Without a GPU, every test is reported as
//! ignored. `bench/gpu` covers the full list of sizes, types and hard inputs.
mod harness;

use layernorm::LayerNorm;
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::recurrent::{Layer, Number, Order, Parameters, Plan, Run, Shape, State};
use layernorm_cuda::{
    Affine, Backward, Device, Error, Forward, Gradients, Param, RowNorm, Rows, Stats, Stream, Type, Workspace,
};
use layernorm_rnn::{Config, Kind, Slot, Variant};

/// Layer norm of f32 rows with γ and β, and all of its buffers.
struct Problem {
    device: Device,
    norm: RowNorm,
    layer: LayerNorm<f32>,
    host: [Vec<f32>; 2],
    x: Buffer<f32>,
    dy: Buffer<f32>,
    y: Buffer<f32>,
    dx: Buffer<f32>,
    params: [Buffer<f32>; 4],
    stats: [Buffer<f32>; 3],
    work: Buffer<u8>,
}

/// Pseudorandom numbers.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

impl Problem {
    fn new(device: &Device, rows: usize, n: usize) -> Result<Self, Error> {
        let host = [numbers(rows * n, 1), numbers(rows * n, 2)];
        let (gain, bias) = (numbers(n, 3), numbers(n, 4));
        let mut layer = LayerNorm::new([n]);
        (layer.weight, layer.bias) = (Some(gain.clone()), Some(bias.clone()));
        let fresh = |count| Buffer::<f32>::new(device, count);
        let params = [Buffer::from_slice(device, &gain)?, Buffer::from_slice(device, &bias)?, fresh(n)?, fresh(n)?];
        let param = |i: usize| Some(Param { address: params[i].at(0), f32: false });
        let affine = Affine { gain: param(0), bias: param(1), zero_centered: false };
        let norm = RowNorm { element: Type::F32, rows, n, centered: true, eps: 1e-5, affine };
        let work = Buffer::new(device, norm.workspace(&Gradients { gain: param(2), bias: param(3) }))?;
        Ok(Problem {
            device: device.clone(),
            x: Buffer::from_slice(device, &host[0])?,
            dy: Buffer::from_slice(device, &host[1])?,
            y: fresh(rows * n)?,
            dx: fresh(rows * n)?,
            stats: [fresh(rows)?, fresh(rows)?, fresh(rows)?],
            host,
            norm,
            layer,
            params,
            work,
        })
    }

    fn rows(&self, buffer: &Buffer<f32>) -> Rows {
        Rows { address: buffer.at(0), stride: self.norm.n as i64 }
    }

    /// Runs forward and backward on a stream.
    fn launch(&self, stream: Stream, workspace: Workspace) -> Result<(), Error> {
        let stats = Stats { m: self.stats[0].at(0), delta: self.stats[1].at(0), rstd: self.stats[2].at(0) };
        let param = |i: usize| Some(Param { address: self.params[i].at(0), f32: false });
        let gradients = Gradients { gain: param(2), bias: param(3) };
        let (x, dy, dx) = (self.rows(&self.x), self.rows(&self.dy), Some(self.rows(&self.dx)));
        let forward = Forward { x, residual: None, y: self.rows(&self.y), stats: Some(stats) };
        let backward = Backward { x, dy, dh: None, stats, dx, gradients };
        // SAFETY: the buffers are as large as the shapes require, and outlive the work.
        unsafe {
            self.norm.forward(&self.device, &forward, stream)?;
            self.norm.backward(&self.device, &backward, workspace, stream)
        }
    }

    fn workspace(&self) -> Workspace {
        Workspace { address: self.work.at(0), bytes: self.work.len() }
    }

    /// Checks that y, dx, dγ and dβ equal the CPU's, bit for bit.
    fn assert_same_bits(&self) {
        let (y, saved) = self.layer.forward_train(&self.host[0]).expect("the CPU's forward");
        let gradients = self.layer.backward(&self.host[0], &self.host[1], &saved).expect("the CPU's backward");
        let expected = [
            (&self.y, y),
            (&self.dx, gradients.input),
            (&self.params[2], gradients.weight.expect("γ has a gradient")),
            (&self.params[3], gradients.bias.expect("β has a gradient")),
        ];
        for (which, (buffer, cpu)) in expected.iter().enumerate() {
            let mut gpu = vec![0.0; cpu.len()];
            buffer.read(0, &mut gpu).expect("a copy from the GPU");
            let differ = gpu.iter().zip(cpu).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differ, None, "result {which} of {:?}", self.norm);
        }
    }
}

fn the_bits_of_the_cpu(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    for (rows, n) in [(1, 1), (70, 64), (130, 1000), (65, 5000), (3, 100_000), (3, 300_000)] {
        let problem = Problem::new(device, rows, n)?;
        problem.launch(stream.stream(), problem.workspace())?;
        stream.synchronize()?;
        problem.assert_same_bits();
    }
    Ok(())
}

fn a_captured_graph_gives_them_again(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    let mut problem = Problem::new(device, 100, 768)?;
    // Compiled before the capture, during which no kernel may be loaded.
    problem.launch(stream.stream(), problem.workspace())?;
    stream.synchronize()?;
    let graph = stream.capture(|stream| problem.launch(stream, problem.workspace()))?;
    for seed in 10..13 {
        problem.host[0] = numbers(100 * 768, seed);
        problem.x.write(0, &problem.host[0])?;
        // SAFETY: all memory used by the captured work still exists.
        unsafe { graph.launch(stream.stream())? };
        stream.synchronize()?;
        problem.assert_same_bits();
    }
    Ok(())
}

/// One input after another in the same memory, without synchronization: overlapping launches must not see stale data.
fn calls_in_close_succession(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    for (rows, n) in [(1, 1024), (64, 1024), (130, 768), (8, 20_000)] {
        let mut problem = Problem::new(device, rows, n)?;
        let inputs: Vec<Vec<f32>> = (20..32).map(|seed| numbers(rows * n, seed)).collect();
        let there: Vec<Buffer<f32>> =
            inputs.iter().map(|input| Buffer::from_slice(device, input)).collect::<Result<_, Error>>()?;
        for input in &there {
            problem.x.copy_from(input, rows * n, stream.stream())?;
            problem.launch(stream.stream(), problem.workspace())?;
        }
        stream.synchronize()?;
        problem.host[0].clone_from(&inputs[inputs.len() - 1]);
        problem.assert_same_bits();
    }
    Ok(())
}

fn what_cannot_be_is_refused(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    let problem = Problem::new(device, 4, 8)?;
    let needed = problem.work.len();
    let refused = problem.launch(stream.stream(), Workspace { bytes: needed - 1, ..problem.workspace() });
    assert_eq!(refused, Err(Error::Workspace { expected: needed, found: needed - 1 }));
    let mut odd = Problem::new(device, 4, 8)?;
    odd.norm.eps = f64::NAN;
    assert!(matches!(odd.launch(stream.stream(), odd.workspace()), Err(Error::Epsilon { .. })));
    Ok(())
}

/// An LSTM whose blocks must wait for each other, and its buffers.
struct Recurrence {
    plan: Plan,
    run: Run,
    buffers: Vec<Buffer<f32>>,
    workspace: Buffer<u8>,
}

impl Recurrence {
    fn new(device: &Device, impatient: bool) -> Result<Self, Error> {
        const SIZE: usize = 512;
        let variant = Variant::named(Kind::Lstm, "paper").expect("the paper's cell");
        let (number, params) = (Number::F32, Number::F32);
        let layer = Layer { variant, input: SIZE, hidden: SIZE, number, params, tf32: false, reverse: false };
        let shape = Shape { steps: 8, batch: 8, order: Order::TimeFirst, lengths: false };
        let plan = Plan::new(device, layer, shape, false)?;
        let plan = if impatient { plan.impatient() } else { plan };
        let (mut buffers, mut params) = (Vec::new(), Parameters::default());
        for slot in Slot::ALL {
            if let Some(sizes) = slot.shape(&Config::new(variant, SIZE, SIZE), 0) {
                let count = sizes.iter().product();
                buffers.push(Buffer::from_slice(device, &numbers(count, slot as u32))?);
                params = params.with(slot, buffers[buffers.len() - 1].at(0));
            }
        }
        let (x, y) = (Buffer::from_slice(device, &numbers(64 * SIZE, 99))?, Buffer::new(device, 64 * SIZE)?);
        let workspace = Buffer::<u8>::new(device, plan.workspace_bytes())?;
        let (first, last) = (State::default(), State::default());
        let (x_at, y_at, work_at) = (x.at(0), y.at(0), workspace.at(0));
        let run = Run { params, x: x_at, y: y_at, y_pitch: SIZE, first, last, lengths: 0, tape: 0, workspace: work_at };
        buffers.extend([x, y]);
        Ok(Recurrence { plan, run, buffers, workspace })
    }

    fn launch(&self, stream: Stream) -> Result<(), Error> {
        assert!(self.workspace.len() >= self.plan.workspace_bytes() && self.buffers.len() > 2);
        // SAFETY: the buffers are as large as the shape requires, and outlive the work.
        unsafe { self.plan.forward(stream, &self.run) }
    }
}

/// The host learns of it without waiting: at the next call, at synchronization, and from a graph. Afterwards everything
/// works again.
fn a_pass_that_gives_up_is_an_error(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    let (hasty, patient) = (Recurrence::new(device, true)?, Recurrence::new(device, false)?);
    patient.launch(stream.stream())?;
    stream.synchronize()?;
    hasty.launch(stream.stream())?;
    let error = stream.synchronize().expect_err("a pass that gave up");
    assert!(matches!(error, Error::GaveUp { ordinal: 0 }), "{error}");
    stream.synchronize()?;
    let graph = stream.capture(|stream| hasty.launch(stream))?;
    // SAFETY: all memory used by the captured work still exists.
    unsafe { graph.launch(stream.stream())? };
    while device.check().is_ok() {
        std::thread::yield_now();
    }
    // The other blocks of the pass give up a moment later and may report it once more.
    let _ = stream.synchronize();
    stream.synchronize()?;
    hasty.launch(stream.stream())?;
    // The copy on the default stream does not wait for our stream; the next call checks by itself.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let refused = patient.launch(stream.stream());
    assert!(matches!(refused, Err(Error::GaveUp { .. })), "{refused:?}");
    patient.launch(stream.stream())?;
    stream.synchronize()?;
    let mut y = vec![0.0; 64 * 512];
    patient.buffers[patient.buffers.len() - 1].read(0, &mut y)?;
    assert!(y.iter().all(|y| y.is_finite()));
    Ok(())
}

/// Requests more memory than any GPU has.
fn memory_that_is_not_there_is_an_error(device: &Device) -> Result<(), Error> {
    for count in [1 << 45, usize::MAX / 2, usize::MAX] {
        let refused = Buffer::<f32>::new(device, count).map(drop);
        assert!(matches!(refused, Err(Error::OutOfMemory { place: "device", .. })), "{refused:?}");
    }
    let buffer = Buffer::<f32>::new(device, 4)?;
    let refused = buffer.read(3, &mut [0.0; 2]);
    assert!(
        matches!(&refused, Err(Error::Operand { why, .. }) if why == "2 elements from index 3 on exceed a buffer of 4"),
        "{refused:?}"
    );
    Ok(())
}

type Test = (&'static str, fn(&Device) -> Result<(), Error>);

fn main() {
    let tests: [Test; 6] = [
        ("a_pass_that_gives_up_is_an_error", a_pass_that_gives_up_is_an_error),
        ("memory_that_is_not_there_is_an_error", memory_that_is_not_there_is_an_error),
        ("the_bits_of_the_cpu", the_bits_of_the_cpu),
        ("a_captured_graph_gives_them_again", a_captured_graph_gives_them_again),
        ("calls_in_close_succession", calls_in_close_succession),
        ("what_cannot_be_is_refused", what_cannot_be_is_refused),
    ];
    let device = Device::open(0);
    let missing = device.as_ref().err().map(|error| format!("no GPU: {error}"));
    let trial = |(name, test): Test| {
        let device = device.clone();
        harness::test(name, missing.as_deref(), move || {
            device.and_then(|device| test(&device)).map_err(|error| error.to_string())
        })
    };
    harness::run(tests.map(trial).into(), true)
}

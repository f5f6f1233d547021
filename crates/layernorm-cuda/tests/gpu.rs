//! On a GPU: the CPU's bits, a caller's stream, graphs, refusals. Without one, every test is reported as ignored. The whole
//! list of sizes, types and hard inputs is `bench/gpu`.
mod harness;

use harness::Outcome;
use layernorm::LayerNorm;
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{
    Affine, Backward, Device, Error, Forward, Gradients, Param, RowNorm, Rows, Stats, Type, Workspace,
};

/// Layer norm of f32 rows with γ and β, and all its buffers.
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

/// Numbers that look random.
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

    /// Forward and backward, on a stream.
    fn launch(&self, stream: layernorm_cuda::Stream, workspace: Workspace) -> Result<(), Error> {
        let stats = Stats { m: self.stats[0].at(0), delta: self.stats[1].at(0), rstd: self.stats[2].at(0) };
        let param = |i: usize| Some(Param { address: self.params[i].at(0), f32: false });
        let gradients = Gradients { gain: param(2), bias: param(3) };
        let (x, dy, dx) = (self.rows(&self.x), self.rows(&self.dy), Some(self.rows(&self.dx)));
        let forward = Forward { x, residual: None, y: self.rows(&self.y), stats: Some(stats) };
        let backward = Backward { x, dy, dh: None, stats, dx, gradients };
        // SAFETY: the buffers are as large as the shapes say and outlive the work.
        unsafe {
            self.norm.forward(&self.device, &forward, stream)?;
            self.norm.backward(&self.device, &backward, workspace, stream)
        }
    }

    fn workspace(&self) -> Workspace {
        Workspace { address: self.work.at(0), bytes: self.work.len() }
    }

    /// y, dx, dγ and dβ are the CPU's, to the bit.
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
        problem.launch(stream.stream, problem.workspace())?;
        stream.synchronize()?;
        problem.assert_same_bits();
    }
    Ok(())
}

fn a_captured_graph_gives_them_again(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    let mut problem = Problem::new(device, 100, 768)?;
    // Compiled before the capture, in which nothing may be loaded.
    problem.launch(stream.stream, problem.workspace())?;
    stream.synchronize()?;
    let graph = stream.capture(|stream| problem.launch(stream, problem.workspace()))?;
    for seed in 10..13 {
        problem.host[0] = numbers(100 * 768, seed);
        problem.x.write(0, &problem.host[0])?;
        graph.launch(stream.stream)?;
        stream.synchronize()?;
        problem.assert_same_bits();
    }
    Ok(())
}

/// One input after the other in the same memory, and nobody waits: launches that overlap must not see what was there before.
fn calls_in_close_succession(device: &Device) -> Result<(), Error> {
    let stream = OwnedStream::new(device)?;
    for (rows, n) in [(1, 1024), (64, 1024), (130, 768), (8, 20_000)] {
        let mut problem = Problem::new(device, rows, n)?;
        let inputs: Vec<Vec<f32>> = (20..32).map(|seed| numbers(rows * n, seed)).collect();
        let there: Vec<Buffer<f32>> =
            inputs.iter().map(|input| Buffer::from_slice(device, input)).collect::<Result<_, Error>>()?;
        for input in &there {
            problem.x.copy_from(input, rows * n, stream.stream)?;
            problem.launch(stream.stream, problem.workspace())?;
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
    let refused = problem.launch(stream.stream, Workspace { bytes: needed - 1, ..problem.workspace() });
    assert_eq!(refused, Err(Error::Workspace { expected: needed, found: needed - 1 }));
    let mut odd = Problem::new(device, 4, 8)?;
    odd.norm.eps = f64::NAN;
    assert!(matches!(odd.launch(stream.stream, odd.workspace()), Err(Error::Epsilon { .. })));
    Ok(())
}

type Test = (&'static str, fn(&Device) -> Result<(), Error>);

fn main() {
    let tests: [Test; 4] = [
        ("the_bits_of_the_cpu", the_bits_of_the_cpu),
        ("a_captured_graph_gives_them_again", a_captured_graph_gives_them_again),
        ("calls_in_close_succession", calls_in_close_succession),
        ("what_cannot_be_is_refused", what_cannot_be_is_refused),
    ];
    let device = Device::open(0);
    harness::run(tests.map(|(name, test)| (name.into(), test)), |test| match &device {
        Ok(device) => Outcome::from(test(device).err().map(|error| error.to_string())),
        Err(error) => Outcome::Ignored(error.to_string()),
    })
}

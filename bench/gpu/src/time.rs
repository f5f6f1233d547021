//! Speed compared with a device copy, measured in the same run. Counts only the bytes that must move.

use crate::data::{self, Mood};
use half::bf16;
use layernorm_cuda::config::{Registers, Strategy};
use layernorm_cuda::memory::{Buffer, Event, OwnedStream};
use layernorm_cuda::{
    Affine, Backward, Device, Error, Forward, Gradients, Launch, NOOP, Param, RowNorm, Rows, Stats, Type, Variant,
    Workspace,
};

/// Bytes per tensor.
pub const TENSOR: usize = 512 << 20;
pub const SIZES: [usize; 11] = [64, 256, 768, 1024, 4096, 8192, 16384, 32768, 65536, 131_072, 262_144];
const REPEATS: usize = 9;
/// Bytes for each of γ, β and their gradients.
const PARAM: usize = 1 << 21;

/// Tensors of 512 MiB, with parameters, statistics and workspace.
pub struct Bench<'a> {
    pub device: &'a Device,
    pub stream: OwnedStream,
    tensors: [Buffer<u8>; 3],
    params: [Buffer<u8>; 4],
    stats: [Buffer<f32>; 3],
    work: Buffer<u8>,
}

/// A shape to be timed.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub element: Type,
    pub rows: usize,
    pub n: usize,
}

impl Shape {
    pub fn whole(element: Type, n: usize) -> Self {
        Shape { element, rows: TENSOR / element.bytes() / n, n }
    }

    pub fn bytes(&self, tensors: usize) -> f64 {
        (tensors * self.rows * self.n * self.element.bytes()) as f64
    }
}

impl<'a> Bench<'a> {
    /// Supported row lengths: those for which the statistics, γ and β fit into the buffers.
    pub const TAKES: std::ops::RangeInclusive<usize> = TENSOR / 2 / Self::ROWS..=PARAM / 4;
    /// Maximum number of rows, and bytes of their statistics.
    pub const ROWS: usize = TENSOR / 64;
    pub const STATS: usize = 3 * 4 * Self::ROWS;

    pub fn new(device: &'a Device) -> Result<Self, Error> {
        let bytes = |count| Buffer::<u8>::new(device, count);
        let stats = || Buffer::<f32>::new(device, Self::ROWS);
        Ok(Bench {
            device,
            stream: OwnedStream::new(device)?,
            tensors: [bytes(TENSOR)?, bytes(TENSOR)?, bytes(TENSOR)?],
            params: [bytes(PARAM)?, bytes(PARAM)?, bytes(PARAM)?, bytes(PARAM)?],
            stats: [stats()?, stats()?, stats()?],
            work: bytes(1 << 28)?,
        })
    }

    /// Fills x, dy, γ and β with random numbers of the type.
    pub fn fill(&mut self, element: Type) -> Result<(), Error> {
        let count = 1 << 22;
        let bytes: Vec<u8> = match element {
            Type::F32 => data::rows::<f32>(1, count, Mood::Plain, 3).iter().flat_map(|x| x.to_le_bytes()).collect(),
            _ => data::rows::<bf16>(1, count, Mood::Plain, 3).iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        for tensor in &mut self.tensors[..2] {
            for at in (0..TENSOR).step_by(bytes.len()) {
                tensor.write(at, &bytes)?;
            }
        }
        for param in &mut self.params[..2] {
            param.write(0, &bytes[..PARAM])?;
        }
        Ok(())
    }

    pub fn norm(&self, shape: &Shape) -> RowNorm {
        assert!(shape.rows <= Self::ROWS, "{shape:?}: room for {} rows", Self::ROWS);
        let param = |i: usize| Some(Param { address: self.params[i].at(0), f32: false });
        let affine = Affine { gain: param(0), bias: param(1), zero_centered: false };
        RowNorm { element: shape.element, rows: shape.rows, n: shape.n, centered: true, eps: 1e-5, affine }
    }

    fn rows(&self, shape: &Shape, i: usize) -> Rows {
        Rows { address: self.tensors[i].at(0), stride: shape.n as i64 }
    }

    fn saved(&self) -> Stats {
        Stats { m: self.stats[0].at(0), delta: self.stats[1].at(0), rstd: self.stats[2].at(0) }
    }

    pub fn forward(&self, shape: &Shape, strategy: Option<Strategy>) -> Result<(), Error> {
        let norm = self.norm(shape);
        let call =
            Forward { x: self.rows(shape, 0), residual: None, y: self.rows(shape, 2), stats: Some(self.saved()) };
        // SAFETY: the buffers are larger than any shape, and live until the run ends.
        unsafe {
            match strategy {
                Some(strategy) => norm.forward_with(self.device, &call, strategy, self.stream.stream()),
                None => norm.forward(self.device, &call, self.stream.stream()),
            }
        }
    }

    pub fn backward(&self, shape: &Shape, strategy: Option<Strategy>) -> Result<(), Error> {
        let param = |i: usize| Some(Param { address: self.params[i].at(0), f32: false });
        self.gradients(shape, strategy, Gradients { gain: param(2), bias: param(3) })
    }

    fn gradients(&self, shape: &Shape, strategy: Option<Strategy>, gradients: Gradients) -> Result<(), Error> {
        let norm = self.norm(shape);
        let call = Backward {
            x: self.rows(shape, 0),
            dy: self.rows(shape, 1),
            dh: None,
            stats: self.saved(),
            dx: Some(self.rows(shape, 2)),
            gradients,
        };
        let workspace = Workspace { address: self.work.at(0), bytes: self.work.len() };
        // SAFETY: as above.
        unsafe {
            match strategy {
                Some(strategy) => norm.backward_with(self.device, &call, workspace, strategy, self.stream.stream()),
                None => norm.backward(self.device, &call, workspace, self.stream.stream()),
            }
        }
    }

    /// Address and size in bytes of all results of a call: y and the statistics; or dx, dγ and dβ.
    pub fn results(&self, shape: &Shape, back: bool) -> Vec<(u64, usize)> {
        let Shape { element, rows, n } = *shape;
        let mut places = vec![(self.tensors[2].at(0), rows * n * element.bytes())];
        match back {
            true => places.extend(self.params[2..].iter().map(|param| (param.at(0), n * element.bytes()))),
            false => places.extend(self.stats.iter().map(|stat| (stat.at(0), 4 * rows))),
        }
        places
    }

    /// The median of several runs, in seconds. All of them are queued on the stream behind a first one, so that the
    /// device never waits for the host: the launch overhead of the host does not show in the times of large calls.
    pub fn median(&self, repeats: usize, work: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
        let pair = |_| Ok((Event::new(self.device)?, Event::new(self.device)?));
        let events: Vec<(Event, Event)> = (0..repeats).map(pair).collect::<Result<_, Error>>()?;
        work()?;
        for (start, end) in &events {
            start.record(self.stream.stream())?;
            work()?;
            end.record(self.stream.stream())?;
        }
        let mut times =
            events.iter().map(|(start, end)| end.seconds_since(start)).collect::<Result<Vec<f64>, Error>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[repeats / 2])
    }

    /// Seconds per call inside a graph of many calls.
    fn in_graph(&self, work: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
        const CALLS: usize = 50;
        work()?;
        let graph = self.stream.capture(|_| (0..CALLS).try_for_each(|_| work()))?;
        // SAFETY: the work uses buffers of `self`, which still exist.
        Ok(self.median(REPEATS, || unsafe { graph.launch(self.stream.stream()) })? / CALLS as f64)
    }

    pub fn copy(&self, bytes: usize) -> Result<(), Error> {
        self.tensors[2].copy_from(&self.tensors[0], bytes, self.stream.stream())
    }
}

/// Runs `work`, which compiles kernels, on all of the host's threads.
pub fn prepare<T: Sync>(list: &[T], work: impl Fn(&T) -> Result<(), Error> + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(4, |count| count.get()) {
            scope.spawn(|| {
                while let Some(one) = list.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if let Err(error) = work(one) {
                        println!("{error}");
                    }
                }
            });
        }
    });
}

/// How many clusters are resident at a time with one block per multiprocessor: a cluster lies within one GPC, and GPCs
/// differ in size.
fn clusters(device: &Device) -> Result<(), Error> {
    let whole = Variant { large_clusters: true, ..Variant::new(&NOOP, "noop").shared(200 << 10) };
    let noop = device.function(&whole)?;
    for blocks in [2, 4, 8, 16] {
        println!(
            "clusters of {blocks} at a time: {}",
            Launch::new(blocks, 512).cluster(blocks).active_clusters(&noop)?
        );
    }
    Ok(())
}

/// Prints the table. `only`: for this type and size; `sizes`: for these, if any are given, in both types.
pub fn run(device: &Device, only: Option<(Type, usize)>, sizes: &[usize]) -> Result<(), Error> {
    clusters(device)?;
    let mut bench = Bench::new(device)?;
    bench.fill(Type::F32)?;
    let copy = 2.0 * TENSOR as f64 / bench.median(REPEATS, || bench.copy(TENSOR))?;
    println!("device copy of 512 MiB: {:.2} TB/s", copy / 1e12);
    println!(
        "| type | rows | N | forward TB/s | of a copy | backward TB/s | of a copy |\n|---|---|---|---|---|---|---|"
    );
    for element in [Type::F32, Type::Bf16] {
        bench.fill(element)?;
        let wanted: &[usize] = match &only {
            Some((only, n)) if *only == element => std::slice::from_ref(n),
            Some(_) => &[],
            None if sizes.is_empty() => &SIZES,
            None => sizes,
        };
        let shapes: Vec<Shape> = wanted.iter().map(|&n| Shape::whole(element, n)).collect();
        prepare(&shapes, |shape| bench.forward(shape, None).and_then(|()| bench.backward(shape, None)));
        device.synchronize()?;
        for shape in &shapes {
            bench.forward(shape, None)?;
            let forward = shape.bytes(2) / bench.median(REPEATS, || bench.forward(shape, None))?;
            let backward = shape.bytes(3) / bench.median(REPEATS, || bench.backward(shape, None))?;
            let percent = |rate: f64| 100.0 * rate / copy;
            println!(
                "| {element:?} | {} | {} | {:.2} | {:.1} % | {:.2} | {:.1} % |",
                shape.rows,
                shape.n,
                forward / 1e12,
                percent(forward),
                backward / 1e12,
                percent(backward)
            );
        }
    }
    if only.is_some() || !sizes.is_empty() { Ok(()) } else { small(&bench, copy) }
}

/// Only the small calls.
pub fn small_alone(device: &Device) -> Result<(), Error> {
    let mut bench = Bench::new(device)?;
    bench.fill(Type::Bf16)?;
    let copy = 2.0 * TENSOR as f64 / bench.median(REPEATS, || bench.copy(TENSOR))?;
    small(&bench, copy)
}

const SMALL: [(usize, usize); 12] = [
    (1, 1024),
    (64, 1024),
    (64, 768),
    (256, 1024),
    (512, 1024),
    (1024, 1024),
    (64, 2048),
    (4096, 1024),
    (64, 4096),
    (1024, 4096),
    (64, 16384),
    (8, 262_144),
];

/// Small calls, inside a graph. The data of a small tensor comes from L2.
fn small(bench: &Bench, copy: f64) -> Result<(), Error> {
    let noop = bench.device.function(&Variant::new(&NOOP, "noop"))?;
    // SAFETY: the kernel reads nothing.
    let empty = bench.in_graph(|| unsafe { Launch::new(1, 32).run(&noop, bench.stream.stream(), &0u64) })?;
    println!("\nempty kernel in a graph: {:.2} µs", empty * 1e6);
    println!(
        "| type | rows | N | forward µs | with rows in registers µs | launch + bytes | dx µs | with dγ, dβ µs | launch + bytes | copy of the tensor µs |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let shapes = SMALL.iter().flat_map(|&(rows, n)| [Type::F32, Type::Bf16].map(|element| Shape { element, rows, n }));
    let shapes: Vec<Shape> = shapes.collect();
    prepare(&shapes, |shape| bench.forward(shape, None).and_then(|()| bench.backward(shape, None)));
    for shape in &shapes {
        let Shape { element, rows, n } = *shape;
        let held = Registers::forward(element, rows, n, true, 1, bench.device.properties()).map(Strategy::Registers);
        let times = [
            bench.in_graph(|| bench.forward(shape, None))?,
            bench.in_graph(|| bench.forward(shape, held))?,
            empty + shape.bytes(2) / copy,
            bench.in_graph(|| bench.gradients(shape, None, Gradients::default()))?,
            bench.in_graph(|| bench.backward(shape, None))?,
            empty + shape.bytes(3) / copy,
            bench.in_graph(|| bench.copy(rows * n * element.bytes()))?,
        ];
        let words: Vec<String> = times.iter().map(|time| format!("{:.2}", time * 1e6)).collect();
        println!("| {element:?} | {rows} | {n} | {} |", words.join(" | "));
    }
    Ok(())
}

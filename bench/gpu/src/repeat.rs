//! Runs the same call many times. Every result must have the bits of the first, and all of them are compared, on the
//! GPU.
//!
//! A wrong order of reads and copies may show once in thousands of rows, and racecheck does not see bulk copies.
//! `check` compares one call of each kind with the CPU. This compares many calls of many rows with each other: alone,
//! and next to a copy on another stream that competes for memory.

use crate::time::{Bench, SIZES, Shape, TENSOR, prepare};
use layernorm_cuda::config::Strategy;
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{Device, Error, Launch, Source, Type, Variant};

static DIFFER: Source =
    Source { name: "differ.cu", text: include_str!("differ.cu"), headers: &[], layout: Source::NO_LAYOUT };

/// Calls of each kind alone, and as many next to a copy.
const CALLS: usize = 100;

/// Bytes that are copied next to a call.
const BESIDE: usize = 32 << 20;

/// As in differ.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct DifferParams {
    from: u64,
    first: u64,
    vectors: u64,
    count: u64,
}

/// A call to repeat; without a strategy, with the library's choice.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub shape: Shape,
    pub back: bool,
    pub strategy: Option<Strategy>,
}

impl Call {
    pub fn run(&self, bench: &Bench) -> Result<(), Error> {
        match self.back {
            true => bench.backward(&self.shape, self.strategy),
            false => bench.forward(&self.shape, self.strategy),
        }
    }
}

/// How many calls differed from the first, and in how many vectors of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub calls: usize,
    pub vectors: u64,
}

/// The results of the first call, and the counters of differences.
pub struct Repeat<'a> {
    bench: &'a Bench<'a>,
    first: Buffer<u8>,
    counts: Buffer<u64>,
    beside: (OwnedStream, [Buffer<u8>; 2]),
}

impl<'a> Repeat<'a> {
    pub fn new(bench: &'a Bench<'a>) -> Result<Self, Error> {
        let bytes = |count| Buffer::<u8>::new(bench.device, count);
        Ok(Repeat {
            bench,
            first: bytes(TENSOR + Bench::STATS + 64)?,
            counts: Buffer::new(bench.device, CALLS)?,
            beside: (OwnedStream::new(bench.device)?, [bytes(BESIDE)?, bytes(BESIDE)?]),
        })
    }

    /// Runs calls alone and calls next to a copy.
    pub fn look(&mut self, call: &Call) -> Result<[Found; 2], Error> {
        call.run(self.bench)?;
        self.on_results(call, "keep", 0)?;
        Ok([self.calls(call, false)?, self.calls(call, true)?])
    }

    fn calls(&mut self, call: &Call, beside: bool) -> Result<Found, Error> {
        self.counts.fill_bytes(0, self.bench.stream.stream())?;
        for i in 0..CALLS {
            if beside {
                let (stream, [to, from]) = &self.beside;
                to.copy_from(from, BESIDE, stream.stream())?;
            }
            call.run(self.bench)?;
            self.on_results(call, "differ", self.counts.at(i))?;
        }
        let mut counts = [0; CALLS];
        self.counts.read(0, &mut counts)?;
        Ok(Found { calls: counts.iter().filter(|&&count| count > 0).count(), vectors: counts.iter().sum() })
    }

    /// Runs a kernel of differ.cu over all results of a call.
    fn on_results(&self, call: &Call, entry: &'static str, count: u64) -> Result<(), Error> {
        let device = self.bench.device;
        let function = device.function(&Variant::new(&DIFFER, entry))?;
        let mut at = 0;
        for (from, bytes) in self.bench.results(&call.shape, call.back) {
            // The bytes after the results are not written and do not change.
            let bytes = bytes.next_multiple_of(16);
            assert!(at + bytes <= self.first.len(), "{bytes} bytes at {at}");
            let params = DifferParams { from, first: self.first.at(at), vectors: bytes as u64 / 16, count };
            at += bytes;
            let launch = Launch::new(2 * device.properties().multiprocessors, 1024);
            // SAFETY: the structure has the kernel's layout; source and destination have that many bytes.
            unsafe { launch.run(&function, self.bench.stream.stream(), &params)? };
        }
        Ok(())
    }
}

/// Every size that is timed, forward and backward; only the given `sizes`, if any. Returns the number of kinds of calls
/// that differ.
pub fn run(device: &Device, sizes: &[usize]) -> Result<usize, Error> {
    let (mut bench, start) = (Bench::new(device)?, std::time::Instant::now());
    let mut failed = 0;
    println!("| type | N | | calls of {CALLS} that differ | during a copy | vectors |\n|---|---|---|---|---|---|");
    for element in [Type::F32, Type::Bf16] {
        bench.fill(element)?;
        let wanted = SIZES.into_iter().filter(|n| sizes.is_empty() || sizes.contains(n));
        let shapes: Vec<Shape> = wanted.map(|n| Shape::whole(element, n)).collect();
        prepare(&shapes, |shape| bench.forward(shape, None).and_then(|()| bench.backward(shape, None)));
        device.synchronize()?;
        let mut repeat = Repeat::new(&bench)?;
        for &shape in &shapes {
            for back in [false, true] {
                // Backward uses the statistics that the preceding forward pass wrote.
                let [alone, beside] = repeat.look(&Call { shape, back, strategy: None })?;
                failed += usize::from(alone.calls + beside.calls > 0);
                let direction = if back { "backward" } else { "forward" };
                let vectors = alone.vectors + beside.vectors;
                println!(
                    "| {element:?} | {} | {direction} | {} | {} | {vectors} |",
                    shape.n, alone.calls, beside.calls
                );
            }
        }
    }
    println!("{failed} kinds of calls differ ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(failed)
}

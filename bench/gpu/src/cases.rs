//! The cases that are checked: every size class, type and mood, spread over the host's threads.

use crate::channels::{self, What};
use crate::data::{Mood, Number};
use crate::rows::{self, Kernel};
use half::{bf16, f16};
use layernorm_cuda::{Device, Type};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes around every boundary.
const SIZES: [usize; 44] = [
    1, 2, 3, 5, 8, 16, 31, 33, 64, 65, 96, 100, 128, 129, 200, 255, 256, 257, 384, 512, 640, 768, 1000, 1023, 1024,
    1025, 1536, 2048, 3000, 4096, 5000, 8192, 12288, 16384, 16385, 32768, 40000, 65536, 100_000, 131_072, 262_144,
    262_145, 300_000, 524_288,
];

/// Sizes for f16, which takes the same paths as bf16, and f64: each variant costs a compilation.
const FEW_SIZES: [usize; 13] = [1, 5, 64, 100, 256, 768, 1000, 1024, 1025, 4096, 40000, 262_144, 300_000];

/// Streaming rows: one warp, several warps, several blocks; full and partial.
const STREAM_SIZES: [usize; 30] = [
    4096, 262_144, 1024, 5000, 40000, 16384, 320, 640, 768, 1000, 1032, 1536, 2048, 3000, 6144, 8192, 9216, 10240,
    12800, 14336, 16392, 18432, 20480, 24576, 28672, 32768, 65536, 66_688, 100_000, 131_072,
];

/// Sizes that are also checked with f16, RMS norm, f32 parameters and gaps.
const FEW_STREAMS: [usize; 4] = [1000, 5000, 40000, 262_144];

/// Cases that a thread takes at a time.
const NEIGHBOURS: usize = 12;

/// Short rows for one thread per row: 64, 128 or 256 bytes in some type.
const EACH_SIZES: [usize; 4] = [16, 32, 64, 128];

/// Few rows: part of a warp, one thread per lane (one block of 1024, or several), one warp per 1024, clusters.
const SMALL_SIZES: [usize; 10] = [262_144, 1024, 5000, 64, 40000, 3000, 300, 4096, 1000, 2048];

/// Sizes that are also checked with f16 and f64.
const FEW_SMALL: [usize; 3] = [1024, 3000, 64];

/// ε too small to hide squares that underflow: 0; tiny in f32; tiny in f64 and 0 in f32.
const TINY: [f64; 3] = [0.0, 1e-30, 1e-320];

#[derive(Clone, Copy, Debug)]
enum Case {
    Rows(rows::Case),
    Channels(channels::Case),
}

/// Enough rows to give every team several and to fill the pipeline.
fn stream_cases(n: usize, out: &mut Vec<Case>) {
    let teams = 132 * 16 * 1024 / n.next_multiple_of(1024);
    let base = rows::Case { kernel: Kernel::Stream, ..rows::Case::new(4 * teams + 37, n) };
    let mut push = |case| out.push(Case::Rows(case));
    push(base);
    push(rows::Case { mood: Mood::Long, ..base });
    push(rows::Case { mood: Mood::Steep, ..base });
    if FEW_STREAMS.contains(&n) {
        let few = rows::Case { rows: teams + 5, ..base };
        push(rows::Case { centered: false, mood: Mood::Long, ..few });
        push(rows::Case { wide_params: true, gap: 16, ..few });
        push(rows::Case { affine: false, mood: Mood::Steep, ..few });
        push(rows::Case { zero_centered: true, mood: Mood::Long, ..few });
        push(rows::Case { rows: 1, ..base });
        TINY.iter().for_each(|&eps| push(rows::Case { mood: Mood::Small, eps, ..few }));
        push(rows::Case { mood: Mood::Small, eps: 1e-30, centered: false, ..few });
    }
    // More chunks than teams of several blocks, which then loop over chunks. In the forward pass, later waves of
    // blocks.
    if [16384, 16392].contains(&n) {
        push(rows::Case { rows: 64 * 67 + 9, ..base });
    }
    // Here the sums for γ are not finite and are recomputed.
    if n <= 2048 {
        push(rows::Case { rows: 67, mood: Mood::Hard, ..base });
    }
}

/// One thread per row: less than a tile of rows, a partial last tile, more tiles than fit at once; and inputs that this
/// kernel cannot take.
fn each_cases(n: usize, out: &mut Vec<Case>) {
    let base = rows::Case { kernel: Kernel::Each, ..rows::Case::new(1000, n) };
    let mut push = |case| out.push(Case::Rows(case));
    for rows in [1, 32, 33, 132 * 3 * 128 * 2 + 77] {
        push(rows::Case { rows, ..base });
    }
    for mood in [Mood::Hard, Mood::Large, Mood::Long] {
        push(rows::Case { mood, ..base });
    }
    push(rows::Case { centered: false, mood: Mood::Hard, ..base });
    push(rows::Case { wide_params: true, zero_centered: true, ..base });
    push(rows::Case { affine: false, eps: 0.0, ..base });
    TINY.iter().for_each(|&eps| push(rows::Case { mood: Mood::Small, eps, ..base }));
    push(rows::Case { mood: Mood::Small, eps: 1e-30, centered: false, ..base });
    push(rows::Case { residual: true, ..base });
    push(rows::Case { gap: 8, ..base });
    push(rows::Case { shift: 1, ..base });
    // Enough rows for the library to choose it.
    push(rows::Case { rows: 132 * 3 * 128 * 4 + 5, kernel: Kernel::Chosen, ..base });
}

fn row_cases(n: usize, out: &mut Vec<Case>) {
    let rows = (150_000 / n).clamp(5, 200) | 1;
    let base = rows::Case { kernel: Kernel::Held, ..rows::Case::new(rows, n) };
    let hard = if n <= 3000 { Mood::Hard } else { Mood::Long };
    let mut push = |case| out.push(Case::Rows(case));
    for mood in [Mood::Plain, hard] {
        for fused in [true, false] {
            push(rows::Case { mood, fused: Some(fused), ..base });
        }
    }
    push(rows::Case { centered: false, mood: hard, fused: Some(true), ..base });
    if !n.is_multiple_of(3) || n > 4096 {
        push(rows::Case { shift: 1, gap: 3, mood: hard, fused: Some(n.is_multiple_of(2)), ..base });
        push(rows::Case { residual: true, wide_params: true, fused: Some(!n.is_multiple_of(2)), ..base });
    }
    if [64, 200, 1024, 3000].contains(&n) {
        push(rows::Case { mood: Mood::Large, fused: Some(true), ..base });
        push(rows::Case { mood: Mood::Large, fused: Some(false), centered: false, ..base });
        push(rows::Case { gap: 16, wide_params: true, fused: Some(true), ..base });
        push(rows::Case { affine: false, fused: Some(true), ..base });
        push(rows::Case { zero_centered: true, mood: hard, fused: Some(true), ..base });
        push(rows::Case { zero_centered: true, centered: false, wide_params: true, fused: Some(false), ..base });
        push(rows::Case { eps: 0.0, ..base });
        for eps in TINY {
            push(rows::Case { mood: Mood::Small, eps, fused: Some(eps > 0.0), ..base });
            push(rows::Case { mood: Mood::Small, eps, centered: eps > 0.0, fused: Some(false), ..base });
        }
        push(rows::Case { rows: 1, ..base });
        push(rows::Case { rows: 64 * 128 + 5, fused: None, kernel: Kernel::Chosen, ..base });
    }
}

/// Few rows, with the library's choice: around every boundary of a chunk and of the tree of chunks, for every way to
/// hold a row.
fn small_cases(n: usize, out: &mut Vec<Case>) {
    let hard = if n <= 3000 { Mood::Hard } else { Mood::Long };
    for rows in [1, 8, 63, 64, 65, 128, 129, 700] {
        if rows * n > 1 << 22 {
            continue;
        }
        let base = rows::Case::new(rows, n);
        let mut push = |case| out.push(Case::Rows(case));
        push(base);
        push(rows::Case { mood: hard, ..base });
        // Sums down the columns that are recomputed; or rows that are, with plain gradients.
        push(rows::Case { mood: if n <= 3000 { Mood::Large } else { Mood::Steep }, ..base });
        push(rows::Case { mood: Mood::Long, centered: false, shift: 1, gap: 3, ..base });
        push(rows::Case { residual: true, wide_params: true, gap: 2, ..base });
        push(rows::Case { affine: false, gap: 16, mood: Mood::Long, ..base });
        if rows <= 129 {
            TINY.iter().for_each(|&eps| push(rows::Case { mood: Mood::Small, eps, ..base }));
            push(rows::Case { mood: Mood::Small, eps: 1e-30, residual: true, ..base });
        }
    }
}

fn channel_cases(out: &mut Vec<Case>) {
    for (samples, channels, space) in [(3, 6, 35), (70, 12, 1), (2, 8, 1024), (5, 3, 100), (200, 64, 7)] {
        let small = TINY.map(|eps| (Mood::Small, eps));
        for (mood, eps) in [Mood::Plain, Mood::Hard, Mood::Large].map(|mood| (mood, 1e-5)).into_iter().chain(small) {
            let groups = [1, 2, 3usize, channels].into_iter().filter(|groups| channels.is_multiple_of(*groups));
            for what in groups.map(What::Group).chain([What::Batch, What::Inference]) {
                out.push(Case::Channels(channels::Case { samples, channels, space, what, mood, eps }));
            }
        }
    }
}

fn compare<T: Number>(device: &Device, case: &Case) -> Result<(), String>
where
    T::Acc: Number,
{
    match case {
        Case::Rows(case) => rows::compare::<T>(device, case),
        Case::Channels(case) => channels::compare::<T>(device, case),
    }
}

/// Every kernel once or twice, on little data: short enough for compute-sanitizer.
fn reduced_work() -> Vec<(Type, Case)> {
    let base = |rows, n| rows::Case { kernel: Kernel::Held, fused: Some(true), ..rows::Case::new(rows, n) };
    let apart = |rows, n| rows::Case { fused: Some(false), ..base(rows, n) };
    let mut work = Vec::new();
    let mut push = |element, case| work.push((element, Case::Rows(case)));
    // Rows in registers: part of a warp, a warp, a block, a cluster; whole vectors, and single elements with gaps.
    for element in [Type::F32, Type::Bf16] {
        push(element, rows::Case { mood: Mood::Hard, ..base(67, 64) });
        push(element, rows::Case { shift: 1, gap: 3, ..apart(67, 100) });
        push(element, rows::Case { zero_centered: true, residual: true, wide_params: true, ..apart(9, 1000) });
    }
    push(Type::F32, base(67, 1024));
    push(Type::Bf16, rows::Case { mood: Mood::Long, ..apart(3, 3000) });
    push(Type::F32, base(3, 4096));
    push(Type::Bf16, rows::Case { centered: false, ..base(3, 40000) });
    push(Type::F32, rows::Case { mood: Mood::Long, ..apart(3, 40000) });
    // Rows of any length; many chunks of rows.
    let chosen = |rows, n| rows::Case { kernel: Kernel::Chosen, ..rows::Case::new(rows, n) };
    push(Type::Bf16, chosen(2, 300_000));
    push(Type::F32, chosen(64 * 20 + 5, 64));
    // Few rows: one thread per lane; sums for γ and β with one block per chunk and with warps, also in clusters.
    push(Type::F32, rows::Case { mood: Mood::Hard, ..chosen(67, 1000) });
    push(Type::Bf16, rows::Case { mood: Mood::Large, ..chosen(131, 1024) });
    push(Type::F32, rows::Case { mood: Mood::Long, ..chosen(700, 300) });
    push(Type::Bf16, chosen(5, 20000));
    // Streaming rows: one warp, several warps, several blocks, with more rows than teams.
    let streams = |rows, n, mood| rows::Case { kernel: Kernel::Stream, mood, ..rows::Case::new(rows, n) };
    push(Type::Bf16, streams(2117, 1024, Mood::Steep));
    push(Type::F32, streams(427, 5000, Mood::Long));
    push(Type::Bf16, streams(427, 1536, Mood::Plain));
    push(Type::F32, streams(57, 12800, Mood::Long));
    push(Type::F32, streams(57, 40000, Mood::Steep));
    push(Type::Bf16, streams(57, 40000, Mood::Long));
    // One thread per row.
    push(Type::Bf16, rows::Case { kernel: Kernel::Each, mood: Mood::Hard, ..rows::Case::new(500, 64) });
    push(Type::F16, base(9, 1000));
    push(Type::F64, apart(9, 1000));
    // Rows whose squares underflow, in every kernel.
    let small = |case: rows::Case| rows::Case { mood: Mood::Small, eps: 1e-30, ..case };
    push(Type::F32, small(base(67, 64)));
    push(Type::Bf16, small(apart(9, 1000)));
    push(Type::F32, small(chosen(67, 1000)));
    push(Type::F32, small(chosen(3, 300_000)));
    push(Type::F32, small(streams(57, 5000, Mood::Plain)));
    push(Type::Bf16, small(rows::Case { kernel: Kernel::Each, ..rows::Case::new(500, 64) }));
    let channels = |samples, channels, space, what, mood| {
        let eps = if mood == Mood::Small { 1e-30 } else { 1e-5 };
        Case::Channels(channels::Case { samples, channels, space, what, mood, eps })
    };
    work.push((Type::F32, channels(3, 6, 35, What::Group(2), Mood::Small)));
    work.push((Type::F32, channels(70, 12, 1, What::Batch, Mood::Small)));
    work.push((Type::F32, channels(3, 6, 35, What::Group(2), Mood::Hard)));
    work.push((Type::Bf16, channels(2, 8, 1024, What::Group(8), Mood::Plain)));
    work.push((Type::F32, channels(3, 6, 35, What::Batch, Mood::Large)));
    work.push((Type::Bf16, channels(70, 12, 1, What::Batch, Mood::Plain)));
    work.push((Type::F32, channels(3, 6, 35, What::Inference, Mood::Plain)));
    work
}

/// Every size class, type and mood. `few`: only those with few rows.
fn whole_work(few: bool) -> Vec<(Type, Case)> {
    let mut list = Vec::new();
    if !few {
        // The newest kernels first.
        EACH_SIZES.iter().for_each(|&n| each_cases(n, &mut list));
        STREAM_SIZES.iter().for_each(|&n| stream_cases(n, &mut list));
    }
    SMALL_SIZES.iter().for_each(|&n| small_cases(n, &mut list));
    if !few {
        // Then longer rows and channels, before the short rows.
        let (short, long): (Vec<usize>, Vec<usize>) = SIZES.iter().partition(|&&n| n <= 8192);
        long.iter().for_each(|&n| row_cases(n, &mut list));
        channel_cases(&mut list);
        short.iter().for_each(|&n| row_cases(n, &mut list));
    }
    let mut work: Vec<(Type, Case)> =
        list.iter().flat_map(|&case| Type::ALL.iter().map(move |&element| (element, case))).collect();
    work.retain(|(element, case)| match case {
        Case::Rows(case) => {
            let streams = case.kernel == Kernel::Stream;
            let few = if case.kernel == Kernel::Each {
                *element == Type::F16
            } else if case.kernel == Kernel::Chosen {
                FEW_SMALL.contains(&case.n)
            } else if streams {
                *element == Type::F16 && FEW_STREAMS.contains(&case.n)
            } else {
                FEW_SIZES.contains(&case.n)
            };
            matches!(element, Type::F32 | Type::Bf16) || few
        }
        Case::Channels(_) => true,
    });
    work
}

/// Runs all cases, a reduced set, or those with few rows; only rows of the given sizes, if any. Returns the number of
/// failures.
pub fn run(device: &Device, reduced: bool, few: bool, sizes: &[usize]) -> usize {
    let mut work = if reduced { reduced_work() } else { whole_work(few) };
    if !sizes.is_empty() {
        work.retain(|(_, case)| matches!(case, Case::Rows(case) if sizes.contains(&case.n)));
    }
    let (next, done, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(4, |count| count.get());
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Neighboring cases share their kernels. A thread takes several at a time, so that no kernel is
                // compiled by all threads at once.
                let mine = || work.chunks(NEIGHBOURS).nth(next.fetch_add(1, Ordering::Relaxed));
                for (element, case) in std::iter::from_fn(mine).flatten() {
                    let began = std::time::Instant::now();
                    let result = match element {
                        Type::F32 => compare::<f32>(device, case),
                        Type::F16 => compare::<f16>(device, case),
                        Type::Bf16 => compare::<bf16>(device, case),
                        Type::F64 => compare::<f64>(device, case),
                    };
                    if began.elapsed().as_secs() >= 6 {
                        println!("slow: {element:?} {case:?} took {:.1} s", began.elapsed().as_secs_f64());
                    }
                    if let Err(error) = result {
                        println!("DIFFERS {element:?} {case:?}: {error}");
                        let mut failures = failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        failures.push(format!("{element:?} {case:?}: {error}"));
                    }
                    // Shows progress, in case the run is interrupted.
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if count % 50 == 0 {
                        println!("{count} of {} cases done after {:.1} s", work.len(), start.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!(
        "{} of {} cases match the CPU's bits, in {:.1} s",
        work.len() - failures.len(),
        work.len(),
        start.elapsed().as_secs_f64()
    );
    failures.len()
}

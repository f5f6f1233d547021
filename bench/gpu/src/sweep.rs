//! Compares launch layouts, so that the tables of `config` can be set from one run.

use crate::time::{Bench, Shape, prepare};
use layernorm_cuda::config::{Registers, Strategy, Streaming, ThreadPerRow};
use layernorm_cuda::{Device, Error, Type};

const SIZES: [usize; 14] = [4096, 262_144, 1024, 16384, 65536, 8192, 768, 32768, 131_072, 64, 256, 16, 32, 128];

#[derive(Clone, Copy, Debug)]
struct Candidate {
    shape: Shape,
    strategy: Strategy,
    /// Whether it is a backward pass, with the sums for γ and β.
    back: bool,
}

/// The library's streaming layout, and those that differ from it in one respect.
fn stream_candidates(shape: Shape, device: &Device) -> Vec<Candidate> {
    let (element, n, properties) = (shape.element, shape.n, device.properties());
    let mut list = Vec::new();
    for back in [false, true] {
        let params = if back { 1 } else { 2 };
        let choose = if back { Streaming::backward } else { Streaming::forward };
        let Some(base) = choose(element, n, params, properties) else { continue };
        let mut found = vec![base];
        found.extend([1, 2].map(|hint| Streaming { hint, ..base }));
        found.extend([1, 2, 4, 8].map(|waves| Streaming { waves, ..base }));
        if back && base.row_blocks > 1 {
            found.push(Streaming { messages: !base.messages, ..base });
        }
        let fits = |one: &Streaming| one.fits(element, back, params, properties);
        let one = base.threads / base.teams();
        // Twice the blocks, each with half of the columns.
        if base.row_blocks > 1 && base.row_blocks <= 8 && base.warps > 4 {
            let half = Streaming { row_blocks: 2 * base.row_blocks, warps: base.warps / 2, ..base };
            found.push(Streaming { threads: if back { one / 2 } else { one / 2 * 3 }, ..half });
            found.push(Streaming { threads: one / 2, min_blocks: 2, ..half });
        }
        found.extend(other_sizes(&base, back && n > 1024, fits));
        // Several waves of blocks with a few rows each.
        let few = |&(threads, blocks): &(usize, usize)| threads <= 512 && (256..=640).contains(&(threads * blocks));
        let shapes = [1, 2, 4, 8, 16].into_iter().flat_map(|teams| (1..=16).map(move |blocks| (one * teams, blocks)));
        for (threads, min_blocks) in shapes.filter(|shape| !back && few(shape)) {
            let with = |(ring_pieces, waves)| Streaming { ring_pieces, threads, min_blocks, waves, ..base };
            found.extend([(1, 16), (2, 8), (2, 16), (2, 32)].map(with));
        }
        let mut kept: Vec<Streaming> = Vec::new();
        for one in found {
            if !kept.contains(&one) && fits(&one) {
                kept.push(one);
            }
        }
        list.extend(kept.into_iter().map(|one| Candidate { shape, strategy: Strategy::Streaming(one), back }));
    }
    list
}

/// Other numbers of teams per block or of warps per multiprocessor, each with the longest ring that fits. `one_team`:
/// a block has one team.
fn other_sizes(base: &Streaming, one_team: bool, fits: impl Fn(&Streaming) -> bool + Copy) -> Vec<Streaming> {
    let one = base.threads / base.teams();
    let mut found = Vec::new();
    for (threads, min_blocks) in
        [1, 2, 4, 8, 16].iter().flat_map(|teams| [1, 2, 3, 4, 6, 7, 8, 12, 14].map(|blocks| (one * teams, blocks)))
    {
        let shape = Streaming { threads, min_blocks, ..*base };
        let (held, usual) = (threads * min_blocks, base.threads * base.min_blocks);
        if threads > 1024 || (one_team && shape.teams() > 1) || held * 2 < usual || held > usual * 2 {
            continue;
        }
        for pieces in [1, 2, 4] {
            let with = |ring_pieces| Streaming { pieces, ring_pieces, ..shape };
            found.extend((1..=4 * pieces).rev().map(with).find(fits));
        }
    }
    found
}

/// Whether so many blocks with so much dynamic shared memory fit on a multiprocessor.
fn fits(bytes: usize, blocks: usize, device: &Device) -> bool {
    let bytes = bytes + (12 << 10);
    let properties = device.properties();
    bytes <= properties.shared_per_block && bytes * blocks <= properties.shared_per_multiprocessor
}

/// Rows in registers.
fn register_candidates(shape: Shape, device: &Device) -> Vec<Candidate> {
    let (element, n) = (shape.element, shape.n);
    let mut bases = Vec::new();
    if n <= 1024 {
        for team in [2, 4, 8, 16, 32] {
            let base = Registers::narrow(element, n, team, 128).whole_steps();
            if base.vectors * 16 / element.bytes() <= 32 && team * 16 / element.bytes() <= n.next_power_of_two() {
                bases.push(base);
            }
        }
    } else {
        for cluster in [1, 2, 4, 8, 16] {
            let base = Registers::wide(element, n, cluster);
            if base.warps <= 16 && base.warps >= 4.min(n / 1024) {
                bases.push(base);
            }
        }
    }
    let mut list = Vec::new();
    for base in bases {
        let steps = base.steps();
        let most = 512 / base.threads.min(512);
        for back in [false, true] {
            let rings: Vec<usize> =
                if back { vec![0, steps + 1, steps + 2, 2 * steps, 3 * steps] } else { vec![0, 2 * steps, 3 * steps] };
            for ring_steps in rings {
                // Fewer blocks have more registers: the backward pass holds two sums per element.
                let choices =
                    if back { [most.div_ceil(2), (most * 3).div_ceil(4), most] } else { [most, most * 2, most * 2] };
                for min_blocks in choices.into_iter().collect::<std::collections::BTreeSet<_>>() {
                    for keeps_params in [false, true] {
                        let threads = base.threads * min_blocks;
                        if threads > 1536
                            || (keeps_params && (back || n <= 4096))
                            || (ring_steps == 0 && (keeps_params || (back && n > 1024)))
                        {
                            continue;
                        }
                        let one = Registers { ring_steps, min_blocks, keeps_params, sums: back, ..base };
                        let whole = ring_steps == 0 || !back || ring_steps > steps;
                        if whole && fits(one.ring_bytes(1 + usize::from(back)), min_blocks, device) {
                            list.push(Candidate { shape, strategy: Strategy::Registers(one), back });
                        }
                    }
                }
            }
        }
    }
    list
}

/// 16-bit types in vectors of four, in short-lived blocks.
fn four_candidates(shape: Shape) -> Vec<Candidate> {
    if shape.element.bytes() != 2 || shape.n > 1024 {
        return Vec::new();
    }
    let mut list = Vec::new();
    for team in [8, 16, 32].into_iter().filter(|team| (8..=32).contains(&shape.n.div_ceil(*team))) {
        for threads in [64, 128] {
            let base = Registers::narrow_four(shape.element, shape.n, team, threads);
            let strategy = |held: usize| Strategy::Registers(Registers { min_blocks: held / threads, ..base });
            list.extend([512, 768, 1024].map(|held| Candidate { shape, strategy: strategy(held), back: false }));
        }
    }
    list
}

/// One thread per row, in one wave and in several.
fn thread_per_row_candidates(shape: Shape, device: &Device) -> Vec<Candidate> {
    let all = [(3, 128, 4), (2, 128, 4), (2, 128, 5), (2, 128, 3), (3, 128, 2), (3, 64, 8)];
    let with = |(rows, threads, blocks)| ThreadPerRow::new(shape.element, shape.n, rows, threads, blocks);
    let found = all.into_iter().filter_map(with).filter(|one| fits(one.buffer_bytes(), one.min_blocks, device));
    let candidate = |one| Candidate { shape, strategy: Strategy::ThreadPerRow(one), back: false };
    found.flat_map(|one| [1, 4].map(|waves| candidate(ThreadPerRow { waves, ..one }))).collect()
}

/// The candidates for a size. `held`: also rows in registers, not only streaming ones.
fn all_candidates(shapes: &[Shape], device: &Device, held: bool) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = shapes.iter().flat_map(|&shape| stream_candidates(shape, device)).collect();
    // The library's choice for rows in registers.
    list.extend(shapes.iter().filter_map(|&shape| {
        let one = Registers::forward(shape.element, shape.rows, shape.n, true, 1, device.properties())?;
        Some(Candidate { shape, strategy: Strategy::Registers(one), back: false })
    }));
    list.extend(shapes.iter().flat_map(|&shape| thread_per_row_candidates(shape, device)));
    list.extend(shapes.iter().flat_map(|&shape| four_candidates(shape)));
    // Short rows have no other candidates.
    list.extend(
        shapes.iter().filter(|shape| held || shape.n <= 512).flat_map(|&shape| register_candidates(shape, device)),
    );
    list
}

/// Size by size, so that an interrupted run has printed some results. `held`: also rows in registers; only the given
/// `sizes`, if any.
pub fn run(device: &Device, held: bool, sizes: &[usize]) -> Result<(), Error> {
    let mut bench = Bench::new(device)?;
    // Two bf16 make one f32 whose magnitude is that of the second, so the same bytes serve both types.
    bench.fill(Type::Bf16)?;
    let sizes = if sizes.is_empty() { &SIZES } else { sizes };
    for &n in sizes {
        let shapes = [Type::F32, Type::Bf16].map(|element| Shape::whole(element, n));
        let shapes: Vec<Shape> = shapes.into_iter().filter(|shape| shape.rows <= Bench::ROWS).collect();
        let list = all_candidates(&shapes, device, held);
        let start = std::time::Instant::now();
        prepare(&list, |one| launch(&bench, one));
        device.synchronize()?;
        println!("N={n}: {} candidates, built in {:.1} s", list.len(), start.elapsed().as_secs_f64());
        for shape in &shapes {
            // Writes the statistics that backward reads.
            bench.forward(shape, None)?;
            for back in [false, true] {
                let mine = list.iter().filter(|one| one.back == back && one.shape.element == shape.element);
                report(&bench, shape, back, mine)?;
            }
        }
    }
    Ok(())
}

fn launch(bench: &Bench, one: &Candidate) -> Result<(), Error> {
    if one.back {
        bench.backward(&one.shape, Some(one.strategy))
    } else {
        bench.forward(&one.shape, Some(one.strategy))
    }
}

/// Prints the library's choice, the best six and the worst two.
fn report<'a>(
    bench: &Bench,
    shape: &Shape,
    back: bool,
    candidates: impl Iterator<Item = &'a Candidate>,
) -> Result<(), Error> {
    let rate = |seconds: f64| shape.bytes(2 + usize::from(back)) / seconds / 1e12;
    let name = format!("{:?} N={} {}", shape.element, shape.n, if back { "backward" } else { "forward" });
    let chosen = bench.median(5, || if back { bench.backward(shape, None) } else { bench.forward(shape, None) })?;
    println!("{name} chosen {:.2} TB/s", rate(chosen));
    let mut found = Vec::new();
    for one in candidates {
        match bench.median(5, || launch(bench, one)) {
            Ok(seconds) => found.push((rate(seconds), one.strategy)),
            Err(error) => println!("{one:?}: {error}"),
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (rate, strategy) in found.iter().take(6).chain(found.iter().skip(6).rev().take(2)) {
        println!("{name} {rate:.2} {strategy:?}");
    }
    Ok(())
}

//! Geometries that are not the library's choice yet, each for a size that misses its bar (`bench/gpu/NOTES.md`): `check --new` holds
//! them against the CPU, `sweep --new` against the library's choice.

use layernorm_cuda::config::{self, Flow, Geometry};
use layernorm_cuda::{Properties, Type};

/// Threads, rings and blocks of kernels with a thread a row.
const EACH: [(usize, usize, usize); 6] = [(3, 128, 4), (2, 128, 4), (2, 128, 5), (2, 128, 3), (3, 128, 2), (3, 64, 8)];

/// As many rings and blocks as fit: what a block has beside its rows is 4 KiB at most.
fn room(geometry: &Geometry, element: Type, properties: &Properties) -> bool {
    let bytes = geometry.ring_bytes(element, 1) + (4 << 10);
    bytes <= properties.shared_per_block && bytes * geometry.blocks <= properties.shared_per_multiprocessor
}

/// A thread a row, in blocks that stay and in those that come and go.
fn each(element: Type, n: usize, properties: &Properties) -> Vec<Geometry> {
    let all = EACH.iter().filter_map(|&(ring, threads, blocks)| Geometry::each(element, n, ring, threads, blocks));
    let fitting = all.filter(|one| room(one, element, properties));
    fitting.flat_map(|one| [1, 4].map(|waves| Geometry { waves, ..one })).collect()
}

/// The library's choice in more blocks than fit at once, and in twice as many of half the size.
fn in_waves(element: Type, n: usize, params: usize, properties: &Properties) -> Vec<Geometry> {
    let Some(base) = config::stream_forward(element, n, params, properties).filter(|base| base.cluster == 1) else {
        return Vec::new();
    };
    let half = (base.teams() > 1).then(|| Geometry { threads: base.threads / 2, blocks: 2 * base.blocks, ..base });
    let fits = |one: &Geometry| config::stream_fits(one, element, false, params, properties);
    let half = half.and_then(|half| (1..=half.ring).rev().map(|ring| Geometry { ring, ..half }).find(fits));
    let with = |one: Geometry, waves: &[usize]| -> Vec<Geometry> {
        waves.iter().map(|&waves| Geometry { waves, ..one }).collect()
    };
    let mut found = with(base, &[2, 4, 8]);
    found.extend(half.into_iter().flat_map(|half| with(half, &[1, 2, 4, 8])));
    found
}

/// Rows over several blocks: by messages, in clusters of two, in clusters that come and go with rows in registers.
fn over_blocks(element: Type, n: usize, params: usize, properties: &Properties) -> Vec<Geometry> {
    let blocks_of = |warps: usize| n.div_ceil(1024 * warps).next_power_of_two();
    let wide = element == Type::F32;
    // Warps and teams of a block: with 128 registers a thread in f32, 80 or 64 in 16 bits.
    let shapes: &[(usize, usize)] =
        if wide { &[(8, 2), (16, 1), (4, 4)] } else { &[(8, 3), (8, 4), (4, 6), (8, 2), (16, 2)] };
    let mut found = Vec::new();
    for &(warps, teams) in shapes {
        let cluster = blocks_of(warps);
        let over = |across| config::stream_forward_over(element, n, (cluster, teams, 1), across, params, properties);
        if cluster > 1 {
            found.extend(over(true));
        }
        if cluster == 2 && wide {
            found.extend(over(false));
            found.extend(config::stream_forward_over(element, n, (2, 1, 2), false, params, properties));
        }
    }
    let hinted = |one: &Geometry| Geometry { flow: one.flow.map(|flow| Flow { hint: 1, ..flow }), ..*one };
    let first = found.first().map(hinted);
    found.extend(first);
    let cluster = blocks_of(8);
    if wide && (2..=16).contains(&cluster) {
        let held = Geometry::wide(element, n, cluster);
        found.extend([2, 3, 4].map(|blocks| Geometry { blocks, ..held }));
    }
    found
}

/// Forward; `params`: how many of γ and β there are.
pub fn forward(element: Type, n: usize, params: usize, properties: &Properties) -> Vec<Geometry> {
    let one_block = if element == Type::F32 { 16384..=16384 } else { 1024..=16384 };
    let mut found = each(element, n, properties);
    if one_block.contains(&n) {
        found.extend(in_waves(element, n, params, properties));
    }
    if n > 16384 || (element == Type::F32 && n == 16384) {
        found.extend(over_blocks(element, n, params, properties));
    }
    found
}

/// Backward with the sums for γ and β: blocks of a row as a cluster, of up to eight.
pub fn backward(element: Type, n: usize, params: usize, properties: &Properties) -> Vec<Geometry> {
    let base = config::stream_backward(element, n, params, properties).filter(|base| (2..=8).contains(&base.cluster));
    let Some((base, flow)) = base.and_then(|base| Some((base, base.flow?))) else { return Vec::new() };
    let fits = |one: &Geometry| config::stream_fits(one, element, true, params, properties);
    let with = |pieces, ring| Geometry { ring, flow: Some(Flow { pieces, across: false, ..flow }), ..base };
    // In as many pieces as the library has, and in others.
    [1, 2, 4]
        .into_iter()
        .filter_map(|pieces| (1..=4 * pieces).rev().map(|ring| with(pieces, ring)).find(fits))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> Properties {
        Properties {
            name: "H200".into(),
            capability: 90,
            multiprocessors: 132,
            shared_per_block: 227 << 10,
            shared_per_multiprocessor: 228 << 10,
            threads_per_multiprocessor: 2048,
            l2: 50 << 20,
            clusters: true,
            cooperative: true,
        }
    }

    /// Every size that misses its bar has candidates, and each holds a row and has room on a multiprocessor.
    #[test]
    fn candidates_fit() {
        let device = h200();
        for element in [Type::F32, Type::Bf16] {
            for n in [64, 1024, 4096, 8192, 16384, 32768, 65536, 131_072, 262_144] {
                let found = forward(element, n, 2, &device);
                let missed = element != Type::F32 || !(1024..16384).contains(&n);
                assert_eq!(!found.is_empty(), missed, "{element:?} N={n}");
                println!("{element:?} N={n}: {} forward", found.len());
                for one in &found {
                    println!("  {one:?}");
                    let per = if one.flow.is_some() { 4 } else { 16 / element.bytes() };
                    assert!(one.vectors * one.team * per * one.warps * one.cluster >= n, "{element:?} N={n}: {one:?}");
                    assert!(one.threads * one.blocks <= 2048, "{element:?} N={n}: {one:?}");
                    assert!(one.flow.is_none() || config::stream_fits(one, element, false, 2, &device));
                }
            }
        }
        let clusters = |element, n| backward(element, n, 1, &device).len();
        assert!(clusters(Type::F32, 16384) > 0 && clusters(Type::Bf16, 32768) > 0);
        assert_eq!(clusters(Type::F32, 8192), 0, "a row of one block");
    }
}

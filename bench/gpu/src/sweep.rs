//! Geometries beside each other, so that the tables of `config` can be set from one run.

use crate::time::{Bench, Shape, prepare};
use layernorm_cuda::config::{self, Geometry};
use layernorm_cuda::{Device, Error, Type};

const SIZES: [usize; 9] = [64, 256, 768, 1024, 4096, 8192, 16384, 65536, 262_144];

#[derive(Clone, Copy, Debug)]
struct Candidate {
    shape: Shape,
    geometry: Geometry,
    /// Backward, with the sums for γ and β.
    back: bool,
}

fn fits(geometry: &Geometry, shape: &Shape, back: bool, device: &Device) -> bool {
    let element = shape.element;
    let tensors = 1 + usize::from(back);
    let whole = geometry.ring == 0 || geometry.ring > if back { geometry.steps(element) } else { 0 };
    let bytes = geometry.ring_bytes(element, tensors) + (12 << 10);
    let properties = device.properties();
    whole && bytes <= properties.shared_per_block && bytes * geometry.blocks <= properties.shared_per_multiprocessor
}

fn candidates(shape: Shape, device: &Device) -> Vec<Candidate> {
    let (element, n) = (shape.element, shape.n);
    let mut bases = Vec::new();
    if n <= 1024 {
        for team in [4, 8, 16, 32] {
            let geometry = Geometry::narrow(element, n, team, 128);
            if geometry.vectors * 16 / element.bytes() <= 32 && team * 16 / element.bytes() <= n.next_power_of_two() {
                bases.push(geometry);
            }
        }
    } else {
        for cluster in [1, 2, 4, 8, 16] {
            let geometry = Geometry::wide(element, n, cluster);
            if geometry.warps <= 16 && geometry.warps >= 4.min(n / 1024) {
                bases.push(geometry);
            }
        }
    }
    let mut list = Vec::new();
    for base in bases {
        let steps = base.steps(element);
        let most = 512 / base.threads.min(512);
        for back in [false, true] {
            let rings: Vec<usize> =
                if back { vec![0, steps + 1, steps + 2, 2 * steps, 3 * steps] } else { vec![0, 2 * steps, 3 * steps] };
            for ring in rings {
                // Fewer blocks have more registers: backward holds two sums an element.
                let choices =
                    if back { [most.div_ceil(2), (most * 3).div_ceil(4), most] } else { [most, most * 2, most * 2] };
                for blocks in choices.into_iter().collect::<std::collections::BTreeSet<_>>() {
                    for keep in [false, true] {
                        let threads = base.threads * blocks;
                        if threads > 1536
                            || (keep && (back || n <= 4096))
                            || (ring == 0 && (keep || (back && n > 1024)))
                        {
                            continue;
                        }
                        let geometry = Geometry { ring, blocks, keep, ..base };
                        if fits(&geometry, &shape, back, device) {
                            list.push(Candidate { shape, geometry, back });
                        }
                    }
                }
            }
        }
    }
    list
}

pub fn run(device: &Device) -> Result<(), Error> {
    let mut bench = Bench::new(device)?;
    let shapes: Vec<Shape> =
        [Type::F32, Type::Bf16].iter().flat_map(|&element| SIZES.map(|n| Shape::whole(element, n))).collect();
    for element in [Type::F32, Type::Bf16] {
        bench.fill(element)?;
        let mine = shapes.iter().filter(|shape| shape.element == element);
        let list: Vec<Candidate> = mine.flat_map(|&shape| candidates(shape, device)).collect();
        let start = std::time::Instant::now();
        prepare(&list, |one: &Candidate| {
            if one.back {
                bench.backward(&one.shape, Some((one.geometry, true)))
            } else {
                bench.forward(&one.shape, Some(one.geometry))
            }
        });
        device.synchronize()?;
        println!("{} candidates, built in {:.1} s", list.len(), start.elapsed().as_secs_f64());
        for shape in shapes.iter().filter(|shape| shape.element == element) {
            for back in [false, true] {
                bench.forward(shape, None)?;
                let mut found = Vec::new();
                for one in
                    list.iter().filter(|one| one.back == back && one.shape.n == shape.n && one.shape.element == element)
                {
                    let work = || {
                        if back {
                            bench.backward(shape, Some((one.geometry, true)))
                        } else {
                            bench.forward(shape, Some(one.geometry))
                        }
                    };
                    match bench.median(5, work) {
                        Ok(seconds) => found.push((shape.bytes(2 + usize::from(back)) / seconds / 1e12, one.geometry)),
                        Err(error) => println!("{one:?}: {error}"),
                    }
                }
                found.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (rate, g) in found.iter().take(6).chain(found.iter().skip(6).rev().take(1)) {
                    println!(
                        "{element:?} N={} {} {rate:.2} TB/s team {} warps {} cluster {} vectors {} ring {} threads {} keep {} blocks {}",
                        shape.n,
                        if back { "backward" } else { "forward" },
                        g.team,
                        g.warps,
                        g.cluster,
                        g.vectors,
                        g.ring,
                        g.threads,
                        g.keep,
                        g.blocks
                    );
                }
                if let Some(ours) = if back {
                    config::backward(element, shape.rows, shape.n, true, true, device.properties())
                } else {
                    config::forward(element, shape.rows, shape.n, true, 1, device.properties())
                } {
                    println!("  chosen now: {ours:?}");
                }
            }
        }
    }
    Ok(())
}

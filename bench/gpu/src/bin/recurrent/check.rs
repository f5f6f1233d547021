//! The GPU compared with the CPU engine; the same bits in repeated runs; the same bits in another batch.

use crate::case::{Case, Data, OnGpu, Results, on_cpu};
use layernorm_cuda::recurrent::{Number, supports};
use layernorm_cuda::{Device, Error};
use layernorm_rnn::{Kind, Variant};
use std::sync::{Mutex, MutexGuard};

/// Cases are prepared in parallel, but use the GPU one after the other.
static GPU: Mutex<()> = Mutex::new(());

fn alone_on_gpu() -> MutexGuard<'static, ()> {
    GPU.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// ‖a − b‖ / ‖b‖. NaN if a contains a NaN.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let gap: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let norm: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    if gap == 0.0 { 0.0 } else { (gap / norm.max(1e-30)).sqrt() }
}

/// How much a result may differ, relative to its norm. u is half a unit in the last place of the type. A step rounds h
/// (or dz) once to the type: an error of u relative to its norm, with independent errors, so U h is off by u too, and
/// gates, norms and cell hardly amplify it. The errors of T steps add up as √T, and a result is rounded once more.
/// Backward, every gate has the error of the forward pass, and the operands of each product are rounded again: three
/// times as much. f32 products are accurate to 2^-21, and tensor cores truncate when they add: 2^-20 here. tf32 rounds
/// operands to 11 bits.
fn bound(case: &Case, backward: bool) -> f64 {
    let u = match case.number {
        Number::F32 if case.tf32 => 2f64.powi(-11),
        Number::F32 => 2f64.powi(-20),
        Number::F16 => 2f64.powi(-11),
        Number::Bf16 => 2f64.powi(-8),
    };
    let growth = 1.0 + (case.steps as f64).sqrt();
    u * growth * if backward { 3.0 } else { 1.0 }
}

fn is_backward(name: &str) -> bool {
    !matches!(name, "y" | "last h" | "last c")
}

/// The result with the largest error relative to its bound: that ratio, the error, and its name.
fn worst(case: &Case, gpu: &Results, cpu: &Results) -> (f64, f64, String) {
    let mut worst = (0.0, 0.0, String::new());
    for (name, expected) in cpu {
        let found = &gpu.iter().find(|result| result.0 == *name).expect("a result of that name").1;
        assert_eq!(found.len(), expected.len(), "{name}");
        let gap = distance(found, expected);
        let share = gap / bound(case, is_backward(name));
        // NaN is the worst of all.
        let share = if share.is_nan() { f64::INFINITY } else { share };
        if share > worst.0 {
            worst = (share, gap, name.clone());
        }
    }
    worst
}

fn same_bits(a: &Results, b: &Results) -> bool {
    a.iter().zip(b).all(|(a, b)| a.1.iter().zip(&b.1).all(|(a, b)| a.to_bits() == b.to_bits()))
}

fn word(same: bool) -> &'static str {
    if same { "same" } else { "DIFFER" }
}

/// Whether a case passes; prints a line if it does not, or if `loud`.
pub fn check(device: &Device, case: &Case, loud: bool) -> Result<bool, Error> {
    let data = Data::random(case, 7 + case.hidden as u64);
    let cpu = on_cpu(case, &data);
    case.compile(device)?;
    let gpu_is_ours = alone_on_gpu();
    let mut gpu = OnGpu::new(device, case, &data, true)?;
    let first = gpu.results(true)?;
    let again = gpu.results(true)?;
    let graph = gpu.replayed(device)?.is_none_or(|replayed| same_bits(&first, &replayed));
    let plain = OnGpu::new(device, case, &data, false)?.results(false)?;
    drop(gpu_is_ours);
    let (share, gap, name) = worst(case, &first, &cpu);
    let same = same_bits(&first, &again);
    // y and the last state are the first results.
    let inference = same_bits(&plain[..3].to_vec(), &first[..3].to_vec());
    let good = share <= 1.0 && same && inference && graph;
    if !good || loud {
        println!(
            "{} {}: {name} off by {gap:.2e}, {share:.2} of its bound; bits repeated: {}; without tape: {}; in a graph: {}",
            if good { "ok  " } else { "FAIL" },
            case.name(),
            word(same),
            word(inference),
            word(graph),
        );
        if !good {
            for (name, expected) in &cpu {
                let found = &first.iter().find(|result| result.0 == *name).expect("a result of that name").1;
                println!("       {name}: {:.2e}", distance(found, expected));
            }
        }
    }
    Ok(good)
}

/// Sequences alone and in a larger batch: y, dx and the last state have the same bits.
pub fn independent(device: &Device, case: &Case, few: usize) -> Result<bool, Error> {
    let data = Data::random(case, 3);
    let alone = Case { batch: few, ..*case };
    let mut part = Data::random(&alone, 3);
    part.network = data.network.clone();
    // Time first: the first `few` sequences of every step.
    let cut = |values: &[f32], width: usize| -> Vec<f32> {
        values.chunks(case.batch * width).flat_map(|step| step[..few * width].to_vec()).collect()
    };
    (part.x, part.dy) = (cut(&data.x, case.input), cut(&data.dy, case.hidden));
    part.lengths = data.lengths[..few].to_vec();
    for (to, from) in [(&mut part.first, &data.first), (&mut part.dlast, &data.dlast)] {
        to.h = from.h[..few * case.hidden].to_vec();
        to.c = from.c[..from.c.len().min(few * case.hidden)].to_vec();
    }
    case.compile(device)?;
    alone.compile(device)?;
    let gpu_is_ours = alone_on_gpu();
    let all = OnGpu::new(device, case, &data, true)?.results(true)?;
    let few_results = OnGpu::new(device, &alone, &part, true)?.results(true)?;
    drop(gpu_is_ours);
    let mut good = true;
    for (name, width) in [("y", case.hidden), ("dx", case.input), ("last h", case.hidden), ("dh0", case.hidden)] {
        let get = |results: &Results| results.iter().find(|result| result.0 == name).expect("a result").1.clone();
        let (expected, found) = (cut(&get(&all), width), get(&few_results));
        let differing = expected.iter().zip(&found).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        if differing > 0 {
            good = false;
            println!("FAIL {}: {name} of {few} sequences run alone differs in {differing} numbers", case.name());
        }
    }
    Ok(good)
}

/// Every named variant. Those that the kernels do not support run on the CPU, with copies to and from the device.
fn variants() -> Vec<Variant> {
    Kind::ALL.into_iter().flat_map(Variant::all).copied().collect()
}

/// A few small cases that use every kernel, for compute-sanitizer.
pub fn reduced() -> Vec<Case> {
    let of = |kind, name, number, size| Case::new(Variant::named(kind, name).unwrap(), number, size);
    let mut all = Vec::new();
    for kind in [Kind::Lstm, Kind::Gru] {
        all.push(Case { state: true, lengths: true, ..of(kind, "paper", Number::F32, (3, 3, 20, 33)) });
        all.push(Case { state: true, lengths: true, ..of(kind, "paper", Number::F32, (3, 1, 20, 33)) });
        all.push(Case { params: Number::Bf16, ..of(kind, "paper", Number::Bf16, (3, 17, 64, 64)) });
    }
    let reverse = of(Kind::Lstm, "torchaudio", Number::F16, (3, 3, 20, 33));
    all.push(Case { reverse: true, batch_first: true, lengths: true, ..reverse });
    all.push(Case { tf32: true, ..of(Kind::Lstm, "paper", Number::F32, (3, 5, 64, 64)) });
    // Several blocks, and a matrix that does not fit in registers.
    all.push(Case { params: Number::F16, ..of(Kind::Lstm, "paper", Number::F16, (3, 16, 64, 512)) });
    all.push(of(Kind::Gru, "none", Number::F32, (3, 8, 64, 512)));
    all
}

/// All cases: every variant and type at small odd sizes with every option, and a few at large sizes.
pub fn cases(quick: bool) -> Vec<Case> {
    let mut all = Vec::new();
    for variant in variants() {
        for number in Number::ALL {
            let plain = Case::new(variant, number, (5, 3, 20, 33));
            all.push(Case { state: true, lengths: true, ..plain });
            all.push(Case { params: number, reverse: true, lengths: true, batch_first: true, state: true, ..plain });
            if !quick && supports(&variant).is_ok() {
                all.push(Case { state: true, ..Case::new(variant, number, (4, 17, 100, 100)) });
                all.push(Case { params: number, ..Case::new(variant, number, (3, 64, 64, 512)) });
            }
        }
    }
    if quick {
        return all;
    }
    // Clusters of 3, 6, 10, 12 and 15 blocks (those above have 2, 4 and 16), with a partial last block.
    for (kind, hidden) in
        [Kind::Lstm, Kind::Gru].into_iter().flat_map(|kind| [90, 170, 300, 370, 450].map(|h| (kind, h)))
    {
        for number in [Number::F16, Number::Bf16] {
            let variant = Variant::named(kind, "paper").unwrap();
            all.push(Case { state: true, lengths: true, ..Case::new(variant, number, (4, 9, 24, hidden)) });
        }
    }
    for kind in [Kind::Lstm, Kind::Gru] {
        for size in [(5, 3, 20, 33), (3, 16, 256, 1024), (2, 64, 64, 2048)] {
            let variant = Variant::named(kind, "paper").unwrap();
            all.push(Case { state: true, tf32: true, ..Case::new(variant, Number::F32, size) });
        }
    }
    // One sequence; more sequences than run at once, of an odd size.
    for number in Number::ALL {
        let case = |size| Case {
            lengths: true,
            state: true,
            ..Case::new(Variant::named(Kind::Lstm, "paper").unwrap(), number, size)
        };
        all.push(case((5, 1, 20, 33)));
        all.push(Case { reverse: true, ..case((2, 600, 24, 90)) });
    }
    // Two groups of blocks, the second with a single sequence in a chunk, or with part of a chunk.
    for (kind, number) in [Kind::Lstm, Kind::Gru].into_iter().flat_map(|kind| Number::ALL.map(|number| (kind, number)))
    {
        let variant = Variant::named(kind, "paper").unwrap();
        all.push(Case { state: true, lengths: true, ..Case::new(variant, number, (4, 17, 40, 1000)) });
        all.push(Case { state: true, reverse: true, ..Case::new(variant, number, (3, 33, 40, 1000)) });
    }
    // More units than the kernels support.
    let paper = Variant::named(Kind::Lstm, "paper").unwrap();
    all.push(Case { state: true, ..Case::new(paper, Number::F32, (2, 2, 16, 4300)) });
    let sizes = [
        (3, 1, 1024, 1024),
        (3, 16, 256, 1024),
        (2, 64, 64, 1024),
        (2, 1, 64, 2048),
        (2, 70, 32, 2048),
        (3, 256, 32, 64),
        (2, 256, 64, 512),
        (2, 5, 40, 2500),
    ];
    for (kind, name) in [(Kind::Lstm, "paper"), (Kind::Lstm, "torchaudio"), (Kind::Gru, "paper"), (Kind::Lstm, "none")]
    {
        let variant = Variant::named(kind, name).unwrap();
        for number in Number::ALL {
            for size in sizes {
                if name == "paper" || size.3 == 1024 {
                    all.push(Case { state: true, ..Case::new(variant, number, size) });
                }
            }
        }
    }
    all
}

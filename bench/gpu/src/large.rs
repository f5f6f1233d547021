//! More than 2³¹ elements: the rows repeat, so that the CPU needs to compute each of them only once.
//!
//! y and dx of a row depend only on that row. The sums for γ and β of a chunk of 64 rows depend only on the chunk, and
//! the chunks are folded as adjacent pairs, padded with +0 (rule 5).

use crate::data::{self, Mood, Number, difference};
use half::bf16;
use layernorm::{Affine, Context, Gradients, NormConfig, Param, ParamMut, Saved, View, ViewMut, layer_norm};
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{self as cuda, Backward, Device, Forward, RowNorm, Rows, Stats, Type, Workspace};

const N: usize = 4096;
/// The period in rows: whole chunks.
const PERIOD: usize = 512;
const CHUNK: usize = 64;
const ROWS: usize = (1 << 31) / N + 3 * CHUNK + 5;

/// The CPU's results for the first period: y, dx, and the sums of each chunk for γ and β.
struct Reference {
    y: Vec<bf16>,
    dx: Vec<bf16>,
    sums: [Vec<Vec<f32>>; 2],
}

fn reference(x: &[bf16], dy: &[bf16], gain: &[f32], bias: &[f32], rows: usize) -> Result<Reference, layernorm::Error> {
    let mut out = Reference { y: vec![bf16::ZERO; rows * N], dx: vec![bf16::ZERO; rows * N], sums: Default::default() };
    let (weight, bias) = (Param::F32(View::new(gain, &[N])?), Param::F32(View::new(bias, &[N])?));
    let config = NormConfig::new().affine(Affine { weight: Some(weight), bias: Some(bias), zero_centered: false });
    let cx = &mut Context::new();
    for first in (0..rows).step_by(CHUNK) {
        let count = CHUNK.min(rows - first);
        let (shape, at) = ([count, N], first * N..(first + count) * N);
        let mut saved = Saved::new(count);
        let y = ViewMut::new(&mut out.y[at.clone()], &shape)?;
        layer_norm::forward(View::new(&x[at.clone()], &shape)?, y, Some(saved.as_mut()), &config, cx)?;
        let mut sums = [vec![0.0; N], vec![0.0; N]];
        let [gain_sum, bias_sum] = &mut sums;
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut out.dx[at.clone()], &shape)?),
            weight: Some(ParamMut::F32(ViewMut::new(gain_sum, &[N])?)),
            bias: Some(ParamMut::F32(ViewMut::new(bias_sum, &[N])?)),
        };
        let (x, dy) = (View::new(&x[at.clone()], &shape)?, View::new(&dy[at], &shape)?);
        layer_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx)?;
        for (list, sum) in out.sums.iter_mut().zip(sums) {
            list.push(sum);
        }
    }
    Ok(out)
}

/// Folds the sums of all chunks: those of the period repeat, and `last` ends the tensor.
fn fold(period: &[Vec<f32>], last: &[f32]) -> Vec<f32> {
    let chunks = ROWS.div_ceil(CHUNK);
    let column = |c: usize| {
        let mut level: Vec<f32> =
            (0..chunks).map(|i| if i + 1 < chunks { period[i % period.len()][c] } else { last[c] }).collect();
        level.resize(chunks.next_power_of_two(), 0.0);
        while level.len() > 1 {
            level = level.chunks(2).map(|two| two[0] + two[1]).collect();
        }
        level[0]
    };
    (0..N).map(column).collect()
}

/// Returns what was checked, or what differs as an error.
pub fn run(device: &Device) -> Result<String, String> {
    let start = std::time::Instant::now();
    let x = data::rows::<bf16>(PERIOD, N, Mood::Plain, 11);
    let dy = data::rows::<bf16>(PERIOD, N, Mood::Plain, 12);
    let (gain, bias) = (data::params::<f32>(N, Mood::Plain, 13), data::params::<f32>(N, Mood::Plain, 14));
    let whole = reference(&x, &dy, &gain, &bias, PERIOD).map_err(|error| error.to_string())?;
    let tail = ROWS % CHUNK;
    let from = ROWS / CHUNK * CHUNK % PERIOD * N;
    let last = reference(&x[from..], &dy[from..], &gain, &bias, tail).map_err(|error| error.to_string())?;
    let found = on_gpu(device, [&x, &dy], [&gain, &bias], &whole).map_err(|error| error.to_string())?;
    for (what, rows) in [("y", &found.y), ("dx", &found.dx)] {
        if let Some(first) = rows.first() {
            return Err(format!(
                "{ROWS} rows of {N}: {what} differs in {} rows, the first of which is {first}",
                rows.len()
            ));
        }
    }
    difference("dγ", &found.gain, &fold(&whole.sums[0], &last.sums[0][0]))?;
    difference("dβ", &found.bias, &fold(&whole.sums[1], &last.sums[1][0]))?;
    Ok(format!(
        "{ROWS} rows of {N}, {} elements: match the CPU's bits, in {:.1} s",
        ROWS * N,
        start.elapsed().as_secs_f64()
    ))
}

/// Rows of y and of dx that differ; dγ; dβ.
struct Found {
    y: Vec<usize>,
    dx: Vec<usize>,
    gain: Vec<f32>,
    bias: Vec<f32>,
}

/// `inputs`: x and dy of one period. `params`: γ and β.
fn on_gpu(
    device: &Device,
    inputs: [&[bf16]; 2],
    params: [&[f32]; 2],
    expected: &Reference,
) -> Result<Found, cuda::Error> {
    let stream = OwnedStream::new(device)?;
    let mut tensors = [Buffer::<bf16>::new(device, ROWS * N)?, Buffer::new(device, ROWS * N)?];
    for (tensor, from) in tensors.iter_mut().zip(inputs) {
        for row in (0..ROWS).step_by(PERIOD) {
            tensor.write(row * N, &from[..PERIOD.min(ROWS - row) * N])?;
        }
    }
    let out = Buffer::<bf16>::new(device, ROWS * N)?;
    let stat = || Buffer::<f32>::new(device, ROWS);
    let (m, delta, rstd) = (stat()?, stat()?, stat()?);
    let params = [Buffer::from_slice(device, params[0])?, Buffer::from_slice(device, params[1])?];
    let sums = [Buffer::<f32>::new(device, N)?, Buffer::<f32>::new(device, N)?];
    let wide = |buffer: &Buffer<f32>| Some(cuda::Param { address: buffer.at(0), f32: true });
    let affine = cuda::Affine { gain: wide(&params[0]), bias: wide(&params[1]), zero_centered: false };
    let norm = RowNorm { element: Type::Bf16, rows: ROWS, n: N, centered: true, eps: 1e-5, affine };
    let rows = |buffer: &Buffer<bf16>| Rows { address: buffer.at(0), stride: N as i64 };
    let stats = Stats { m: m.at(0), delta: delta.at(0), rstd: rstd.at(0) };
    let forward = Forward { x: rows(&tensors[0]), residual: None, y: rows(&out), stats: Some(stats) };
    let gradients = cuda::Gradients { gain: wide(&sums[0]), bias: wide(&sums[1]) };
    let backward =
        Backward { x: rows(&tensors[0]), dy: rows(&tensors[1]), dh: None, stats, dx: Some(rows(&out)), gradients };
    let work = Buffer::<u8>::new(device, norm.workspace(&gradients))?;
    let workspace = Workspace { address: work.at(0), bytes: work.len() };
    // SAFETY: the buffers are as large as the shapes require, and outlive the synchronization.
    unsafe { norm.forward(device, &forward, stream.stream())? };
    stream.synchronize()?;
    let y = differing(&out, &expected.y)?;
    // SAFETY: as above.
    unsafe { norm.backward(device, &backward, workspace, stream.stream())? };
    stream.synchronize()?;
    let dx = differing(&out, &expected.dx)?;
    let mut found = Found { y, dx, gain: vec![0.0; N], bias: vec![0.0; N] };
    sums[0].read(0, &mut found.gain)?;
    sums[1].read(0, &mut found.bias)?;
    Ok(found)
}

/// The rows in which a tensor differs from the repeated expected rows.
fn differing(out: &Buffer<bf16>, expected: &[bf16]) -> Result<Vec<usize>, cuda::Error> {
    let mut found = Vec::new();
    let mut rows = vec![bf16::ZERO; PERIOD * N];
    for first in (0..ROWS).step_by(PERIOD) {
        let count = PERIOD.min(ROWS - first);
        out.read(first * N, &mut rows[..count * N])?;
        for row in 0..count {
            let at = row * N..(row + 1) * N;
            if rows[at.clone()].iter().zip(&expected[at]).any(|(a, b)| a.bits() != b.bits()) {
                found.push(first + row);
            }
        }
    }
    Ok(found)
}

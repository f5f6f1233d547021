//! Layer norm of a few rows on the GPU and on the CPU, forward and backward: the same bits.

use layernorm::LayerNorm;
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{
    Affine, Backward, Device, Error, Forward, Gradients, Param, RowNorm, Rows, Stats, Type, Workspace,
};

fn on_gpu(device: &Device, layer: &LayerNorm<f32>, x: &[f32], dy: &[f32], n: usize) -> Result<[Vec<f32>; 4], Error> {
    let (rows, stream) = (x.len() / n, OwnedStream::new(device)?);
    let upload = |values: &[f32]| Buffer::from_slice(device, values);
    let room = |count: usize| Buffer::<f32>::new(device, count);
    let (x, dy, y, dx) = (upload(x)?, upload(dy)?, room(rows * n)?, room(rows * n)?);
    let gain = upload(layer.weight.as_deref().unwrap_or_default())?;
    let bias = upload(layer.bias.as_deref().unwrap_or_default())?;
    let (dgain, dbias, stats) = (room(n)?, room(n)?, room(3 * rows)?);

    let param = |buffer: &Buffer<f32>| Some(Param { address: buffer.at(0), f32: false });
    let affine = Affine { gain: param(&gain), bias: param(&bias), zero_centered: false };
    let norm = RowNorm { element: Type::F32, rows, n, centered: true, eps: 1e-5, affine };
    let at = |buffer: &Buffer<f32>| Rows { address: buffer.at(0), stride: n as i64 };
    let saved = Stats { m: stats.at(0), delta: stats.at(rows), rstd: stats.at(2 * rows) };
    let gradients = Gradients { gain: param(&dgain), bias: param(&dbias) };
    let work = Buffer::<u8>::new(device, norm.workspace(&gradients))?;
    let workspace = Workspace { address: work.at(0), bytes: work.len() };

    let there = Forward { x: at(&x), residual: None, y: at(&y), stats: Some(saved) };
    let back = Backward { x: at(&x), dy: at(&dy), dh: None, stats: saved, dx: Some(at(&dx)), gradients };
    // SAFETY: the buffers are as large as the norm requires, and live until the stream has been synchronized.
    unsafe {
        norm.forward(device, &there, stream.stream())?;
        norm.backward(device, &back, workspace, stream.stream())?;
    }
    stream.synchronize()?;
    let read = |buffer: &Buffer<f32>| {
        let mut values = vec![0.0; buffer.len()];
        buffer.read(0, &mut values).map(|()| values)
    };
    Ok([read(&y)?, read(&dx)?, read(&dgain)?, read(&dbias)?])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (rows, n) = (100, 1000);
    let numbers = |step: f32| (0..rows * n).map(|i| (i as f32 * step).sin()).collect::<Vec<f32>>();
    let (x, dy) = (numbers(0.7), numbers(1.3));
    let mut layer = LayerNorm::new([n]);
    layer.weight = Some((0..n).map(|i| 1.0 + 0.001 * i as f32).collect());
    layer.bias = Some(vec![0.25; n]);

    let (y, saved) = layer.forward_train(&x)?;
    let found = layer.backward(&x, &dy, &saved)?;
    let cpu = [y, found.input, found.weight.unwrap_or_default(), found.bias.unwrap_or_default()];

    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => return Err(format!("this example needs a GPU: {error}").into()),
    };
    println!("{}", device.properties().name);
    let gpu = on_gpu(&device, &layer, &x, &dy, n)?;
    for (name, (gpu, cpu)) in ["y", "dx", "dγ", "dβ"].iter().zip(gpu.iter().zip(&cpu)) {
        let differing = gpu.iter().zip(cpu).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        println!("{name}: {} numbers, {differing} differ from the CPU's", cpu.len());
    }
    Ok(())
}

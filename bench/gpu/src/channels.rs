//! Group and batch norm: the GPU compared with the CPU.

use crate::data::{self, Mood, Number, difference};
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Affine, Context, Gradients, ParamMut, Saved, View, ViewMut};
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{
    self as cuda, BatchBackward, BatchForward, BatchNorm, Device, GroupBackward, GroupNorm, Stats, Workspace,
};

/// Which norm.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Group(usize),
    /// Batch norm with the statistics of the batch; running statistics are updated.
    Batch,
    /// Batch norm with running statistics.
    Inference,
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub samples: usize,
    pub channels: usize,
    pub space: usize,
    pub what: What,
    pub mood: Mood,
    pub eps: f64,
}

struct Results<T: Number> {
    y: Vec<T>,
    saved: Saved<T::Acc>,
    running: (Vec<T::Acc>, Vec<T::Acc>),
    dx: Vec<T>,
    dgain: Vec<T>,
    dbias: Vec<T>,
}

impl<T: Number> Results<T> {
    fn new(case: &Case) -> Self
    where
        T::Acc: Number,
    {
        let (size, c) = (case.samples * case.channels * case.space, case.channels);
        let lines = if let What::Group(groups) = case.what { case.samples * groups } else { c };
        let zero = T::default();
        Results {
            y: vec![zero; size],
            saved: Saved::new(lines),
            running: (data::params(c, Mood::Plain, 71), data::params(c, Mood::Plain, 72)),
            dx: vec![zero; size],
            dgain: vec![zero; c],
            dbias: vec![zero; c],
        }
    }
}

/// Returns the first difference as an error.
pub fn compare<T: Number>(device: &Device, case: &Case) -> Result<(), String>
where
    T::Acc: Number,
{
    // A row of the mood is a group, or a channel of a sample.
    let per_row = match case.what {
        What::Group(groups) => case.channels / groups * case.space,
        _ => case.space,
    };
    let count = case.samples * case.channels * case.space;
    let seed = (count + case.channels) as u64;
    let x = data::rows::<T>(count / per_row, per_row, case.mood, seed);
    let mild = if case.mood == Mood::Small { Mood::Plain } else { case.mood };
    let dy = data::rows::<T>(count / per_row, per_row, mild, seed + 5);
    let (gain, bias) =
        (data::params::<T>(case.channels, case.mood, 5), data::params::<T>(case.channels, Mood::Plain, 6));
    let cpu = on_cpu(case, &x, &dy, &gain, &bias).map_err(|error| error.to_string())?;
    let gpu = on_gpu(device, case, &x, &dy, &gain, &bias).map_err(|error| error.to_string())?;
    if !matches!(case.what, What::Inference) {
        difference("m", &gpu.saved.m, &cpu.saved.m)?;
        difference("δ", &gpu.saved.delta, &cpu.saved.delta)?;
        difference("r", &gpu.saved.rstd, &cpu.saved.rstd)?;
    }
    difference("running mean", &gpu.running.0, &cpu.running.0)?;
    difference("running variance", &gpu.running.1, &cpu.running.1)?;
    difference("y", &gpu.y, &cpu.y)?;
    difference("dx", &gpu.dx, &cpu.dx)?;
    difference("dγ", &gpu.dgain, &cpu.dgain)?;
    difference("dβ", &gpu.dbias, &cpu.dbias)
}

fn on_cpu<T: Number>(case: &Case, x: &[T], dy: &[T], gain: &[T], bias: &[T]) -> Result<Results<T>, layernorm::Error>
where
    T::Acc: Number,
{
    let mut out = Results::<T>::new(case);
    let (shape, c) = ([case.samples, case.channels, case.space], [case.channels]);
    let cx = &mut Context::new().with_threads(1)?;
    let affine = Affine::new(View::new(gain, &c)?, View::new(bias, &c)?);
    let (x, dy) = (View::new(x, &shape)?, View::new(dy, &shape)?);
    let y = ViewMut::new(&mut out.y, &shape)?;
    let gradients = Gradients {
        input: Some(ViewMut::new(&mut out.dx, &shape)?),
        weight: Some(ParamMut::Same(ViewMut::new(&mut out.dgain, &c)?)),
        bias: Some(ParamMut::Same(ViewMut::new(&mut out.dbias, &c)?)),
    };
    let batch = BatchConfig { affine, eps: case.eps };
    match case.what {
        What::Group(groups) => {
            let config = GroupConfig { groups, affine, eps: case.eps };
            group_norm::forward(x, y, Some(out.saved.as_mut()), &config, cx)?;
            group_norm::backward(x, dy, out.saved.as_ref(), gradients, &config, cx)?;
        }
        What::Batch => {
            let running = batch_norm::Running {
                mean: &mut out.running.0,
                var: &mut out.running.1,
                momentum: Momentum::Exponential(0.1),
                variance: RunningVariance::Unbiased,
            };
            batch_norm::forward_running(x, y, out.saved.as_mut(), running, &batch, cx)?;
            batch_norm::backward(x, dy, out.saved.as_ref(), gradients, &batch, cx)?;
        }
        What::Inference => {
            let moments = Moments { mean: &out.running.0, var: &out.running.1 };
            batch_norm::infer(x, y, moments, &batch, cx)?;
            batch_norm::infer_backward(x, dy, moments, gradients, &batch, cx)?;
        }
    }
    Ok(out)
}

fn on_gpu<T: Number>(
    device: &Device,
    case: &Case,
    x: &[T],
    dy: &[T],
    gain: &[T],
    bias: &[T],
) -> Result<Results<T>, cuda::Error>
where
    T::Acc: Number,
{
    let mut out = Results::<T>::new(case);
    let Case { samples, channels, space, .. } = *case;
    let stream = OwnedStream::new(device)?;
    let (x, dy) = (Buffer::from_slice(device, x)?, Buffer::from_slice(device, dy)?);
    let (y, dx) = (Buffer::from_slice(device, &out.y)?, Buffer::from_slice(device, &out.dx)?);
    let (gain, bias) = (Buffer::from_slice(device, gain)?, Buffer::from_slice(device, bias)?);
    let (dgain, dbias) = (Buffer::<T>::new(device, channels)?, Buffer::<T>::new(device, channels)?);
    let saved: Vec<Buffer<T::Acc>> = (0..3).map(|_| Buffer::new(device, out.saved.rows())).collect::<Result<_, _>>()?;
    let running = (Buffer::from_slice(device, &out.running.0)?, Buffer::from_slice(device, &out.running.1)?);
    let param = |buffer: &Buffer<T>| Some(cuda::Param { address: buffer.at(0), f32: false });
    let affine = cuda::Affine { gain: param(&gain), bias: param(&bias), zero_centered: false };
    let gradients = cuda::Gradients { gain: param(&dgain), bias: param(&dbias) };
    let stats = Stats { m: saved[0].at(0), delta: saved[1].at(0), rstd: saved[2].at(0) };
    let group = |groups| GroupNorm { element: T::TYPE, samples, channels, space, groups, eps: case.eps, affine };
    let batch = BatchNorm { element: T::TYPE, samples, channels, space, eps: case.eps, affine };
    let bytes =
        if let What::Group(groups) = case.what { group(groups).workspace(&gradients) } else { batch.workspace() };
    let work = Buffer::<u8>::new(device, bytes)?;
    let workspace = Workspace { address: work.at(0), bytes };
    let moments = cuda::Running { mean: running.0.at(0), var: running.1.at(0), factor: 0.1, unbiased: true };
    // SAFETY: the buffers are as large as the shapes require, and outlive the synchronization.
    unsafe {
        if let What::Group(groups) = case.what {
            group(groups).forward(device, x.at(0), y.at(0), Some(stats), stream.stream())?;
            let call = GroupBackward { x: x.at(0), dy: dy.at(0), stats, dx: dx.at(0), gradients };
            group(groups).backward(device, &call, workspace, stream.stream())?;
        } else {
            let stats = matches!(case.what, What::Batch).then_some(stats);
            let call = BatchForward { x: x.at(0), y: y.at(0), stats, running: Some(moments) };
            batch.forward(device, &call, workspace, stream.stream())?;
            let running = stats.is_none().then_some(moments);
            let call = BatchBackward { x: x.at(0), dy: dy.at(0), stats, running, dx: dx.at(0), gradients };
            batch.backward(device, &call, workspace, stream.stream())?;
        }
    }
    stream.synchronize()?;
    y.read(0, &mut out.y)?;
    dx.read(0, &mut out.dx)?;
    dgain.read(0, &mut out.dgain)?;
    dbias.read(0, &mut out.dbias)?;
    running.0.read(0, &mut out.running.0)?;
    running.1.read(0, &mut out.running.1)?;
    // Inference writes no statistics.
    if !matches!(case.what, What::Inference) {
        for (from, to) in saved.iter().zip([&mut out.saved.m, &mut out.saved.delta, &mut out.saved.rstd]) {
            from.read(0, to)?;
        }
    }
    Ok(out)
}

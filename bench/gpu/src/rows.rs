//! Layer norm and RMS norm of rows: the GPU compared with the CPU.

use crate::data::{self, Mood, Number, difference};
use layernorm::{Affine, Context, Gradients, NormConfig, Param, ParamMut, Saved, View, ViewMut, layer_norm, rms_norm};
use layernorm_cuda::config::{Registers, Strategy, Streaming, ThreadPerRow};
use layernorm_cuda::memory::{Buffer, OwnedStream};
use layernorm_cuda::{self as cuda, Backward, Device, Forward, RowNorm, Rows, Stats, Workspace};

/// Which kernels are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The library's choice.
    Chosen,
    /// Rows in registers.
    Held,
    /// Rows that stream through shared memory; the library's choice if they cannot.
    Stream,
    /// One thread per row in the forward pass; the library's choice if that is not possible, and backward.
    Each,
}

/// A call to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub rows: usize,
    pub n: usize,
    pub centered: bool,
    pub mood: Mood,
    /// Whether γ and β are f32 whatever the input is.
    pub wide_params: bool,
    pub affine: bool,
    /// Whether the gain is 1 + γ.
    pub zero_centered: bool,
    pub residual: bool,
    /// Elements before the first row, and between rows.
    pub shift: usize,
    pub gap: usize,
    /// Whether the sums for γ and β are fused with dx; `None` for the library's choice.
    pub fused: Option<bool>,
    pub eps: f64,
    pub kernel: Kernel,
}

impl Case {
    pub fn new(rows: usize, n: usize) -> Self {
        Case {
            rows,
            n,
            centered: true,
            mood: Mood::Plain,
            wide_params: false,
            affine: true,
            zero_centered: false,
            residual: false,
            shift: 0,
            gap: 0,
            fused: None,
            eps: 1e-5,
            kernel: Kernel::Chosen,
        }
    }
}

/// The results of a call.
struct Results<T: Number> {
    h: Vec<T>,
    y: Vec<T>,
    saved: Saved<T::Acc>,
    dx: Vec<T>,
    gain: (Vec<T>, Vec<f32>),
    bias: (Vec<T>, Vec<f32>),
}

struct Inputs<T: Number> {
    x: Vec<T>,
    residual: Vec<T>,
    dy: Vec<T>,
    dh: Vec<T>,
    gain: Vec<T>,
    bias: Vec<T>,
    wide: (Vec<f32>, Vec<f32>),
}

/// Returns the first difference as an error.
pub fn compare<T: Number>(device: &Device, case: &Case) -> Result<(), String>
where
    T::Acc: Number,
{
    let Case { rows, n, mood, .. } = *case;
    let seed = (rows * 31 + n) as u64;
    let of = |mood, seed| data::rows::<T>(rows, n, mood, seed);
    let mild = if matches!(mood, Mood::Large | Mood::Steep) { Mood::Plain } else { mood };
    let inputs = Inputs {
        x: of(mild, seed),
        residual: of(if mood == Mood::Small { mood } else { Mood::Plain }, seed + 1),
        dy: of(if matches!(mood, Mood::Long | Mood::Small) { Mood::Plain } else { mood }, seed + 5),
        dh: of(Mood::Plain, seed + 3),
        gain: data::params(n, mood, seed),
        bias: data::params(n, Mood::Plain, seed + 1),
        wide: (data::params(n, mood, seed), data::params(n, Mood::Plain, seed + 1)),
    };
    let cpu = on_cpu(case, &inputs).map_err(|error| error.to_string())?;
    let gpu = on_gpu(device, case, &inputs).map_err(|error| error.to_string())?;
    if case.residual {
        difference("h", &gpu.h, &cpu.h)?;
    }
    difference("m", &gpu.saved.m, &cpu.saved.m)?;
    difference("δ", &gpu.saved.delta, &cpu.saved.delta)?;
    difference("r", &gpu.saved.rstd, &cpu.saved.rstd)?;
    difference("y", &gpu.y, &cpu.y)?;
    difference("dx", &gpu.dx, &cpu.dx)?;
    if case.wide_params {
        difference("dγ", &gpu.gain.1, &cpu.gain.1)?;
        difference("dβ", &gpu.bias.1, &cpu.bias.1)
    } else {
        difference("dγ", &gpu.gain.0, &cpu.gain.0)?;
        difference("dβ", &gpu.bias.0, &cpu.bias.0)
    }
}

fn on_cpu<T: Number>(case: &Case, inputs: &Inputs<T>) -> Result<Results<T>, layernorm::Error> {
    let Case { rows, n, .. } = *case;
    let (shape, zero) = ([rows, n], vec![T::default(); rows * n]);
    let mut out = Results {
        h: inputs.x.clone(),
        y: zero.clone(),
        saved: Saved::new(rows),
        dx: zero,
        gain: (vec![T::default(); n], vec![0.0; n]),
        bias: (vec![T::default(); n], vec![0.0; n]),
    };
    let cx = &mut Context::new().with_threads(1)?;
    let params = if case.wide_params {
        (Param::F32(View::new(&inputs.wide.0, &[n])?), Param::F32(View::new(&inputs.wide.1, &[n])?))
    } else {
        (Param::Same(View::new(&inputs.gain, &[n])?), Param::Same(View::new(&inputs.bias, &[n])?))
    };
    let affine = if case.affine {
        Affine { weight: Some(params.0), bias: Some(params.1), zero_centered: case.zero_centered }
    } else {
        Affine::default()
    };
    let config = NormConfig::new().affine(affine).eps(case.eps);
    let (x, y) = (View::new(&inputs.x, &shape)?, ViewMut::new(&mut out.y, &shape)?);
    if case.residual {
        let (residual, h) = (View::new(&inputs.residual, &shape)?, ViewMut::new(&mut out.h, &shape)?);
        let forward = if case.centered { layer_norm::forward_residual } else { rms_norm::forward_residual };
        forward(x, residual, h, y, Some(out.saved.as_mut()), &config, cx)?;
    } else {
        let forward = if case.centered { layer_norm::forward } else { rms_norm::forward };
        forward(x, y, Some(out.saved.as_mut()), &config, cx)?;
    }
    let (x, dy) = (View::new(&out.h, &shape)?, View::new(&inputs.dy, &shape)?);
    let gradients = Gradients {
        input: Some(ViewMut::new(&mut out.dx, &shape)?),
        weight: Some(if case.wide_params {
            ParamMut::F32(ViewMut::new(&mut out.gain.1, &[n])?)
        } else {
            ParamMut::Same(ViewMut::new(&mut out.gain.0, &[n])?)
        }),
        bias: Some(if case.wide_params {
            ParamMut::F32(ViewMut::new(&mut out.bias.1, &[n])?)
        } else {
            ParamMut::Same(ViewMut::new(&mut out.bias.0, &[n])?)
        }),
    };
    let dh = if case.residual { Some(View::new(&inputs.dh, &shape)?) } else { None };
    let backward = if case.centered { layer_norm::backward_residual } else { rms_norm::backward_residual };
    backward(x, dy, dh, out.saved.as_ref(), gradients, &config, cx)?;
    Ok(out)
}

/// Rows in their own buffer, shifted and with gaps, which are filled with poison.
struct Placed<T> {
    buffer: Buffer<T>,
    case: Case,
}

impl<T: Number> Placed<T> {
    fn new(device: &Device, case: &Case, rows: Option<&[T]>) -> Result<Self, cuda::Error> {
        let stride = case.n + case.gap;
        let mut all = vec![T::from_f64(f64::NAN); case.shift + case.rows * stride + 16];
        if let Some(rows) = rows {
            for (row, from) in rows.chunks(case.n).enumerate() {
                let at = case.shift + row * stride;
                all[at..at + case.n].copy_from_slice(from);
            }
        }
        Ok(Placed { buffer: Buffer::from_slice(device, &all)?, case: *case })
    }

    fn rows(&self) -> Rows {
        Rows { address: self.buffer.at(self.case.shift), stride: (self.case.n + self.case.gap) as i64 }
    }

    /// Reads the rows; fails if anything was written between them.
    fn read(&self) -> Result<Vec<T>, cuda::Error> {
        let Case { rows, n, shift, gap, .. } = self.case;
        let mut all = vec![T::default(); self.buffer.len()];
        self.buffer.read(0, &mut all)?;
        let untouched = |part: &[T]| part.iter().all(|value| value.bits() == u64::MAX);
        assert!(untouched(&all[..shift]), "wrote before the first row");
        assert!(untouched(&all[shift + rows * (n + gap)..]), "wrote past the last row");
        let mut out = Vec::with_capacity(rows * n);
        for row in 0..rows {
            let at = shift + row * (n + gap);
            out.extend_from_slice(&all[at..at + n]);
            assert!(untouched(&all[at + n..at + n + gap]), "wrote between rows {row} and {}", row + 1);
        }
        Ok(out)
    }
}

fn is_aligned(case: &Case, element: cuda::Type) -> bool {
    let whole = |elements: usize| (elements * element.bytes()).is_multiple_of(16);
    whole(case.shift) && whole(case.n) && whole(case.gap)
}

fn forward_strategy(case: &Case, element: cuda::Type, device: &Device) -> Option<Strategy> {
    let (properties, aligned) = (device.properties(), is_aligned(case, element));
    match case.kernel {
        Kernel::Stream => {
            Streaming::forward(element, case.n, 2 * usize::from(case.affine), properties).map(Strategy::Streaming)
        }
        Kernel::Held => {
            let tensors = 1 + usize::from(case.residual);
            Registers::forward(element, case.rows, case.n, aligned, tensors, properties).map(Strategy::Registers)
        }
        Kernel::Each => ThreadPerRow::supported(element, case.n, properties).map(Strategy::ThreadPerRow),
        Kernel::Chosen => None,
    }
}

fn backward_strategy(case: &Case, element: cuda::Type, device: &Device) -> Option<Strategy> {
    let (properties, aligned) = (device.properties(), is_aligned(case, element));
    if case.kernel == Kernel::Stream {
        let params = usize::from(case.affine);
        return Streaming::backward(element, case.n, params, properties).map(Strategy::Streaming);
    }
    let sums = case.fused?;
    Registers::backward(element, case.rows, case.n, aligned, sums, properties).map(Strategy::Registers)
}

fn on_gpu<T: Number>(device: &Device, case: &Case, inputs: &Inputs<T>) -> Result<Results<T>, cuda::Error> {
    let Case { rows, n, .. } = *case;
    let stream = OwnedStream::new(device)?;
    let placed = |rows: Option<&[T]>| Placed::new(device, case, rows);
    let (x, residual, dy, dh) = (
        placed(Some(&inputs.x))?,
        placed(Some(&inputs.residual))?,
        placed(Some(&inputs.dy))?,
        placed(Some(&inputs.dh))?,
    );
    let (h, y, dx) = (placed(None)?, placed(None)?, placed(None)?);
    let stats = [0, 1, 2].map(|_| Buffer::<T::Acc>::new(device, rows));
    let [m, delta, rstd] = stats;
    let (m, delta, rstd) = (m?, delta?, rstd?);
    let saved = Stats { m: m.at(0), delta: delta.at(0), rstd: rstd.at(0) };
    let (gain, bias) = (Buffer::from_slice(device, &inputs.gain)?, Buffer::from_slice(device, &inputs.bias)?);
    let wide = (Buffer::from_slice(device, &inputs.wide.0)?, Buffer::from_slice(device, &inputs.wide.1)?);
    let (dgain, dbias) = (Buffer::<T>::new(device, n)?, Buffer::<T>::new(device, n)?);
    let dwide = (Buffer::<f32>::new(device, n)?, Buffer::<f32>::new(device, n)?);
    let pick = |narrow: &Buffer<T>, wide: &Buffer<f32>| {
        let address = if case.wide_params { wide.at(0) } else { narrow.at(0) };
        Some(cuda::Param { address, f32: case.wide_params })
    };
    let affine = if case.affine {
        cuda::Affine { gain: pick(&gain, &wide.0), bias: pick(&bias, &wide.1), zero_centered: case.zero_centered }
    } else {
        cuda::Affine::default()
    };
    let norm = RowNorm { element: T::TYPE, rows, n, centered: case.centered, eps: case.eps, affine };
    let residuals = case.residual.then(|| (residual.rows(), h.rows()));
    let forward = Forward { x: x.rows(), residual: residuals, y: y.rows(), stats: Some(saved) };
    let gradients = cuda::Gradients { gain: pick(&dgain, &dwide.0), bias: pick(&dbias, &dwide.1) };
    let work = Buffer::<u8>::new(device, norm.workspace(&gradients))?;
    let workspace = Workspace { address: work.at(0), bytes: work.len() };
    let from = if case.residual { &h } else { &x };
    let dh_rows = case.residual.then(|| dh.rows());
    let backward =
        Backward { x: from.rows(), dy: dy.rows(), dh: dh_rows, stats: saved, dx: Some(dx.rows()), gradients };
    // SAFETY: the buffers are as large as the shapes require, and outlive the synchronization.
    unsafe {
        match forward_strategy(case, T::TYPE, device) {
            Some(chosen) => norm.forward_with(device, &forward, chosen, stream.stream())?,
            None => norm.forward(device, &forward, stream.stream())?,
        }
        match backward_strategy(case, T::TYPE, device) {
            Some(chosen) => norm.backward_with(device, &backward, workspace, chosen, stream.stream())?,
            None => norm.backward(device, &backward, workspace, stream.stream())?,
        }
    }
    stream.synchronize()?;
    let read = |buffer: &Buffer<T::Acc>| -> Result<Vec<T::Acc>, cuda::Error> {
        let mut to = vec![T::Acc::default(); buffer.len()];
        buffer.read(0, &mut to).map(|()| to)
    };
    let both = |narrow: &Buffer<T>, wide: &Buffer<f32>| -> Result<(Vec<T>, Vec<f32>), cuda::Error> {
        let mut to = (vec![T::default(); n], vec![0.0; n]);
        // Only one of the two was written.
        if case.wide_params {
            wide.read(0, &mut to.1)?
        } else {
            narrow.read(0, &mut to.0)?
        }
        Ok(to)
    };
    Ok(Results {
        h: h.read()?,
        y: y.read()?,
        saved: Saved { m: read(&m)?, delta: read(&delta)?, rstd: read(&rstd)? },
        dx: dx.read()?,
        gain: both(&dgain, &dwide.0)?,
        bias: both(&dbias, &dwide.1)?,
    })
}

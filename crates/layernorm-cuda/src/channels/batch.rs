//! Batch norm: sums down the channels, per-channel results from them, and a pass over the elements.

use super::Shape;
use crate::columns::{self, ColumnParams, Fold, Gradients, Output, Terms};
use crate::config::CHUNK;
use crate::device::Device;
use crate::error::Error;
use crate::kernels::{self, COLUMN_THREADS, Kinds};
use crate::launch::{Launch, Stream, grid};
use crate::layout::{by_accumulator, device_struct};
use crate::rows::RowNorm;
use crate::types::{
    Accumulator, Affine, Count, Stats, Type, Workspace, address, check_address, check_eps, counted, padded, product,
    with_accumulator,
};

/// Batch norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Element type.
    pub element: Type,
    /// N, the number of samples.
    pub samples: usize,
    /// C, the number of channels.
    pub channels: usize,
    /// Places per sample and channel: the product of the dimensions after C.
    pub space: usize,
    /// ε: finite, 0 or more.
    pub eps: f64,
    /// γ and β, `[C]`.
    pub affine: Affine,
}

/// Running statistics, `[C]` each, in the arithmetic type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Device address of the means.
    pub mean: u64,
    /// Device address of the variances.
    pub var: u64,
    /// The weight of the current batch, 0 to 1.
    pub factor: f64,
    /// Whether the variance is divided by M − 1 instead of M.
    pub unbiased: bool,
}

/// A forward pass of [`BatchNorm`]. Training uses the statistics of the batch and saves them; inference uses the
/// running statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchForward {
    /// Device address of the input.
    pub x: u64,
    /// Device address of the output.
    pub y: u64,
    /// Where the statistics of the batch are written; `None` for inference.
    pub stats: Option<Stats>,
    /// The running statistics, which training updates and inference uses.
    pub running: Option<Running>,
}

/// A backward pass of [`BatchNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchBackward {
    /// Device address of the input.
    pub x: u64,
    /// Device address of the output's gradient.
    pub dy: u64,
    /// The statistics that training saved; `None` for inference.
    pub stats: Option<Stats>,
    /// The running statistics that inference used.
    pub running: Option<Running>,
    /// Device address of the input's gradient; 0 if it is not wanted.
    pub dx: u64,
    /// Gradients of γ and β.
    pub gradients: Gradients,
}

device_struct! {
    struct BatchParams<A> as "Params" {
        c: ColumnParams<A>,
        gain: u64,
        bias: u64,
        sums: u64,
        m: u64,
        delta: u64,
        rstd: u64,
        running_mean: u64,
        running_var: u64,
        factor: A,
        correction: A,
        count: Count<A>,
        numbers: u64,
        dgain: u64,
        dbias: u64,
        to: u64,
        to_sample: i64,
        to_column: i64,
        to_place: i64,
    }
}

/// Layout assertions for `batch.cu`.
pub(crate) fn batch_layout() -> String {
    let size = |element| {
        format!(
            "static_assert(sizeof(Numbers) == {}, \"Numbers: size differs from the host's\");\n",
            numbers_bytes(element)
        )
    };
    let numbers = format!("#if ELEM == F64\n{}#else\n{}#endif\n", size(Type::F64), size(Type::F32));
    columns::columns_layout() + &by_accumulator!(BatchParams) + &numbers
}

/// Addresses of the parts of a workspace.
struct Places {
    sums: u64,
    raw: u64,
    fixed: [u64; 3],
    numbers: u64,
}

/// What the kernels of a pass get.
struct Pass<A> {
    places: Places,
    kinds: Kinds,
    view: ColumnParams<A>,
    params: BatchParams<A>,
}

/// Bytes that `batch.cu` stores per channel: five numbers and three exponents.
fn numbers_bytes(element: Type) -> usize {
    (5 * element.accumulator_bytes() + 12).next_multiple_of(element.accumulator_bytes())
}

impl BatchNorm {
    fn shape(&self) -> Shape {
        Shape { samples: self.samples, channels: self.channels, space: self.space }
    }

    fn positions(&self) -> usize {
        product(&[self.samples, self.space])
    }

    /// Bytes of workspace that [`BatchNorm::forward`] and [`BatchNorm::backward`] need; `usize::MAX` on overflow.
    pub fn workspace(&self) -> usize {
        let chunks = self.positions().div_ceil(CHUNK);
        let each = product(&[4, chunks]).saturating_add(4 + 3);
        let numbers = padded(product(&[each, self.channels, self.element.accumulator_bytes()]));
        numbers.saturating_add(product(&[self.channels, numbers_bytes(self.element)]))
    }

    fn places(&self, workspace: Workspace) -> Places {
        let array = (self.channels * self.element.accumulator_bytes()) as u64;
        let raw = workspace.address + 4 * self.positions().div_ceil(CHUNK) as u64 * array;
        let fixed = raw + 4 * array;
        let numbers = (fixed + 3 * array).next_multiple_of(16);
        Places { sums: workspace.address, raw, fixed: [fixed, fixed + array, fixed + 2 * array], numbers }
    }

    fn kinds(&self) -> Kinds {
        let Self { element, eps, affine, .. } = *self;
        RowNorm { element, rows: 0, n: 0, centered: true, eps, affine }.into()
    }

    fn params<A: Accumulator>(&self, view: &ColumnParams<A>, places: &Places) -> BatchParams<A> {
        let [to_sample, to_column, to_place] = self.shape().strides();
        BatchParams {
            c: *view,
            gain: address(self.affine.gain),
            bias: address(self.affine.bias),
            sums: places.raw,
            m: view.m,
            delta: view.delta,
            rstd: view.rstd,
            running_mean: 0,
            running_var: 0,
            factor: A::from_f64(0.0),
            correction: A::from_f64(1.0),
            count: A::count(self.positions()),
            numbers: places.numbers,
            dgain: 0,
            dbias: 0,
            to: 0,
            to_sample,
            to_column,
            to_place,
        }
    }

    /// Prepares a pass over `view`, which has no statistics yet.
    fn pass<A: Accumulator>(
        &self,
        mut view: ColumnParams<A>,
        stats: Option<Stats>,
        running: Option<Running>,
        workspace: Workspace,
    ) -> Result<Pass<A>, Error> {
        let (places, kinds) = (self.places(workspace), self.kinds());
        let running = self.running(running, stats.is_some())?;
        view.fixed = i64::from(stats.is_none());
        let stats = stats.unwrap_or(Stats { m: places.fixed[0], delta: places.fixed[1], rstd: places.fixed[2] });
        (view.m, view.delta, view.rstd) = (stats.m, stats.delta, stats.rstd);
        let params = running.apply(self.params(&view, &places));
        Ok(Pass { places, kinds, view, params })
    }

    fn check(&self, workspace: Workspace) -> Result<bool, Error> {
        check_eps(self.eps, self.element)?;
        counted("channels", &[self.channels])?;
        counted("values of a channel", &[self.samples, self.space])?;
        counted("elements", &[self.samples, self.channels, self.space])?;
        let work = self.channels > 0 && self.positions() > 0;
        if work {
            workspace.check(self.workspace())?;
        }
        Ok(work)
    }

    /// Launches a kernel of `batch.cu`: per channel, one block or (`moments`) one thread; the maps over all elements.
    unsafe fn channels<A: Accumulator>(
        &self,
        device: &Device,
        kinds: Kinds,
        entry: &'static str,
        params: &BatchParams<A>,
        stream: Stream,
    ) -> Result<(), Error> {
        let across = params.c.space == 1;
        let function = device.function(&kernels::batch(kinds, entry, across))?;
        let blocks = match entry {
            "moments" => self.channels.div_ceil(COLUMN_THREADS as usize),
            "statistics" | "gradients" => self.channels,
            _ if across => self.samples,
            _ => self.samples * self.channels,
        };
        let blocks = blocks.min(i32::MAX as usize) as u32;
        // SAFETY: the structure has the kernels' layout; the caller guarantees valid memory.
        unsafe { Launch::new(blocks, COLUMN_THREADS).run(&function, stream, params) }
    }

    /// Computes y, and in training the statistics, on a stream.
    ///
    /// # Safety
    /// As for [`RowNorm::backward`].
    pub unsafe fn forward(
        &self,
        device: &Device,
        call: &BatchForward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        if !self.check(workspace)? {
            return Ok(());
        }
        check_address("input", call.x, self.element.bytes())?;
        check_address("output", call.y, self.element.bytes())?;
        device.bind()?;
        // SAFETY: guaranteed by the caller.
        unsafe { with_accumulator!(self.element, self.forward_in(device, call, workspace, stream)) }
    }

    unsafe fn forward_in<A: Accumulator>(
        &self,
        device: &Device,
        call: &BatchForward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let view = self.shape().view::<A>(call.x, 0, self.eps);
        let Pass { places, kinds, view, params } = self.pass(view, call.stats, call.running, workspace)?;
        let params = BatchParams { to: call.y, ..params };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if call.stats.is_some() {
                let fold = |terms, output| Fold { terms, parts: view.chunks(), sums: places.sums, output };
                let (mean, raw) = (Output::Mean(view.m), Output::Raw(places.raw));
                columns::sums(device, &kinds, &view, Terms::Values, 0, places.sums, stream)?;
                columns::finish(device, &kinds, &view, &fold(Terms::Values, mean), stream)?;
                columns::sums(device, &kinds, &view, Terms::Deviations, 0, places.sums, stream)?;
                columns::finish(device, &kinds, &view, &fold(Terms::Deviations, raw), stream)?;
                self.channels(device, kinds, "statistics", &params, stream)?;
            } else {
                self.channels(device, kinds, "moments", &params, stream)?;
            }
            self.channels(device, kinds, "map_forward", &params, stream)
        }
    }

    /// Computes the gradients on a stream.
    ///
    /// # Safety
    /// As for [`RowNorm::backward`].
    pub unsafe fn backward(
        &self,
        device: &Device,
        call: &BatchBackward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        device.bind()?;
        if !self.check(workspace)? {
            // SAFETY: guaranteed by the caller.
            return unsafe { call.gradients.zero(self.element, self.channels, stream) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe { with_accumulator!(self.element, self.backward_in(device, call, workspace, stream)) }
    }

    unsafe fn backward_in<A: Accumulator>(
        &self,
        device: &Device,
        call: &BatchBackward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let view = self.shape().view::<A>(call.x, call.dy, self.eps);
        let Pass { places, kinds, view, params } = self.pass(view, call.stats, call.running, workspace)?;
        let (dgain, dbias) = (address(call.gradients.gain), address(call.gradients.bias));
        // SAFETY: guaranteed by the caller.
        unsafe {
            if call.stats.is_none() {
                self.channels(device, kinds, "moments", &params, stream)?;
            }
            let gain = address(self.affine.gain);
            columns::sums(device, &kinds, &view, Terms::Gradients, gain, places.sums, stream)?;
            let output = Output::Raw(places.raw);
            let fold = Fold { terms: Terms::Gradients, parts: view.chunks(), sums: places.sums, output };
            columns::finish(device, &kinds, &view, &fold, stream)?;
            self.gradient_channels(device, &BatchParams { dgain, dbias, ..params }, call, stream)?;
            if call.dx == 0 {
                return Ok(());
            }
            self.channels(device, kinds, "map_backward", &BatchParams { to: call.dx, ..params }, stream)
        }
    }

    /// Computes a and b of every channel, and dγ and dβ, whose type may differ from that of γ and β.
    unsafe fn gradient_channels<A: Accumulator>(
        &self,
        device: &Device,
        params: &BatchParams<A>,
        call: &BatchBackward,
        stream: Stream,
    ) -> Result<(), Error> {
        let kinds = self.kinds();
        let to = kinds.of(call.gradients.gain, call.gradients.bias);
        let variant = kernels::batch(kinds, "gradients", params.c.space == 1)
            .define("GAIN_TO", to.gain)
            .define("BIAS_TO", to.bias);
        let function = device.function(&variant)?;
        // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
        unsafe { Launch::new(grid(self.channels)?, COLUMN_THREADS).run(&function, stream, params) }
    }

    fn running(&self, running: Option<Running>, training: bool) -> Result<Update, Error> {
        let Some(running) = running else {
            if training {
                return Ok(Update { mean: 0, var: 0, factor: 0.0, correction: 1.0 });
            }
            return Err(Error::Operand { what: "running statistics", why: "required for inference".into() });
        };
        let Running { mean, var, factor, unbiased } = running;
        if !(0.0..=1.0).contains(&factor) {
            return Err(Error::Shape {
                why: format!("a batch's weight in the running statistics must be between 0 and 1, not {factor}"),
            });
        }
        let m = self.positions() as f64;
        if training && unbiased && self.positions() == 1 {
            return Err(Error::Shape { why: "a single value per channel has no unbiased variance".into() });
        }
        let correction = if unbiased && training { m / (m - 1.0) } else { 1.0 };
        Ok(Update { mean, var, factor, correction })
    }
}

/// A checked [`Running`], with the correction for the unbiased variance.
struct Update {
    mean: u64,
    var: u64,
    factor: f64,
    correction: f64,
}

impl Update {
    fn apply<A: Accumulator>(&self, params: BatchParams<A>) -> BatchParams<A> {
        BatchParams {
            running_mean: self.mean,
            running_var: self.var,
            factor: A::from_f64(self.factor),
            correction: A::from_f64(self.correction),
            ..params
        }
    }
}

//! A tensor's memory as the core sees it: views of existing tensors (with any strides), vectors for new ones.

use candle_core::{CpuStorage, DType, Device, Layout, Result, Storage, Tensor, WithDType, bail};
use layernorm::parts::memory;
use layernorm::{Element, Error, Param, ParamMut, View, ViewMut, bf16, f16};
use layernorm_rnn::runner_pool::PooledReal;
pub use layernorm_rnn::runner_pool::set_threads;
pub(crate) use layernorm_rnn::runner_pool::{new_context, with_context};

/// Element types that both Candle and the core support.
pub(crate) trait Number: layernorm::Element<Acc: PooledReal + WithDType> + WithDType {}

impl Number for f16 {}
impl Number for bf16 {}
impl Number for f32 {}
impl Number for f64 {}

/// Runs `$body`, which is a `Result`, with the type `$T` that a dtype stands for.
macro_rules! by_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            candle_core::DType::F32 => {
                type $T = f32;
                $body
            }
            candle_core::DType::F64 => {
                type $T = f64;
                $body
            }
            candle_core::DType::F16 => {
                type $T = layernorm::f16;
                $body
            }
            candle_core::DType::BF16 => {
                type $T = layernorm::bf16;
                $body
            }
            other => {
                candle_core::bail!("layernorm: expected a tensor of f16, bf16, f32 or f64, found {}", other.as_str())
            }
        }
    };
}
pub(crate) use by_type;

/// The arithmetic type for tensors of this type.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Converts an error of the core to Candle's, with the same message.
pub(crate) fn refused(error: impl std::fmt::Display) -> candle_core::Error {
    candle_core::Error::msg(format_args!("layernorm: {error}"))
}

/// Fails if one of the tensors is not on the CPU, where the kernels run.
pub(crate) fn on_cpu<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    match tensors.into_iter().find(|tensor| !tensor.device().is_cpu()) {
        Some(tensor) => Err(elsewhere(tensor)),
        None => Ok(()),
    }
}

fn elsewhere(tensor: &Tensor) -> candle_core::Error {
    refused(format_args!("expected a tensor on the CPU, found one on {:?}", tensor.device().location()))
}

/// A tensor in place: its memory and its layout.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) storage: &'a CpuStorage,
    pub(crate) layout: &'a Layout,
}

impl<'a> Stored<'a> {
    pub(crate) fn shape(&self) -> &'a [usize] {
        self.layout.dims()
    }

    /// A view of the tensor in place.
    pub(crate) fn view<T: WithDType>(&self) -> Result<View<'a, T>> {
        let data = T::cpu_storage_as_slice(self.storage)?;
        let strides: Vec<isize> = self.layout.stride().iter().map(|&stride| stride as isize).collect();
        View::strided(data, self.shape(), &strides, self.layout.start_offset()).map_err(refused)
    }

    /// A parameter of type T or f32.
    pub(crate) fn param<T: Number>(&self) -> Result<Param<'a, T>> {
        if is_f32(self.storage) { self.view().map(Param::F32) } else { self.view().map(Param::Same) }
    }

    /// Its numbers; fails unless they are contiguous in row-major order.
    pub(crate) fn numbers<T: WithDType>(&self) -> Result<&'a [T]> {
        let data = T::cpu_storage_as_slice(self.storage)?;
        match self.layout.contiguous_offsets() {
            Some((start, end)) => Ok(&data[start..end]),
            None => bail!("layernorm: expected a contiguous tensor, found strides {:?}", self.layout.stride()),
        }
    }
}

fn is_f32(storage: &CpuStorage) -> bool {
    matches!(storage, CpuStorage::F32(_))
}

/// Calls `read` with a tensor in place.
pub(crate) fn with_stored<R>(tensor: &Tensor, read: impl FnOnce(Stored) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => read(Stored { storage, layout }),
        _ => Err(elsewhere(tensor)),
    }
}

/// A row-major tensor of these numbers, without copying.
pub(crate) fn tensor<T: WithDType>(numbers: Vec<T>, shape: &[usize]) -> Result<Tensor> {
    Tensor::from_vec(numbers, shape, &Device::Cpu)
}

/// Number of elements of a shape; `usize::MAX` on overflow.
pub(crate) fn count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count, &n| count.saturating_mul(n))
}

/// Allocates a vector for a tensor of this shape. May fail: a broadcast tensor can have more elements than fit in
/// memory.
pub(crate) fn room<T: Element>(shape: &[usize]) -> Result<Vec<T>> {
    memory::zeros(count(shape)).map_err(refused)
}

/// A vector for a parameter's gradient, in the parameter's type.
pub(crate) enum Room<T> {
    Same(Vec<T>),
    F32(Vec<f32>),
}

impl<T: Number> Room<T> {
    pub(crate) fn like(parameter: &Stored) -> Result<Room<T>> {
        let shape = parameter.shape();
        if is_f32(parameter.storage) { room(shape).map(Room::F32) } else { room(shape).map(Room::Same) }
    }

    pub(crate) fn view(&mut self, shape: &[usize]) -> std::result::Result<ParamMut<'_, T>, Error> {
        match self {
            Room::Same(numbers) => ViewMut::new(numbers, shape).map(ParamMut::Same),
            Room::F32(numbers) => ViewMut::new(numbers, shape).map(ParamMut::F32),
        }
    }

    pub(crate) fn tensor(self, shape: &[usize]) -> Result<Tensor> {
        match self {
            Room::Same(numbers) => tensor(numbers, shape),
            Room::F32(numbers) => tensor(numbers, shape),
        }
    }
}

//! A flex tensor's memory as the core sees it: views of existing tensors (with any strides), vectors for new ones.

pub(crate) use crate::checks::or_panic;
use burn::backend::autodiff::ops::NodeGuard;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, DispatchTensor, DispatchTensorKind, Flex, TensorMetadata};
use burn::tensor::{DType, TensorData};
use layernorm::parts::memory;
use layernorm::{Error, Param, ParamMut, StatsMut, StatsRef, View, ViewMut, bf16, f16};
use layernorm_rnn::runner_pool::PooledReal;
pub use layernorm_rnn::runner_pool::set_threads;
pub(crate) use layernorm_rnn::runner_pool::{new_context, with_context};

/// A float tensor of flex under autodiff.
pub(crate) type Tracked = FloatTensor<Autodiff<Flex>>;

/// A type that a flex tensor can hold.
pub(crate) trait Stored: burn::tensor::Element + Default {
    /// The whole storage behind a tensor of this type.
    fn storage(tensor: &FlexTensor) -> &[Self];
}

/// Element types that both Burn and the core support.
pub(crate) trait Number: layernorm::Element<Acc: PooledReal + Stored> + Stored {}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Stored for $t {
            fn storage(tensor: &FlexTensor) -> &[Self] {
                tensor.storage::<$t>()
            }
        }

        impl Number for $t {}
    )*};
}

number!(f16, bf16, f32, f64);

/// Runs `$body` with the type `$T` that a dtype stands for.
macro_rules! by_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            burn::tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            burn::tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            burn::tensor::DType::F16 => {
                type $T = layernorm::f16;
                $body
            }
            burn::tensor::DType::BF16 => {
                type $T = layernorm::bf16;
                $body
            }
            other => panic!("layernorm: expected a tensor of f16, bf16, f32 or f64, found {other:?}"),
        }
    };
}
pub(crate) use by_type;

/// Whether the fused operations support this tensor: on flex, and of a type that the core supports.
pub(crate) fn is_fused(tensor: &DispatchTensor) -> bool {
    let on_flex = match &tensor.kind {
        DispatchTensorKind::Flex(_) => true,
        DispatchTensorKind::Autodiff(inner) => matches!(**inner, DispatchTensorKind::Flex(_)),
        #[allow(unreachable_patterns, reason = "others exist if the user's crate enables other backends")]
        _ => false,
    };
    on_flex && matches!(tensor.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

pub(crate) fn shape(tensor: &FlexTensor) -> &[usize] {
    tensor.layout().shape().as_slice()
}

/// A view of the tensor in place.
pub(crate) fn view<T: Number>(tensor: &FlexTensor) -> Result<View<'_, T>, Error> {
    let layout = tensor.layout();
    View::strided(T::storage(tensor), shape(tensor), layout.strides(), layout.start_offset())
}

/// A parameter of type T or f32.
pub(crate) fn param<T: Number>(tensor: &FlexTensor) -> Result<Param<'_, T>, Error> {
    if tensor.dtype() == T::dtype() { view(tensor).map(Param::Same) } else { view(tensor).map(Param::F32) }
}

/// A row-major tensor of these numbers, without copying.
pub(crate) fn tensor<T: Stored>(numbers: Vec<T>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, shape.to_vec()))
}

/// Allocates a vector for a tensor of this shape. May fail: an expanded tensor can have more elements than fit in
/// memory.
pub(crate) fn room<T: layernorm::Element>(shape: &[usize]) -> Result<Vec<T>, Error> {
    memory::zeros(shape.iter().fold(1, |count: usize, &n| count.saturating_mul(n)))
}

/// A vector for a parameter's gradient, in the parameter's type.
pub(crate) enum Room<T> {
    Same(Vec<T>),
    F32(Vec<f32>),
}

impl<T: Number> Room<T> {
    pub(crate) fn like(parameter: &FlexTensor) -> Result<Room<T>, Error> {
        let shape = shape(parameter);
        if parameter.dtype() == T::dtype() { room(shape).map(Room::Same) } else { room(shape).map(Room::F32) }
    }

    pub(crate) fn view(&mut self, shape: &[usize]) -> Result<ParamMut<'_, T>, Error> {
        match self {
            Room::Same(numbers) => ViewMut::new(numbers, shape).map(ParamMut::Same),
            Room::F32(numbers) => ViewMut::new(numbers, shape).map(ParamMut::F32),
        }
    }

    pub(crate) fn tensor(self, shape: &[usize]) -> FlexTensor {
        match self {
            Room::Same(numbers) => tensor(numbers, shape),
            Room::F32(numbers) => tensor(numbers, shape),
        }
    }
}

/// A vector for the statistics that forward saves for backward, `[3, rows]`: m, δ and r of each row.
pub(crate) fn stats_mut<A>(room: &mut [A]) -> StatsMut<'_, A> {
    let rows = room.len() / 3;
    let (m, rest) = room.split_at_mut(rows);
    let (delta, rstd) = rest.split_at_mut(rows);
    StatsMut { m, delta, rstd }
}

/// The statistics that forward saved, `[3, rows]`.
pub(crate) fn stats<A: Stored>(saved: &FlexTensor) -> StatsRef<'_, A> {
    let all = A::storage(saved);
    let rows = all.len() / 3;
    StatsRef { m: &all[..rows], delta: &all[rows..2 * rows], rstd: &all[2 * rows..] }
}

/// The graph node of a tensor, or a node that nothing depends on.
pub(crate) fn node(tensor: Option<&Tracked>, stand_in: &Tracked) -> NodeGuard {
    match tensor {
        Some(tensor) => tensor.node(),
        None => Autodiff::<Flex>::from_inner(stand_in.primitive().clone()).node(),
    }
}

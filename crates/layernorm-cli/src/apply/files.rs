//! The input files, and views of their arrays. An array in Fortran order becomes a strided view; nothing is copied.

use super::args::Args;
use super::results::room;
use crate::failure::Failure;
use layernorm::{Affine, Element, Param, View};
use layernorm_files::shown;
use layernorm_npy::{Array, DType, Order, Scalar};
use std::fmt;
use std::path::{Path, PathBuf};

/// An element type that can be normalized and stored in files; its arithmetic type can be stored too.
pub(super) trait Number: Element<Acc: Scalar> + Scalar {}

impl<T: Element<Acc: Scalar> + Scalar> Number for T {}

/// An array, and where it came from, for error messages.
#[derive(Debug)]
pub(super) struct Input {
    option: &'static str,
    path: PathBuf,
    array: Array,
}

impl Input {
    /// Reads the file of an option.
    pub(super) fn read(option: &'static str, path: &Path) -> Result<Self, Failure> {
        let array = layernorm_npy::read(path).map_err(|error| Failure::bad_input(format!("{option}: {error}")))?;
        Ok(Input { option, path: path.to_path_buf(), array })
    }

    /// The type of the elements.
    pub(super) fn dtype(&self) -> DType {
        self.array.dtype()
    }

    /// The shape.
    pub(super) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The elements as a tensor, without copying.
    pub(super) fn view<T: Scalar>(&self) -> Result<View<'_, T>, Failure> {
        let values = self.array.as_slice()?;
        Ok(View::strided(values, self.array.shape(), &self.array.strides(), 0)?)
    }

    /// The elements as γ or β of an input of type `T`.
    pub(super) fn parameter<T: Number>(&self) -> Result<Param<'_, T>, Failure> {
        Ok(if self.dtype() == T::DTYPE { Param::Same(self.view()?) } else { Param::F32(self.view()?) })
    }

    /// Fails unless the elements are of the input's type `T` or of the other permitted type.
    fn of_type<T: Scalar>(self, other: DType) -> Result<Self, Failure> {
        match self.dtype() {
            found if found == T::DTYPE || found == other => Ok(self),
            found if T::DTYPE == other => Err(self.wrong_type(&format!("{other}, the input's type"), found)),
            found => Err(self.wrong_type(&format!("{}, the input's type, or {other}", T::DTYPE), found)),
        }
    }

    /// The error for a file of the wrong type.
    pub(super) fn wrong_type(&self, expected: &str, found: DType) -> Failure {
        self.wrong(expected, &found)
    }

    /// The error for a file with the wrong contents.
    pub(super) fn wrong(&self, expected: &str, found: &dyn fmt::Display) -> Failure {
        Failure::bad_input(format!("{}: {}: expected {expected}, found {found}", self.option, shown(&self.path)))
    }

    /// A copy of the elements in C order.
    pub(super) fn contiguous<T: Scalar>(&self) -> Result<Vec<T>, Failure> {
        let values = self.array.as_slice::<T>()?;
        let mut copy = room(values.len())?;
        if self.array.order() == Order::C {
            copy.extend_from_slice(values);
            return Ok(copy);
        }
        let (shape, strides) = (self.array.shape(), self.array.strides());
        let mut index = vec![0; shape.len()];
        let mut at = 0;
        let next = |_| {
            let value = values[at];
            // The last index varies fastest; an index that reaches its end wraps to 0.
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                at += strides[axis] as usize;
                if index[axis] < shape[axis] {
                    break;
                }
                at -= strides[axis] as usize * shape[axis];
                index[axis] = 0;
            }
            value
        };
        copy.extend((0..values.len()).map(next));
        Ok(copy)
    }

    /// One element per channel, in the arithmetic type. The file has this type or the input's; [`Inputs::read`] checks it.
    pub(super) fn per_channel<T: Number>(&self, channels: usize) -> Result<Vec<T::Acc>, Failure> {
        if self.shape() != [channels] {
            let (option, path, found) = (self.option, shown(&self.path), self.shape());
            let message = format!("{option}: {path}: expected shape [{channels}], one per channel, found {found:?}");
            return Err(Failure::bad_input(message));
        }
        if self.dtype() == T::DTYPE {
            let mut wide = room(channels)?;
            wide.extend(self.array.as_slice::<T>()?.iter().map(|value| value.widen()));
            Ok(wide)
        } else {
            self.contiguous()
        }
    }
}

/// All inputs of an operation. The type of each file is compatible with that of x.
#[derive(Debug)]
pub(super) struct Inputs {
    /// x.
    pub(super) x: Input,
    /// γ.
    pub(super) weight: Option<Input>,
    /// β.
    pub(super) bias: Option<Input>,
    /// The residual, which is added to x.
    pub(super) residual: Option<Input>,
    /// The gradient of the output.
    pub(super) dy: Option<Input>,
    /// The gradient of h from its other uses.
    pub(super) dh: Option<Input>,
    /// Batch norm's running mean.
    pub(super) running_mean: Option<Input>,
    /// Batch norm's running variance.
    pub(super) running_var: Option<Input>,
}

impl Inputs {
    /// Reads the files of all other options and checks their types. `T` is the type of `x`.
    pub(super) fn read<T: Number>(args: &Args, x: Input) -> Result<Self, Failure> {
        let read = |option, path: &Option<PathBuf>, other: DType| {
            let file = path.as_deref().map(|path| Input::read(option, path)?.of_type::<T>(other));
            file.transpose()
        };
        let (same, wide) = (T::DTYPE, <T::Acc as Scalar>::DTYPE);
        Ok(Inputs {
            x,
            weight: read("--weight", &args.weight, DType::F32)?,
            bias: read("--bias", &args.bias, DType::F32)?,
            residual: read("--residual", &args.residual, same)?,
            dy: read("--grad-output", &args.grad_output, same)?,
            dh: read("--grad-residual-output", &args.grad_residual_output, same)?,
            running_mean: read("--running-mean", &args.running_mean, wide)?,
            running_var: read("--running-var", &args.running_var, wide)?,
        })
    }

    /// γ and β in the form the operations take.
    pub(super) fn affine<T: Number>(&self, zero_centered: bool) -> Result<Affine<'_, T>, Failure> {
        let weight = self.weight.as_ref().map(Input::parameter).transpose()?;
        let bias = self.bias.as_ref().map(Input::parameter).transpose()?;
        Ok(Affine { weight, bias, zero_centered })
    }
}

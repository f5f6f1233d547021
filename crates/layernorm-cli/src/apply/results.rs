//! The results of an operation in memory, and the files they are written to.

use super::args::Args;
use super::files::{Input, Inputs, Number};
use crate::failure::Failure;
use layernorm::{Gradients, ParamMut, Saved, ViewMut};
use layernorm_files::{Replacement, commit_all, shown};
use layernorm_npy::{Error, Scalar};
use std::path::{Path, PathBuf};

/// All results of an operation. `T` is the input's type.
#[derive(Debug)]
pub(super) struct Results<T: Number> {
    /// The shape of x, and so of y, h and the gradient of x.
    pub(super) shape: Vec<usize>,
    /// The shape of the statistics.
    stats_shape: Vec<usize>,
    /// y.
    pub(super) y: Vec<T>,
    /// h = x + r, if there is a residual.
    pub(super) h: Option<Vec<T>>,
    /// m, δ and 1/σ.
    pub(super) saved: Saved<T::Acc>,
    /// The results of the backward pass.
    pub(super) gradients: GradientMemory<T>,
}

impl<T: Number> Results<T> {
    /// Allocates memory for everything that the options request.
    pub(super) fn new(
        args: &Args,
        inputs: &Inputs,
        parameter_shape: Vec<usize>,
        stats_shape: Vec<usize>,
    ) -> Result<Self, Failure> {
        let len = count(inputs.x.shape());
        let rows = count(&stats_shape);
        if len == 0 && rows.max(count(&parameter_shape)) > MAX_WITHOUT_ELEMENTS {
            let expected = format!("at most {MAX_WITHOUT_ELEMENTS} rows or channels in an empty tensor");
            return Err(inputs.x.wrong(&expected, &format_args!("shape {:?}", inputs.x.shape())));
        }
        Ok(Results {
            y: zeros(len)?,
            h: inputs.residual.as_ref().map(|_| zeros(len)).transpose()?,
            saved: Saved { m: zeros(rows)?, delta: zeros(rows)?, rstd: zeros(rows)? },
            gradients: GradientMemory::new(args, inputs, parameter_shape)?,
            shape: inputs.x.shape().to_vec(),
            stats_shape,
        })
    }

    /// Writes all results that have an output file, together.
    pub(super) fn write(&self, args: &Args) -> Result<(), Failure> {
        let gradients = &self.gradients;
        let mut files = Outputs::default();
        files.add(&args.output, &self.shape, Some(&self.y))?;
        files.add(&args.residual_output, &self.shape, self.h.as_ref())?;
        if args.mean_output.is_some() {
            files.add(&args.mean_output, &self.stats_shape, Some(&self.saved.mean()))?;
        }
        files.add(&args.rstd_output, &self.stats_shape, Some(&self.saved.rstd))?;
        files.add(&args.grad_input, &self.shape, gradients.input.as_ref())?;
        for (place, gradient) in [(&args.grad_weight, &gradients.weight), (&args.grad_bias, &gradients.bias)] {
            match gradient {
                Some(ParameterGradient::Same(values)) => files.add(place, &gradients.parameter_shape, Some(values))?,
                Some(ParameterGradient::F32(values)) => files.add(place, &gradients.parameter_shape, Some(values))?,
                None => {}
            }
        }
        files.commit()
    }
}

/// Memory for the requested gradients.
#[derive(Debug)]
pub(super) struct GradientMemory<T> {
    parameter_shape: Vec<usize>,
    input: Option<Vec<T>>,
    weight: Option<ParameterGradient<T>>,
    bias: Option<ParameterGradient<T>>,
}

/// The gradient of γ or β, in the parameter's type, which is the input's or f32.
#[derive(Debug)]
enum ParameterGradient<T> {
    Same(Vec<T>),
    F32(Vec<f32>),
}

impl<T: Number> GradientMemory<T> {
    fn new(args: &Args, inputs: &Inputs, parameter_shape: Vec<usize>) -> Result<Self, Failure> {
        let parameter = |place: &Option<PathBuf>, parameter: &Option<Input>| {
            let len = count(&parameter_shape);
            let wanted = place.as_ref().map(|_| match parameter {
                Some(parameter) if parameter.dtype() != T::DTYPE => Ok(ParameterGradient::F32(zeros(len)?)),
                _ => Ok::<_, Failure>(ParameterGradient::Same(zeros(len)?)),
            });
            wanted.transpose()
        };
        Ok(GradientMemory {
            input: args.grad_input.as_ref().map(|_| zeros(count(inputs.x.shape()))).transpose()?,
            weight: parameter(&args.grad_weight, &inputs.weight)?,
            bias: parameter(&args.grad_bias, &inputs.bias)?,
            parameter_shape,
        })
    }

    /// Views for a backward pass to write to. `shape` is the shape of x.
    pub(super) fn as_mut(&mut self, shape: &[usize]) -> Result<Gradients<'_, T>, Failure> {
        let parameter_shape = &self.parameter_shape;
        Ok(Gradients {
            input: self.input.as_mut().map(|values| ViewMut::new(values, shape)).transpose()?,
            weight: self.weight.as_mut().map(|values| values.as_mut(parameter_shape)).transpose()?,
            bias: self.bias.as_mut().map(|values| values.as_mut(parameter_shape)).transpose()?,
        })
    }
}

impl<T> ParameterGradient<T> {
    fn as_mut(&mut self, shape: &[usize]) -> Result<ParamMut<'_, T>, Failure> {
        Ok(match self {
            ParameterGradient::Same(values) => ParamMut::Same(ViewMut::new(values, shape)?),
            ParameterGradient::F32(values) => ParamMut::F32(ViewMut::new(values, shape)?),
        })
    }
}

/// An empty tensor can have any shape in a file of 100 bytes. Statistics and gradients for more rows or channels than this
/// would take memory and time out of proportion to the file.
pub(super) const MAX_WITHOUT_ELEMENTS: usize = 1 << 20;

/// The number of elements of a shape. If it overflows, the allocation that follows fails.
fn count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count, &dim| count.saturating_mul(dim))
}

/// A vector of `count` zeros; fails if there is not enough memory.
pub(super) fn zeros<T: Clone + Default>(count: usize) -> Result<Vec<T>, Failure> {
    let mut values = room(count)?;
    values.resize(count, T::default());
    Ok(values)
}

/// An empty vector with the capacity `count`; fails if there is not enough memory.
pub(super) fn room<T>(count: usize) -> Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    values.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
    Ok(values)
}

/// The output files of a command, kept under temporary names until all are written.
#[derive(Debug, Default)]
pub(super) struct Outputs(Vec<Replacement>);

impl Outputs {
    /// Writes a result under a temporary name, if it has an output file.
    pub(super) fn add<T: Scalar>(
        &mut self,
        place: &Option<PathBuf>,
        shape: &[usize],
        values: Option<&Vec<T>>,
    ) -> Result<(), Failure> {
        let (Some(place), Some(values)) = (place, values) else { return Ok(()) };
        let mut file = Replacement::new(place)?;
        match layernorm_npy::to_writer(&mut file, shape, values) {
            // The error already names the file.
            Err(Error::Io { source, .. }) => Err(Failure::bad_input(source.to_string())),
            written => Ok(written.map(|()| self.0.push(file))?),
        }
    }

    /// Renames all files into place. Nothing has changed on disk before this call.
    pub(super) fn commit(self) -> Result<(), Failure> {
        Ok(commit_all(self.0)?)
    }
}

/// Fails if two results have the same output file or an output file cannot be created. Runs before anything is computed, so
/// that a mistyped path costs no time and leaves no partial results.
pub fn check_places(outputs: &[(&'static str, &Path)]) -> Result<(), Failure> {
    let mut places: Vec<(&str, PathBuf)> = Vec::new();
    for &(option, path) in outputs {
        let place = place(option, path)?;
        if let Some((other, _)) = places.iter().find(|(_, taken)| *taken == place) {
            let message = format!("{other} and {option}: expected different files, found {} twice", shown(path));
            return Err(Failure::bad_input(message));
        }
        places.push((option, place));
    }
    Ok(())
}

/// The canonical path of an output file.
fn place(option: &str, path: &Path) -> Result<PathBuf, Failure> {
    let bad = |expected: &str, found: &dyn std::fmt::Display| {
        Failure::bad_input(format!("{option}: {}: expected {expected}, found {found}", shown(path)))
    };
    if path.is_dir() {
        return Err(bad("a file", &"a folder"));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(bad("a file name", &"none"));
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(file), _) => Ok(file),
        (_, Ok(folder)) if folder.is_dir() => Ok(folder.join(name)),
        (_, Ok(_)) => Err(bad("a path in a folder", &format_args!("{}, which is not a folder", shown(folder)))),
        (_, Err(error)) => Err(bad("a path in an existing folder", &error)),
    }
}

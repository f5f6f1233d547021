//! Conversion of the library's errors to Python exceptions.

use crate::tensor::Dtype;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};

/// An error of a call.
#[derive(Debug)]
pub enum Failure {
    /// Error of a norm: MemoryError if memory is exhausted, otherwise ValueError.
    Norm(layernorm::Error),
    /// Error of a recurrent network: likewise.
    Recurrent(layernorm_rnn::Error),
    /// Error of a GPU: MemoryError if memory is exhausted, NotImplementedError for what its kernels lack, ValueError for arguments,
    /// otherwise RuntimeError.
    Cuda(layernorm_cuda::Error),
    /// Wrong element type: TypeError.
    Type {
        /// Name of the argument.
        what: &'static str,
        /// Supported types.
        expected: &'static str,
        /// Actual type.
        found: Dtype,
    },
    /// Wrong number of elements: ValueError.
    Count {
        /// Name of the argument.
        what: String,
        /// Required number.
        expected: usize,
        /// Actual number.
        found: usize,
    },
    /// A tensor without memory, or with misaligned memory: ValueError.
    Memory {
        /// Name of the argument.
        what: String,
    },
    /// Calls in the wrong order, or with arguments that only this package passes: RuntimeError.
    Order(&'static str),
}

impl From<layernorm::Error> for Failure {
    fn from(error: layernorm::Error) -> Failure {
        Failure::Norm(error)
    }
}

impl From<layernorm_rnn::Error> for Failure {
    fn from(error: layernorm_rnn::Error) -> Failure {
        Failure::Recurrent(error)
    }
}

impl From<layernorm_cuda::Error> for Failure {
    fn from(error: layernorm_cuda::Error) -> Failure {
        Failure::Cuda(error)
    }
}

fn cuda(error: &layernorm_cuda::Error) -> PyErr {
    use layernorm_cuda::Error;
    let text = error.to_string();
    match error {
        error if error.is_out_of_memory() => PyMemoryError::new_err(text),
        Error::Unsupported { .. } => PyNotImplementedError::new_err(text),
        Error::Operand { .. } | Error::Workspace { .. } | Error::Epsilon { .. } | Error::Shape { .. } => {
            PyValueError::new_err(text)
        }
        _ => PyRuntimeError::new_err(text),
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Norm(error @ layernorm::Error::OutOfMemory { .. }) => PyMemoryError::new_err(error.to_string()),
            Failure::Norm(error) => PyValueError::new_err(error.to_string()),
            Failure::Recurrent(error @ layernorm_rnn::Error::OutOfMemory { .. }) => {
                PyMemoryError::new_err(error.to_string())
            }
            Failure::Recurrent(error) => PyValueError::new_err(error.to_string()),
            Failure::Cuda(error) => cuda(&error),
            Failure::Type { what, expected, found } => {
                PyTypeError::new_err(format!("{what}: expected {expected}, found {}", found.name()))
            }
            Failure::Count { what, expected, found } => {
                PyValueError::new_err(format!("{what}: expected {expected} elements, found {found}"))
            }
            Failure::Memory { what } => PyValueError::new_err(format!("{what}: expected aligned memory, found none")),
            Failure::Order(what) => PyRuntimeError::new_err(what),
        }
    }
}

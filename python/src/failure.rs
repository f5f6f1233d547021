//! What goes wrong, as Python's exceptions with the library's words.

use crate::tensor::Dtype;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};

/// Why a call was refused.
#[derive(Debug)]
pub enum Failure {
    /// An operation's error: MemoryError where memory is lacking, else ValueError.
    Norm(layernorm::Error),
    /// A recurrent network's error: likewise.
    Recurrent(layernorm_rnn::Error),
    /// A GPU's error: MemoryError where memory is lacking, NotImplementedError for what its kernels lack, ValueError for arguments,
    /// else RuntimeError.
    Cuda(layernorm_cuda::Error),
    /// An array of another type than is needed: TypeError.
    Type {
        /// Which argument.
        what: &'static str,
        /// The types that it can have.
        expected: &'static str,
        /// The type that came.
        found: Dtype,
    },
    /// Another number of elements than is needed: ValueError.
    Count {
        /// Which argument.
        what: String,
        /// How many are needed.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// A tensor whose elements cannot be read where it says that they are: ValueError.
    Memory {
        /// Which argument.
        what: String,
    },
    /// Calls that do not follow each other as they must: RuntimeError.
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
            Failure::Memory { what } => {
                PyValueError::new_err(format!("{what}: expected aligned memory of its own, found none"))
            }
            Failure::Order(what) => PyRuntimeError::new_err(what),
        }
    }
}

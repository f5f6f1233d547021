//! What goes wrong, as Python's exceptions with the library's words.

use crate::tensor::Dtype;
use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};

/// Why a call was refused.
#[derive(Debug)]
pub enum Failure {
    /// An operation's error: ValueError.
    Norm(layernorm::Error),
    /// A recurrent network's error: ValueError.
    Recurrent(layernorm_rnn::Error),
    /// An array of another type than is needed: TypeError.
    Type {
        /// Which argument.
        what: &'static str,
        /// The types that it can have.
        expected: &'static str,
        /// The type that came.
        found: Dtype,
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

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Norm(error) => PyValueError::new_err(error.to_string()),
            Failure::Recurrent(error) => PyValueError::new_err(error.to_string()),
            Failure::Type { what, expected, found } => {
                PyTypeError::new_err(format!("{what}: expected {expected}, found {}", found.name()))
            }
            Failure::Order(what) => PyRuntimeError::new_err(what),
        }
    }
}

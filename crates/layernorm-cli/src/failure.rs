//! Why a command failed: the message to print and the exit status.

use std::fmt;

/// A message for the user and the exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong: what was expected and what was found.
    pub message: String,
    /// 1: a result violates the contract, or a run failed. 2: the input or the arguments are invalid. 130: stopped by Ctrl-C.
    pub status: u8,
}

/// The exit status after Ctrl-C, as in shells: 128 plus the signal number.
pub const STOPPED: u8 = 130;

impl Failure {
    /// The input or the arguments are bad: status 2.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 2 }
    }

    /// A run of a study failed: status 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 1 }
    }

    /// The user stopped the command: status 130.
    pub fn stopped(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: STOPPED }
    }

    /// A result is outside the numerical contract: status 1.
    pub fn out_of_contract(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<layernorm::Error> for Failure {
    fn from(error: layernorm::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_files::Error> for Failure {
    fn from(error: layernorm_files::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_npy::Error> for Failure {
    fn from(error: layernorm_npy::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_rnn::Error> for Failure {
    fn from(error: layernorm_rnn::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_lab::data::Error> for Failure {
    fn from(error: layernorm_lab::data::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_lab::tensorboard::Error> for Failure {
    fn from(error: layernorm_lab::tensorboard::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

impl From<layernorm_lab::session::Error> for Failure {
    fn from(error: layernorm_lab::session::Error) -> Self {
        Failure::bad_input(error.to_string())
    }
}

//! Errors, with the expected and the actual values.

use std::fmt;

/// Why a call was rejected or failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The driver library (`libcuda`) could not be opened.
    NoDriver {
        /// The loader's message.
        detail: String,
    },
    /// The driver is too old.
    OldDriver {
        /// The function that it lacks.
        missing: &'static str,
    },
    /// There is no such GPU.
    NoDevice {
        /// The requested GPU.
        ordinal: usize,
        /// How many GPUs there are.
        count: usize,
    },
    /// NVRTC, which compiles the kernels, could not be opened.
    NoCompiler {
        /// The loader's message.
        detail: String,
    },
    /// A kernel failed to compile.
    Compile {
        /// The source file.
        source: &'static str,
        /// The compiler options, including the architecture.
        options: String,
        /// The compiler's messages.
        log: String,
    },
    /// A driver call failed.
    Driver {
        /// The function that was called.
        call: &'static str,
        /// The driver's error code.
        code: u32,
        /// The driver's error message.
        detail: String,
    },
    /// An argument is invalid: for example a null or misaligned address.
    Operand {
        /// Which argument.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The workspace is too small.
    Workspace {
        /// Bytes that the call needs.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// ε is negative or not finite.
    Epsilon {
        /// The given value.
        found: f64,
    },
    /// The shape, the number of groups or the momentum is invalid.
    Shape {
        /// What is wrong.
        why: String,
    },
    /// A recurrent pass on this GPU timed out: its results, and everything computed from them, are NaN.
    GaveUp {
        /// Which GPU.
        ordinal: usize,
    },
    /// Memory for the call could not be allocated.
    OutOfMemory {
        /// Bytes that were requested.
        bytes: usize,
        /// Whose memory: `host` or `device`.
        place: &'static str,
    },
    /// The device does not support what the call needs.
    Unsupported {
        /// What is missing.
        why: String,
    },
}

impl Error {
    /// Whether the call ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        let code = cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        matches!(self, Error::OutOfMemory { .. }) || matches!(self, Error::Driver { code: found, .. } if *found == code)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::NoDriver { detail } => write!(f, "no NVIDIA driver: libcuda could not be opened ({detail})"),
            Error::OldDriver { missing } => {
                write!(f, "the NVIDIA driver is too old: it has no {missing} (CUDA 11.8 or newer is needed)")
            }
            Error::NoDevice { ordinal, count } => write!(f, "no GPU {ordinal}: the driver reports {count}"),
            Error::NoCompiler { detail } => write!(
                f,
                "no NVRTC: libnvrtc could not be opened ({detail}); it comes with the CUDA toolkit or the PyPI package \
                 nvidia-cuda-nvrtc; set {} to its path if the loader does not find it",
                crate::nvrtc::LIBRARY_VARIABLE
            ),
            Error::Compile { source, options, log } => write!(f, "{source} did not compile with {options}:\n{log}"),
            Error::Driver { call, code, detail } => write!(f, "{call} failed with error {code}: {detail}"),
            Error::Operand { what, why } => write!(f, "{what}: {why}"),
            Error::Workspace { expected, found } => {
                write!(f, "the workspace has {found} bytes, but the call needs {expected}")
            }
            Error::Epsilon { found } => write!(f, "ε must be finite and 0 or more, not {found}"),
            Error::Shape { why } => write!(f, "{why}"),
            Error::GaveUp { ordinal } => write!(
                f,
                "a recurrent pass on GPU {ordinal} timed out: other work kept some of its blocks from running for seconds. Its \
                 results, and everything computed from them since, are NaN. Go back to the last good parameters and run the \
                 step again; if that fails too, keep other programs off this GPU"
            ),
            Error::OutOfMemory { bytes, place } => {
                write!(f, "out of memory: {bytes} bytes of {place} memory could not be allocated")
            }
            Error::Unsupported { why } => write!(f, "not supported on this GPU: {why}"),
        }
    }
}

impl std::error::Error for Error {}

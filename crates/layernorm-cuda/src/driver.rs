//! The driver's library, opened at run time, and its results as values.

use crate::error::Error;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::CStr;
use std::sync::OnceLock;

/// A call of the driver: its result, with its name.
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => {
        $crate::driver::check(stringify!($name), ::cudarc::driver::sys::$name($($arg),*))
    };
}
pub(crate) use call;

pub(crate) fn check(call: &'static str, result: CUresult) -> Result<(), Error> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: the library is there, for it gave the result; the driver's strings live as long as it does.
    let detail = unsafe {
        match sys::cuGetErrorString(result, &mut text) {
            CUresult::CUDA_SUCCESS => CStr::from_ptr(text).to_string_lossy().into_owned(),
            _ => String::from("unknown"),
        }
    };
    Err(Error::Driver { call, code: result as u32, detail })
}

/// Functions that this crate calls and that old drivers lack.
const NEEDED: [&str; 2] = ["cuLaunchKernelEx", "cuEventElapsedTime_v2"];

/// Opens and starts the driver once. cudarc would panic where it or a function is missing; this says so instead.
pub(crate) fn open() -> Result<(), Error> {
    static OPENED: OnceLock<Result<(), Error>> = OnceLock::new();
    OPENED.get_or_init(start).clone()
}

/// What the loader said, which an error of it keeps below itself.
pub(crate) fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

fn start() -> Result<(), Error> {
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
    let mut detail = String::new();
    for name in names {
        // SAFETY: opening NVIDIA's library runs its initializers, which is what is wanted.
        match unsafe { libloading::Library::new(*name) } {
            Ok(library) => {
                for missing in NEEDED {
                    // SAFETY: the symbol is looked up and never called with this type.
                    if unsafe { library.get::<unsafe extern "C" fn()>(missing.as_bytes()) }.is_err() {
                        return Err(Error::OldDriver { missing });
                    }
                }
                // SAFETY: the library is there.
                return unsafe { call!(cuInit(0)) };
            }
            Err(error) => detail = reason(&error),
        }
    }
    Err(Error::NoDriver { detail })
}

/// The version of CUDA that the driver serves: 13000 for 13.0.
pub(crate) fn version() -> Result<u32, Error> {
    open()?;
    let mut version = 0;
    // SAFETY: the library is there.
    unsafe { call!(cuDriverGetVersion(&mut version))? };
    Ok(version as u32)
}

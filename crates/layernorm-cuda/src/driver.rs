//! The CUDA driver library, opened at run time. Failures are returned as errors.

use crate::error::Error;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Calls a driver function and turns its status into a `Result` that carries the function's name.
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
    // SAFETY: the library is loaded, because it returned this result; the driver's strings live as long as the library.
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

/// Opens and initializes the driver once. cudarc would panic if the library or a function is missing; this returns an
/// error.
pub(crate) fn open() -> Result<(), Error> {
    static OPENED: OnceLock<Result<(), Error>> = OnceLock::new();
    OPENED.get_or_init(start).clone()
}

/// The loader's message, which `libloading` keeps as the source of its error.
pub(crate) fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

fn start() -> Result<(), Error> {
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
    let mut detail = String::new();
    for name in names {
        // SAFETY: loading NVIDIA's library only runs its own initializers.
        match unsafe { libloading::Library::new(*name) } {
            Ok(library) => {
                for missing in NEEDED {
                    // SAFETY: the symbol is looked up and never called with this type.
                    if unsafe { library.get::<unsafe extern "C" fn()>(missing.as_bytes()) }.is_err() {
                        return Err(Error::OldDriver { missing });
                    }
                }
                // SAFETY: the library is loaded.
                return unsafe { call!(cuInit(0)) };
            }
            Err(error) => detail = reason(&error),
        }
    }
    Err(Error::NoDriver { detail })
}

/// The CUDA version that the driver supports: 13000 for 13.0.
pub(crate) fn version() -> Result<u32, Error> {
    open()?;
    let mut version = 0;
    // SAFETY: the library is loaded.
    unsafe { call!(cuDriverGetVersion(&mut version))? };
    Ok(version as u32)
}

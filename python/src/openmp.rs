//! Runs work on PyTorch's OpenMP threads. They spin for milliseconds after each operation; a second thread pool would compete
//! with them for the cores.

use layernorm::parts::use_threads;
use pyo3::prelude::*;
use std::sync::OnceLock;

/// Two functions of GCC's OpenMP library, which LLVM's and Intel's also have.
#[derive(Clone, Copy)]
struct Library {
    parallel: Parallel,
    present: Present,
}

/// `GOMP_parallel(member, data, threads, flags)`.
type Parallel = unsafe extern "C" fn(extern "C" fn(*mut Work<'_>), *mut Work<'_>, u32, u32);

/// `omp_get_num_threads()`.
type Present = unsafe extern "C" fn() -> i32;

/// The work of a thread.
type Work<'a> = &'a (dyn Fn(usize) + Sync);

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Looks for OpenMP among the dependencies of a loaded library (the file of `libtorch_cpu`). If it is found, all work of this
/// process runs on its threads from now on; otherwise on our own. Returns whether it was found.
#[pyfunction]
#[pyo3(signature = (library, /))]
pub fn use_openmp_of(library: &[u8]) -> bool {
    let name = std::ffi::CString::new(library).ok();
    let found = name.and_then(|name| find(&name));
    // SAFETY: the threads of an OpenMP team run concurrently, each runs the work once and knows its number; the call returns
    // when all are done.
    found.is_some_and(|found| LIBRARY.set(found).is_ok() && unsafe { use_threads(fork) })
}

#[cfg(target_os = "linux")]
fn find(library: &std::ffi::CStr) -> Option<Library> {
    // SAFETY: only libraries that are already loaded are opened. The handle is kept, so the addresses stay valid. Each function
    // has had this type in every version.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        let parallel = libc::dlsym(handle, c"GOMP_parallel".as_ptr());
        let present = libc::dlsym(handle, c"omp_get_num_threads".as_ptr());
        if parallel.is_null() || present.is_null() {
            return None;
        }
        Some(Library {
            parallel: std::mem::transmute::<*mut libc::c_void, Parallel>(parallel),
            present: std::mem::transmute::<*mut libc::c_void, Present>(present),
        })
    }
}

#[cfg(not(target_os = "linux"))]
fn find(_library: &std::ffi::CStr) -> Option<Library> {
    None
}

fn fork(members: usize, work: &(dyn Fn(usize) + Sync)) {
    let Some(library) = LIBRARY.get() else { return work(1) };
    let mut work: Work<'_> = work;
    // SAFETY: `work` outlives the call, which returns when all threads have returned from `member`; it is shared, and Sync.
    unsafe { (library.parallel)(member, &raw mut work, u32::try_from(members).unwrap_or(u32::MAX), 0) }
}

extern "C" fn member(work: *mut Work<'_>) {
    let Some(library) = LIBRARY.get() else { return };
    // SAFETY: as in `fork`; the work does not panic, which is `Fork`'s rule.
    unsafe { (*work)(usize::try_from((library.present)()).unwrap_or(1)) }
}

//! NVRTC: compiles kernels from CUDA C++ to machine code. Needs the library, but no GPU.

use crate::error::Error;
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use crate::environment::LIBRARY_VARIABLE;

/// CUDA C++ source with the headers that it includes by name. Two sources are equal if they are the same statics: every
/// call looks up its kernel, and hashing tens of thousands of characters would take longer than the call itself.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// File name, for messages.
    pub name: &'static str,
    /// The source text.
    pub text: &'static str,
    /// (name, text) of each header.
    pub headers: &'static [(&'static str, &'static str)],
    /// Returns assertions about the structures shared with the host; they are appended to the text.
    pub layout: fn() -> String,
}

impl Source {
    /// For sources that share no structures with the host.
    pub const NO_LAYOUT: fn() -> String = String::new;

    /// The text followed by the assertions.
    pub fn checked_text(&self) -> String {
        format!("{}\n{}", self.text, self.assertions())
    }

    /// The assertions, in a form that any C++ compiler accepts.
    pub fn assertions(&self) -> String {
        format!("{}{}", crate::layout::PREAMBLE, (self.layout)())
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && std::ptr::eq(self.text, other.text) && std::ptr::eq(self.headers, other.headers)
    }
}

impl Eq for Source {}

impl std::hash::Hash for Source {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A GPU architecture: compute capability, and whether architecture-specific features are enabled (`sm_90a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// 90 for compute capability 9.0.
    pub capability: u32,
    /// Whether the code may use features that only this architecture has.
    pub specific: bool,
}

impl Arch {
    /// The architecture of a compute capability given as one number: 90 for 9.0.
    pub const fn new(capability: u32) -> Self {
        Arch { capability, specific: false }
    }

    /// The compiler option for NVRTC.
    pub fn option(self) -> String {
        format!("--gpu-architecture=sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}

/// Options that the numerical contract requires: no contraction, no flush to zero, no approximate division or root.
const EXACT: [&str; 5] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"];

/// All options, in the order in which NVRTC gets them.
pub(crate) fn options(arch: Arch, defines: &[String]) -> Vec<String> {
    let mut options = vec![arch.option(), "--device-as-default-execution-space".into()];
    options.extend(EXACT.map(String::from));
    options.extend(defines.iter().map(|define| format!("-D{define}")));
    options
}

/// Major and minor version of the NVRTC library.
pub fn version() -> Result<(u32, u32), Error> {
    open()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded; both pointers are to local variables.
    let result = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    if result != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(Error::NoCompiler { detail: format!("nvrtcVersion returned {result:?}") });
    }
    Ok((major as u32, minor as u32))
}

/// Compiles a source to machine code for an architecture. `defines` are `NAME=VALUE`.
pub fn compile(source: &Source, arch: Arch, defines: &[String]) -> Result<Vec<u8>, Error> {
    compile_with(source, options(arch, defines))
}

/// Compiles with fewer optimizations, in little more than half of the time: for tests that ask only whether a kernel
/// compiles. NVRTC before 13.0 lacks the option and optimizes fully.
pub fn compile_quickly(source: &Source, arch: Arch, defines: &[String]) -> Result<Vec<u8>, Error> {
    let mut options = options(arch, defines);
    options.extend((version()? >= (13, 0)).then(|| "--Ofast-compile=mid".to_owned()));
    compile_with(source, options)
}

fn compile_with(source: &Source, options: Vec<String>) -> Result<Vec<u8>, Error> {
    open()?;
    let failed = |log: String| Error::Compile { source: source.name, options: options.join(" "), log };
    let text = |text: &str| CString::new(text).map_err(|_| failed("a zero byte in the text".into()));
    let (code, name) = (text(&source.checked_text())?, text(source.name)?);
    let headers = source.headers.iter().map(|header| text(header.1)).collect::<Result<Vec<_>, _>>()?;
    let names = source.headers.iter().map(|header| text(header.0)).collect::<Result<Vec<_>, _>>()?;
    let wanted = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
    let (headers, names, wanted) = (pointers(&headers), pointers(&names), pointers(&wanted));
    let mut program = Program(std::ptr::null_mut());
    // SAFETY: the library is loaded, and all strings outlive the compilation.
    unsafe {
        let created = sys::nvrtcCreateProgram(
            &mut program.0,
            code.as_ptr(),
            name.as_ptr(),
            headers.len() as i32,
            headers.as_ptr(),
            names.as_ptr(),
        );
        if created != sys::nvrtcResult::NVRTC_SUCCESS {
            return Err(failed(format!("{created:?}")));
        }
        let compiled = sys::nvrtcCompileProgram(program.0, wanted.len() as i32, wanted.as_ptr());
        if compiled != sys::nvrtcResult::NVRTC_SUCCESS {
            return Err(failed(format!("{compiled:?}: {}", program.log())));
        }
        program.cubin().map_err(|result| failed(format!("no machine code: {result:?}")))
    }
}

/// An NVRTC program, destroyed on drop.
struct Program(sys::nvrtcProgram);

impl Program {
    /// The compiler's messages.
    unsafe fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program exists; the buffer has at least the size that NVRTC asked for, and ends with a zero byte.
        unsafe {
            if sys::nvrtcGetProgramLogSize(self.0, &mut size) != sys::nvrtcResult::NVRTC_SUCCESS || size == 0 {
                return String::new();
            }
            let mut log = vec![0u8; size + 1];
            let _ = sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast());
            CStr::from_ptr(log.as_ptr().cast()).to_string_lossy().into_owned()
        }
    }

    unsafe fn cubin(&self) -> Result<Vec<u8>, sys::nvrtcResult> {
        let mut size = 0;
        // SAFETY: the program is compiled; the buffer has the size that NVRTC asked for.
        unsafe {
            match sys::nvrtcGetCUBINSize(self.0, &mut size) {
                sys::nvrtcResult::NVRTC_SUCCESS => {}
                other => return Err(other),
            }
            let mut cubin = vec![0u8; size];
            match sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) {
                sys::nvrtcResult::NVRTC_SUCCESS => Ok(cubin),
                other => Err(other),
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: we own the program, and it is not used again.
            unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
        }
    }
}

/// Opens the library once. cudarc would panic if it is missing; this returns an error.
fn open() -> Result<(), Error> {
    static OPENED: OnceLock<()> = OnceLock::new();
    // Only success is remembered: after a failure, a caller may still name the file.
    if OPENED.get().is_none() {
        find().map_err(|detail| Error::NoCompiler { detail })?;
        OPENED.get_or_init(|| ());
    }
    Ok(())
}

/// The library path given by the caller.
static PREFERRED: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the NVRTC library for this process. The environment variable takes precedence. Returns false if a
/// path was set before.
///
/// # Safety
/// The file must be an NVRTC library: its code is executed.
pub unsafe fn prefer(path: PathBuf) -> bool {
    PREFERRED.set(path).is_ok()
}

fn find() -> Result<(), String> {
    if let Some(path) = crate::environment::nvrtc().or_else(|| PREFERRED.get().cloned()) {
        // NVRTC opens its companion library from the same folder by name, so that one must be loaded first.
        for file in path.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("libnvrtc-builtins") && !name.contains(".alt.") {
                let _ = keep(&file.path());
            }
        }
        keep(&path).map_err(|error| crate::driver::reason(&error))?;
    }
    let mut first = None;
    // SAFETY: loading NVIDIA's library only runs its own initializers.
    let found = names().into_iter().any(|name| match unsafe { libloading::Library::new(&name) } {
        // Only a check: cudarc opens the library again by name, and finds the one kept open above.
        Ok(_) => true,
        Err(error) => {
            first.get_or_insert(crate::driver::reason(&error));
            false
        }
    });
    if found { Ok(()) } else { Err(first.unwrap_or_default()) }
}

/// Opens a library and never closes it.
fn keep(path: &Path) -> Result<(), libloading::Error> {
    // SAFETY: as in `find`.
    std::mem::forget(unsafe { libloading::Library::new(path) }?);
    Ok(())
}

/// The library names that cudarc tries and that exist in practice.
fn names() -> Vec<String> {
    if cfg!(windows) {
        return ["nvrtc.dll", "nvrtc64.dll", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"].map(String::from).to_vec();
    }
    ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"].map(String::from).to_vec()
}

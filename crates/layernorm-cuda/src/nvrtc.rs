//! NVRTC: kernels from CUDA C++ to machine code. Needs the library, and no GPU.

use crate::error::Error;
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use crate::environment::LIBRARY_VARIABLE;

/// CUDA C++ text with the headers that it includes by name. Equal are those in one place: every call looks its kernel up, and to
/// hash the texts, tens of thousands of letters, would take longer than the call.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The file's name, for messages.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// (name, text) of each header.
    pub headers: &'static [(&'static str, &'static str)],
    /// Assertions on the structures that it shares with the host, compiled behind the text.
    pub layout: fn() -> String,
}

impl Source {
    /// Nothing is shared with the host.
    pub const NO_LAYOUT: fn() -> String = String::new;

    /// The text and the assertions behind it.
    pub fn checked_text(&self) -> String {
        format!("{}\n{}", self.text, self.assertions())
    }

    /// The assertions, for any C++ compiler.
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

/// An architecture: compute capability, and whether its own instructions are wanted (`sm_90a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// 90 for compute capability 9.0.
    pub capability: u32,
    /// Whether the code may use what only this architecture has.
    pub specific: bool,
}

impl Arch {
    /// Compute capability as one number: 90 for 9.0.
    pub const fn new(capability: u32) -> Self {
        Arch { capability, specific: false }
    }

    /// The option that NVRTC wants.
    pub fn option(self) -> String {
        format!("--gpu-architecture=sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}

/// Options that the numerical contract needs: nothing is contracted, flushed or approximated.
const EXACT: [&str; 5] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"];

/// Options in the order NVRTC gets them.
pub(crate) fn options(arch: Arch, defines: &[String]) -> Vec<String> {
    let mut options = vec![arch.option(), "--device-as-default-execution-space".into()];
    options.extend(EXACT.map(String::from));
    options.extend(defines.iter().map(|define| format!("-D{define}")));
    options
}

/// Major and minor version of the library.
pub fn version() -> Result<(u32, u32), Error> {
    open()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there; both places are ours.
    let result = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    if result != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(Error::NoCompiler { detail: format!("nvrtcVersion gave {result:?}") });
    }
    Ok((major as u32, minor as u32))
}

/// Compiles to machine code for an architecture. `defines` are `NAME=VALUE`.
pub fn compile(source: &Source, arch: Arch, defines: &[String]) -> Result<Vec<u8>, Error> {
    open()?;
    let options = options(arch, defines);
    let failed = |log: String| Error::Compile { source: source.name, options: options.join(" "), log };
    let text = |text: &str| CString::new(text).map_err(|_| failed("a zero byte in the text".into()));
    let (code, name) = (text(&source.checked_text())?, text(source.name)?);
    let headers = source.headers.iter().map(|header| text(header.1)).collect::<Result<Vec<_>, _>>()?;
    let names = source.headers.iter().map(|header| text(header.0)).collect::<Result<Vec<_>, _>>()?;
    let wanted = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
    let (headers, names, wanted) = (pointers(&headers), pointers(&names), pointers(&wanted));
    let mut program = Program(std::ptr::null_mut());
    // SAFETY: the library is there, and all strings outlive the program's compilation.
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

/// A program of NVRTC's, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    /// The compiler's messages.
    unsafe fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program exists; the buffer has the size that was asked for, and its last byte is zero.
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
        // SAFETY: the program is compiled; the buffer has the size that was asked for.
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
            // SAFETY: the program is ours and not used again.
            unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
        }
    }
}

/// Opens the library once. cudarc would panic where it is missing; this says so instead.
fn open() -> Result<(), Error> {
    static OPENED: OnceLock<()> = OnceLock::new();
    // Only that it is there is kept: what was not found may be named later.
    if OPENED.get().is_none() {
        find().map_err(|detail| Error::NoCompiler { detail })?;
        OPENED.get_or_init(|| ());
    }
    Ok(())
}

/// Where a caller found the library.
static PREFERRED: OnceLock<PathBuf> = OnceLock::new();

/// Names NVRTC's file for this process, as the environment variable does, which goes before it. False if one was named already.
///
/// # Safety
/// The file is a library of NVRTC's: its code is run.
pub unsafe fn prefer(path: PathBuf) -> bool {
    PREFERRED.set(path).is_ok()
}

fn find() -> Result<(), String> {
    if let Some(path) = crate::environment::nvrtc().or_else(|| PREFERRED.get().cloned()) {
        // Its second half lies beside it and is opened by name, so it must be there first.
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
    // SAFETY: opening NVIDIA's library runs its initializers, which is what is wanted.
    let found = names().into_iter().any(|name| match unsafe { libloading::Library::new(&name) } {
        // Checked and let go; cudarc opens it again for itself. What was kept above is found by its name.
        Ok(_) => true,
        Err(error) => {
            first.get_or_insert(crate::driver::reason(&error));
            false
        }
    });
    if found { Ok(()) } else { Err(first.unwrap_or_default()) }
}

/// Opens a library for the life of the process.
fn keep(path: &Path) -> Result<(), libloading::Error> {
    // SAFETY: as in `find`.
    std::mem::forget(unsafe { libloading::Library::new(path) }?);
    Ok(())
}

/// The names under which cudarc looks for NVRTC, those that exist in practice.
fn names() -> Vec<String> {
    if cfg!(windows) {
        return ["nvrtc.dll", "nvrtc64.dll", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"].map(String::from).to_vec();
    }
    ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"].map(String::from).to_vec()
}

//! Instruction sets: which exist, which this machine has, and which one a call uses.
//!
//! The kernels are written once, in [`crate::kernels`]. The files here only define how a vector of an instruction set
//! adds, multiplies, loads and stores.

use crate::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
// Its tests run everywhere; without 64-bit ARM they use a model of its intrinsics.
#[cfg(any(target_arch = "aarch64", test))]
mod neon;
#[cfg(all(test, not(target_arch = "aarch64")))]
mod neon_model;
mod scalar;
// Its tests run on a model of its intrinsics.
#[cfg(test)]
mod against_scalar;
#[cfg(any(all(target_arch = "wasm32", target_feature = "simd128"), all(test, not(target_arch = "wasm32"))))]
mod simd128;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod simd128_model;

// What every machine has that this was compiled for. In WebAssembly, the compiler's target features decide that.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use scalar::Scalar as Base;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use simd128::Simd128 as Base;

use crate::kernels::Kernel;

/// Environment variable that selects the instruction set: `scalar`, `avx2`, `avx512` or `neon`.
pub const ISA_VARIABLE: &str = "LAYERNORM_ISA";

/// An instruction set. All of them produce the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, available on every machine. In WebAssembly compiled with the target feature `simd128`: its 128-bit
    /// vectors, which every machine has that runs such a module.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// NEON on 64-bit ARM.
    Neon,
}

impl Isa {
    /// All instruction sets, whether or not this machine has them.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Neon];

    /// Returns the name used by [`ISA_VARIABLE`] and the command line.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
        }
    }

    /// Returns whether this machine has the instruction set.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                has_avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Returns the instruction sets of this machine, slowest first.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Returns the widest instruction set of this machine, or the one named by [`ISA_VARIABLE`]. Looked up once.
    /// Fails if the machine lacks the one that the variable names; never falls back silently.
    pub fn detect() -> Result<Isa, Error> {
        MachineIsa::detect().map(MachineIsa::isa)
    }

    /// Returns this instruction set. Fails if the machine lacks it.
    pub fn checked(self) -> Result<Isa, Error> {
        MachineIsa::new(self).map(MachineIsa::isa)
    }

    /// Returns the instruction set named by the value of [`ISA_VARIABLE`], or the machine's widest if the variable is
    /// not set.
    fn choose(value: Option<&OsStr>) -> Result<MachineIsa, Error> {
        match value {
            // A value that is not UTF-8 is not a valid name either.
            Some(name) => MachineIsa::new(name.to_string_lossy().parse()?),
            None => MachineIsa::new(Isa::available().into_iter().next_back().unwrap_or(Isa::Scalar)),
        }
    }
}

/// An instruction set that this machine has. Only detection creates one, and kernels require one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineIsa(Isa);

impl MachineIsa {
    /// Returns this instruction set. Fails if the machine lacks it.
    pub fn new(isa: Isa) -> Result<MachineIsa, Error> {
        let missing = || Error::MissingIsa { isa, available: Isa::available() };
        if isa.is_available() { Ok(MachineIsa(isa)) } else { Err(missing()) }
    }

    /// See [`Isa::detect`]. This is the only place that reads the environment.
    pub fn detect() -> Result<MachineIsa, Error> {
        static CHOICE: OnceLock<Result<MachineIsa, Error>> = OnceLock::new();
        CHOICE.get_or_init(|| Isa::choose(std::env::var_os(ISA_VARIABLE).as_deref())).clone()
    }

    /// Returns the instruction set.
    pub fn isa(self) -> Isa {
        self.0
    }

    /// Runs a kernel with this instruction set.
    ///
    /// # Safety
    /// The pointers inside the kernel are valid for every access that it makes.
    pub(crate) unsafe fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: the machine has the instruction set, because only detection creates a `self`; the caller guarantees
        // that the kernel's pointers are valid.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => with_avx2(kernel),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => with_avx512(kernel),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => with_neon(kernel),
                _ => kernel.run::<Base>(),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function runs only on machines with these features.
    unsafe { kernel.run::<avx2::Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function runs only on machines with these features.
    unsafe { kernel.run::<avx512::Avx512>() }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn with_neon<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function runs only on machines with NEON.
    unsafe { kernel.run::<neon::Neon>() }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = Error;
    fn from_str(name: &str) -> Result<Isa, Error> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).ok_or_else(|| Error::UnknownIsa { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_variable_says_is_taken_or_refused() {
        let text = |value: &OsStr| Isa::choose(Some(value)).unwrap_err().to_string();
        assert_eq!(Isa::choose(Some(OsStr::new("scalar"))), MachineIsa::new(Isa::Scalar));
        assert_eq!(Isa::choose(None).map(|isa| Some(isa.isa())), Ok(Isa::available().last().copied()));
        for wrong in ["", "AVX2", "garbage"] {
            let expected = format!("expected one of scalar, avx2, avx512, neon, found {wrong:?}");
            assert!(text(OsStr::new(wrong)).contains(&expected), "{}", text(OsStr::new(wrong)));
        }
        for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
            let expected = format!("instruction set {isa} is not available on this machine");
            assert!(text(OsStr::new(isa.name())).contains(&expected), "{}", text(OsStr::new(isa.name())));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let error = Isa::choose(Some(OsStr::from_bytes(b"avx2\xff"))).unwrap_err();
        assert!(error.to_string().contains("found \"avx2\u{fffd}\""), "{error}");
    }
}

//! Attacks on `layernorm` and `layernorm-rnn`, including their hidden modules, from a crate without `unsafe` code.
//! Those below must not compile, each for the error code given; those in `tests/attacks.rs` must end in an error or a
//! panic.
//!
//! `cargo test --manifest-path soundness/Cargo.toml` runs all of them.
#![forbid(unsafe_code)]

/// Instruction sets that the machine may lack.
///
/// ```compile_fail,E0423
/// // Only detection creates a MachineIsa.
/// let isa = layernorm::parts::MachineIsa(layernorm::Isa::Avx512);
/// ```
/// ```compile_fail,E0451
/// let isa = layernorm::parts::MachineIsa { 0: layernorm::Isa::Avx512 };
/// ```
/// ```compile_fail,E0308
/// fn attack<K: layernorm::parts::Kernel>(kernel: K) -> K::Output {
///     layernorm::parts::dispatch(layernorm::Isa::Avx512, kernel)
/// }
/// ```
/// ```compile_fail,E0133
/// // The caller must guarantee that a kernel's pointers are valid.
/// fn attack<K: layernorm::parts::Kernel>(isa: layernorm::parts::MachineIsa, kernel: K) -> K::Output {
///     layernorm::parts::dispatch(isa, kernel)
/// }
/// ```
/// ```compile_fail,E0603
/// // Vectors of an instruction set cannot be named, so they cannot be used outside a kernel.
/// use layernorm::arch::avx512::Avx512;
/// ```
/// ```compile_fail,E0624
/// fn attack<K: layernorm::parts::Kernel>(isa: layernorm::parts::MachineIsa, kernel: K) -> K::Output {
///     isa.run(kernel)
/// }
/// ```
pub struct Instructions;

/// Traits that unsafe code relies on.
///
/// ```compile_fail,E0200
/// #[derive(Clone, Copy)]
/// struct Mine;
/// impl layernorm::parts::Simd for Mine {}
/// ```
/// ```compile_fail,E0200
/// #[derive(Clone, Copy)]
/// struct Mine(f32);
/// impl layernorm::parts::Vector for Mine {}
/// ```
/// ```compile_fail,E0133
/// // Writing a kernel needs no unsafe code; running one does.
/// use layernorm::parts::{Kernel, Simd};
/// fn attack<S: Simd, K: Kernel>(kernel: K) -> K::Output {
///     kernel.run::<S>()
/// }
/// ```
/// ```compile_fail,E0277
/// #[derive(Clone, Copy, Debug, Default, PartialEq)]
/// struct Mine(u8);
/// impl layernorm::Element for Mine {
///     type Acc = f32;
///     const NAME: &'static str = "mine";
///     fn widen(self) -> f32 {
///         0.0
///     }
///     fn narrow(_: f32) -> Mine {
///         Mine(255)
///     }
/// }
/// ```
/// ```compile_fail,E0277
/// struct Mine;
/// impl layernorm_rnn::Real for Mine {}
/// ```
pub struct Traits;

/// Threads and memory.
///
/// ```compile_fail,E0133
/// // Threads that call the work too often, or at different times.
/// layernorm::parts::use_threads(|members, work| (0..2 * members).for_each(|_| work(members)));
/// ```
/// ```compile_fail,E0061
/// layernorm::parts::large_pages(8 as *mut u8, 1 << 40);
/// ```
/// ```compile_fail,E0133
/// let x = [0f32; 2];
/// let view = layernorm::View::<f32>::from_raw_parts(x.as_ptr(), &[1 << 20], &[1]);
/// ```
/// ```compile_fail,E0133
/// use layernorm::parts::{Line, MachineIsa, RawLayerNorm, StatRows};
/// let nowhere = std::ptr::null_mut::<f32>();
/// let norm = RawLayerNorm { n: 1 << 20, eps: 0.0, eps_outside: 0.0, gain: nowhere, bias: nowhere };
/// let stats = StatRows { m: nowhere, delta: nowhere, r: nowhere };
/// let (x, y) = (Line { ptr: nowhere.cast_const(), stride: 1 }, Line { ptr: nowhere, stride: 1 });
/// norm.forward(MachineIsa::detect().unwrap(), x, y, stats, 1 << 20);
/// ```
/// ```compile_fail,E0499
/// let mut memory = [0f32; 4];
/// let a = layernorm::ViewMut::new(&mut memory, &[4]).unwrap();
/// let b = layernorm::ViewMut::new(&mut memory, &[4]).unwrap();
/// drop((a, b));
/// ```
/// ```compile_fail,E0597
/// let view = {
///     let memory = vec![0f32; 4];
///     layernorm::View::new(&memory, &[4]).unwrap()
/// };
/// assert_eq!(view.len(), 4);
/// ```
/// ```compile_fail,E0451
/// use layernorm_rnn::{Config, Kind, Params, Variant};
/// let params = Params::<f32>::zeros(&Config::new(Variant::plain(Kind::Lstm), 8, 8)).unwrap();
/// let attack = Params { values: Vec::new(), ..params };
/// ```
pub struct Memory;

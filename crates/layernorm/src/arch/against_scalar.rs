//! Tests that compare an instruction set with the scalar one: every vector method, and whole kernels.

use super::scalar::Scalar;
use crate::element::{Element, Float};
use crate::kernels::backward::{Backward, ParameterSums};
use crate::kernels::forward::{Forward, Residual};
use crate::kernels::vector::{MAX_LANES, Simd, Vector};
use crate::kernels::{Affine, Kernel, RowNorm, Rows, Stats};
use crate::random::SplitMix64;
use half::{bf16, f16};

/// Returns a roughly normal number, with mean 0 and standard deviation 1.
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
}

/// Returns zeros, subnormals, ones, the ends of the range, infinities, quiet and signalling NaNs; arbitrary bits;
/// ordinary numbers.
pub fn f32_values() -> Vec<f32> {
    let special = [0, 1, 0x7F_FFFF, 0x80_0000, 0x3F80_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_1234, 0x7F80_0001];
    let mut random = SplitMix64::new(1);
    let mut values: Vec<f32> = special.iter().flat_map(|&x| [x, x | 1 << 31]).map(f32::from_bits).collect();
    values.extend((0..12).map(|_| f32::from_bits(random.next_u64() as u32)));
    values.extend((0..25).map(|_| normal(&mut random) as f32));
    values
}

/// Returns all triples of some values.
pub fn triples(values: &[f32]) -> impl Iterator<Item = (f32, f32, f32)> {
    values.iter().flat_map(move |&a| values.iter().flat_map(move |&b| values.iter().map(move |&c| (a, b, c))))
}

fn f64_values() -> Vec<f64> {
    let special =
        [0, 1, (1 << 52) - 1, 1 << 52, 0x3FF << 52, (0x7FF << 52) - 1, 0x7FF << 52, 0xFFF8 << 48, 0x7FF0_0001 << 32];
    let mut random = SplitMix64::new(2);
    let mut values: Vec<f64> = special.iter().flat_map(|&x| [x, x ^ 1 << 63]).map(f64::from_bits).collect();
    values.extend((0..12).map(|_| f64::from_bits(random.next_u64())));
    values.extend((0..25).map(|_| normal(&mut random)));
    values
}

fn bytes<T: Element>(x: &T) -> &[u8] {
    // SAFETY: an element is a number without padding.
    unsafe { std::slice::from_raw_parts((&raw const *x).cast(), size_of::<T>()) }
}

/// Asserts that the bits are equal. Moves keep a NaN's bits; arithmetic (`any_nan`) may replace one NaN with another.
#[track_caller]
fn assert_same<T: Element>(found: &[T], expected: &[T], any_nan: bool, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let nan = |x: T| x.widen().to_f64().is_nan();
        let same = bytes(a) == bytes(b) || any_nan && nan(*a) && nan(*b);
        assert!(same, "{what}, {} {i}: found {a:?}, expected {b:?}", T::NAME);
    }
}

fn lanes_of<V: Vector>(v: V) -> Vec<V::Elem> {
    let mut lanes = vec![V::Elem::ONE; V::LANES];
    // SAFETY: there is room for LANES elements.
    unsafe { v.store(lanes.as_mut_ptr()) };
    lanes
}

/// Returns LANES values from `start` on, `step` apart.
fn pick<V: Vector>(values: &[V::Elem], start: usize, step: usize) -> Vec<V::Elem> {
    (0..V::LANES).map(|lane| values[(start + lane * step) % values.len()]).collect()
}

fn arithmetic_is_scalar<V: Vector>(values: &[V::Elem]) {
    for (i, j) in (0..values.len()).flat_map(|i| (0..values.len()).map(move |j| (i, j))) {
        let (x, y, z) = (pick::<V>(values, i, 1), pick::<V>(values, j, 3), pick::<V>(values, i + 5 * j, 7));
        // SAFETY: all have LANES elements.
        let (a, b, c) = unsafe { (V::load(x.as_ptr()), V::load(y.as_ptr()), V::load(z.as_ptr())) };
        let check = |what: &str, found: V, any_nan: bool, expected: &dyn Fn(usize) -> V::Elem| {
            let expected: Vec<_> = (0..V::LANES).map(expected).collect();
            assert_same(&lanes_of(found), &expected, any_nan, what);
        };
        check("add", a.add(b), true, &|l| x[l] + y[l]);
        check("sub", a.sub(b), true, &|l| x[l] - y[l]);
        check("mul", a.mul(b), true, &|l| x[l] * y[l]);
        check("div", a.div(b), true, &|l| x[l] / y[l]);
        check("fma", a.fma(b, c), true, &|l| x[l].fma(y[l], z[l]));
        check("neg_fma", a.neg_fma(b, c), true, &|l| (-x[l]).fma(y[l], z[l]));
        check("sqrt", a.sqrt(), true, &|l| Float::sqrt(x[l]));
        check("at_least", a.at_least(b), false, &|l| if x[l] < y[l] { y[l] } else { x[l] });
        check("at_most", a.at_most(b), false, &|l| if x[l] > y[l] { y[l] } else { x[l] });
        check("power_of_two", a.power_of_two(), true, &|l| x[l].power_of_two());
        check("or_zero", a.or_zero(), false, &|l| if x[l] < V::Elem::ZERO { V::Elem::ZERO } else { x[l] });
    }
}

fn memory_is_moved<V: Vector>(values: &[V::Elem]) {
    let zero = V::Elem::ZERO;
    #[repr(align(64))]
    struct Aligned<A>([A; MAX_LANES]);
    for start in 0..values.len() {
        let x = pick::<V>(values, start, 1);
        assert_same(&lanes_of(V::splat(x[0])), &vec![x[0]; V::LANES], false, "splat");
        // SAFETY: every slice has as many elements as are read or written.
        unsafe {
            let v = V::load(x.as_ptr());
            assert_same(&lanes_of(v), &x, false, "load, store");
            let mut aligned = Aligned([zero; MAX_LANES]);
            v.stream(aligned.0.as_mut_ptr());
            assert_same(&aligned.0[..V::LANES], &x, false, "stream");
            for n in 0..=V::LANES {
                let first = |rest: V::Elem| -> Vec<_> {
                    (0..V::LANES).map(|lane| if lane < n { x[lane] } else { rest }).collect()
                };
                assert_same(&lanes_of(v.keep_first(n)), &first(zero), false, "keep_first");
                if n < V::LANES {
                    let exactly = x[..n].to_vec();
                    assert_same(&lanes_of(V::load_first(exactly.as_ptr(), n)), &first(zero), false, "load_first");
                    let mut to = vec![V::Elem::ONE; V::LANES];
                    v.store_first(to.as_mut_ptr(), n);
                    assert_same(&to, &first(V::Elem::ONE), false, "store_first");
                }
            }
        }
    }
}

fn folds_high_bit_first<V: Vector>(values: &[V::Elem]) {
    for i in 0..values.len() {
        let rows: Vec<_> = (0..MAX_LANES).map(|row| pick::<V>(values, i + 7 * row, 1 + row)).collect();
        // SAFETY: a row has LANES elements.
        let vectors = std::array::from_fn(|row| unsafe { V::load(rows[row].as_ptr()) });
        let folded = |row: &Vec<V::Elem>| {
            let mut lane = row.clone();
            while lane.len() > 1 {
                let high = lane.split_off(lane.len() / 2);
                lane.iter_mut().zip(high).for_each(|(low, high)| *low = *low + high);
            }
            lane[0]
        };
        let expected: Vec<_> = rows[..V::LANES].iter().map(folded).collect();
        let found: Vec<_> = vectors[..V::LANES].iter().map(|v: &V| v.fold()).collect();
        assert_same(&found, &expected, true, "fold");
        assert_same(&lanes_of(V::fold_each(&vectors)), &expected, true, "fold_each");
    }
}

pub fn vectors_are_scalar_lane_by_lane<S: Simd>() {
    arithmetic_is_scalar::<S::F32>(&f32_values());
    arithmetic_is_scalar::<S::F64>(&f64_values());
    memory_is_moved::<S::F32>(&f32_values());
    memory_is_moved::<S::F64>(&f64_values());
    folds_high_bit_first::<S::F32>(&f32_values());
    folds_high_bit_first::<S::F64>(&f64_values());
    S::prefetch(std::ptr::null::<f32>());
    S::stream_fence();
}

/// Widens every narrow number; then rounds every number, the ties between neighbours, and the numbers one bit to
/// either side.
fn half_is_exact<T: Element<Acc = f32>, V: Vector<Elem = f32>>(
    from_bits: fn(u16) -> T,
    load: unsafe fn(*const T) -> V,
    store: [unsafe fn(*mut T, V); 2],
) {
    let mut values = f32_values();
    for start in (0..=u16::MAX).step_by(4) {
        let narrow: [T; 4] = std::array::from_fn(|lane| from_bits(start + lane as u16));
        // SAFETY: there are four elements.
        let wide = lanes_of(unsafe { load(narrow.as_ptr()) });
        assert_same(&wide, &narrow.map(T::widen), true, "load");
        for (x, bits) in wide.into_iter().zip(start..=start + 3) {
            let [below, above] = [bits.wrapping_sub(1), bits.wrapping_add(1)].map(|bits| from_bits(bits).widen());
            // Beyond the largest number, the tie is as far away as below it.
            let tie = x + if above.is_finite() { above - x } else { x - below } / 2.0;
            values.extend([x, tie]);
            values.extend([1, u32::MAX].map(|bit| f32::from_bits(tie.to_bits().wrapping_add(bit))));
        }
    }
    for four in values.chunks_exact(4) {
        let expected: Vec<T> = four.iter().map(|&x| T::narrow(x)).collect();
        for store in store {
            let mut found = vec![T::default(); 4];
            // SAFETY: there are four elements on either side; a plain store requires no alignment.
            unsafe { store(found.as_mut_ptr(), V::load(four.as_ptr())) };
            assert_same(&found, &expected, false, "store");
        }
    }
}

/// The vectors have four f32.
pub fn half_precision_rounds_as_the_half_crate_does<S: Simd>() {
    half_is_exact(f16::from_bits, S::load_f16, [S::store_f16, S::stream_f16]);
    half_is_exact(bf16::from_bits, S::load_bf16, [S::store_bf16, S::stream_bf16]);
}

const ROWS: usize = 11;

/// Inputs of both kernels.
struct Case<T: Element> {
    n: usize,
    x: Vec<T>,
    other: Vec<T>,
    dy: Vec<T>,
    gain: Vec<T::Acc>,
    bias: Vec<T::Acc>,
}

/// Variant of a kernel.
#[derive(Clone, Copy, Debug)]
struct Mode {
    centered: bool,
    /// A residual, or the gradient of h from its other users.
    other: bool,
    /// One γ and β for the row, not one per feature.
    per_row: bool,
    stream: bool,
}

impl<T: Element> Case<T> {
    /// Creates rows of every kind: ordinary, far from 0, constant, with a NaN, overflowing, subnormal.
    fn new(n: usize) -> Self {
        let mut random = SplitMix64::new(n as u64);
        let huge = if size_of::<T>() == 8 { 1e200 } else { 1e30 };
        let number = |x: f64| T::Acc::from_f64(x);
        let mut tensor = |kinds: bool| -> Vec<T> {
            let element = |i: usize| {
                let z = normal(&mut random);
                T::narrow(number(match (kinds, i / n) {
                    (true, 1) => 1000.0 + z,
                    (true, 2) => 0.7,
                    (true, 3) if i % n == n / 2 => f64::NAN,
                    (true, 4) => huge * z,
                    (true, 5) => z / huge / 1e10,
                    _ => z,
                }))
            };
            (0..ROWS * n).map(element).collect()
        };
        let (x, other, dy) = (tensor(true), tensor(false), tensor(false));
        let mut parameter = || (0..n.max(ROWS)).map(|_| number(normal(&mut random))).collect();
        Case { n, x, other, dy, gain: parameter(), bias: parameter() }
    }

    fn rows(&self, x: &[T]) -> Rows<*const T> {
        Rows { ptr: x.as_ptr(), stride: self.n as isize }
    }

    fn norm(&self, mode: Mode) -> RowNorm<T::Acc> {
        let (count, eps) = (T::Acc::from_count(self.n), T::Acc::from_f64(1e-5));
        RowNorm::new(mode.centered, count, eps, T::Acc::ZERO)
    }

    fn affine(&self, mode: Mode) -> Affine<T::Acc> {
        let (groups, span) = if mode.per_row { (ROWS, self.n) } else { (1, 1) };
        Affine { gain: self.gain.as_ptr(), bias: self.bias.as_ptr(), groups, span }
    }

    /// Returns y and h, and the statistics.
    fn forward<S: Simd>(&self, mode: Mode) -> ([Vec<T>; 2], [Vec<T::Acc>; 3]) {
        let mut outputs = [const { Vec::new() }; 2].map(|_: Vec<T>| vec![T::default(); ROWS * self.n]);
        let mut stats = [const { Vec::new() }; 3].map(|_: Vec<T::Acc>| vec![T::Acc::ZERO; ROWS]);
        let [y, h] = outputs.each_mut().map(|to| Rows { ptr: to.as_mut_ptr(), stride: self.n as isize });
        let [m, delta, r] = stats.each_mut().map(|to| to.as_mut_ptr());
        let mut kept = vec![T::default(); ROWS.max(MAX_LANES) * self.n];
        let kernel = Forward {
            x: self.rows(&self.x),
            residual: mode.other.then(|| Residual { r: self.rows(&self.other), h, kept: kept.as_mut_ptr() }),
            y,
            rows: ROWS,
            n: self.n,
            first_row: 0,
            norm: self.norm(mode),
            affine: self.affine(mode),
            stats: Some(Stats { m, delta, r }),
            memory: crate::tune::Memory { stream: mode.stream, prefetch: mode.stream, prefetch_output: !mode.stream },
        };
        // SAFETY: the pointers come from arrays of ROWS rows; both instruction sets run here.
        unsafe { kernel.run::<S>() };
        (outputs, stats)
    }

    /// Returns dx, and the sums for γ and β.
    fn backward<S: Simd>(&self, mode: Mode, stats: &mut [Vec<T::Acc>; 3]) -> (Vec<T>, [Vec<T::Acc>; 2]) {
        let mut dx = vec![T::default(); ROWS * self.n];
        let mut sums = [const { Vec::new() }; 2].map(|_: Vec<T::Acc>| vec![T::Acc::ZERO; self.n]);
        let [m, delta, r] = stats.each_mut().map(|from| from.as_mut_ptr());
        let [gain, bias] = sums.each_mut().map(|to| to.as_mut_ptr());
        let kernel = Backward {
            x: self.rows(&self.x),
            dy: self.rows(&self.dy),
            dh: mode.other.then(|| self.rows(&self.other)),
            dx: Some(Rows { ptr: dx.as_mut_ptr(), stride: self.n as isize }),
            rows: ROWS,
            n: self.n,
            first_row: 0,
            norm: self.norm(mode),
            affine: self.affine(mode),
            stats: Stats { m, delta, r },
            sums: Some(ParameterSums { gain, bias }),
            memory: crate::tune::Memory { stream: mode.stream, prefetch: mode.stream, prefetch_output: !mode.stream },
        };
        // SAFETY: the pointers come from arrays of ROWS rows; both instruction sets run here.
        unsafe { kernel.run::<S>() };
        (dx, sums)
    }
}

fn kernels_are_scalar<T: Element, S: Simd>() {
    for n in [1, 3, 4, 5, 64, 255, 1024, 2500] {
        let case = Case::<T>::new(n);
        for choice in 0..16 {
            let bit = |b: u32| choice >> b & 1 == 1;
            let mode = Mode { centered: bit(0), other: bit(1), per_row: bit(2), stream: bit(3) };
            let what = |of: &str| format!("{of}, n = {n}, {mode:?}");
            let (expected, stats) = case.forward::<Scalar>(mode);
            let (found, found_stats) = case.forward::<S>(mode);
            assert_same(&found.concat(), &expected.concat(), true, &what("forward"));
            assert_same(&found_stats.concat(), &stats.concat(), true, &what("statistics"));
            // Backward's x has the statistics of a forward pass without a residual.
            let (_, mut stats) = case.forward::<Scalar>(Mode { other: false, ..mode });
            let (expected, expected_sums) = case.backward::<Scalar>(mode, &mut stats);
            let (found, found_sums) = case.backward::<S>(mode, &mut stats);
            assert_same(&found, &expected, true, &what("dx"));
            assert_same(&found_sums.concat(), &expected_sums.concat(), true, &what("sums"));
        }
    }
}

pub fn kernels_give_the_bits_of_the_scalar_path<S: Simd>() {
    kernels_are_scalar::<f32, S>();
    kernels_are_scalar::<f64, S>();
    kernels_are_scalar::<f16, S>();
    kernels_are_scalar::<bf16, S>();
}

//! Any call: the bytes determine operation, type, shapes, layouts, options, threads and data.
//!
//! - Nothing panics, whatever the arguments.
//! - The scalar code on one thread and the widest instruction set on several threads give the same bits, or the same
//!   error.
//! - A failed call writes nothing, and no call writes between a tensor's elements.
//! - Finite numbers give no NaN (where that is guaranteed: see `owes_numbers`).

#![no_main]

mod bytes;
mod call;
mod tensor;
mod values;

use bytes::Bytes;
use call::{Call, Op, Parameter};
use layernorm::{Context, Element, Error, Float, Isa, bf16, f16};
use libfuzzer_sys::fuzz_target;
use tensor::{Tensor, count, is_nan};

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes::new(data);
    match bytes.below(4) {
        0 => check::<f32>(&mut bytes),
        1 => check::<f64>(&mut bytes),
        2 => check::<f16>(&mut bytes),
        _ => check::<bf16>(&mut bytes),
    }
});

fn check<T: Element>(bytes: &mut Bytes) {
    let threads = bytes.of(&[1, 2, 3, 7, 1 << 50, usize::MAX]);
    let call = Call::<T>::new(bytes);
    let widest = Isa::available().into_iter().next_back().expect("scalar code is always available");
    let run = |isa, threads| {
        let mut cx = Context::new().with_isa(isa).and_then(|cx| cx.with_threads(threads)).expect("both exist");
        Outcome::new(&call, &mut cx)
    };
    let (plain, wide) = (run(Isa::Scalar, 1), run(widest, threads));
    assert_eq!(plain.summary(), wide.summary(), "scalar and {widest} on {threads} threads: {call:?}");
    plain.check(&call);
}

/// A completed call, forward and then backward.
struct Outcome<T: Element> {
    forward: Result<(), Error>,
    /// `None` if it would take too long.
    backward: Option<Result<(), Error>>,
    after: Call<T>,
}

impl<T: Element> Outcome<T> {
    fn new(call: &Call<T>, cx: &mut Context) -> Self {
        let mut after = call.clone();
        let forward = after.forward(cx);
        let backward = call.is_small().then(|| after.backward(cx));
        Outcome { forward, backward, after }
    }

    /// Returns everything that a caller can observe, to the bit.
    fn summary(&self) -> (String, Vec<Vec<u64>>) {
        let call = &self.after;
        let mut memory: Vec<Vec<u64>> =
            [&call.y, &call.h, &call.dx, &call.dlengths].map(|tensor| bits(&tensor.memory)).into();
        for parameter in [&call.dweight, &call.dbias].into_iter().flatten() {
            memory.push(match parameter {
                Parameter::Same(tensor) => bits(&tensor.memory),
                Parameter::F32(tensor) => bits(&tensor.memory),
            });
        }
        memory.extend(self.statistics().map(bits));
        (format!("{:?} {:?}", self.forward, self.backward), memory)
    }

    fn statistics(&self) -> [&[T::Acc]; 5] {
        let call = &self.after;
        [&call.saved.m, &call.saved.delta, &call.saved.rstd, &call.mean, &call.var]
    }

    fn check(&self, before: &Call<T>) {
        let after = &self.after;
        let tensors = [&after.y, &after.h, &after.dx, &after.dlengths];
        assert!(tensors.iter().all(|tensor| tensor.is_clean()), "written outside the elements: {before:?}");
        if self.forward.is_err() {
            let y = if before.in_place() {
                bits(&after.y.memory) == bits(&before.y.memory)
            } else {
                after.y.is_untouched()
            };
            let same = |(found, expected): (&[T::Acc], &[T::Acc])| bits(found) == bits(expected);
            let statistics = [(&after.mean[..], &before.mean[..]), (&after.saved.rstd, &before.saved.rstd)];
            assert!(
                y && after.h.is_untouched() && statistics.into_iter().all(same),
                "a failed call has written: {before:?}"
            );
        }
        if self.backward.as_ref().is_none_or(Result::is_err) {
            let untouched = after.dx.is_untouched() && after.dlengths.is_untouched();
            let parameters = [&after.dweight, &after.dbias].into_iter().flatten().all(|parameter| match parameter {
                Parameter::Same(tensor) => tensor.is_untouched(),
                Parameter::F32(tensor) => tensor.is_untouched(),
            });
            assert!(untouched && parameters, "a failed call has written: {before:?}");
        }
        if self.forward.is_ok() && owes_numbers(before, after) {
            let numbers = !self.after.y.elements().into_iter().any(is_nan);
            // Running statistics belong to batch norm only.
            let own = if matches!(before.op, Op::Batch | Op::Infer) { 5 } else { 3 };
            let statistics = self.statistics()[..own].iter().copied().flatten().all(|&x| !is_nan(x));
            assert!(numbers && statistics, "forward gives NaN: {before:?}");
            if self.backward == Some(Ok(())) && before.dy.elements().into_iter().all(is_finite) {
                assert!(!self.gradients().any(|x| x.is_nan()), "backward gives NaN: {before:?}");
            }
        }
    }

    fn gradients(&self) -> impl Iterator<Item = f64> {
        let call = &self.after;
        let lengths = if call.op == Op::Weight { numbers(&call.dlengths) } else { Vec::new() };
        let parameters = [&call.dweight, &call.dbias].into_iter().flatten().filter(|_| call.op != Op::Weight);
        let parameters = parameters.flat_map(|parameter| match parameter {
            Parameter::Same(tensor) => numbers(tensor),
            Parameter::F32(tensor) => numbers(tensor),
        });
        numbers(&call.dx).into_iter().chain(lengths).chain(parameters)
    }
}

/// Returns whether a call with finite numbers is guaranteed to give finite numbers. Not if ε is 0 (also after
/// rounding to the arithmetic type) or a weight's row has no direction; not without elements; and not at inference if
/// x − mean or its product with 1/σ can overflow: there the statistics are not the tensor's own, and an infinity may
/// be multiplied by γ = 0.
fn owes_numbers<T: Element>(call: &Call<T>, after: &Call<T>) -> bool {
    // Beside a zero the other sizes may be anything, and their product more than a number holds.
    if count(&call.x.shape) == 0 {
        return false;
    }
    let parameter = |parameter: &Option<Parameter<T>>| match parameter {
        Some(Parameter::Same(tensor)) => all_finite(tensor),
        Some(Parameter::F32(tensor)) => all_finite(tensor),
        None => true,
    };
    let finite = all_finite(&call.x) && parameter(&call.weight) && parameter(&call.bias);
    let running = call.mean.iter().chain(&call.var).all(|x| x.is_finite());
    let eps = T::Acc::from_f64(call.eps) > T::Acc::ZERO;
    let own = match call.op {
        Op::Rows { kind: call::Kind::Residual, .. } => eps && all_finite(&call.residual) && all_finite(&after.h),
        Op::Weight => all_finite(&call.lengths) && has_directions(call),
        Op::Batch => eps && running,
        Op::Infer => {
            let moderate = |x: f64| x.abs() < 1e9;
            let moments = call.mean.iter().chain(&call.var).all(|x| moderate(x.to_f64()));
            eps && call.eps > 1e-9 && moments && numbers(&call.x).into_iter().all(moderate)
        }
        _ => eps,
    };
    finite && own
}

/// Returns whether no row of a weight is zero.
fn has_directions<T: Element>(call: &Call<T>) -> bool {
    let shape = &call.x.shape;
    let axis = call.axis.filter(|&axis| axis < shape.len());
    let rows = axis.map_or(1, |axis| shape[axis]);
    let inner: usize = axis.map_or(1, |axis| shape[axis + 1..].iter().product());
    let mut has = vec![false; rows];
    for (i, x) in call.x.elements().into_iter().enumerate() {
        has[i / inner % rows] |= x.widen().to_f64() != 0.0;
    }
    has.into_iter().all(|has| has)
}

fn is_finite<T: Element>(x: T) -> bool {
    x.widen().is_finite()
}

fn all_finite<T: Element>(tensor: &Tensor<T>) -> bool {
    tensor.elements().into_iter().all(is_finite)
}

fn numbers<T: Element>(tensor: &Tensor<T>) -> Vec<f64> {
    tensor.elements().into_iter().map(|x| x.widen().to_f64()).collect()
}

/// Returns the bits. All NaNs count as equal.
fn bits<T: Element>(memory: &[T]) -> Vec<u64> {
    memory.iter().map(|&x| if is_nan(x) { u64::MAX } else { x.widen().to_f64().to_bits() }).collect()
}

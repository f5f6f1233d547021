//! Memory-bandwidth baselines: the plain loops that the benchmarks compare the kernels with.
//!
//! They run on the context's threads and with its instruction set, so they differ from a norm only in what they
//! compute. Half-precision tensors are compared with f32 loops over the same number of bytes.

use crate::arch::MachineIsa;
use crate::context::Context;
use crate::error::Error;
use crate::kernels::Kernel;
use crate::kernels::vector::{Simd, Vector};
use crate::threads::{self, Shared};

/// Copies `from` to `to` with the system's `memcpy`.
pub fn copy(from: &[f32], to: &mut [f32], cx: &Context) -> Result<(), Error> {
    same_length(from, to)?;
    split(to, cx, &|at, part| part.copy_from_slice(&from[at..at + part.len()]));
    Ok(())
}

/// Computes y = a·x: reads one tensor, writes one.
pub fn scale(a: f32, x: &[f32], y: &mut [f32], cx: &Context) -> Result<(), Error> {
    let isa = same_length(x, y).and(cx.machine_isa())?;
    split(y, cx, &|at, y| isa_loop(isa, y, &x[at..at + y.len()], None, a));
    Ok(())
}

/// Computes z = a·x + y: reads two tensors, writes one.
pub fn triad(a: f32, x: &[f32], y: &[f32], z: &mut [f32], cx: &Context) -> Result<(), Error> {
    let isa = same_length(x, z).and(same_length(y, z)).and(cx.machine_isa())?;
    split(z, cx, &|at, z| isa_loop(isa, z, &x[at..at + z.len()], Some(&y[at..at + z.len()]), a));
    Ok(())
}

fn same_length(from: &[f32], to: &[f32]) -> Result<(), Error> {
    if from.len() == to.len() {
        Ok(())
    } else {
        Err(Error::Length { what: "input", expected: to.len(), found: from.len() })
    }
}

/// Splits the output into one equal part per thread and calls `work(offset, part)` for each.
fn split(to: &mut [f32], cx: &Context, work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let (len, tasks) = (to.len(), cx.threads());
    // SAFETY: the parts are disjoint.
    let shared = unsafe { Shared::new(to.as_mut_ptr()) };
    threads::run(tasks, tasks, &|task| {
        let (start, end) = (len * task / tasks, len * (task + 1) / tasks);
        // SAFETY: the part lies within `to`, and no other task has it.
        work(start, unsafe { std::slice::from_raw_parts_mut(shared.get().add(start), end - start) });
    });
}

fn isa_loop(isa: MachineIsa, to: &mut [f32], x: &[f32], y: Option<&[f32]>, a: f32) {
    debug_assert!(x.len() == to.len() && y.is_none_or(|y| y.len() == to.len()));
    // SAFETY: the slices have equal lengths.
    unsafe { isa.run(Loop { to, x, y, a }) };
}

struct Loop<'a> {
    to: &'a mut [f32],
    x: &'a [f32],
    y: Option<&'a [f32]>,
    a: f32,
}

impl Kernel for Loop<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let lanes = S::F32::LANES;
        let whole = self.to.len() / lanes * lanes;
        let a = S::F32::splat(self.a);
        let to = self.to.as_mut_ptr();
        // SAFETY: the slices have equal lengths, and `whole` does not exceed them.
        unsafe {
            let mut i = 0;
            if let Some(y) = self.y {
                while i < whole {
                    S::F32::load(self.x.as_ptr().add(i)).fma(a, S::F32::load(y.as_ptr().add(i))).store(to.add(i));
                    i += lanes;
                }
            } else {
                while i < whole {
                    S::F32::load(self.x.as_ptr().add(i)).mul(a).store(to.add(i));
                    i += lanes;
                }
            }
        }
        for i in whole..self.to.len() {
            self.to[i] = self.x[i].mul_add(self.a, self.y.map_or(-0.0, |y| y[i]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_compute_what_they_say() {
        let x: Vec<f32> = (0..1003).map(|i| i as f32).collect();
        for isa in crate::arch::Isa::available() {
            let cx = Context::new().with_isa(isa).unwrap().with_threads(3).unwrap();
            let mut z = vec![0.0; x.len()];
            copy(&x, &mut z, &cx).unwrap();
            assert_eq!(z, x);
            scale(2.0, &x, &mut z, &cx).unwrap();
            assert!(z.iter().zip(&x).all(|(z, x)| *z == 2.0 * x));
            triad(3.0, &x, &x, &mut z, &cx).unwrap();
            assert!(z.iter().zip(&x).all(|(z, x)| *z == 4.0 * x));
            assert!(scale(2.0, &x[1..], &mut z, &cx).is_err());
        }
    }
}

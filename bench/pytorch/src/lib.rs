//! A C interface to layer norm over the last dimension and to recurrent networks, no larger than `compare.py` and
//! `recurrent.py` need.
//!
//! Every function returns [`OK`], [`REFUSED`] or [`PANICKED`] and never unwinds; [`layernorm_bench_error`] has the
//! words. The arguments of a call come in one struct, so that a caller can prepare it once and call many times.

mod failure;
pub mod recurrent;

use failure::Failure;
use layernorm::{Affine, Context, Element, Gradients, NormConfig, StatsMut, StatsRef, View, ViewMut, bf16, layer_norm};
use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// All went well.
pub const OK: i32 = 0;
/// The arguments were refused, and nothing was written.
pub const REFUSED: i32 = 1;
/// A bug: the call panicked.
pub const PANICKED: i32 = 2;

/// The code of f32 in [`Forward::dtype`] and [`Backward::dtype`].
pub const F32: i32 = 0;
/// The code of bf16.
pub const BF16: i32 = 1;

/// y = norm(x). All memory is contiguous; x, γ, β and y are of the type `dtype`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// [`F32`] or [`BF16`].
    pub dtype: i32,
    /// R.
    pub rows: usize,
    /// N.
    pub n: usize,
    /// `[R, N]`
    pub x: *const c_void,
    /// γ, `[N]`
    pub gain: *const c_void,
    /// β, `[N]`
    pub bias: *const c_void,
    /// Written, `[R, N]`
    pub y: *mut c_void,
    /// Written, `[R]`. It must hold numbers before the call, as must δ and r.
    pub m: *mut f32,
    /// δ, written, `[R]`
    pub delta: *mut f32,
    /// r, written, `[R]`
    pub rstd: *mut f32,
    /// ε
    pub eps: f64,
}

/// dx, dγ and dβ from what [`Forward`] saved. Memory as there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Backward {
    /// [`F32`] or [`BF16`].
    pub dtype: i32,
    /// R.
    pub rows: usize,
    /// N.
    pub n: usize,
    /// `[R, N]`
    pub x: *const c_void,
    /// `[R, N]`
    pub dy: *const c_void,
    /// γ, `[N]`
    pub gain: *const c_void,
    /// `[R]`
    pub m: *const f32,
    /// δ, `[R]`
    pub delta: *const f32,
    /// r, `[R]`
    pub rstd: *const f32,
    /// Written, `[R, N]`
    pub dx: *mut c_void,
    /// dγ, written, `[N]`
    pub dgain: *mut c_void,
    /// dβ, written, `[N]`
    pub dbias: *mut c_void,
}

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes a context of so many threads at `*context`, to be given to [`layernorm_bench_destroy`]; `fresh` is not 0 if its calls
/// get outputs that were just allocated.
///
/// # Safety
/// `context` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_create(threads: usize, fresh: i32, context: *mut *mut Context) -> i32 {
    guarded(|| {
        let context = not_null("context", context)?;
        let made = Box::new(Context::new().with_threads(threads)?.with_fresh_outputs(fresh != 0));
        // SAFETY: it is not null, so it can be written.
        unsafe { *context = Box::into_raw(made) };
        Ok(())
    })
}

/// Frees a context. Null is no error.
///
/// # Safety
/// `context` is null or came from [`layernorm_bench_create`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_destroy(context: *mut Context) -> i32 {
    guarded(|| {
        if !context.is_null() {
            // SAFETY: it came from `Box::into_raw`, and this is its last use.
            drop(unsafe { Box::from_raw(context) });
        }
        Ok(())
    })
}

/// The name of the instruction set that calls use, as C text cut to `capacity` bytes.
///
/// # Safety
/// `context` is null or came from [`layernorm_bench_create`]; `text` is null or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_isa(context: *const Context, text: *mut c_char, capacity: usize) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { context.as_ref() }.ok_or(Failure::Null { what: "context" })?;
        // SAFETY: the caller's promise.
        unsafe { write_text(context.isa()?.name(), text, capacity) }
    })
}

/// What went wrong in this thread's last call that failed, as C text cut to `capacity` bytes.
///
/// # Safety
/// `text` is null or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_error(text: *mut c_char, capacity: usize) -> i32 {
    let last = LAST_ERROR.with_borrow(String::clone);
    // SAFETY: the caller's promise.
    guarded(|| unsafe { write_text(&last, text, capacity) })
}

/// Layer norm forward.
///
/// # Safety
/// Every pointer is null or has the memory that [`Forward`] says, and what is written overlaps nothing else; `context`
/// came from [`layernorm_bench_create`], and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_forward(context: *mut Context, call: *const Forward) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (context, call) = unsafe { (context.as_mut(), call.as_ref()) };
        let context = context.ok_or(Failure::Null { what: "context" })?;
        let call = call.ok_or(Failure::Null { what: "call" })?;
        // SAFETY: the caller's promise.
        unsafe {
            match call.dtype {
                F32 => forward::<f32>(context, call),
                BF16 => forward::<bf16>(context, call),
                found => Err(Failure::Dtype { found }),
            }
        }
    })
}

/// Layer norm backward.
///
/// # Safety
/// Every pointer is null or has the memory that [`Backward`] says, and what is written overlaps nothing else; `context`
/// came from [`layernorm_bench_create`], and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn layernorm_bench_backward(context: *mut Context, call: *const Backward) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (context, call) = unsafe { (context.as_mut(), call.as_ref()) };
        let context = context.ok_or(Failure::Null { what: "context" })?;
        let call = call.ok_or(Failure::Null { what: "call" })?;
        // SAFETY: the caller's promise.
        unsafe {
            match call.dtype {
                F32 => backward::<f32>(context, call),
                BF16 => backward::<bf16>(context, call),
                found => Err(Failure::Dtype { found }),
            }
        }
    })
}

/// # Safety
/// As [`layernorm_bench_forward`], with elements of type `T`.
unsafe fn forward<T: Element<Acc = f32>>(context: &mut Context, call: &Forward) -> Result<(), Failure> {
    let &Forward { rows, n, eps, .. } = call;
    // SAFETY: the pointers are not null, so the memory is there.
    unsafe {
        let x = tensor::<T, 2>("x", call.x, [rows, n])?;
        let affine = Affine::new(tensor("gain", call.gain, [n])?, tensor("bias", call.bias, [n])?);
        let y = tensor_mut::<T, 2>("y", call.y, [rows, n])?;
        let stats = StatsMut {
            m: std::slice::from_raw_parts_mut(not_null("m", call.m)?, rows),
            delta: std::slice::from_raw_parts_mut(not_null("delta", call.delta)?, rows),
            rstd: std::slice::from_raw_parts_mut(not_null("rstd", call.rstd)?, rows),
        };
        layer_norm::forward(x, y, Some(stats), &NormConfig::new().affine(affine).eps(eps), context)?;
    }
    Ok(())
}

/// # Safety
/// As [`layernorm_bench_backward`], with elements of type `T`.
unsafe fn backward<T: Element<Acc = f32>>(context: &mut Context, call: &Backward) -> Result<(), Failure> {
    let &Backward { rows, n, .. } = call;
    // SAFETY: the pointers are not null, so the memory is there.
    unsafe {
        let x = tensor::<T, 2>("x", call.x, [rows, n])?;
        let dy = tensor("dy", call.dy, [rows, n])?;
        let affine = Affine { weight: Some(tensor("gain", call.gain, [n])?.into()), ..Affine::default() };
        let stats = StatsRef {
            m: std::slice::from_raw_parts(not_null("m", call.m.cast_mut())?, rows),
            delta: std::slice::from_raw_parts(not_null("delta", call.delta.cast_mut())?, rows),
            rstd: std::slice::from_raw_parts(not_null("rstd", call.rstd.cast_mut())?, rows),
        };
        let gradients = Gradients {
            input: Some(tensor_mut("dx", call.dx, [rows, n])?),
            weight: Some(tensor_mut("dgain", call.dgain, [n])?.into()),
            bias: Some(tensor_mut("dbias", call.dbias, [n])?.into()),
        };
        layer_norm::backward(x, dy, stats, gradients, &NormConfig::new().affine(affine), context)?;
    }
    Ok(())
}

/// # Safety
/// `memory` is null or holds a row-major tensor of `shape` for as long as the view lives.
unsafe fn tensor<'a, T, const RANK: usize>(
    what: &'static str,
    memory: *const c_void,
    shape: [usize; RANK],
) -> Result<View<'a, T>, Failure> {
    let memory = not_null(what, memory.cast_mut())?.cast_const();
    // SAFETY: it is not null, so the tensor is there.
    Ok(unsafe { View::from_raw_parts(memory.cast(), &shape, &row_major(shape)) }?)
}

/// # Safety
/// `memory` is null or has room for a row-major tensor of `shape`, which nothing else uses while the view lives.
unsafe fn tensor_mut<'a, T, const RANK: usize>(
    what: &'static str,
    memory: *mut c_void,
    shape: [usize; RANK],
) -> Result<ViewMut<'a, T>, Failure> {
    let memory = not_null(what, memory)?;
    // SAFETY: it is not null, so the room is there.
    Ok(unsafe { ViewMut::from_raw_parts(memory.cast(), &shape, &row_major(shape)) }?)
}

fn row_major<const RANK: usize>(shape: [usize; RANK]) -> [isize; RANK] {
    let mut strides = [1isize; RANK];
    for axis in (1..RANK).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

fn not_null<T>(what: &'static str, pointer: *mut T) -> Result<*mut T, Failure> {
    if pointer.is_null() { Err(Failure::Null { what }) } else { Ok(pointer) }
}

/// # Safety
/// `to` is null or has `capacity` bytes.
unsafe fn write_text(text: &str, to: *mut c_char, capacity: usize) -> Result<(), Failure> {
    let to = not_null("text", to)?;
    let Some(room) = capacity.checked_sub(1) else { return Err(Failure::NoRoom) };
    let len = text.len().min(room);
    // SAFETY: `len` bytes and the closing zero fit into the capacity.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        *to.add(len) = 0;
    }
    Ok(())
}

/// Runs a call and keeps its words, if it fails.
fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let (code, words) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return OK,
        Ok(Err(failure)) => (REFUSED, failure.to_string()),
        Err(panic) => (PANICKED, failure::panic_words(panic.as_ref())),
    };
    LAST_ERROR.set(words);
    code
}

#[cfg(test)]
mod tests;

//! Parameters and states, from and to the caller's memory.

use super::Pair;
use super::pool::PooledReal;
use crate::failure::Failure;
use crate::flat::Flat;
use crate::tensor::{Dtype, slice, with_type};
use layernorm::parts::memory;
use layernorm::{Element, Float};
use layernorm_rnn::{Network, State};

/// Copies parameters that differ from those of the network.
///
/// # Safety
/// The memory is as described.
pub(super) unsafe fn take_parameters<A: PooledReal>(network: &mut Network<A>, from: &[Flat]) -> Result<(), Failure> {
    let entries = network.params().entries().len();
    if from.len() != entries {
        let what = "parameters".to_owned();
        return Err(Failure::Count { what, expected: entries, found: from.len() });
    }
    let mut room = Vec::new();
    for (i, numbers) in from.iter().enumerate() {
        let entry = &network.params().entries()[i];
        let range = entry.range.clone();
        let address = numbers.checked(|| entry.name(), range.len())?;
        // SAFETY: guaranteed by the caller; the count was checked.
        let found = unsafe { with_type!(numbers.dtype(), converted(address, range.len(), &mut room;)) }?;
        // Compare bits: −0 differs from 0, and NaN equals itself.
        if bytes(found) != bytes(&network.params().values()[range.clone()]) {
            network.params_mut().values_mut()[range].copy_from_slice(found);
        }
    }
    Ok(())
}

/// Returns the bytes of numbers, for a fast comparison.
fn bytes<A: PooledReal>(numbers: &[A]) -> &[u8] {
    // SAFETY: f32 and f64 have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// Returns numbers in the accumulation type, borrowed or converted.
///
/// # Safety
/// As for [`slice`].
unsafe fn converted<T: Element, A: PooledReal>(
    address: usize,
    count: usize,
    room: &mut Vec<A>,
) -> Result<&[A], Failure> {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<A>() {
        // SAFETY: guaranteed by the caller; the types are the same.
        return Ok(unsafe { slice::<A>(address, count) });
    }
    room.clear();
    room.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
    // SAFETY: guaranteed by the caller.
    room.extend(unsafe { slice::<T>(address, count) }.iter().map(|x| A::from_f64(x.widen().to_f64())));
    Ok(room)
}

/// Checks types and sizes of h and c.
pub(super) fn check_state(what: &'static str, state: &Pair, acc: Dtype, counts: (usize, usize)) -> Result<(), Failure> {
    for (part, count) in [(state.0, counts.0), (state.1, counts.1)] {
        if let Some(part) = part {
            part.fits(what, acc, count)?;
        }
    }
    Ok(())
}

/// Copies the state of the caller, with zeros for missing parts. Returns false if there is none.
///
/// # Safety
/// As for [`Flat::read`].
pub(super) unsafe fn take_state<A: PooledReal>(
    what: &'static str,
    to: &mut State<A>,
    from: &Pair,
    acc: Dtype,
    counts: (usize, usize),
) -> Result<bool, Failure> {
    if from.0.is_none() && from.1.is_none() {
        return Ok(false);
    }
    for (numbers, part, count) in [(&mut to.h, from.0, counts.0), (&mut to.c, from.1, counts.1)] {
        numbers.clear();
        match part {
            None => memory::refill(numbers, count, A::ZERO)?,
            Some(part) => {
                // SAFETY: guaranteed by the caller.
                let found = unsafe { part.read(what, acc, count)? };
                numbers.try_reserve_exact(count).map_err(|_| memory::out_of_memory::<A>(count))?;
                numbers.extend_from_slice(found);
            }
        }
    }
    Ok(true)
}

/// Copies a state to the caller's memory.
///
/// # Safety
/// As for [`Flat::write`].
pub(super) unsafe fn give_state<A: PooledReal>(
    what: &'static str,
    from: &State<A>,
    to: &Pair,
    acc: Dtype,
) -> Result<(), Failure> {
    for (numbers, part) in [(&from.h, to.0), (&from.c, to.1)] {
        if let Some(part) = part {
            // SAFETY: guaranteed by the caller.
            unsafe { part.write(what, acc, numbers.len())? }.copy_from_slice(numbers);
        }
    }
    Ok(())
}

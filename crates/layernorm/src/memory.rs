//! Memory that may not be there: a call whose shape asks for more than there is ends with an error, never with the process.

use crate::element::Element;
use crate::error::Error;
use std::alloc::{Layout, alloc_zeroed};

/// The error for `count` elements that could not be had.
pub fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }
}

/// An empty vector with room for `count` elements.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| out_of_memory::<T>(count))?;
    Ok(vector)
}

/// `count` times the same.
pub fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>, Error> {
    let mut vector = reserved(count)?;
    vector.resize(count, value);
    Ok(vector)
}

/// A copy.
pub fn copied<T: Copy>(from: &[T]) -> Result<Vec<T>, Error> {
    let mut vector = reserved(from.len())?;
    vector.extend_from_slice(from);
    Ok(vector)
}

/// `count` times the same in a vector that is used again. Allocates only to grow.
pub fn refill<T: Clone>(vector: &mut Vec<T>, count: usize, value: T) -> Result<(), Error> {
    vector.clear();
    vector.try_reserve_exact(count).map_err(|_| out_of_memory::<T>(count))?;
    vector.resize(count, value);
    Ok(())
}

/// At least `count` elements: the missing ones are new.
pub fn more<T>(vector: &mut Vec<T>, count: usize, new: impl FnMut() -> T) -> Result<(), Error> {
    let missing = count.saturating_sub(vector.len());
    vector.try_reserve_exact(missing).map_err(|_| out_of_memory::<T>(count))?;
    vector.extend(std::iter::repeat_with(new).take(missing));
    Ok(())
}

/// One more element.
pub(crate) fn push<T>(vector: &mut Vec<T>, value: T) -> Result<(), Error> {
    vector.try_reserve(1).map_err(|_| out_of_memory::<T>(vector.len() + 1))?;
    vector.push(value);
    Ok(())
}

/// Zeros. The system hands out zero pages when they are first touched, so that nothing is written here.
pub fn zeros<T: Element>(count: usize) -> Result<Vec<T>, Error> {
    let layout = Layout::array::<T>(count).map_err(|_| out_of_memory::<T>(count))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size. Zero bytes are the number 0 in all element types, and the vector frees its memory with
    // the layout that it was allocated with.
    unsafe {
        let start = alloc_zeroed(layout);
        if start.is_null() {
            Err(out_of_memory::<T>(count))
        } else {
            Ok(Vec::from_raw_parts(start.cast(), count, count))
        }
    }
}

/// Whether so many bytes could be had together. They are asked for and given back untouched. Systems that promise more
/// memory than there is look at each request by itself: many that fit can be too much together, and the process would end
/// when it writes to them.
pub fn room_for(bytes: usize) -> Result<(), Error> {
    reserved::<u8>(bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_with_its_bytes() {
        let most = isize::MAX as usize;
        assert_eq!(zeros::<f32>(most).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX });
        assert_eq!(zeros::<f64>(most).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX });
        assert_eq!(filled(most, 0u8).unwrap_err(), Error::OutOfMemory { bytes: most });
        assert_eq!(refill(&mut vec![1u16; 3], most, 0).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX - 1 });
        assert_eq!(room_for(most).unwrap_err(), Error::OutOfMemory { bytes: most });
        assert_eq!(zeros::<f64>(3).unwrap(), [0.0; 3]);
        assert_eq!(zeros::<f32>(0).unwrap(), []);
        assert_eq!(copied(&[1, 2]).unwrap(), [1, 2]);
    }
}

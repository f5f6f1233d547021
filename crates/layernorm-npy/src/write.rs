//! Writing: check the shape → header → data, into a temporary file that then replaces the target.

use std::io::{self, Write};
use std::path::Path;

use layernorm_files::Replacement;

use crate::array::check_length;
use crate::dtype::with_elements;
use crate::header::preamble;
use crate::{Array, Error, Order, Scalar};

/// Elements are converted in pieces of this many, at most 64 KiB.
const PIECE: usize = 8 * 1024;

/// Writes an array in C order to a file, like `numpy.save` but atomically: an existing file is kept until the new one is
/// complete and on disk.
///
/// - An existing file is replaced and keeps its permission bits; a new file gets the default ones. A link is kept, and the
///   file it points to is replaced.
/// - On an error the target is unchanged and the temporary file, which is in the same folder, is removed. Only a killed
///   process leaves one behind, named `.layernorm-*.tmp`.
/// - A target that is not a file, such as a pipe or `/dev/null`, is written to directly.
///
/// To replace several files together, use [`to_writer`] with a `Replacement` of the crate `layernorm-files` for each.
pub fn write<T: Scalar>(path: impl AsRef<Path>, shape: &[usize], values: &[T]) -> Result<(), Error> {
    let path = path.as_ref();
    check_length(shape, T::DTYPE, values.len())
        .and_then(|()| save(path, |file| emit(file, shape, Order::C, values)))
        .map_err(|error| error.in_file(path))
}

/// Writes an array in C order to any writer, in the format of a file.
pub fn to_writer<T: Scalar>(mut writer: impl Write, shape: &[usize], values: &[T]) -> Result<(), Error> {
    check_length(shape, T::DTYPE, values.len())?;
    emit(&mut writer, shape, Order::C, values).map_err(Error::io("write"))
}

impl Array {
    /// Writes the array to a file in its own order, in the same way as [`write()`].
    ///
    /// If both orders are the same (a vector, or no elements), the header says C, as NumPy's does.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        save(path, |file| self.emit(file)).map_err(|error| error.in_file(path))
    }

    /// Writes the array to any writer in its own order, in the format of a file.
    pub fn to_writer(&self, mut writer: impl Write) -> Result<(), Error> {
        self.emit(&mut writer).map_err(Error::io("write"))
    }

    fn emit(&self, writer: &mut dyn Write) -> io::Result<()> {
        with_elements!(self.data(), values => emit(writer, self.shape(), self.order(), values))
    }
}

/// Writes an array that has been checked.
fn emit<T: Scalar>(writer: &mut dyn Write, shape: &[usize], order: Order, values: &[T]) -> io::Result<()> {
    writer.write_all(&preamble(T::DTYPE, order, shape))?;
    let mut bytes = Vec::new();
    for piece in values.chunks(PIECE) {
        bytes.clear();
        T::encode(piece, &mut bytes);
        writer.write_all(&bytes)?;
    }
    writer.flush()
}

/// Replaces the file at `path` with what `fill` writes.
fn save(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let mut replacement = Replacement::new(path).map_err(without_path)?;
    fill(&mut replacement).map_err(|error| error.downcast().map_or_else(Error::io("write"), without_path))?;
    replacement.commit().map_err(without_path)
}

/// Removes the path, which [`Error::InFile`] contains.
fn without_path(error: layernorm_files::Error) -> Error {
    let (_, action, source) = error.into_parts();
    Error::io(action)(source)
}

//! The header: a Python dictionary with three keys, as text.

use crate::literal::Literal;
use crate::{DType, Error, Order};

/// The maximum length of a header, in bytes.
///
/// This is NumPy's limit (`max_header_size` of `numpy.load`), so no file that NumPy loads is rejected for its length. The longest
/// header of a supported type, with 64 dimensions of 20 digits, takes less than a fifth of it.
pub const MAX_HEADER_LEN: usize = 10_000;

pub(crate) const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// Data starts at a multiple of this many bytes, as with `numpy.save`.
const ALIGN: usize = 64;

/// NumPy reserves this many digits for the slowest dimension, so that a file can grow in place.
const GROWTH_DIGITS: usize = 21;

/// The contents of a header. The shape is not checked yet.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) big_endian: bool,
    pub(crate) order: Order,
    pub(crate) shape: Vec<usize>,
}

impl Header {
    /// Parses the dictionary of a file of format version `major`.0.
    ///
    /// Keys may come in any order, each once. In addition to what NumPy writes today, it accepts the output of Python 2: `u'…'`, and
    /// numbers that end in `L` in versions 1.0 and 2.0.
    pub(crate) fn parse(bytes: &[u8], major: u8) -> Result<Self, Error> {
        let text = decode(bytes, major)?;
        let mut literal = Literal::new(&text, major < 3);
        let (mut descr, mut order, mut shape) = (None, None, None);

        literal.expect('{', "'{'")?;
        while !literal.eat('}') {
            let key_at = literal.position();
            let key = literal.string("a key in quotes")?;
            literal.expect(':', "':'")?;
            let repeated = match key {
                "descr" => descr.replace(parse_descr(&mut literal)?).is_some(),
                "fortran_order" => order.replace(parse_order(&mut literal)?).is_some(),
                "shape" => shape.replace(literal.shape()?).is_some(),
                _ => return Err(literal.error_at(key_at, "the key descr, fortran_order or shape")),
            };
            if repeated {
                return Err(literal.error_at(key_at, "each key once"));
            }
            if !literal.eat(',') {
                literal.expect('}', "',' or '}'")?;
                break;
            }
        }
        literal.end()?;

        let (dtype, big_endian) = descr.ok_or(Error::MissingKey { key: "descr" })?;
        Ok(Self {
            dtype,
            big_endian,
            order: order.ok_or(Error::MissingKey { key: "fortran_order" })?,
            shape: shape.ok_or(Error::MissingKey { key: "shape" })?,
        })
    }
}

/// Versions 1.0 and 2.0 are Latin-1, 3.0 is UTF-8.
fn decode(bytes: &[u8], major: u8) -> Result<String, Error> {
    if major < 3 {
        return Ok(bytes.iter().copied().map(char::from).collect());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (before, after) = bytes.split_at(error.valid_up_to());
        Error::Header {
            offset: String::from_utf8_lossy(before).chars().count(),
            expected: "UTF-8",
            found: after.first().map_or_else(String::new, |byte| format!("byte 0x{byte:02x}")),
        }
    })?;
    Ok(text.to_owned())
}

/// The type and whether it is big-endian.
fn parse_descr(literal: &mut Literal<'_>) -> Result<(DType, bool), Error> {
    if let Some(descr) = literal.bracketed() {
        return Err(unsupported(descr));
    }
    let descr = literal.string("a type in quotes")?;
    let native = cfg!(target_endian = "big");
    // NumPy reads a missing byte order or '|' as the native one.
    let (big_endian, code) = match descr.split_at_checked(1) {
        Some(("<", code)) => (false, code),
        Some((">", code)) => (true, code),
        Some(("=" | "|", code)) => (native, code),
        _ => (native, descr),
    };
    let mut all = DType::ALL.into_iter();
    let dtype = all.find(|dtype| dtype.code() == code || dtype.name() == descr);
    Ok((dtype.ok_or_else(|| unsupported(descr))?, big_endian))
}

fn unsupported(descr: &str) -> Error {
    const LONGEST: usize = 80;
    let mut descr_cut: String = descr.chars().take(LONGEST).collect();
    if descr_cut.len() < descr.len() {
        descr_cut.push('…');
    }
    Error::UnsupportedDType { descr: descr_cut }
}

fn parse_order(literal: &mut Literal<'_>) -> Result<Order, Error> {
    if literal.eat_word("False") {
        Ok(Order::C)
    } else if literal.eat_word("True") {
        Ok(Order::Fortran)
    } else {
        Err(literal.error("True or False"))
    }
}

/// Everything before the data, byte for byte as `numpy.save` writes it: version 1.0, with the same padding.
///
/// `shape` has already been checked to have at most [`MAX_DIMENSIONS`](crate::MAX_DIMENSIONS) dimensions.
pub(crate) fn preamble(dtype: DType, order: Order, shape: &[usize]) -> Vec<u8> {
    let (fortran_order, slowest) = match effective_order(order, shape) {
        Order::C => ("False", shape.first()),
        Order::Fortran => ("True", shape.last()),
    };
    let mut text =
        format!("{{'descr': '{}', 'fortran_order': {fortran_order}, 'shape': {}, }}", dtype.descr(), tuple(shape));
    if let Some(slowest) = slowest {
        let room = GROWTH_DIGITS.saturating_sub(slowest.to_string().len());
        text.push_str(&" ".repeat(room));
    }

    let before = MAGIC.len() + 4;
    // NumPy adds a full 64 bytes if the end is already aligned.
    let padding = ALIGN - (before + text.len() + 1) % ALIGN;
    text.push_str(&" ".repeat(padding));
    text.push('\n');
    let length = u16::try_from(text.len()).expect("64 dimensions of 20 digits take 2 KB");

    let mut bytes = Vec::with_capacity(before + text.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// NumPy writes C if both orders are the same: no elements, or at most one dimension that is not 1.
fn effective_order(order: Order, shape: &[usize]) -> Order {
    let same = shape.contains(&0) || shape.iter().filter(|&&length| length != 1).count() <= 1;
    if same { Order::C } else { order }
}

/// The shape as Python's `repr` of a tuple.
fn tuple(shape: &[usize]) -> String {
    match shape {
        [length] => format!("({length},)"),
        _ => {
            let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", lengths.join(", "))
        }
    }
}

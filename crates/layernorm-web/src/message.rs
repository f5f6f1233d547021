//! The messages between a page and the module: values as 32-bit words, little endian.
//!
//! ```text
//! 0                       absent (undefined or null)
//! 1  low  high            number: the two halves of an f64
//! 2  n  ⌈n/4⌉ words       text of n bytes, UTF-8
//! 3  n  n words           Float32Array
//! 4  n  ⌈n/4⌉ words       Uint8Array
//! 5  0 or 1               boolean
//! 6  n  n values          list
//! 7  n  n (text, value)   object; the names are texts without their 2
//! 8  n  2n words          Float64Array
//! ```
//! `js/engine.js` has the other side. Counts are checked against the words that are there before memory is requested.

use crate::error::Error;

/// A value of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `undefined` or `null`.
    Absent,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A `Float32Array`.
    Floats(Vec<f32>),
    /// A `Float64Array`.
    Doubles(Vec<f64>),
    /// A `Uint8Array`.
    Bytes(Vec<u8>),
    /// A boolean.
    Flag(bool),
    /// A list.
    List(Vec<Value>),
    /// An object.
    Object(Vec<(String, Value)>),
}

/// Lists and objects inside one another.
const DEEPEST: usize = 8;

impl Value {
    /// Creates an object.
    pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns a field of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Describes the value for an error message.
    pub fn describe(&self) -> String {
        match self {
            Value::Absent => "nothing".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Floats(floats) => format!("a Float32Array of {}", floats.len()),
            Value::Doubles(doubles) => format!("a Float64Array of {}", doubles.len()),
            Value::Bytes(bytes) => format!("a Uint8Array of {}", bytes.len()),
            Value::Flag(flag) => flag.to_string(),
            Value::List(values) => format!("a list of {}", values.len()),
            Value::Object(_) => "an object".to_owned(),
        }
    }

    /// Appends the words of the value.
    pub fn write(&self, words: &mut Vec<u32>) {
        match self {
            Value::Absent => words.push(0),
            Value::Number(number) => {
                words.push(1);
                words.extend(halves(*number));
            }
            Value::Text(text) => {
                words.push(2);
                write_bytes(text.as_bytes(), words);
            }
            Value::Floats(floats) => {
                words.extend([3, floats.len() as u32]);
                words.extend(floats.iter().map(|float| float.to_bits()));
            }
            Value::Doubles(doubles) => {
                words.extend([8, doubles.len() as u32]);
                words.extend(doubles.iter().flat_map(|&double| halves(double)));
            }
            Value::Bytes(bytes) => {
                words.push(4);
                write_bytes(bytes, words);
            }
            Value::Flag(flag) => words.extend([5, u32::from(*flag)]),
            Value::List(values) => {
                words.extend([6, values.len() as u32]);
                values.iter().for_each(|value| value.write(words));
            }
            Value::Object(fields) => {
                words.extend([7, fields.len() as u32]);
                for (name, value) in fields {
                    write_bytes(name.as_bytes(), words);
                    value.write(words);
                }
            }
        }
    }

    /// Reads a message of exactly one value.
    pub fn read(words: &[u32]) -> Result<Value, Error> {
        let mut reader = Reader { words };
        let value = reader.value(0)?;
        if reader.words.is_empty() { Ok(value) } else { Err(Error::Protocol { expected: "the end of the message" }) }
    }
}

/// Returns the two words of an f64.
fn halves(number: f64) -> [u32; 2] {
    let bits = number.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

/// Returns the f64 of two words.
fn whole(halves: &[u32]) -> f64 {
    f64::from_bits(u64::from(halves[0]) | u64::from(halves[1]) << 32)
}

fn write_bytes(bytes: &[u8], words: &mut Vec<u32>) {
    words.push(bytes.len() as u32);
    words.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
}

/// Reads words from the front.
struct Reader<'a> {
    words: &'a [u32],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u32], Error> {
        let (taken, rest) = self.words.split_at_checked(count).ok_or(Error::Protocol { expected: "more words" })?;
        self.words = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, Error> {
        Ok(self.take(1)?[0])
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        let count = self.word()? as usize;
        let mut bytes: Vec<u8> = self.take(count.div_ceil(4))?.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(count);
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?).map_err(|_| Error::Protocol { expected: "text in UTF-8" })
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        if depth > DEEPEST {
            return Err(Error::Protocol { expected: "at most 8 lists and objects inside one another" });
        }
        Ok(match self.word()? {
            0 => Value::Absent,
            1 => Value::Number(whole(self.take(2)?)),
            2 => Value::Text(self.text()?),
            3 => {
                let count = self.word()? as usize;
                Value::Floats(self.take(count)?.iter().map(|&word| f32::from_bits(word)).collect())
            }
            4 => Value::Bytes(self.bytes()?),
            5 => Value::Flag(self.word()? != 0),
            6 => {
                // Every value has at least one word, so a wrong count ends at the end of the message.
                let count = self.word()?;
                Value::List((0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?)
            }
            7 => {
                let count = self.word()?;
                let mut field = || Ok((self.text()?, self.value(depth + 1)?));
                Value::Object((0..count).map(|_| field()).collect::<Result<_, Error>>()?)
            }
            8 => {
                let count = self.word()? as usize;
                Value::Doubles(self.take(count.saturating_mul(2))?.chunks_exact(2).map(whole).collect())
            }
            _ => return Err(Error::Protocol { expected: "a kind of value from 0 to 8" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        Value::object([
            ("nothing", Value::Absent),
            ("number", Value::Number(-0.1)),
            ("text", Value::Text("γ, β and ε".into())),
            ("floats", Value::Floats(vec![1.0, -0.0, f32::INFINITY])),
            ("doubles", Value::Doubles(vec![0.1, -0.0, f64::NEG_INFINITY])),
            ("bytes", Value::Bytes(vec![1, 2, 3, 4, 5])),
            ("list", Value::List(vec![Value::Flag(true), Value::List(vec![]), Value::Number(1e300)])),
        ])
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let mut words = Vec::new();
        sample().write(&mut words);
        assert_eq!(Value::read(&words), Ok(sample()));
    }

    #[test]
    fn a_broken_message_is_an_error() {
        let mut words = Vec::new();
        sample().write(&mut words);
        for end in 0..words.len() {
            assert!(matches!(Value::read(&words[..end]), Err(Error::Protocol { .. })), "{end} words");
        }
        for at in 0..words.len() {
            let mut broken = words.clone();
            for word in [8, 9, u32::MAX, 1 << 31] {
                broken[at] = word;
                // Any outcome but a panic or a huge allocation.
                let _ = Value::read(&broken);
            }
        }
        assert!(Value::read(&[0, 0]).is_err());
        let nested: Vec<u32> = [6, 1].repeat(10).into_iter().chain([0]).collect();
        assert!(Value::read(&nested).is_err());
    }
}

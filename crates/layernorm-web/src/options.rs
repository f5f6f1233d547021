//! The options of a call: named values, each read once with the type it needs.

use crate::error::Error;
use crate::message::Value;

/// Largest number up to which every whole number is a JavaScript number.
const MOST: f64 = 9_007_199_254_740_991.0;

/// The named values of a call.
#[derive(Debug)]
pub struct Options {
    /// The names before it in an error message: `data.`, or nothing.
    prefix: &'static str,
    fields: Vec<(String, Value)>,
    asked: Vec<&'static str>,
}

impl Options {
    /// Reads an object. Fails if the value is none.
    pub fn new(value: Value) -> Result<Options, Error> {
        match value {
            Value::Object(fields) => Ok(Options { prefix: "", fields, asked: Vec::new() }),
            other => Err(Error::Value {
                option: "options".to_owned(),
                expected: "an object".to_owned(),
                found: other.describe(),
            }),
        }
    }

    /// Takes an option; `Absent` if it is not there.
    fn take(&mut self, name: &'static str) -> Value {
        self.asked.push(name);
        match self.fields.iter().position(|(field, _)| field == name) {
            Some(at) => self.fields.swap_remove(at).1,
            None => Value::Absent,
        }
    }

    fn wrong(&self, name: &str, expected: impl Into<String>, found: &Value) -> Error {
        let option = format!("{}{name}", self.prefix);
        Error::Value { option, expected: expected.into(), found: found.describe() }
    }

    fn missing(&self, name: &str, expected: &'static str) -> Error {
        Error::Missing { option: format!("{}{name}", self.prefix), expected }
    }

    /// Reads an object inside.
    pub fn inner(&mut self, name: &'static str, prefix: &'static str) -> Result<Options, Error> {
        match self.take(name) {
            Value::Object(fields) => Ok(Options { prefix, fields, asked: Vec::new() }),
            Value::Absent => Err(self.missing(name, "an object")),
            other => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// Reads one of several words.
    pub fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&'static str, T)]) -> Result<T, Error> {
        let value = self.take(name);
        let found = choices.iter().find(|(word, _)| matches!(&value, Value::Text(text) if text == word));
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(name, format!("one of {}", words.join(", ")), &value)
        })
    }

    /// Reads one of several words, or returns the default.
    pub fn choice_or<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> Result<T, Error> {
        match self.fields.iter().find(|(field, _)| field == name) {
            None | Some((_, Value::Absent)) => {
                self.ignore(name);
                Ok(default)
            }
            Some(_) => self.choice(name, choices),
        }
    }

    /// Reads a boolean: false if absent.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, Error> {
        match self.take(name) {
            Value::Flag(flag) => Ok(flag),
            Value::Absent => Ok(false),
            other => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// Reads an object of values with names that the caller chooses; empty if absent.
    pub fn named(&mut self, name: &'static str) -> Result<Vec<(String, Value)>, Error> {
        match self.take(name) {
            Value::Object(fields) => Ok(fields),
            Value::Absent => Ok(Vec::new()),
            other => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// Reads a text.
    pub fn text(&mut self, name: &'static str) -> Result<String, Error> {
        match self.take(name) {
            Value::Text(text) => Ok(text),
            Value::Absent => Err(self.missing(name, "a text")),
            other => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// Reads a number, or returns the default.
    pub fn number(&mut self, name: &'static str, default: f64) -> Result<f64, Error> {
        match self.take(name) {
            Value::Number(number) => Ok(number),
            Value::Absent => Ok(default),
            other => Err(self.wrong(name, "a number", &other)),
        }
    }

    /// Reads a finite number greater than 0, or returns the default.
    pub fn positive(&mut self, name: &'static str, default: f64) -> Result<f64, Error> {
        let number = self.number(name, default)?;
        if number > 0.0 && number.is_finite() {
            return Ok(number);
        }
        Err(self.wrong(name, "a finite number greater than 0", &Value::Number(number)))
    }

    fn whole_number(&self, name: &str, value: &Value, least: f64, most: f64) -> Result<u64, Error> {
        match value {
            Value::Number(number) if number.fract() == 0.0 && (least..=most).contains(number) => Ok(*number as u64),
            other => Err(self.wrong(name, format!("a whole number from {least} to {most}"), other)),
        }
    }

    /// Reads a whole number from `least` to `most`, or returns the default, if there is one.
    pub fn whole(&mut self, name: &'static str, least: u32, most: u32, default: Option<u32>) -> Result<usize, Error> {
        match (self.take(name), default) {
            (Value::Absent, Some(default)) => Ok(default as usize),
            (value, _) => Ok(self.whole_number(name, &value, f64::from(least), f64::from(most))? as usize),
        }
    }

    /// Reads a seed: a whole number, 0 if absent.
    pub fn seed(&mut self, name: &'static str) -> Result<u64, Error> {
        match self.take(name) {
            Value::Absent => Ok(0),
            value => self.whole_number(name, &value, 0.0, MOST),
        }
    }

    /// Accepts an option that this call has no use for.
    pub fn ignore(&mut self, name: &'static str) {
        self.take(name);
    }

    /// Reads a list of sizes.
    pub fn sizes(&mut self, name: &'static str) -> Result<Vec<usize>, Error> {
        match self.take(name) {
            Value::List(values) => values
                .iter()
                .map(|value| Ok(self.whole_number(name, value, 0.0, f64::from(u32::MAX))? as usize))
                .collect(),
            Value::Absent => Err(self.missing(name, "a list of whole numbers")),
            other => Err(self.wrong(name, "a list of whole numbers", &other)),
        }
    }

    /// Reads numbers, if they are there.
    pub fn floats_or_none(&mut self, name: &'static str) -> Result<Option<Vec<f32>>, Error> {
        match self.take(name) {
            Value::Floats(floats) => Ok(Some(floats)),
            Value::Absent => Ok(None),
            other => Err(self.wrong(name, "a Float32Array", &other)),
        }
    }

    /// Reads numbers.
    pub fn floats(&mut self, name: &'static str) -> Result<Vec<f32>, Error> {
        self.floats_or_none(name)?.ok_or_else(|| self.missing(name, "a Float32Array"))
    }

    /// Reads numbers of either width.
    pub fn numbers(&mut self, name: &'static str) -> Result<Vec<f64>, Error> {
        match self.take(name) {
            Value::Floats(floats) => Ok(floats.into_iter().map(f64::from).collect()),
            Value::Doubles(doubles) => Ok(doubles),
            Value::Absent => Err(self.missing(name, "a Float32Array or a Float64Array")),
            other => Err(self.wrong(name, "a Float32Array or a Float64Array", &other)),
        }
    }

    /// Reads bytes.
    pub fn bytes(&mut self, name: &'static str) -> Result<Vec<u8>, Error> {
        match self.take(name) {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Absent => Err(self.missing(name, "a Uint8Array")),
            other => Err(self.wrong(name, "a Uint8Array", &other)),
        }
    }

    /// Fails if there is an option that nobody asked for.
    pub fn finish(self) -> Result<(), Error> {
        match self.fields.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(Error::Unknown {
                option: format!("{}{name}", self.prefix),
                known: self.asked.iter().map(|&name| name.to_owned()).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(Value::object([
            ("kind", Value::Text("layar".into())),
            ("steps", Value::Number(2.5)),
            ("x", Value::List(vec![Value::Number(1.0)])),
        ]))
        .unwrap()
    }

    #[test]
    fn errors_name_the_option_and_what_was_found() {
        let text = |error: Error| error.to_string();
        let choices = [("layer", 1), ("batch", 2)];
        assert_eq!(
            text(options().choice("kind", &choices).unwrap_err()),
            "kind: expected one of layer, batch, found \"layar\""
        );
        assert_eq!(
            text(options().whole("steps", 1, 9, None).unwrap_err()),
            "steps: expected a whole number from 1 to 9, found 2.5"
        );
        assert_eq!(text(options().floats("x").unwrap_err()), "x: expected a Float32Array, found a list of 1");
        assert_eq!(text(options().floats("y").unwrap_err()), "y: expected a Float32Array, found nothing");
        assert_eq!(options().whole("absent", 1, 9, Some(4)), Ok(4));
        let mut rest = options();
        let _ = (rest.take("kind"), rest.take("x"));
        assert_eq!(text(rest.finish().unwrap_err()), "unknown option \"steps\": expected one of kind, x");
        assert!(Options::new(Value::Number(1.0)).is_err());
    }
}

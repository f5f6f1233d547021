//! The commands that a page can call, by name.

use crate::cases::{Cases, checksum};
use crate::error::Error;
use crate::message::Value;
use crate::options::Options;
use crate::trainer::Trainer;
use crate::{arrays, cells, norms};
use layernorm::Context;

/// Most cases of one call.
const MOST_CASES: u32 = 10_000_000;

/// Runs commands and holds the trainers.
#[derive(Debug)]
pub struct Engine {
    context: Context,
    /// By their number; `None` once freed.
    trainers: Vec<Option<Trainer>>,
}

impl Engine {
    /// Creates an engine. It uses one thread, all that a page's worker has.
    pub fn new() -> Result<Engine, Error> {
        Ok(Engine { context: Context::new().with_threads(1)?, trainers: Vec::new() })
    }

    /// Runs a command: a list of its name and its options, as words. Returns the words of its result, or those of a text
    /// that says what is wrong.
    pub fn call(&mut self, request: &[u32]) -> Result<Vec<u32>, Vec<u32>> {
        let mut words = Vec::new();
        match Value::read(request).and_then(|request| self.run(request)) {
            Ok(value) => {
                value.write(&mut words);
                Ok(words)
            }
            Err(error) => {
                Value::Text(error.to_string()).write(&mut words);
                Err(words)
            }
        }
    }

    /// Runs a command: a list of its name and its options.
    pub fn run(&mut self, request: Value) -> Result<Value, Error> {
        let wrong = Error::Protocol { expected: "a list of a command's name and its options" };
        let Value::List(parts) = request else { return Err(wrong) };
        let Ok([Value::Text(command), options]) = <[Value; 2]>::try_from(parts) else { return Err(wrong) };
        let mut options = Options::new(options)?;
        let result = match command.as_str() {
            "version" => Value::Text(env!("CARGO_PKG_VERSION").to_owned()),
            "norm" => norms::forward(&mut options, &mut self.context)?,
            "normBackward" => norms::backward(&mut options, &mut self.context)?,
            "cell" => cells::run(&mut options)?,
            "cellParameters" => cells::parameters(&mut options)?,
            "variants" => cells::variants(&mut options)?,
            "product" => arrays::matrix_product(&mut options, &self.context)?,
            "evaluate" => arrays::evaluate(&mut options, &self.context)?,
            "statistics" => arrays::statistics(&mut options)?,
            "histogram" => arrays::histogram(&mut options)?,
            "checksum" => {
                let count = options.whole("cases", 0, MOST_CASES, Some(10_000))?;
                Value::Text(hexadecimal(checksum(options.seed("seed")?, count as u64)?))
            }
            "cases" => case_hashes(&mut options)?,
            "trainer" => {
                let trainer = Trainer::new(&mut options)?;
                // An unknown option is an error before there is a trainer that nobody could free.
                options.finish()?;
                self.trainers.push(Some(trainer));
                return Ok(Value::Number((self.trainers.len() - 1) as f64));
            }
            _ => match command.strip_prefix("trainer.") {
                Some(command) => self.trainer(command, &mut options)?,
                None => return Err(Error::Command { found: command }),
            },
        };
        options.finish()?;
        Ok(result)
    }

    fn trainer(&mut self, command: &str, options: &mut Options) -> Result<Value, Error> {
        let found = options.whole("trainer", 0, u32::MAX, None)?;
        let place = self.trainers.get_mut(found).filter(|place| place.is_some());
        let place = place.ok_or(Error::Trainer { found })?;
        match place {
            Some(trainer) if command != "free" => trainer.run(command, options),
            _ => {
                *place = None;
                Ok(Value::Absent)
            }
        }
    }
}

/// The command `cases`: the hashes of consecutive cases.
fn case_hashes(options: &mut Options) -> Result<Value, Error> {
    let seed = options.seed("seed")?;
    let first = options.whole("first", 0, MOST_CASES, Some(0))? as u64;
    let count = options.whole("count", 0, MOST_CASES, None)? as u64;
    let mut cases = Cases::new()?;
    let hash = |number| Ok(Value::Text(hexadecimal(cases.hash(seed, number)?)));
    Ok(Value::List((first..first + count).map(hash).collect::<Result<_, Error>>()?))
}

/// Returns a hash as 16 hexadecimal digits.
pub fn hexadecimal(hash: u64) -> String {
    format!("{hash:016x}")
}

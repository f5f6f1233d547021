//! Formulas over arrays, element by element: the arithmetic between the norms of a figure.
//!
//! ```text
//! comparison = sum [(">" | ">=" | "<" | "<=") sum]      1 if it holds, otherwise 0
//! sum        = product {("+" | "-") product}
//! product    = factor {("*" | "/") factor}
//! factor     = "-" factor | number | name | function "(" comparison {"," comparison} ")" | "(" comparison ")"
//! ```
//! Everything is computed in f64 but tanh, which has the bits of the recurrent cells in f32. acos is the system's.

use crate::error::Error;
use layernorm::Context;
use layernorm_rnn::functions;

/// Most parentheses and signs inside one another.
const DEEPEST: usize = 64;

/// One number for all elements, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    One(f64),
    Each(Vec<f64>),
}

impl Numbers {
    fn map(self, f: impl Fn(f64) -> f64) -> Numbers {
        match self {
            Numbers::One(number) => Numbers::One(f(number)),
            Numbers::Each(mut numbers) => {
                numbers.iter_mut().for_each(|number| *number = f(*number));
                Numbers::Each(numbers)
            }
        }
    }

    /// Combines two operands, of the same length if both have several numbers.
    fn with(self, other: Numbers, f: impl Fn(f64, f64) -> f64) -> Numbers {
        match (self, other) {
            (left, Numbers::One(right)) => left.map(|left| f(left, right)),
            (Numbers::One(left), right) => right.map(|right| f(left, right)),
            (Numbers::Each(mut left), Numbers::Each(right)) => {
                left.iter_mut().zip(right).for_each(|(left, right)| *left = f(*left, right));
                Numbers::Each(left)
            }
        }
    }

    /// Computes tanh in f32: that of f64 would take ten times as long in WebAssembly.
    fn tanh(self, context: &Context) -> Result<Numbers, Error> {
        let (mut numbers, single) = match self {
            Numbers::One(number) => (vec![number], true),
            Numbers::Each(numbers) => (numbers, false),
        };
        let mut narrow: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
        functions::tanh(context, &mut narrow)?;
        numbers.iter_mut().zip(narrow).for_each(|(number, narrow)| *number = f64::from(narrow));
        Ok(if single { Numbers::One(numbers[0]) } else { Numbers::Each(numbers) })
    }
}

/// Returns the larger number; NaN if one is NaN.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the smaller number; NaN if one is NaN.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
}

/// Computes a formula over values with names; all those with several numbers have the same length.
pub(crate) fn evaluate(text: &str, values: &[(String, Numbers)], context: &Context) -> Result<Numbers, Error> {
    let mut reader = Reader { text, rest: text.trim_start(), values, context, depth: 0 };
    let result = reader.comparison()?;
    if reader.rest.is_empty() { Ok(result) } else { Err(reader.expected("an operator or the end")) }
}

/// Reads a formula from the front and computes its parts.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    values: &'a [(String, Numbers)],
    context: &'a Context,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn expected(&self, expected: impl Into<String>) -> Error {
        let rest = if self.rest.is_empty() { "its end".to_owned() } else { format!("{:?}", self.rest) };
        Error::Value {
            option: "formula".to_owned(),
            expected: expected.into(),
            found: format!("{rest} in {:?}", self.text),
        }
    }

    /// Skips this sign, if it comes next.
    fn skip(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn require(&mut self, sign: &str) -> Result<(), Error> {
        if self.skip(sign) { Ok(()) } else { Err(self.expected(sign)) }
    }

    /// Takes this many bytes of the rest.
    fn take(&mut self, count: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest.trim_start();
        taken
    }

    fn comparison(&mut self) -> Result<Numbers, Error> {
        type Holds = fn(&f64, &f64) -> bool;
        let left = self.sum()?;
        let signs: [(&str, Holds); 4] = [(">=", f64::ge), ("<=", f64::le), (">", f64::gt), ("<", f64::lt)];
        for (sign, holds) in signs {
            if self.skip(sign) {
                return Ok(left.with(self.sum()?, |a, b| f64::from(u8::from(holds(&a, &b)))));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Numbers, Error> {
        let mut left = self.product()?;
        loop {
            left = match () {
                () if self.skip("+") => left.with(self.product()?, |a, b| a + b),
                () if self.skip("-") => left.with(self.product()?, |a, b| a - b),
                () => return Ok(left),
            };
        }
    }

    fn product(&mut self) -> Result<Numbers, Error> {
        let mut left = self.factor()?;
        loop {
            left = match () {
                () if self.skip("*") => left.with(self.factor()?, |a, b| a * b),
                () if self.skip("/") => left.with(self.factor()?, |a, b| a / b),
                () => return Ok(left),
            };
        }
    }

    fn factor(&mut self) -> Result<Numbers, Error> {
        if self.depth == DEEPEST {
            return Err(self.expected(format!("at most {DEEPEST} parentheses and signs inside one another")));
        }
        self.depth += 1;
        let value = self.nested()?;
        self.depth -= 1;
        Ok(value)
    }

    fn nested(&mut self) -> Result<Numbers, Error> {
        if self.skip("-") {
            return Ok(self.factor()?.map(|number| -number));
        }
        if self.skip("(") {
            let inner = self.comparison()?;
            self.require(")")?;
            return Ok(inner);
        }
        match self.rest.chars().next() {
            Some(first) if first.is_ascii_digit() => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.name(),
            _ => Err(self.expected("a number, a name or (")),
        }
    }

    fn number(&mut self) -> Result<Numbers, Error> {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let mut count = digits(self.rest);
        if let Some(exponent) = self.rest[count..].strip_prefix('e') {
            let sign = usize::from(exponent.starts_with(['-', '+']));
            count += 1 + sign + digits(&exponent[sign..]);
        }
        let number = self.rest[..count].parse().map_err(|_| self.expected("a number"))?;
        self.take(count);
        Ok(Numbers::One(number))
    }

    fn name(&mut self) -> Result<Numbers, Error> {
        let known = |name: &str| self.values.iter().find(|(value, _)| value == name);
        let count = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        if let Some((_, value)) = known(&self.rest[..count]) {
            self.take(count);
            return Ok(value.clone());
        }
        let before = self.expected(self.names());
        let function = self.take(count);
        let two = matches!(function, "max" | "min");
        if !two && !matches!(function, "tanh" | "sqrt" | "abs" | "acos") {
            return Err(before);
        }
        self.require("(")?;
        let first = self.comparison()?;
        let value = if two {
            self.require(",")?;
            let second = self.comparison()?;
            first.with(second, if function == "max" { larger } else { smaller })
        } else {
            match function {
                "tanh" => first.tanh(self.context)?,
                "sqrt" => first.map(f64::sqrt),
                "abs" => first.map(f64::abs),
                _ => first.map(f64::acos),
            }
        };
        self.require(")")?;
        Ok(value)
    }

    /// Describes which names there are.
    fn names(&self) -> String {
        let names: Vec<_> = self.values.iter().map(|(name, _)| name.as_str()).collect();
        format!("one of {}, tanh, sqrt, abs, acos, max, min", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<Numbers, Error> {
        let values = [("x".to_owned(), Numbers::Each(vec![-1.0, 0.5, 2.0])), ("k".to_owned(), Numbers::One(3.0))];
        evaluate(text, &values, &Context::new())
    }

    #[test]
    fn formulas_are_those_of_arithmetic() {
        let each = |numbers: [f64; 3]| Ok(Numbers::Each(numbers.to_vec()));
        assert_eq!(run("1 + 2 * 3 - 8 / 4 / 2"), Ok(Numbers::One(6.0)));
        assert_eq!(run("2 - 3 - 4"), Ok(Numbers::One(-5.0)));
        assert_eq!(run("-(1.5e1 - -x) * k"), each([-42.0, -46.5, -51.0]));
        assert_eq!(run("k * x + 1"), each([-2.0, 2.5, 7.0]));
        assert_eq!(run("x * x - x"), each([2.0, -0.25, 2.0]));
        assert_eq!(run("max(0, x)"), each([0.0, 0.5, 2.0]));
        assert_eq!(run("min(x, 1) + abs(x)"), each([0.0, 1.0, 3.0]));
        assert_eq!(run("x >= 0.5"), each([0.0, 1.0, 1.0]));
        assert_eq!(run("x < 0.5"), each([1.0, 0.0, 0.0]));
        assert_eq!(run("sqrt(k * 12)"), Ok(Numbers::One(6.0)));
        assert_eq!(run("acos(1)"), Ok(Numbers::One(0.0)));
        let mut tanh = [-1.0f32, 0.5, 2.0];
        functions::tanh(&Context::new(), &mut tanh).unwrap();
        assert_eq!(run("tanh(x)"), each(tanh.map(f64::from)));
        let Ok(Numbers::Each(undefined)) = run("max(0, x / 0 - x / 0)") else { panic!() };
        assert!(undefined.iter().all(|number| number.is_nan()), "{undefined:?}");
    }

    #[test]
    fn errors_show_where_a_formula_is_wrong() {
        let text = |formula: &str| run(formula).unwrap_err().to_string();
        assert_eq!(text("x + "), "formula: expected a number, a name or (, found its end in \"x + \"");
        assert_eq!(text("x x"), "formula: expected an operator or the end, found \"x\" in \"x x\"");
        assert_eq!(text("(x"), "formula: expected ), found its end in \"(x\"");
        assert_eq!(text("max(x)"), "formula: expected ,, found \")\" in \"max(x)\"");
        assert_eq!(
            text("x * size"),
            "formula: expected one of x, k, tanh, sqrt, abs, acos, max, min, found \"size\" in \"x * size\""
        );
        assert_eq!(text("1.2.3"), "formula: expected a number, found \"1.2.3\" in \"1.2.3\"");
        for wrong in ["", "é", "x é", "1e", "max", "max(", "2 +* 3", "x > 1 > 2"] {
            assert!(run(wrong).is_err(), "{wrong}");
        }
        for deep in ["(", "-"] {
            assert!(text(&deep.repeat(100_000)).contains("at most 64"), "{deep}");
        }
    }
}

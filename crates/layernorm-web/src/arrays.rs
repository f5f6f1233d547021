//! Arithmetic on arrays, for what a figure computes beside norms, cells and training: matrix products, formulas,
//! statistics, histograms.

use crate::error::Error;
use crate::formula::{self, Numbers, larger, smaller};
use crate::message::Value;
use crate::norms::zeros;
use crate::options::Options;
use crate::trainer::product::{product, rows, transpose, transposed};
use layernorm::Context;

/// Most elements of an array that is not in the message, and most bins.
const MOST: u32 = 1 << 24;

fn wrong(option: &str, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::Value { option: option.to_owned(), expected: expected.into(), found: found.into() }
}

fn length(option: &'static str, shape: String, expected: Option<usize>, found: usize) -> Result<(), Error> {
    let expected = expected.unwrap_or(usize::MAX);
    if expected == found { Ok(()) } else { Err(Error::Length { option, shape, expected, found }) }
}

/// Reads three sizes.
fn three(options: &mut Options, sizes: &str) -> Result<[usize; 3], Error> {
    let shape = options.sizes("shape")?;
    <[usize; 3]>::try_from(shape).map_err(|shape| wrong("shape", format!("three sizes, {sizes}"), format!("{shape:?}")))
}

/// The command `product`: A·B for A `[m, k]` and B `[k, n]`; a transposed operand comes as `[k, m]` or `[n, k]`.
pub(crate) fn matrix_product(options: &mut Options, cx: &Context) -> Result<Value, Error> {
    let (a, b) = (options.floats("a")?, options.floats("b")?);
    let [m, k, n] = three(options, "[m, k, n]")?;
    let sides = [("none", (false, false)), ("a", (true, false)), ("b", (false, true))];
    let (a_transposed, b_transposed) = options.choice_or("transposed", &sides, (false, false))?;
    length("a", format!("[m, k] = [{m}, {k}]"), m.checked_mul(k), a.len())?;
    length("b", format!("[k, n] = [{k}, {n}]"), k.checked_mul(n), b.len())?;
    let Some(count) = m.checked_mul(n).filter(|&count| count <= MOST as usize) else {
        return Err(wrong("shape", format!("at most {MOST} results"), format!("{:?}", [m, k, n])));
    };
    let mut y = zeros(count)?;
    if count > 0 && k > 0 {
        let left = if a_transposed { transposed(&a, m) } else { rows(&a, k) };
        if b_transposed {
            let mut across = zeros(b.len())?;
            transpose(&b, k, &mut across);
            product(cx, left, &across, &mut y, n)?;
        } else {
            product(cx, left, &b, &mut y, n)?;
        }
    }
    Ok(Value::object([("y", Value::Floats(y))]))
}

/// The values of a formula: numbers, and arrays with one number for each element, row or column.
struct Table {
    values: Vec<(String, Numbers)>,
    rows: Vec<(String, Numbers)>,
    columns: Vec<(String, Numbers)>,
    /// Elements of a row.
    width: usize,
}

impl Table {
    fn new(options: &mut Options) -> Result<Table, Error> {
        let mut read = |option| {
            let number = |(name, value)| match value {
                Value::Number(number) => Ok((name, Numbers::One(number))),
                Value::Floats(floats) => Ok((name, Numbers::Each(floats.into_iter().map(f64::from).collect()))),
                Value::Doubles(doubles) => Ok((name, Numbers::Each(doubles))),
                other => {
                    let expected = "a number, a Float32Array or a Float64Array";
                    Err(wrong(&format!("{option}.{name}"), expected, other.describe()))
                }
            };
            options.named(option)?.into_iter().map(number).collect::<Result<Vec<_>, _>>()
        };
        let (values, rows, columns) = (read("values")?, read("rows")?, read("columns")?);
        let width = options.whole("width", 1, MOST, Some(1))?;
        Ok(Table { values, rows, columns, width })
    }

    /// Returns the number of elements.
    fn count(&self) -> Result<usize, Error> {
        let several = |values: &[(String, Numbers)]| {
            values.iter().find_map(|(_, value)| match value {
                Numbers::Each(numbers) => Some(numbers.len()),
                Numbers::One(_) => None,
            })
        };
        if let Some(count) = several(&self.values) {
            return Ok(count);
        }
        let lines = several(&self.rows);
        let width = if lines.is_none() && several(&self.columns).is_none() { 1 } else { self.width };
        let count = lines.unwrap_or(1).checked_mul(width).filter(|&count| count <= MOST as usize);
        count.ok_or_else(|| wrong("width", format!("at most {MOST} elements"), width.to_string()))
    }

    /// Repeats the numbers of rows and columns, so that every value has one number or `count`.
    fn expanded(self, count: usize) -> Result<Vec<(String, Numbers)>, Error> {
        let width = self.width;
        let lines = if count.is_multiple_of(width) { count / width } else { count.div_ceil(width) };
        let mut all = Vec::new();
        for (option, values, expected) in
            [("values", self.values, count), ("rows", self.rows, lines), ("columns", self.columns, width)]
        {
            for (name, value) in values {
                let value = match value {
                    Numbers::Each(numbers) if numbers.len() != expected => {
                        let shape = format!("{count} elements in rows of {width}");
                        length(option, format!("{name}, {shape}"), Some(expected), numbers.len())?;
                        Numbers::Each(numbers)
                    }
                    Numbers::Each(numbers) if option == "rows" => {
                        Numbers::Each((0..count).map(|at| numbers[at / width]).collect())
                    }
                    Numbers::Each(numbers) if option == "columns" => {
                        Numbers::Each((0..count).map(|at| numbers[at % width]).collect())
                    }
                    value => value,
                };
                all.push((name, value));
            }
        }
        Ok(all)
    }
}

/// The command `evaluate`: a formula, element by element, in f64; rounded to f32 at the end unless `double` is true.
pub(crate) fn evaluate(options: &mut Options, cx: &Context) -> Result<Value, Error> {
    let text = options.text("formula")?;
    let double = options.flag("double")?;
    let table = Table::new(options)?;
    let count = table.count()?;
    let numbers = match formula::evaluate(&text, &table.expanded(count)?, cx)? {
        Numbers::One(number) => vec![number; count],
        Numbers::Each(numbers) => numbers,
    };
    let y = if double {
        Value::Doubles(numbers)
    } else {
        Value::Floats(numbers.into_iter().map(|number| number as f32).collect())
    };
    Ok(Value::object([("y", y)]))
}

/// The command `statistics`: those of an array `[outer, n, inner]` over its middle axis, in f64.
pub(crate) fn statistics(options: &mut Options) -> Result<Value, Error> {
    let x = options.numbers("x")?;
    let [outer, n, inner] = three(options, "[outer, n, inner]")?;
    if n == 0 {
        return Err(wrong("shape", "n of at least 1", format!("{:?}", [outer, n, inner])));
    }
    let count = outer.checked_mul(n).and_then(|count| count.checked_mul(inner));
    length("x", format!("[outer, n, inner] = [{outer}, {n}, {inner}]"), count, x.len())?;
    let mut all: [Vec<f64>; 7] = Default::default();
    let mut numbers = Vec::new();
    // Without elements there may be many empty groups.
    let outer = if x.is_empty() { 0 } else { outer };
    for group in (0..outer).flat_map(|o| (0..inner).map(move |i| o * n * inner + i)) {
        numbers.clear();
        numbers.extend(x[group..].iter().step_by(inner).take(n));
        let sum: f64 = numbers.iter().sum();
        let mean = sum / n as f64;
        let variance = numbers.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>() / n as f64;
        let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
        let least = numbers.iter().copied().fold(f64::INFINITY, smaller);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, larger);
        let found = [sum, mean, variance, variance.sqrt(), length, least, most];
        all.iter_mut().zip(found).for_each(|(values, value)| values.push(value));
    }
    let [sum, mean, variance, deviation, length, least, most] = all.map(Value::Doubles);
    Ok(Value::object([
        ("sum", sum),
        ("mean", mean),
        ("variance", variance),
        ("deviation", deviation),
        ("length", length),
        ("least", least),
        ("most", most),
    ]))
}

/// The command `histogram`: counts of the numbers in equal parts of low to high. Those outside count at the ends, NaN
/// nowhere.
pub(crate) fn histogram(options: &mut Options) -> Result<Value, Error> {
    let x = options.numbers("x")?;
    let (low, high) = (options.number("low", 0.0)?, options.number("high", 1.0)?);
    let bins = options.whole("bins", 1, MOST, None)?;
    if !(low < high && (high - low).is_finite()) {
        return Err(wrong("high", format!("a finite number greater than low = {low}"), high.to_string()));
    }
    let mut counts = vec![0.0; bins];
    for number in x.into_iter().filter(|number| !number.is_nan()) {
        // Below 0 becomes 0.
        let bin = ((number - low) / (high - low) * bins as f64) as usize;
        counts[bin.min(bins - 1)] += 1.0;
    }
    let edges = (0..=bins).map(|at| low + (high - low) * at as f64 / bins as f64).collect();
    let list = |numbers: Vec<f64>| Value::List(numbers.into_iter().map(Value::Number).collect());
    Ok(Value::object([("edges", list(edges)), ("counts", list(counts))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    fn call<const N: usize>(command: &str, options: [(&str, Value); N]) -> Result<Value, String> {
        let request = Value::List(vec![Value::Text(command.to_owned()), Value::object(options)]);
        Engine::new().unwrap().run(request).map_err(|error| error.to_string())
    }

    fn sizes(sizes: [usize; 3]) -> Value {
        Value::List(sizes.map(|size| Value::Number(size as f64)).to_vec())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_product_takes_either_operand_transposed() {
        let (a, across) = (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let (b, down) = (vec![1.0, -1.0, 0.5, 2.0, 3.0, 0.0], vec![1.0, 0.5, 3.0, -1.0, 2.0, 0.0]);
        let expected = Ok(Value::object([("y", Value::Floats(vec![11.0, 3.0, 24.5, 6.0]))]));
        for (a, b, side) in [(&a, &b, "none"), (&across, &b, "a"), (&a, &down, "b")] {
            let operands = [("a", Value::Floats(a.clone())), ("b", Value::Floats(b.clone()))];
            let [a, b] = operands;
            assert_eq!(call("product", [a, b, ("shape", sizes([2, 3, 2])), ("transposed", text(side))]), expected);
        }
        let empty = |m, k, n| {
            let count = |count| Value::Floats(vec![0.0; count]);
            call("product", [("a", count(m * k)), ("b", count(k * n)), ("shape", sizes([m, k, n]))])
        };
        assert_eq!(empty(2, 0, 3), Ok(Value::object([("y", Value::Floats(vec![0.0; 6]))])));
        assert_eq!(empty(0, 2, 3), Ok(Value::object([("y", Value::Floats(vec![]))])));
        assert!(empty(1 << 20, 0, 1 << 20).unwrap_err().starts_with("shape: expected at most"));
        let short =
            call("product", [("a", Value::Floats(a)), ("b", Value::Floats(vec![0.0; 4])), ("shape", sizes([2, 3, 2]))]);
        assert_eq!(short, Err("b: expected 6 elements for [k, n] = [3, 2], found 4".to_owned()));
    }

    #[test]
    fn a_formula_has_values_for_elements_rows_and_columns() {
        let values =
            || Value::object([("x", Value::Floats(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), ("k", Value::Number(10.0))]);
        let rows = || Value::object([("r", Value::Doubles(vec![100.0, 200.0]))]);
        let columns = || Value::object([("c", Value::Floats(vec![0.0, 1.0, 2.0]))]);
        let width = || ("width", Value::Number(3.0));
        let formula = ("formula", text("k * x + r + c"));
        let all = [formula.clone(), ("values", values()), ("rows", rows()), ("columns", columns()), width()];
        let expected = [110.0, 121.0, 132.0, 240.0, 251.0, 262.0];
        assert_eq!(call("evaluate", all), Ok(Value::object([("y", Value::Floats(expected.to_vec()))])));
        let outer = [("formula", text("r / 3 + c")), ("rows", rows()), ("columns", columns()), width()];
        let [first, second] = [100.0 / 3.0, 200.0 / 3.0];
        let sums = [first, first + 1.0, first + 2.0, second, second + 1.0, second + 2.0].to_vec();
        let double = ("double", Value::Flag(true));
        let [a, b, c, d] = outer;
        assert_eq!(call("evaluate", [a, b, c, d, double]), Ok(Value::object([("y", Value::Doubles(sums))])));
        let one = call("evaluate", [("formula", text("2 * 3"))]);
        assert_eq!(one, Ok(Value::object([("y", Value::Floats(vec![6.0]))])));

        let short = call("evaluate", [formula, ("values", values()), ("rows", columns()), width()]);
        assert_eq!(short, Err("rows: expected 2 elements for c, 6 elements in rows of 3, found 3".to_owned()));
        let wrong = Value::object([("x", Value::Flag(true))]);
        let flag = call("evaluate", [("formula", text("x")), ("values", wrong)]);
        assert_eq!(flag, Err("values.x: expected a number, a Float32Array or a Float64Array, found true".to_owned()));
        let huge = call("evaluate", [("formula", text("r")), ("rows", rows()), ("width", Value::Number(16_000_000.0))]);
        assert!(huge.unwrap_err().starts_with("width: expected at most"));
    }

    #[test]
    fn statistics_are_over_the_middle_axis() {
        let x: Vec<f64> = vec![1.0, 2.0, 3.0, 6.0, -1.0, 0.0, 5.0, 8.0];
        let of = |shape| call("statistics", [("x", Value::Doubles(x.clone())), ("shape", sizes(shape))]).unwrap();
        let doubles = |value: &Value, name: &str| match value.get(name) {
            Some(Value::Doubles(doubles)) => doubles.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let rows = of([2, 4, 1]);
        assert_eq!(doubles(&rows, "sum"), [12.0, 12.0]);
        assert_eq!(doubles(&rows, "mean"), [3.0, 3.0]);
        assert_eq!(doubles(&rows, "variance"), [3.5, 13.5]);
        assert_eq!(doubles(&rows, "deviation"), [3.5f64.sqrt(), 13.5f64.sqrt()]);
        assert_eq!(doubles(&rows, "length"), [50f64.sqrt(), 90f64.sqrt()]);
        assert_eq!((doubles(&rows, "least"), doubles(&rows, "most")), (vec![1.0, -1.0], vec![6.0, 8.0]));
        assert_eq!(doubles(&of([1, 2, 4]), "mean"), [0.0, 1.0, 4.0, 7.0]);
        assert_eq!(doubles(&of([2, 2, 2]), "sum"), [4.0, 8.0, 4.0, 8.0]);
        let undefined = call("statistics", [("x", Value::Floats(vec![f32::NAN, 1.0])), ("shape", sizes([1, 2, 1]))]);
        assert!(doubles(&undefined.unwrap(), "most")[0].is_nan());
        let empty = call("statistics", [("x", Value::Doubles(vec![])), ("shape", sizes([1, 0, 1]))]);
        assert_eq!(empty, Err("shape: expected n of at least 1, found [1, 0, 1]".to_owned()));
        let huge =
            call("statistics", [("x", Value::Doubles(vec![])), ("shape", sizes([4_000_000_000, 4_000_000_000, 0]))]);
        assert_eq!(doubles(&huge.unwrap(), "sum"), [0.0; 0]);
        let two = Value::List(vec![Value::Number(1.0); 2]);
        let short = call("statistics", [("x", Value::Doubles(vec![1.0])), ("shape", two)]);
        assert_eq!(short, Err("shape: expected three sizes, [outer, n, inner], found [1, 1]".to_owned()));
    }

    #[test]
    fn a_histogram_counts_what_is_outside_at_its_ends() {
        let x = Value::Doubles(vec![-9.0, -1.0, -0.5, 0.0, 0.99, 1.0, f64::INFINITY, f64::NAN]);
        let of = |high: f64| {
            let range = [("low", Value::Number(-1.0)), ("high", Value::Number(high))];
            let [low, high] = range;
            call("histogram", [("x", x.clone()), low, high, ("bins", Value::Number(4.0))])
        };
        let list = |numbers: &[f64]| Value::List(numbers.iter().copied().map(Value::Number).collect());
        let expected = [("edges", list(&[-1.0, -0.5, 0.0, 0.5, 1.0])), ("counts", list(&[2.0, 1.0, 1.0, 3.0]))];
        assert_eq!(of(1.0), Ok(Value::object(expected)));
        assert_eq!(of(-1.0), Err("high: expected a finite number greater than low = -1, found -1".to_owned()));
    }
}

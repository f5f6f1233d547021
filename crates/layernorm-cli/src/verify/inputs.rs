//! The rows whose accuracy is checked: the contract's table, and further hard rows.

use crate::random::Random;

/// Rows of one kind.
#[derive(Debug)]
pub struct Input {
    /// Description of the rows.
    pub name: String,
    /// Elements per row.
    pub n: usize,
    /// All rows, one after the other.
    pub x: Vec<f32>,
}

impl Input {
    /// Random rows: `f` of normal numbers, with a seed that depends only on the name.
    fn random(name: &str, n: usize, rows: usize, f: impl Fn(f64) -> f64) -> Self {
        let seed = name.bytes().fold(n as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Input { name: name.to_owned(), n, x: Random::new(seed).normals(n * rows, f) }
    }

    /// One row: `f` of the index.
    fn row(name: &str, n: usize, f: impl Fn(usize) -> f64) -> Self {
        Input { name: name.to_owned(), n, x: (0..n).map(|i| f(i) as f32).collect() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.x.len() / self.n
    }
}

/// The inputs of the contract's table, in its order.
fn of_the_contract() -> Vec<Input> {
    vec![
        Input::random("randn", 1024, 64, |z| z),
        Input::random("randn + 2000", 4, 64, |z| z + 2000.0),
        Input::random("100 + 0.01·randn", 32768, 8, |z| 100.0 + 0.01 * z),
        Input::row("10⁴ + i·10⁻³", 16, |i| 1e4 + i as f64 * 1e-3),
        Input::random("10⁶ + randn", 768, 64, |z| 1e6 + z),
        Input::random("10³⁰·randn", 256, 64, |z| 1e30 * z),
    ]
}

/// Large means, tiny and huge numbers, zero variance.
fn further() -> Vec<Input> {
    let ramp = |name: &str, mean: f64| Input::row(name, 16, move |i| mean + i as f64 * 1e-3);
    vec![
        Input::row("40000, 40001, 40002, 40003", 4, |i| 40_000.0 + i as f64),
        ramp("1 + i·10⁻³", 1.0),
        ramp("10 + i·10⁻³", 10.0),
        ramp("10² + i·10⁻³", 100.0),
        ramp("10³ + i·10⁻³", 1000.0),
        Input::random("10⁻³⁰·randn", 256, 64, |z| 1e-30 * z),
        Input::row("constant 0.1", 1000, |_| 0.1),
        Input::random("±3·10³⁸", 256, 64, |z| 3e38f64.copysign(z)),
    ]
}

/// All inputs.
pub fn all() -> Vec<Input> {
    of_the_contract().into_iter().chain(further()).collect()
}

//! The formulas of every operation in plain f64, each result with the scale of its error.
//!
//! All five operations are one: each element belongs to a set with common statistics and has a parameter; they differ in which.

use layernorm::Element;

/// How the statistics of a set are computed.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Mean and variance of the set.
    Centered,
    /// Mean 0 and the mean square of the set.
    Rms,
    /// The given means and variances, one of each per set; the gradient does not flow through them.
    Fixed { mean: Vec<f64>, var: Vec<f64> },
}

/// The tensor to normalize, and how.
#[derive(Clone, Debug)]
pub struct Problem {
    pub kind: Kind,
    pub x: Vec<f64>,
    pub dy: Vec<f64>,
    /// The set of each element.
    pub set: Vec<usize>,
    /// The parameter of each element.
    pub parameter: Vec<usize>,
    /// What x̂ is multiplied by, one per parameter.
    pub gain: Vec<f64>,
    /// What is then added.
    pub bias: Vec<f64>,
    pub eps: f64,
}

/// A result and the scale of its error: see [`assert_close`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Approx {
    pub value: f64,
    pub scale: f64,
}

impl Approx {
    fn add(&mut self, value: f64, scale: f64) {
        self.value += value;
        self.scale += scale;
    }
}

/// All results of a problem.
#[derive(Clone, Debug)]
pub struct Answer {
    pub y: Vec<Approx>,
    pub mean: Vec<Approx>,
    pub rstd: Vec<Approx>,
    pub dx: Vec<Approx>,
    pub dweight: Vec<Approx>,
    pub dbias: Vec<Approx>,
}

impl Problem {
    pub fn solve(&self) -> Answer {
        let (mean, rstd) = self.statistics();
        let sets = mean.len();
        let x_hat = |i: usize| (self.x[i] - mean[self.set[i]].value) * rstd[self.set[i]].value;
        let g = |i: usize| self.dy[i] * self.gain[self.parameter[i]];
        // An error of x̂ comes from d = x − mean and from 1/σ, so its scale is |x̂| plus 1, which is σ·1/σ.
        let hat_scale = |i: usize| 1.0 + x_hat(i).abs();
        let elements = 0..self.x.len();
        let a = self.means(sets, |i| (g(i), g(i).abs()));
        let b = self.means(sets, |i| (g(i) * x_hat(i), g(i).abs() * hat_scale(i)));
        let mut dweight = vec![Approx::default(); self.gain.len()];
        let mut dbias = dweight.clone();
        for i in elements.clone() {
            dweight[self.parameter[i]].add(self.dy[i] * x_hat(i), self.dy[i].abs() * hat_scale(i));
            dbias[self.parameter[i]].add(self.dy[i], self.dy[i].abs());
        }
        let y = |i: usize| {
            let (gain, bias) = (self.gain[self.parameter[i]], self.bias[self.parameter[i]]);
            Approx { value: x_hat(i) * gain + bias, scale: hat_scale(i) * gain.abs() + bias.abs() }
        };
        let dx = |i: usize| {
            let (a, b, r) = (a[self.set[i]], b[self.set[i]], rstd[self.set[i]].value);
            let through = match self.kind {
                Kind::Centered => a.value + x_hat(i) * b.value,
                Kind::Rms => x_hat(i) * b.value,
                Kind::Fixed { .. } => 0.0,
            };
            Approx { value: r * (g(i) - through), scale: r * (g(i).abs() + a.scale + hat_scale(i) * b.scale) }
        };
        Answer { y: elements.clone().map(y).collect(), dx: elements.map(dx).collect(), mean, rstd, dweight, dbias }
    }

    /// The mean and 1/σ of every set.
    fn statistics(&self) -> (Vec<Approx>, Vec<Approx>) {
        let sets = self.set.iter().max().map_or(0, |&last| last + 1);
        let (mean, var) = match &self.kind {
            Kind::Fixed { mean, var } => {
                let exact = |values: &[f64]| values.iter().map(|&value| Approx { value, scale: value.abs() }).collect();
                (exact(mean), exact(var))
            }
            Kind::Rms => (vec![Approx::default(); sets], self.means(sets, |i| (self.x[i].powi(2), 0.0))),
            Kind::Centered => {
                let mean = self.means(sets, |i| (self.x[i], self.x[i].abs()));
                let var = self.means(sets, |i| ((self.x[i] - mean[self.set[i]].value).powi(2), 0.0));
                (mean, var)
            }
        };
        let rstd = |var: &Approx| 1.0 / (var.value + self.eps).sqrt();
        let rstd = var.iter().map(|var| Approx { value: rstd(var), scale: rstd(var) }).collect();
        (mean, rstd)
    }

    /// The mean of a quantity and of its scale in every set.
    fn means(&self, sets: usize, of: impl Fn(usize) -> (f64, f64)) -> Vec<Approx> {
        let mut sums = vec![Approx::default(); sets];
        let mut counts = vec![0.0; sets];
        for (i, &set) in self.set.iter().enumerate() {
            let (value, scale) = of(i);
            sums[set].add(value, scale);
            counts[set] += 1.0;
        }
        let mean = |(sum, n): (Approx, f64)| Approx { value: sum.value / n, scale: sum.scale / n };
        sums.into_iter().zip(counts).map(mean).collect()
    }
}

/// For each element of a tensor in C order, the offset of its index along some axes in a tensor of only these axes, in the order
/// given.
pub fn labels(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let count: usize = shape.iter().product();
    let label = |element: usize| {
        let index = |axis: usize| element / shape[axis + 1..].iter().product::<usize>() % shape[axis];
        axes.iter().fold(0, |label, &axis| label * shape[axis] + index(axis))
    };
    (0..count).map(label).collect()
}

/// The maximum number of roundings in any result of these tests. A sum takes at most 12 over a row of 1,024 (4 steps of a lane,
/// 8 folds), and 64 plus a shallow tree over the rows; d, δ, 1/σ, x̂ and the product add less than 20. The longest chain is dx
/// of batch norm: variance, x̂, then the sum of g·x̂, which is under 3 · 64 + 40.
const ROUNDINGS: f64 = 256.0;

/// Fails if a result differs from the oracle by more than the roundings of the arithmetic type `A`, the oracle's own and the final
/// one, to the result's type, can explain. The oracle sums sequentially, so its error grows with the number of elements; the
/// error of its mean is scaled by |mean|/σ, which is under 8 in these tests.
#[track_caller]
pub fn assert_close<T: Element>(found: &[T], expected: &[Approx], what: &str) {
    let (unit, smallest) = match T::NAME {
        "f16" => (2f64.powi(-11), 2f64.powi(-25)),
        "f32" => (2f64.powi(-24), 0.0),
        _ => (2f64.powi(-53), 0.0),
    };
    let arithmetic = unit.min(2f64.powi(-24));
    assert_eq!(found.len(), expected.len(), "{what}");
    let oracle = 8.0 * 1024.0 * 2f64.powi(-53);
    for (i, (found, expected)) in super::wide(found).into_iter().zip(expected).enumerate() {
        let bound = (ROUNDINGS * arithmetic + oracle) * expected.scale + unit * expected.value.abs() + smallest;
        let error = (found - expected.value).abs();
        assert!(error <= bound, "{what}[{i}]: found {found}, expected {} ± {bound:e}", expected.value);
    }
}

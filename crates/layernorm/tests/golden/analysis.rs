//! How far a result may be from the exact one: the operation once more, on numbers that count their roundings.
//!
//! What comes out for this library, to first order. Arithmetic has p bits and u = 2⁻ᵖ (p = 24, or 53 for f64); a term of a sum
//! along a line is rounded s times at most, of a sum for a parameter S times; ⟨…⟩ is the mean over the line:
//!
//! ```text
//! r    R = u·(s + 9)/2·r      half of: d twice, the sum, /N and the fma of v, v + ε; then √ and 1/
//! x̂    E = u·((s + 15)/2·|x̂| + (s + 1)·⟨|x̂|⟩)      R, d, d − δ and the product; the second term is the error of δ
//! y    |γ|·E + u·|y|
//! dx   r·(u·(|g| + |g − a| + |a| + (s + 1)·⟨|g|⟩ + |x̂|·(|b| + (s + 1)·⟨|g·x̂|⟩)) + |b|·E + |x̂|·⟨|g|·E⟩)
//!      + u·(s + 13)/2·|dx|
//! dγ   Σ|dy|·E + S·u·Σ|dy·x̂|
//! dβ   S·u·Σ|dy|
//! ```
//! RMS and weight norm have no d, δ and a: R = u·(s + 6)/2·r and E = u·(s + 8)/2·|x̂| there. bf16 adds 2⁻⁸ of the result for
//! its last rounding. The mean of x is nowhere in this: that is what the corrected two-pass is for.

use super::file::Stored;
use super::number::Num;

/// Whose results are meant. All have y from x̂ = (x − mean)·r and dx from r·(g − a − x̂·b); they differ in how they come
/// to the mean and the variance, and in the order of sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// This library's contract: the corrected two-pass, and the canonical sums.
    Contract,
    /// NumPy's, which made those of ONNX: the mean, then the mean of (x − mean)². Sums are in any order.
    Onnx,
    /// PyTorch's. It updates mean and variance from part to part, and takes x̂ and gradients from x·r and sums of dy·x,
    /// from which it subtracts the mean's part later. That is no worse than two passes over an x with the relative error
    /// of such a sum: n·u·κ, κ² = 1 + mean²/variance (for the variance: Chan, Golub and LeVeque, 1983). Sums are in any
    /// order.
    Torch,
}

/// Roundings of products, quotients and constants that stand around a sum, for the methods whose code is not ours.
const AROUND_A_SUM: usize = 8;

/// The order in which the contract sums.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Rule 2: up to four steps of a lane, the fold of up to 256 lanes, then of blocks. Folding in a zero rounds nothing.
    Row,
    /// Rule 5: up to 64 rows one after the other, then the fold of such chunks.
    Column,
}

impl Order {
    /// The most often that a term of a sum of n is rounded.
    fn depth(self, n: usize, method: Method) -> usize {
        let levels = |leaves: usize| leaves.next_power_of_two().trailing_zeros() as usize;
        match (method, self) {
            (Method::Contract, Order::Row) => n.div_ceil(256).min(4) + levels(n.min(256)) + levels(n.div_ceil(1024)),
            (Method::Contract, Order::Column) => n.min(64) + levels(n.div_ceil(64)),
            _ => n + AROUND_A_SUM,
        }
    }
}

/// What a line of elements is normalized by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Its mean and its standard deviation.
    Centered,
    /// Its root mean square.
    MeanSquare,
    /// Its length.
    Length,
}

/// Running statistics before the batch, and how it enters them.
#[derive(Clone, Debug)]
pub struct Update {
    pub mean: Vec<f64>,
    pub var: Vec<f64>,
    /// What the batch counts.
    pub factor: f64,
    /// 1, or M/(M − 1) for the unbiased variance.
    pub correction: f64,
}

/// A normalization and its inputs. Elements are numbered in row-major order.
#[derive(Clone, Debug)]
pub struct Problem {
    pub kind: Kind,
    pub eps: f64,
    pub x: Vec<f64>,
    /// Of each element, the line it is normalized with.
    pub line: Vec<usize>,
    /// Of each element, the place of its γ and β.
    pub parameter: Vec<usize>,
    pub weight: Option<Vec<f64>>,
    pub bias: Option<Vec<f64>>,
    /// The order of sums along a line, and of those for a parameter's gradient.
    pub order: [Order; 2],
    pub dy: Option<Vec<f64>>,
    /// The gradient that is added to dx.
    pub dh: Option<Vec<f64>>,
    /// Mean and variance of each line, where they are given.
    pub fixed: Option<[Vec<f64>; 2]>,
    pub update: Option<Update>,
}

/// A result in exact arithmetic, and how far the computed one may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub value: f64,
    pub error: f64,
}

/// Which result is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    Y,
    Dx,
    Dweight,
    Dbias,
    Mean,
    InverseDeviation,
    RunningMean,
    RunningVar,
}

/// The bounds of all results.
#[derive(Debug)]
pub struct Bounds(Vec<(Quantity, Vec<Bound>)>);

impl Bounds {
    pub fn of(&self, quantity: Quantity) -> &[Bound] {
        let found = self.0.iter().find(|(q, _)| *q == quantity);
        &found.unwrap_or_else(|| panic!("{quantity:?} is no result of this operation")).1
    }
}

impl Problem {
    /// This library's results in the type T.
    pub fn ours<T: Stored>(&self) -> Bounds {
        match T::BITS {
            24 => self.bounds::<24>(Method::Contract, T::STORAGE),
            _ => self.bounds::<53>(Method::Contract, T::STORAGE),
        }
    }

    /// ONNX's results, in f32.
    pub fn onnx(&self) -> Bounds {
        self.bounds::<24>(Method::Onnx, 0.0)
    }

    /// PyTorch's results in f64.
    pub fn torch64(&self) -> Bounds {
        self.bounds::<53>(Method::Torch, 0.0)
    }

    fn bounds<const P: u32>(&self, method: Method, storage: f64) -> Bounds {
        let lines: Vec<Line<P>> =
            members(&self.line).into_iter().enumerate().map(|(i, line)| Line::new(self, method, i, line)).collect();
        let mut x_hat = vec![Num::exact(0.0); self.x.len()];
        for line in &lines {
            line.members.iter().zip(&line.x_hat).for_each(|(&i, &value)| x_hat[i] = value);
        }
        let stored = |numbers: Vec<Num<P>>| numbers.iter().map(|number| bound(number.stored(storage))).collect();
        let kept = |numbers: Vec<Num<P>>| numbers.iter().copied().map(bound).collect();
        let mut all = vec![
            (Quantity::Y, stored((0..self.x.len()).map(|i| self.output(method, i, x_hat[i])).collect())),
            (Quantity::Mean, kept(lines.iter().map(|line| line.mean).collect())),
            (Quantity::InverseDeviation, kept(lines.iter().map(|line| line.r).collect())),
        ];
        if let Some(dy) = &self.dy {
            let mut dx = vec![Num::exact(0.0); self.x.len()];
            for line in &lines {
                line.members.iter().zip(line.dx(self, dy)).for_each(|(&i, value)| dx[i] = value);
            }
            if let Some(dh) = &self.dh {
                // The gradient through the norm is rounded to the type before dh is added to it.
                dx.iter_mut().zip(dh).for_each(|(dx, &dh)| *dx = dx.stored(storage) + Num::exact(dh));
            }
            all.push((Quantity::Dx, stored(dx)));
            all.push((Quantity::Dweight, stored(self.parameter_sums(method, |i| (Num::exact(dy[i]), x_hat[i])))));
            let ones = |i: usize| (Num::exact(dy[i]), Num::exact(1.0));
            all.push((Quantity::Dbias, stored(self.parameter_sums(method, ones))));
        }
        if let Some(update) = &self.update {
            let mean = lines.iter().zip(&update.mean).map(|(line, &old)| update.blend(method, line.mean, old));
            let correction = Num::rounded(update.correction);
            let var =
                lines.iter().zip(&update.var).map(|(line, &old)| update.blend(method, line.var * correction, old));
            all.push((Quantity::RunningMean, kept(mean.collect())));
            all.push((Quantity::RunningVar, kept(var.collect())));
        }
        Bounds(all)
    }

    /// What holds without any error where a line is one element, its own mean: y = β, and nothing depends on x or γ.
    pub fn alone(&self, quantity: Quantity) -> Option<Vec<f64>> {
        let count = self.x.len();
        let one_a_line = self.line.iter().copied().eq(0..count);
        if !one_a_line || self.kind != Kind::Centered || self.fixed.is_some() {
            return None;
        }
        match quantity {
            Quantity::Y => Some((0..count).map(|i| self.bias_of(i).unwrap_or(0.0)).collect()),
            Quantity::Dx => Some(vec![0.0; count]),
            Quantity::Dweight => Some(vec![0.0]),
            _ => None,
        }
    }

    /// A unit in the last place of an f32, at the size of y, of y before β is added, or of a tenth of the line's largest y.
    pub fn unit(&self, y: &[f64], i: usize) -> f64 {
        let line = (0..y.len()).filter(|&j| self.line[j] == self.line[i]);
        let largest = line.map(|j| y[j].abs()).fold(0.0, f64::max);
        let size = y[i].abs().max((y[i] - self.bias_of(i).unwrap_or(0.0)).abs()).max(largest / 10.0);
        size.log2().floor().exp2() * f64::from(f32::EPSILON)
    }

    fn bias_of(&self, i: usize) -> Option<f64> {
        self.bias.as_ref().map(|bias| bias[self.parameter[i]])
    }

    /// γ of an element, `None` for 1.
    fn gain<const P: u32>(&self, i: usize) -> Option<Num<P>> {
        self.weight.as_ref().map(|weight| Num::exact(weight[self.parameter[i]]))
    }

    /// y of an element. The contract rounds x̂·γ + β once, others twice.
    fn output<const P: u32>(&self, method: Method, i: usize, x_hat: Num<P>) -> Num<P> {
        let bias = self.bias_of(i).map(Num::exact);
        match (self.gain(i), bias) {
            (Some(gain), Some(bias)) if method == Method::Contract => x_hat.fma(gain, bias),
            (gain, bias) => {
                let scaled = gain.map_or(x_hat, |gain| x_hat * gain);
                bias.map_or(scaled, |bias| scaled + bias)
            }
        }
    }

    /// For each parameter, the sum of products over its elements.
    fn parameter_sums<const P: u32>(&self, method: Method, term: impl Fn(usize) -> (Num<P>, Num<P>)) -> Vec<Num<P>> {
        let sum = |members: &Vec<usize>| {
            Num::dot(members.iter().map(|&i| term(i)), self.order[1].depth(members.len(), method))
        };
        members(&self.parameter).iter().map(sum).collect()
    }
}

fn bound<const P: u32>(number: Num<P>) -> Bound {
    Bound { value: number.value(), error: number.error() }
}

/// The elements of each line or parameter, in order.
fn members(of: &[usize]) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); of.iter().max().map_or(0, |last| last + 1)];
    of.iter().enumerate().for_each(|(i, &to)| members[to].push(i));
    members
}

impl Update {
    /// f·new + (1 − f)·old. ONNX stores 1 − f as an f32, which moves f by up to a unit of 1.
    fn blend<const P: u32>(&self, method: Method, new: Num<P>, old: f64) -> Num<P> {
        let factor = Num::rounded(self.factor);
        let factor = if method == Method::Onnx { factor.blurred(Num::<P>::UNIT / self.factor) } else { factor };
        factor.fma(new, (Num::exact(1.0) - factor) * Num::exact(old))
    }
}

/// A line's statistics and x̂.
struct Line<const P: u32> {
    members: Vec<usize>,
    /// Of sums along the line.
    depth: usize,
    /// What sums are divided by.
    divisor: f64,
    mean: Num<P>,
    var: Num<P>,
    r: Num<P>,
    x_hat: Vec<Num<P>>,
}

impl<const P: u32> Line<P> {
    fn new(problem: &Problem, method: Method, number: usize, members: Vec<usize>) -> Self {
        let depth = problem.order[0].depth(members.len(), method);
        let divisor = if problem.kind == Kind::Length { 1.0 } else { members.len() as f64 };
        let x = members.iter().map(|&i| {
            let blur = if method == Method::Torch { depth as f64 * Num::<P>::UNIT } else { 0.0 };
            Num::exact(problem.x[i]).blurred(blur)
        });
        let x: Vec<Num<P>> = x.collect();
        let (mean, var, distance) = match &problem.fixed {
            Some([mean, var]) => {
                let mean = Num::exact(mean[number]);
                (mean, Num::exact(var[number]), x.iter().map(|&x| x - mean).collect())
            }
            None if problem.kind == Kind::Centered => centered(method, &x, depth),
            None => (Num::exact(0.0), Num::dot(x.iter().map(|&x| (x, x)), depth).over(divisor), x),
        };
        let r = (var + Num::rounded(problem.eps)).inverse_root();
        let x_hat = distance.iter().map(|&distance| distance * r).collect();
        Line { members, depth, divisor, mean, var, r, x_hat }
    }

    /// dx of the line's elements. g − a and the last difference cancel; their errors are those of the sizes before.
    fn dx(&self, problem: &Problem, dy: &[f64]) -> Vec<Num<P>> {
        let gradient = |i: usize| {
            let dy = Num::exact(dy[i]);
            problem.gain(i).map_or(dy, |gain| dy * gain)
        };
        let g: Vec<Num<P>> = self.members.iter().map(|&i| gradient(i)).collect();
        if problem.fixed.is_some() {
            return g.iter().map(|&g| self.r * g).collect();
        }
        let a = Num::sum(g.iter().copied(), self.depth).over(self.divisor);
        let b = Num::dot(g.iter().copied().zip(self.x_hat.iter().copied()), self.depth).over(self.divisor);
        let centered = |g: Num<P>| if problem.kind == Kind::Centered { g - a } else { g };
        g.iter().zip(&self.x_hat).map(|(&g, &x_hat)| self.r * (-x_hat).fma(b, centered(g))).collect()
    }
}

/// Mean, variance and distances from the mean.
fn centered<const P: u32>(method: Method, x: &[Num<P>], depth: usize) -> (Num<P>, Num<P>, Vec<Num<P>>) {
    let count = x.len() as f64;
    let mean_of = |numbers: &[Num<P>]| Num::sum(numbers.iter().copied(), depth).over(count);
    let mean_square = |numbers: &[Num<P>]| Num::dot(numbers.iter().map(|&d| (d, d)), depth).over(count);
    let m = mean_of(x);
    match method {
        Method::Contract => {
            // The correction is exact for any m: the rounding of m decides only how large δ is.
            let m = m.as_given();
            let d: Vec<Num<P>> = x.iter().map(|&x| x - m).collect();
            let delta = mean_of(&d);
            let var = (-delta).fma(delta, mean_square(&d));
            ((m + delta).settled(), var.settled(), d.iter().map(|&d| (d - delta).settled()).collect())
        }
        Method::Onnx | Method::Torch => {
            let d: Vec<Num<P>> = x.iter().map(|&x| x - m).collect();
            (m, mean_square(&d), d)
        }
    }
}

//! The numerical contract, word for word, one element at a time: what every path of the library must give, bit for bit.

use layernorm::{Element, Float};

/// Rule 2: the canonical sum of a(i)·b(i). A plain sum has b = 1.
pub fn sum<A: Float>(n: usize, term: impl Fn(usize) -> (A, A)) -> A {
    let mut blocks: Vec<A> = (0..n.div_ceil(1024).max(1))
        .map(|block| {
            let mut lane = [A::ZERO; 256];
            for k in 0..4 {
                for (l, acc) in lane.iter_mut().enumerate() {
                    let i = block * 1024 + k * 256 + l;
                    if i < n {
                        let (a, b) = term(i);
                        *acc = a.fma(b, *acc);
                    }
                }
            }
            for s in [128, 64, 32, 16, 8, 4, 2, 1] {
                for l in 0..s {
                    lane[l] = lane[l] + lane[l + s];
                }
            }
            lane[0]
        })
        .collect();
    fold(&mut blocks)
}

fn fold<A: Float>(sums: &mut Vec<A>) -> A {
    sums.resize(sums.len().next_power_of_two(), A::ZERO);
    while sums.len() > 1 {
        *sums = sums.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    sums[0]
}

/// Rule 5: the sum down the rows of a(row)·b(row).
pub fn column_sum<A: Float>(rows: usize, term: impl Fn(usize) -> (A, A)) -> A {
    let mut chunks: Vec<A> = (0..rows.div_ceil(64).max(1))
        .map(|chunk| {
            (chunk * 64..rows.min(chunk * 64 + 64)).fold(A::ZERO, |acc, row| {
                let (a, b) = term(row);
                a.fma(b, acc)
            })
        })
        .collect();
    fold(&mut chunks)
}

/// Statistics of a row that is not extreme.
#[derive(Clone, Copy, Debug)]
pub struct Stat<A> {
    pub m: A,
    pub delta: A,
    pub r: A,
}

/// Rule 3.
pub fn stat<A: Float>(x: &[A], centered: bool, eps: A) -> Stat<A> {
    let n = x.len();
    let count = A::from_count(n);
    if !centered {
        let r = A::ONE / (sum(n, |i| (x[i], x[i])) / count + eps).sqrt();
        return Stat { m: A::ZERO, delta: A::ZERO, r };
    }
    let m = sum(n, |i| (x[i], A::ONE)) / count;
    let delta = sum(n, |i| (x[i] - m, A::ONE)) / count;
    let v = (-delta).fma(delta, sum(n, |i| (x[i] - m, x[i] - m)) / count);
    let v = if v < A::ZERO { A::ZERO } else { v };
    Stat { m, delta, r: A::ONE / (v + eps).sqrt() }
}

pub fn x_hat<A: Float>(x: A, s: Stat<A>) -> A {
    ((x - s.m) - s.delta) * s.r
}

/// y of a row; γ and β of the arithmetic type.
pub fn forward<T: Element>(x: &[T], s: Stat<T::Acc>, gain: Option<&[T::Acc]>, bias: Option<&[T::Acc]>) -> Vec<T> {
    (0..x.len())
        .map(|i| {
            let x_hat = x_hat(x[i].widen(), s);
            T::narrow(match (gain, bias) {
                (None, None) => x_hat,
                (Some(gain), None) => x_hat * gain[i],
                (None, Some(bias)) => x_hat + bias[i],
                (Some(gain), Some(bias)) => x_hat.fma(gain[i], bias[i]),
            })
        })
        .collect()
}

/// Rule 4: dx of a row.
pub fn backward<T: Element>(x: &[T], dy: &[T], s: Stat<T::Acc>, gain: Option<&[T::Acc]>, centered: bool) -> Vec<T> {
    let n = x.len();
    let count = T::Acc::from_count(n);
    let g = |i: usize| gain.map_or(dy[i].widen(), |gain| dy[i].widen() * gain[i]);
    let x_hat = |i: usize| x_hat(x[i].widen(), s);
    let a = sum(n, |i| (g(i), T::Acc::ONE)) / count;
    let b = sum(n, |i| (g(i), x_hat(i))) / count;
    (0..n)
        .map(|i| {
            let centred = if centered { g(i) - a } else { g(i) };
            T::narrow(s.r * (-x_hat(i)).fma(b, centred))
        })
        .collect()
}

//! Stochastic gradient descent, and Adam (Kingma and Ba, 2015).
//!
//! ```text
//! SGD     w ← w − η g
//! Adam    m ← β₁ m + (1 − β₁) g    v ← β₂ v + (1 − β₂) g²
//!         w ← w − η m̂ / (√v̂ + ε),  m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)
//! ```

use super::network::Updates;
use crate::error::Error;
use layernorm::Float;
use layernorm::parts::memory;

/// Which optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Sgd,
    Adam,
}

impl Method {
    pub(crate) const NAMES: [(&'static str, Method); 2] = [("sgd", Method::Sgd), ("adam", Method::Adam)];
}

const BETAS: [f64; 2] = [0.9, 0.999];
const EPS: f64 = 1e-8;

/// An optimizer with its state.
#[derive(Debug)]
pub(super) struct Optimizer<A> {
    method: Method,
    rate: f64,
    /// β₁ᵗ and β₂ᵗ.
    powers: [f64; 2],
    /// m and v of all parameters; empty for SGD.
    moments: [Vec<A>; 2],
}

impl<A: Float> Optimizer<A> {
    pub(super) fn new(method: Method, rate: f64, parameters: usize) -> Result<Optimizer<A>, Error> {
        let count = if method == Method::Adam { parameters } else { 0 };
        let moments = [memory::zeros(count)?, memory::zeros(count)?];
        Ok(Optimizer { method, rate, powers: [1.0; 2], moments })
    }

    /// Changes all parameters by one step.
    pub(super) fn step(&mut self, updates: Updates<A>) {
        let number = A::from_f64;
        if self.method == Method::Sgd {
            let rate = number(self.rate);
            for (parameters, gradients) in updates {
                parameters.iter_mut().zip(gradients).for_each(|(w, &g)| *w = *w - rate * g);
            }
            return;
        }
        (0..2).for_each(|i| self.powers[i] *= BETAS[i]);
        let [b1, b2] = BETAS.map(number);
        let [c1, c2] = BETAS.map(|beta| number(1.0 - beta));
        // η m̂ / (√v̂ + ε) with the corrections outside the loop.
        let rate = number(self.rate / (1.0 - self.powers[0]));
        let scale = number(1.0 / (1.0 - self.powers[1]).sqrt());
        let eps = number(EPS);
        let [m, v] = &mut self.moments;
        let mut moments = m.iter_mut().zip(v);
        for (parameters, gradients) in updates {
            for ((w, &g), (m, v)) in parameters.iter_mut().zip(gradients).zip(&mut moments) {
                *m = b1 * *m + c1 * g;
                *v = b2 * *v + c2 * (g * g);
                *w = *w - rate * *m / (v.sqrt() * scale + eps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_definition() {
        let gradients = [[0.5f64, -2.0], [0.25, 1e-3], [-1.0, 0.0]];
        let (mut w, mut m, mut v) = ([1.0f64, -1.0], [0.0f64; 2], [0.0f64; 2]);
        let mut plain = w;
        let mut adam = Optimizer::new(Method::Adam, 0.01, 2).unwrap();
        let mut sgd = Optimizer::new(Method::Sgd, 0.01, 2).unwrap();
        let (mut by_adam, mut by_sgd) = (w, w);
        for (t, g) in gradients.iter().enumerate() {
            adam.step(vec![(&mut by_adam[..1], &g[..1])].into_iter().collect::<Vec<_>>());
            for i in 0..2 {
                m[i] = 0.9 * m[i] + (1.0 - 0.9) * g[i];
                v[i] = 0.999 * v[i] + (1.0 - 0.999) * g[i] * g[i];
                let hat = |moment: f64, beta: f64| moment / (1.0 - beta.powi(t as i32 + 1));
                w[i] -= 0.01 * hat(m[i], 0.9) / (hat(v[i], 0.999).sqrt() + 1e-8);
                plain[i] -= 0.01 * g[i];
            }
            sgd.step(vec![(&mut by_sgd, g)]);
        }
        // A few roundings in another order, of f64.
        assert!((by_adam[0] - w[0]).abs() < 1e-14, "{by_adam:?} and {w:?}");
        assert_eq!(by_sgd, plain);
    }
}

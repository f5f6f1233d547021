//! LSTMs, fused or step by step: outputs, states and statistics compared with a plain one in f64.

use super::*;

const HIDDEN: usize = 7;
const BATCH: usize = 5;

/// The LSTM from the top of `steps.rs` in f64, computed one number at a time.
struct Plain {
    norm: Norm,
    epsilon: f64,
    /// Batch norm uses the running statistics.
    inference: bool,
    parameters: BTreeMap<String, Vec<f64>>,
}

type Rows = Vec<Vec<f64>>;

impl Plain {
    fn of(net: &Net, norm: Norm, start: &Start, inference: bool) -> Plain {
        let wide = |numbers: Numbers| numbers.values.into_iter().map(f64::from).collect();
        let parameters = parameters(net).into_iter().map(|(name, numbers)| (name, wide(numbers))).collect();
        Plain { norm, epsilon: start.epsilon, inference, parameters }
    }

    fn get(&self, name: &str) -> Option<&Vec<f64>> {
        self.parameters.get(&format!("Lstm.{name}"))
    }

    /// Rows `[B, n]` times a weight `[units, n]`.
    fn product(&self, weight: &str, rows: &Rows) -> Rows {
        let weight = self.get(weight).unwrap();
        let dot = |w: &[f64], x: &[f64]| w.iter().zip(x).map(|(w, x)| w * x).sum();
        rows.iter().map(|row| weight.chunks(row.len()).map(|w| dot(w, row)).collect()).collect()
    }

    /// A norm of rows `[B, units]` at a step.
    fn normalized(&self, name: &str, step: usize, rows: Rows) -> Rows {
        let units = rows[0].len();
        let scaled = |x: f64, mean: f64, variance: f64| (x - mean) / (variance + self.epsilon).sqrt();
        let moments = |numbers: &[f64]| {
            let n = numbers.len() as f64;
            let mean = numbers.iter().sum::<f64>() / n;
            (mean, numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
        };
        let layer = |row: &[f64]| {
            let (mean, variance) = moments(row);
            row.iter().map(|&x| scaled(x, mean, variance)).collect::<Vec<f64>>()
        };
        let mut rows: Rows = match self.norm {
            Norm::Layer => rows.iter().map(|row| layer(row)).collect(),
            Norm::Group => rows.iter().map(|row| row.chunks(HIDDEN).flat_map(layer).collect()).collect(),
            Norm::Rms => {
                let square = |row: &Vec<f64>| row.iter().map(|x| x * x).sum::<f64>() / units as f64;
                rows.iter().map(|row| row.iter().map(|&x| scaled(x, 0.0, square(row))).collect()).collect()
            }
            Norm::Batch => {
                let kept = (0..).take_while(|step| self.get(&format!("{name}.running.{step}.mean")).is_some()).count();
                let place = format!("{name}.running.{}", step.min(kept - 1));
                let of = |unit: usize| {
                    let running = |which: &str| self.get(&format!("{place}.{which}")).unwrap()[unit];
                    let batch = moments(&rows.iter().map(|row| row[unit]).collect::<Vec<f64>>());
                    if self.inference { (running("mean"), running("var")) } else { batch }
                };
                let moments: Vec<(f64, f64)> = (0..units).map(of).collect();
                let row = |row: &Vec<f64>| row.iter().zip(&moments).map(|(&x, m)| scaled(x, m.0, m.1)).collect();
                rows.iter().map(row).collect()
            }
            Norm::None | Norm::Weight | Norm::Instance => return rows,
        };
        let affine = |what: &str| self.get(&format!("{name}_{what}")).or_else(|| self.get(&format!("{name}.{what}")));
        for row in &mut rows {
            for (unit, x) in row.iter_mut().enumerate() {
                *x = affine("gain").map_or(1.0, |gain| gain[unit]) * *x + affine("bias").map_or(0.0, |bias| bias[unit]);
            }
        }
        rows
    }

    /// The logits `[B, 10]` of sequences `[B, T, I]`, with h of one step, sample and unit changed by some amount.
    fn logits(&self, x: &[f64], shape: [usize; 3], change: Option<([usize; 3], f64)>) -> Vec<f64> {
        let [batch, steps, inputs] = shape;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (mut h, mut c) = (vec![vec![0.0; HIDDEN]; batch], vec![vec![0.0; HIDDEN]; batch]);
        for step in 0..steps {
            let now = (0..batch).map(|case| x[(case * steps + step) * inputs..][..inputs].to_vec()).collect();
            let from_input = self.normalized("input_norm", step, self.product("input", &now));
            let from_state = self.normalized("recurrent_norm", step, self.product("recurrent", &h));
            let gate = |case: usize, gate: usize, unit: usize| {
                let at = gate * HIDDEN + unit;
                from_input[case][at] + from_state[case][at] + self.get("bias").unwrap()[at]
            };
            for (case, c) in c.iter_mut().enumerate() {
                for (unit, c) in c.iter_mut().enumerate() {
                    let [i, f, g] = [0, 1, 2].map(|number| gate(case, number, unit));
                    *c = sigmoid(f) * *c + sigmoid(i) * g.tanh();
                }
            }
            let shown = self.normalized("cell_norm", step, c.clone());
            for (case, h) in h.iter_mut().enumerate() {
                for (unit, h) in h.iter_mut().enumerate() {
                    *h = sigmoid(gate(case, 3, unit)) * shown[case][unit].tanh();
                }
            }
            if let Some((place, change)) = change.filter(|(place, _)| place[0] == step) {
                h[place[1]][place[2]] += change;
            }
        }
        let (weight, bias) = (self.get("last.weight").unwrap(), self.get("last.bias").unwrap());
        let logit = |h: &[f64], class: usize| {
            h.iter().enumerate().map(|(k, h)| h * weight[10 * k + class]).sum::<f64>() + bias[class]
        };
        h.iter().flat_map(|h| (0..10).map(move |class| logit(h, class))).collect()
    }
}

/// Norms that an LSTM supports.
fn norms() -> impl Iterator<Item = Norm> {
    Norm::ALL.into_iter().filter(|&norm| norm != Norm::Instance)
}

/// Not the default, so that γ, β and ε have an effect.
fn start() -> Start {
    Start { gain: 0.8, bias: 0.1, epsilon: 1e-3, ..Start::new(3) }
}

/// Number of steps, and inputs per step.
fn sequence(reads: Reads) -> [usize; 2] {
    match reads {
        Reads::Rows => IMAGE,
        Reads::Pixels => [IMAGE[0] * IMAGE[1], 1],
    }
}

/// A step has products of 12 numbers, norms and gates: about 30 roundings of numbers below 2. Forget gates are below 1
/// and the slopes of all functions at most 1, so a step does not amplify its input's error.
fn tolerance(steps: usize) -> f64 {
    steps as f64 * 30.0 * 2.0 * UNIT
}

#[test]
fn every_lstm_is_the_plain_one_with_its_norms() {
    for (norm, reads) in norms().flat_map(|norm| [Reads::Rows, Reads::Pixels].map(|reads| (norm, reads))) {
        let device = training();
        let net = with_start(&lstm(reads), norm, &start(), &device);
        let x = images(2, BATCH, &device);
        let found = wide(&logits(&net, x.clone()));
        let [steps, inputs] = sequence(reads);
        let expected = Plain::of(&net, norm, &start(), false).logits(&wide(&x), [BATCH, steps, inputs], None);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= tolerance(steps), "{norm} {reads:?}: {found} {expected}");
        }
    }
}

#[test]
fn logits_through_time_are_those_without_to_the_bit() {
    for (norm, reads) in norms().flat_map(|norm| [Reads::Rows, Reads::Pixels].map(|reads| (norm, reads))) {
        for device in [cpu(), training()] {
            let net = with_start(&lstm(reads), norm, &start(), &device);
            let (found, marks) = net.forward_through_time(images(2, BATCH, &device)).unwrap();
            assert_eq!(bits(&found), bits(&logits(&net, images(2, BATCH, &device))), "{norm} {reads:?}");
            assert_eq!(marks.len(), sequence(reads)[0]);
            assert!(marks.iter().all(|mark| mark.dims() == [1, BATCH, HIDDEN]));
        }
    }
    for arch in archs().into_iter().filter(|arch| !matches!(arch, Arch::Lstm { .. })) {
        assert!(net(&arch, Norm::Layer, &cpu()).forward_through_time(images(1, 1, &cpu())).is_none());
    }
}

#[test]
fn gradients_of_marks_are_those_of_states() {
    let [steps, inputs] = IMAGE;
    let slopes: Vec<f32> = random(9, BATCH * 10);
    for norm in norms() {
        let device = training();
        let net = with_start(&lstm(Reads::Rows), norm, &start(), &device);
        let x = images(2, BATCH, &device);
        let (found, marks) = net.forward_through_time(x.clone()).unwrap();
        let loss = (found * Tensor::from_data(TensorData::new(slopes.clone(), [BATCH, 10]), &device)).sum();
        let gradients = loss.backward();
        let gradients: Rows = marks.iter().map(|mark| wide(&mark.grad(&gradients).unwrap())).collect();

        // At the last step: ∂L/∂h = W·∂L/∂logits. Sums of ten products.
        let plain = Plain::of(&net, norm, &start(), false);
        let weight = plain.get("last.weight").unwrap();
        for (place, found) in gradients[steps - 1].iter().enumerate() {
            let (case, unit) = (place / HIDDEN, place % HIDDEN);
            let terms = (0..10).map(|class| weight[10 * unit + class] * f64::from(slopes[10 * case + class]));
            let tolerance = 10.0 * UNIT * terms.clone().map(f64::abs).sum::<f64>();
            assert!((found - terms.sum::<f64>()).abs() <= tolerance, "{norm}: {found}");
        }

        // At every step: the central difference of the plain LSTM, which in f64 is accurate to about 10⁻⁹.
        let loss = |change| {
            let logits = plain.logits(&wide(&x), [BATCH, steps, inputs], Some(change));
            logits.iter().zip(&slopes).map(|(logit, &slope)| logit * f64::from(slope)).sum::<f64>()
        };
        for (step, gradients) in gradients.iter().enumerate() {
            assert!(gradients.iter().any(|&gradient| gradient.abs() > 1e-6), "{norm}, step {step}: {gradients:?}");
            for (case, unit) in [(0, 0), (1, 3), (BATCH - 1, HIDDEN - 1)] {
                let at = |by: f64| loss(([step, case, unit], by));
                let (expected, found) = ((at(1e-5) - at(-1e-5)) / 2e-5, gradients[case * HIDDEN + unit]);
                // The backward pass of a step has about as many roundings as the forward pass; gradients here are sums
                // of ten products of numbers below 2.
                let tolerance = 10.0 * tolerance(steps);
                assert!((found - expected).abs() <= tolerance, "{norm}, step {step}: {found} {expected}");
            }
        }
    }
}

#[test]
fn batch_norm_keeps_statistics_of_every_step() {
    let [steps, inputs] = IMAGE;
    let device = training();
    let net = with_start(&lstm(Reads::Rows), Norm::Batch, &start(), &device);
    let x = images(2, BATCH, &device);
    logits(&net, x.clone());
    let plain = Plain::of(&net.valid(), Norm::Batch, &start(), true);
    for step in 0..steps {
        let rows = (0..BATCH).map(|case| wide(&x)[(case * steps + step) * inputs..][..inputs].to_vec()).collect();
        let products = plain.product("input", &rows);
        let of = |which: &str, step: usize| plain.get(&format!("input_norm.running.{step}.{which}")).unwrap();
        for unit in 0..4 * HIDDEN {
            let numbers: Vec<f64> = products.iter().map(|row| row[unit]).collect();
            let mean = numbers.iter().sum::<f64>() / BATCH as f64;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (BATCH - 1) as f64;
            // A tenth of the way from mean 0 and variance 1; the variance is unbiased. Products of five numbers below
            // 2, a few roundings.
            assert!((of("mean", step)[unit] - 0.1 * mean).abs() < 10.0 * 2.0 * UNIT, "step {step}");
            assert!((of("var", step)[unit] - (0.9 + 0.1 * variance)).abs() < 40.0 * 2.0 * UNIT, "step {step}");
        }
        for (name, other) in ["input_norm", "recurrent_norm", "cell_norm"].map(|name| (name, (step + 1) % steps)) {
            let mean = |step: usize| plain.get(&format!("{name}.running.{step}.mean")).unwrap();
            assert_ne!(mean(step), mean(other), "{name}, steps {step} and {other}");
        }
    }
}

#[test]
fn batch_norm_uses_each_steps_statistics_and_the_last_ones_beyond() {
    let device = training();
    let net = with_start(&lstm(Reads::Rows), Norm::Batch, &start(), &device);
    for seed in 0..20 {
        logits(&net, images(seed, 16, &device));
    }
    let net = net.valid();
    let plain = Plain::of(&net, Norm::Batch, &start(), true);
    for steps in [1, IMAGE[0], IMAGE[0] + 5] {
        let shape = [BATCH, steps, IMAGE[1]];
        let x = images_of(4, shape, &cpu());
        let found = wide(&logits(&net, x.clone()));
        for (found, expected) in found.iter().zip(plain.logits(&wide(&x), shape, None)) {
            assert!((found - expected).abs() <= tolerance(steps), "{steps} steps: {found} {expected}");
        }
    }
}

//! Recurrent networks, fused or step by step: outputs, states and statistics compared with a plain one in f64.

use super::*;

pub(super) const HIDDEN: usize = 7;
pub(super) const BATCH: usize = 5;

/// The cells from the top of `steps.rs` in f64, computed one number at a time.
pub(super) struct Plain {
    pub(super) kind: Kind,
    norm: Norm,
    epsilon: f64,
    /// Batch norm uses the running statistics.
    inference: bool,
    parameters: BTreeMap<String, Vec<f64>>,
}

pub(super) type Rows = Vec<Vec<f64>>;

impl Plain {
    pub(super) fn of(net: &Net, kind: Kind, norm: Norm, start: &Start, inference: bool) -> Plain {
        let wide = |numbers: Numbers| numbers.values.into_iter().map(f64::from).collect();
        let parameters = parameters(net).into_iter().map(|(name, numbers)| (name, wide(numbers))).collect();
        Plain { kind, norm, epsilon: start.epsilon, inference, parameters }
    }

    fn get(&self, name: &str) -> Option<&Vec<f64>> {
        let kind = match self.kind {
            Kind::Rnn => "Rnn",
            Kind::Gru => "Gru",
            Kind::Lstm => "Lstm",
        };
        self.parameters.get(&format!("{kind}.{name}"))
    }

    /// Rows `[B, n]` times a weight `[units, n]`.
    pub(super) fn product(&self, weight: &str, rows: &Rows) -> Rows {
        let weight = self.get(weight).unwrap();
        let dot = |w: &[f64], x: &[f64]| w.iter().zip(x).map(|(w, x)| w * x).sum();
        rows.iter().map(|row| weight.chunks(row.len()).map(|w| dot(w, row)).collect()).collect()
    }

    /// A norm of rows `[B, units]` at a step.
    pub(super) fn normalized(&self, name: &str, step: usize, rows: Rows) -> Rows {
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
        let rms = |row: &[f64]| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            row.iter().map(|&x| scaled(x, 0.0, square)).collect::<Vec<f64>>()
        };
        // The paper's GRU has separate norms of the two gates and of the candidate.
        let together = if self.kind == Kind::Gru { 2 * HIDDEN } else { units };
        let mut rows: Rows = match self.norm {
            Norm::Layer => rows.iter().map(|row| row.chunks(together).flat_map(layer).collect()).collect(),
            Norm::Group => rows.iter().map(|row| row.chunks(HIDDEN).flat_map(layer).collect()).collect(),
            Norm::Rms => rows.iter().map(|row| row.chunks(together).flat_map(rms).collect()).collect(),
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

    /// h and c after a step, from W x, U h, h and c.
    pub(super) fn step(&self, step: usize, [wx, uh]: [Rows; 2], h: Rows, c: Rows) -> [Rows; 2] {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let each = |f: &dyn Fn(usize, usize) -> f64| -> Rows {
            (0..h.len()).map(|case| (0..HIDDEN).map(|unit| f(case, unit)).collect()).collect()
        };
        let b = |at: usize| self.get("bias").map_or(0.0, |bias| bias[at]);
        if self.kind == Kind::Rnn {
            let sum = self.normalized("sum_norm", step, each(&|case, unit| wx[case][unit] + uh[case][unit]));
            return [each(&|case, unit| (sum[case][unit] + b(unit)).tanh()), c];
        }
        let from_input = self.normalized("input_norm", step, wx);
        let from_state = self.normalized("recurrent_norm", step, uh);
        let p =
            |case: usize, gate: usize, unit: usize| from_input[case][gate * HIDDEN + unit] + b(gate * HIDDEN + unit);
        let q = |case: usize, gate: usize, unit: usize| from_state[case][gate * HIDDEN + unit];
        let gate = |case, number, unit| sigmoid(p(case, number, unit) + q(case, number, unit));
        if self.kind == Kind::Gru {
            let next = |case: usize, unit: usize| {
                let (r, z) = (gate(case, 0, unit), gate(case, 1, unit));
                let n = (p(case, 2, unit) + r * q(case, 2, unit)).tanh();
                (1.0 - z) * h[case][unit] + z * n
            };
            return [each(&next), c];
        }
        let candidate = |case, unit| (p(case, 2, unit) + q(case, 2, unit)).tanh();
        let c = each(&|case, unit| gate(case, 1, unit) * c[case][unit] + gate(case, 0, unit) * candidate(case, unit));
        let shown = self.normalized("cell_norm", step, c.clone());
        [each(&|case, unit| gate(case, 3, unit) * shown[case][unit].tanh()), c]
    }

    /// The logits `[B, 10]` of sequences `[B, T, I]`, with h of one step, sample and unit changed by some amount.
    fn logits(&self, x: &[f64], shape: [usize; 3], change: Option<([usize; 3], f64)>) -> Vec<f64> {
        let [batch, steps, inputs] = shape;
        let (mut h, mut c) = (vec![vec![0.0; HIDDEN]; batch], vec![vec![0.0; HIDDEN]; batch]);
        for step in 0..steps {
            let now = (0..batch).map(|case| x[(case * steps + step) * inputs..][..inputs].to_vec()).collect();
            [h, c] = self.step(step, [self.product("input", &now), self.product("recurrent", &h)], h, c);
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

/// All kinds with all norms that they support.
pub(super) fn cells() -> impl Iterator<Item = (Kind, Norm)> {
    let all = Kind::ALL.into_iter().flat_map(|kind| Norm::ALL.map(|norm| (kind, norm)));
    all.filter(|&(kind, norm)| recurrent(kind, Reads::Rows).refuses(norm).is_none())
}

/// All of them, over rows and over pixels.
fn readers() -> impl Iterator<Item = (Kind, Norm, Reads)> {
    cells().flat_map(|(kind, norm)| [Reads::Rows, Reads::Pixels].map(|reads| (kind, norm, reads)))
}

/// Not the default, so that γ, β and ε have an effect.
pub(super) fn start() -> Start {
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
pub(super) fn tolerance(steps: usize) -> f64 {
    steps as f64 * 30.0 * 2.0 * UNIT
}

#[test]
fn every_cell_is_the_plain_one_with_its_norms() {
    for (kind, norm, reads) in readers() {
        let device = training();
        let net = with_start(&recurrent(kind, reads), norm, &start(), &device);
        let x = images(2, BATCH, &device);
        let found = wide(&logits(&net, x.clone()));
        let [steps, inputs] = sequence(reads);
        let expected = Plain::of(&net, kind, norm, &start(), false).logits(&wide(&x), [BATCH, steps, inputs], None);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= tolerance(steps), "{kind:?} {norm} {reads:?}: {found} {expected}");
        }
    }
}

#[test]
fn logits_through_time_are_those_without_to_the_bit() {
    for (kind, norm, reads) in readers() {
        for device in [cpu(), training()] {
            let net = with_start(&recurrent(kind, reads), norm, &start(), &device);
            let (found, marks) = net.forward_through_time(images(2, BATCH, &device)).unwrap();
            assert_eq!(bits(&found), bits(&logits(&net, images(2, BATCH, &device))), "{kind:?} {norm} {reads:?}");
            assert_eq!(marks.len(), sequence(reads)[0]);
            assert!(marks.iter().all(|mark| mark.dims() == [1, BATCH, HIDDEN]));
        }
    }
    for arch in archs().into_iter().filter(|arch| arch.as_recurrent().is_none()) {
        assert!(net(&arch, Norm::Layer, &cpu()).forward_through_time(images(1, 1, &cpu())).is_none());
    }
}

#[test]
fn gradients_of_marks_are_those_of_states() {
    let [steps, inputs] = IMAGE;
    let slopes: Vec<f32> = random(9, BATCH * 10);
    for (kind, norm) in cells() {
        let device = training();
        let net = with_start(&recurrent(kind, Reads::Rows), norm, &start(), &device);
        let x = images(2, BATCH, &device);
        let (found, marks) = net.forward_through_time(x.clone()).unwrap();
        let loss = (found * Tensor::from_data(TensorData::new(slopes.clone(), [BATCH, 10]), &device)).sum();
        let gradients = loss.backward();
        let gradients: Rows = marks.iter().map(|mark| wide(&mark.grad(&gradients).unwrap())).collect();

        // At the last step: ∂L/∂h = W·∂L/∂logits. Sums of ten products.
        let plain = Plain::of(&net, kind, norm, &start(), false);
        let weight = plain.get("last.weight").unwrap();
        for (place, found) in gradients[steps - 1].iter().enumerate() {
            let (case, unit) = (place / HIDDEN, place % HIDDEN);
            let terms = (0..10).map(|class| weight[10 * unit + class] * f64::from(slopes[10 * case + class]));
            let tolerance = 10.0 * UNIT * terms.clone().map(f64::abs).sum::<f64>();
            assert!((found - terms.sum::<f64>()).abs() <= tolerance, "{kind:?} {norm}: {found}");
        }

        // At every step: the central difference of the plain cell, which in f64 is accurate to about 10⁻⁹.
        let loss = |change| {
            let logits = plain.logits(&wide(&x), [BATCH, steps, inputs], Some(change));
            logits.iter().zip(&slopes).map(|(logit, &slope)| logit * f64::from(slope)).sum::<f64>()
        };
        for (step, gradients) in gradients.iter().enumerate() {
            assert!(
                gradients.iter().any(|&gradient| gradient.abs() > 1e-6),
                "{kind:?} {norm}, step {step}: {gradients:?}"
            );
            for (case, unit) in [(0, 0), (1, 3), (BATCH - 1, HIDDEN - 1)] {
                let at = |by: f64| loss(([step, case, unit], by));
                let (expected, found) = ((at(1e-5) - at(-1e-5)) / 2e-5, gradients[case * HIDDEN + unit]);
                // The backward pass of a step has about as many roundings as the forward pass; gradients here are sums
                // of ten products of numbers below 2.
                let tolerance = 10.0 * tolerance(steps);
                assert!((found - expected).abs() <= tolerance, "{kind:?} {norm}, step {step}: {found} {expected}");
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
    let plain = Plain::of(&net.valid(), Kind::Lstm, Norm::Batch, &start(), true);
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
    for kind in Kind::ALL {
        let device = training();
        let net = with_start(&recurrent(kind, Reads::Rows), Norm::Batch, &start(), &device);
        for seed in 0..20 {
            logits(&net, images(seed, 16, &device));
        }
        let net = net.valid();
        let plain = Plain::of(&net, kind, Norm::Batch, &start(), true);
        for steps in [1, IMAGE[0], IMAGE[0] + 5] {
            let shape = [BATCH, steps, IMAGE[1]];
            let x = images_of(4, shape, &cpu());
            let found = wide(&logits(&net, x.clone()));
            for (found, expected) in found.iter().zip(plain.logits(&wide(&x), shape, None)) {
                assert!((found - expected).abs() <= tolerance(steps), "{kind:?}, {steps} steps: {found} {expected}");
            }
        }
    }
}

#[test]
fn layers_are_stacked() {
    for kind in Kind::ALL {
        let arch = Arch::recurrent(kind, RecurrentSize { hidden: HIDDEN, reads: Reads::Rows, layers: 2 });
        for (norm, device) in [Norm::None, Norm::Layer].into_iter().flat_map(|norm| [(norm, cpu()), (norm, training())])
        {
            let net = with_start(&arch, norm, &start(), &device);
            let (found, marks) = net.forward_through_time(images(2, BATCH, &device)).unwrap();
            assert_eq!(bits(&found), bits(&logits(&net, images(2, BATCH, &device))), "{kind:?} {norm}");
            assert!(marks.iter().all(|mark| mark.dims() == [1, BATCH, HIDDEN]));
            let mut taps = Taps::open();
            net.forward(images(2, BATCH, &device), &mut taps);
            let layers: Vec<String> = taps.seen().into_iter().map(|seen| seen.layer).collect();
            assert_eq!(layers, ["last state, layer 1", "last state, layer 2"]);
            let one = with_start(&recurrent(kind, Reads::Rows), norm, &start(), &device);
            assert_ne!(bits(&found), bits(&logits(&one, images(2, BATCH, &device))), "{kind:?} {norm}");
        }
        let weights: Vec<String> =
            with_start(&arch, Norm::Layer, &start(), &cpu()).weights().into_iter().map(|(name, _)| name).collect();
        assert_eq!(weights, ["input 1", "recurrent 1", "input 2", "recurrent 2", "logits"]);
    }
}

#[test]
fn gradients_of_marks_in_a_stack_are_those_of_the_last_layers_states() {
    let arch = Arch::Gru(RecurrentSize { hidden: HIDDEN, reads: Reads::Rows, layers: 2 });
    let device = training();
    let net = with_start(&arch, Norm::Layer, &start(), &device);
    let (found, marks) = net.forward_through_time(images(2, BATCH, &device)).unwrap();
    let gradients = found.sum().backward();
    let weight = parameters(&net)["Gru.last.weight"].values.clone();
    let last = wide(&marks[IMAGE[0] - 1].grad(&gradients).unwrap());
    for (place, found) in last.iter().enumerate() {
        let terms = weight[10 * (place % HIDDEN)..][..10].iter().map(|&w| f64::from(w));
        let tolerance = 10.0 * UNIT * terms.clone().map(f64::abs).sum::<f64>();
        assert!((found - terms.sum::<f64>()).abs() <= tolerance, "{found}");
    }
    assert!(wide(&marks[0].grad(&gradients).unwrap()).iter().any(|gradient| gradient.abs() > 1e-6));
}

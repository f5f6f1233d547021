//! Long sequences: training over 10,000 steps, and truncated backward passes.

#[path = "common/sample.rs"]
mod sample;

use layernorm::Context;
use layernorm_rnn::{Config, Init, Keep, Kind, Network, Runner, Sequences, Training};
use sample::{Rng, label, named, network32, state32, variants};

const STEPS: usize = 10_000;
const HIDDEN: usize = 32;
const DELAY: usize = 3;

/// A network with a linear read-out of h, trained by plain gradient descent to say the input of three steps ago.
struct Trainer {
    network: Network<f32>,
    readout: Vec<f32>,
    runner: Runner<f32>,
    x: Vec<f32>,
}

impl Trainer {
    fn new(kind: Kind, name: &str) -> Trainer {
        let config = Config::new(named(kind, name), 1, HIDDEN);
        let network = Network::new(config, Init::fastrnns(), 4).unwrap();
        let mut rng = Rng::new(8);
        let readout = rng.vec32(HIDDEN).iter().map(|w| 0.2 * w).collect();
        Trainer { network, readout, runner: Runner::new(Context::new().with_threads(1).unwrap()), x: rng.vec32(STEPS) }
    }

    /// One step of gradient descent over all of the sequence; the loss before it.
    fn step(&mut self, rate: f32) -> f64 {
        let training = Training { seed: 0, keep: Keep::All };
        let sequences = Sequences::new(&self.x, STEPS, 1);
        let out = self.runner.train(&self.network, &sequences, None, training).unwrap();
        let (mut loss, mut dy, mut dreadout) = (0.0, vec![0.0f32; out.y.len()], vec![0.0f32; HIDDEN]);
        for (t, h) in out.y.chunks(HIDDEN).enumerate().skip(DELAY) {
            let said: f32 = h.iter().zip(&self.readout).map(|(h, w)| h * w).sum();
            let error = said - self.x[t - DELAY];
            loss += f64::from(error * error);
            let scale = 2.0 * error / (STEPS - DELAY) as f32;
            for k in 0..HIDDEN {
                dy[t * HIDDEN + k] = scale * self.readout[k];
                dreadout[k] += scale * h[k];
            }
        }
        let gradients = self.runner.backward(&self.network, &dy, None).unwrap();
        let params = self.network.params_mut().values_mut();
        params.iter_mut().zip(gradients.params.values()).for_each(|(p, d)| *p -= rate * d);
        self.readout.iter_mut().zip(dreadout).for_each(|(w, d)| *w -= rate * d);
        loss / (STEPS - DELAY) as f64
    }

    fn is_finite(&self) -> bool {
        self.network.params().values().iter().chain(&self.readout).all(|p| p.is_finite())
    }
}

/// From a start of normal numbers (that of PyTorch's fastrnns, for all cells alike), at a rate at which the plain cell goes
/// astray: the LSTM's loss grows a thousandfold, the GRU's gradient is beyond f32 after 10,000 steps. With norms the same
/// rate is safe: the norm of U h does not depend on the size of U. Rates: an LSTM without norms is well at 0.03 and not at 0.3.
fn norms_keep_training_finite(kind: Kind, rate: f32) {
    let mut plain = Trainer::new(kind, "none");
    let losses: Vec<f64> = (0..20).map(|_| plain.step(rate)).collect();
    println!("{} none at {rate}: {losses:.3?}", kind.name());
    let astray = losses.iter().any(|loss| loss.is_nan() || *loss > 1000.0 * losses[0]);
    assert!(astray || !plain.is_finite(), "{losses:?}");

    let mut normalized = Trainer::new(kind, "paper");
    let losses: Vec<f64> = (0..20).map(|_| normalized.step(rate)).collect();
    println!("{} paper at {rate}: {losses:.3?}", kind.name());
    assert!(normalized.is_finite());
    assert!(losses.iter().all(|loss| *loss <= losses[0]), "the loss never grows above where it was: {losses:?}");
    assert!(losses[19] < 0.9 * losses[0], "and falls: {losses:?}");
}

#[test]
fn an_lstm_trains_over_ten_thousand_steps() {
    norms_keep_training_finite(Kind::Lstm, 0.3);
}

#[test]
fn a_gru_trains_over_ten_thousand_steps() {
    norms_keep_training_finite(Kind::Gru, 0.1);
}

/// The backward pass from a step on against the whole backward pass of the steps from there on, run from the state before them.
///
/// The gradients of the inputs are the same bits. Those of parameters are sums over the rows of all steps, segment by segment of
/// at least 256 rows: the same bits if the segments are the same, so if all is one segment or `from` is where one starts.
/// Else the same numbers are added in another order, and each of the few segments' sums is rounded once more or less.
#[test]
fn truncated_backward_is_the_backward_of_the_last_steps() {
    for variant in variants() {
        for layers in [1, 2] {
            for keep in [Keep::All, Keep::Recompute] {
                for (steps, batch, from, same_segments) in [(20, 3, 7, true), (20, 90, 9, true), (20, 90, 10, false)] {
                    let config = Config::new(variant, 3, 6).with_layers(layers);
                    let network = network32(&config, 3);
                    let mut rng = Rng::new(12);
                    let x = rng.vec32(steps * batch * 3);
                    let dy = rng.vec32(steps * batch * 6);
                    let (initial, dlast) = (state32(&network, batch, &mut rng), state32(&network, batch, &mut rng));
                    let mut runner = Runner::new(Context::new().with_threads(1).unwrap());
                    let training = Training { seed: 1, keep };
                    let name = format!("{}, {layers} layers, {keep:?}, from {from}", label(&variant));

                    runner.train(&network, &Sequences::new(&x, steps, batch), Some(&initial), training).unwrap();
                    let truncated = runner.backward_from(&network, &dy, Some(&dlast), from).unwrap();
                    let (first, rest) = x.split_at(from * batch * 3);
                    let before = runner.forward(&network, &Sequences::new(first, from, batch), Some(&initial)).unwrap();
                    let rest = Sequences::new(rest, steps - from, batch);
                    runner.train(&network, &rest, Some(&before.state), training).unwrap();
                    let whole = runner.backward(&network, &dy[from * batch * 6..], Some(&dlast)).unwrap();

                    assert!(truncated.input[..from * batch * 3].iter().all(|&dx| dx == 0.0), "{name}: dx before");
                    assert!(truncated.state.h.iter().chain(&truncated.state.c).all(|&d| d == 0.0), "{name}: state");
                    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&truncated.input[from * batch * 3..]), bits(&whole.input), "{name}: dx");
                    let (found, expected) = (truncated.params.values(), whole.params.values());
                    if same_segments {
                        assert_eq!(bits(found), bits(expected), "{name}: gradients of parameters");
                        continue;
                    }
                    // Sums of 990 products, each of at most the size of the largest gradient there is: 1e-4 of it is 1000 units.
                    let largest = expected.iter().fold(0.0f32, |most, d| most.max(d.abs()));
                    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                        assert!(
                            (found - expected).abs() <= 1e-4 * largest,
                            "{name}: {i}: {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

//! Trains a plain and a layer-normalized LSTM to output the first number of a sequence at its end.
//! `cargo run --release -p layernorm-rnn --example echo`

use layernorm_rnn::{Config, Error, Gradients, Init, Kind, Network, Output, Runner, Sequences, Training, Variant};

const STEPS: usize = 40;
const BATCH: usize = 32;
const HIDDEN: usize = 32;

fn main() -> Result<(), Error> {
    for name in ["none", "paper"] {
        let variant = Variant::named(Kind::Lstm, name)?;
        let mut network = Network::<f32>::new(Config::new(variant, 2, HIDDEN), Init::torch(), 1)?;
        // The output is a weighted sum of the last h.
        let mut readout = vec![0.1f32; HIDDEN];
        let mut runner = Runner::default();
        let mut bits = 0x2545_F491_4F6C_DD1Du64;
        println!("{name}: mean squared error (guessing 0 gives 0.33)");
        for round in 0..=600 {
            let (x, wanted) = batch(&mut bits);
            let sequences = Sequences::new(&x, STEPS, BATCH);
            let output = runner.train(&network, &sequences, None, Training::default())?;
            let (loss, dy) = judge(&output, &wanted, &mut readout);
            let Gradients { params, .. } = runner.backward(&network, &dy, None)?;
            let values = network.params_mut().values_mut();
            values.iter_mut().zip(params.values()).for_each(|(p, &d)| *p -= 0.5 * d);
            if round % 150 == 0 {
                println!("  after {round:3} steps: {loss:.4}");
            }
        }
    }
    Ok(())
}

/// Returns inputs [T, B, 2], a number with a flag at the first step and then noise, and the numbers to output.
fn batch(bits: &mut u64) -> (Vec<f32>, Vec<f32>) {
    let mut next = || {
        *bits ^= *bits << 13;
        *bits ^= *bits >> 7;
        *bits ^= *bits << 17;
        (*bits >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    let mut x: Vec<f32> = (0..STEPS * BATCH * 2).map(|i| if i % 2 == 0 { next() } else { 0.0 }).collect();
    (0..BATCH).for_each(|b| x[2 * b + 1] = 1.0);
    let wanted = (0..BATCH).map(|b| x[2 * b]).collect();
    (x, wanted)
}

/// Returns the loss and the gradient of the outputs, and updates the readout.
fn judge(output: &Output<f32>, wanted: &[f32], readout: &mut [f32]) -> (f32, Vec<f32>) {
    let mut dy = vec![0.0; output.y.len()];
    let mut dreadout = vec![0.0; HIDDEN];
    let mut loss = 0.0;
    let last = (STEPS - 1) * BATCH * HIDDEN;
    for (b, &wanted) in wanted.iter().enumerate() {
        let at = last + b * HIDDEN;
        let h = &output.y[at..at + HIDDEN];
        let error = h.iter().zip(&*readout).map(|(h, w)| h * w).sum::<f32>() - wanted;
        loss += error * error / BATCH as f32;
        let slope = 2.0 * error / BATCH as f32;
        for k in 0..HIDDEN {
            dy[at + k] = slope * readout[k];
            dreadout[k] += slope * h[k];
        }
    }
    readout.iter_mut().zip(dreadout).for_each(|(w, d)| *w -= 0.1 * d);
    (loss, dy)
}

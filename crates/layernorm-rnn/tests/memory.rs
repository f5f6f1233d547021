//! Where there is no memory, a call says so with the bytes that it could not have, and writes nothing.

use layernorm::Context;
use layernorm_rnn::runner_pool::{RunnerLease, RunnerPool};
use layernorm_rnn::{
    Config, Direction, Error, Gradients, Init, Keep, Kind, Network, Noise, Params, Runner, Scheme, Sequences, State,
    Training, Variant,
};
use std::sync::Arc;

#[path = "common/faults.rs"]
mod faults;

fn each_refused<R: PartialEq>(what: &str, call: impl Fn() -> Result<R, Error>) {
    faults::each_refused(what, || (), |()| call(), bytes);
}

fn bytes(error: &Error) -> Option<usize> {
    match error {
        Error::OutOfMemory { bytes } => Some(*bytes),
        _ => None,
    }
}

#[test]
fn what_cannot_be_had_is_an_error() {
    const STEPS: usize = 24;
    const BATCH: usize = 3;
    let noise = Noise { recurrent_dropout: 0.1, drop_connect: 0.1, zoneout_hidden: 0.1, ..Noise::default() };
    let lstm = Config::new(Variant::named(Kind::Lstm, "paper").unwrap(), 20, 24);
    let configs = [
        lstm.with_layers(2).with_direction(Direction::Both).with_noise(noise),
        lstm.with_projection(12),
        Config::new(Variant::named(Kind::Gru, "dreamer").unwrap(), 20, 24),
    ];
    for config in configs {
        // All schemes that take memory of their own.
        let init = Init { projection: Scheme::Orthogonal { gain: 1.0 }, ..Init::haste() };
        each_refused("a new network", || Network::<f32>::new(config, init, 1));
        let network = Network::<f32>::new(config, init, 1).unwrap();
        let x: Vec<f32> = (0..STEPS * BATCH * config.input).map(|i| (i % 13) as f32 / 13.0).collect();
        let sequences = Sequences::new(&x, STEPS, BATCH);
        let runner = || Runner::<f32>::new(Context::new().with_threads(1).unwrap());
        each_refused("forward", || runner().forward(&network, &sequences, None));
        for keep in [Keep::All, Keep::Recompute] {
            each_refused("training", || {
                let mut runner = runner();
                let output = runner.train(&network, &sequences, None, Training { seed: 1, keep })?;
                let gradients: Gradients<f32> = runner.backward(&network, &output.y, Some(&output.state))?;
                Ok((output, gradients))
            });
        }
        // With a list that has held a runner before: what is idle goes back to it without a word.
        let pool = || {
            let pool = Arc::new(RunnerPool::default());
            drop(RunnerLease::<f32>::new(&pool, &lstm.with_layers(3), Context::new).unwrap());
            pool
        };
        let call = |pool| {
            let mut pooled = RunnerLease::<f32>::new(&pool, &config, || Context::new().with_threads(1).unwrap())?;
            pooled.set_params(network.params().values())?;
            let pooled = &mut *pooled;
            let output = pooled.runner.train(&pooled.network, &sequences, None, Training::default())?;
            let sum = |d: &[f32]| d.iter().map(|&d| f64::from(d)).sum::<f64>();
            let (_, state, sum) = pooled.backward(&output.y, None, Vec::new(), sum)?;
            Ok((output, state, sum))
        };
        faults::each_refused("a pooled runner", pool, call, bytes);
    }
    given_memory_stays_as_it_was(&Network::new(lstm, Init::haste(), 1).unwrap());
    a_pass_that_no_machine_holds();
}

/// Into given memory: refused, nothing has been written; and the runner is as good as before.
fn given_memory_stays_as_it_was(network: &Network<f32>) {
    let (steps, batch) = (400, 4);
    let x = vec![0.5f32; steps * batch * network.config().input];
    let sequences = Sequences::new(&x, steps, batch);
    let mut runner = Runner::new(Context::new().with_threads(1).unwrap());
    let mut y = vec![7f32; steps * batch * network.config().output()];
    let mut last = State { h: vec![7f32; 5], c: vec![7f32; 6] };
    let before = (y.clone(), last.clone());
    let outcome = faults::with_limit(1 << 17, || {
        runner.train_into(network, &sequences, None, Training::default(), &mut y, &mut last)
    });
    let bytes = match outcome {
        Err(Error::OutOfMemory { bytes }) => bytes,
        other => panic!("{other:?}"),
    };
    // All of the pass is asked for together: many small requests are granted where their sum is not there.
    assert!(bytes > steps * batch * 15 * 24 * 4, "{bytes} bytes");
    assert!((y.clone(), last.clone()) == before, "something was written");
    runner.train_into(network, &sequences, None, Training::default(), &mut y, &mut last).unwrap();
    let fresh = Runner::new(Context::new()).train(network, &sequences, None, Training::default()).unwrap();
    assert!((y, last) == (fresh.y, fresh.state));
}

/// The sizes of a report of old, which ended the process.
fn a_pass_that_no_machine_holds() {
    let variant = Variant::named(Kind::Lstm, "none").unwrap();
    let network = Network::<f32>::new(Config::new(variant, 1, 512), Init::torch(), 1).unwrap();
    let (steps, batch) = (1 << 18, 16);
    let x = vec![0f32; steps * batch];
    let outcome = faults::with_limit(1 << 30, || {
        Runner::new(Context::new()).train(&network, &Sequences::new(&x, steps, batch), None, Training::default())
    });
    let params = Params::<f32>::zeros(&Config::new(variant, 1 << 24, 1 << 24).with_layers(1024));
    let state = network.zero_state(usize::MAX / 8);
    let text = |error: Error| error.to_string();
    assert_eq!(outcome.map_err(text).unwrap_err(), "out of memory: 8589934592 bytes could not be allocated");
    assert_eq!(params.map_err(text).unwrap_err(), "out of memory: more bytes are needed than can be addressed");
    assert_eq!(state.map_err(text).unwrap_err(), "out of memory: more bytes are needed than can be addressed");
}

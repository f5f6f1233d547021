//! Attacks that compile: each ends in an error or a panic, without undefined behaviour.
#![forbid(unsafe_code)]

use layernorm::parts::{MAX_THREADS, MachineIsa, large_pages, run, team};
use layernorm::{
    BatchNorm, Context, GroupNorm, Isa, LayerNorm, NormConfig, Saved, StatsMut, View, ViewMut, layer_norm,
};
use layernorm_rnn::runner_pool::{RunnerLease, RunnerPool};
use layernorm_rnn::{
    Config, Direction, Error, Gradients, Init, Keep, Kind, Network, Params, Runner, Sequences, State, Training, Variant,
};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn instruction_sets_that_the_machine_lacks() {
    for isa in Isa::ALL {
        assert_eq!(MachineIsa::new(isa).is_ok(), isa.is_available());
        assert_eq!(Context::new().with_isa(isa).is_ok(), isa.is_available());
    }
}

#[test]
fn teams_of_nobody_and_of_everybody() {
    for members in [0, MAX_THREADS + 1, usize::MAX] {
        assert!(!team(members, &|_, _| panic!("called")), "{members}");
    }
    for threads in [0, 1, usize::MAX] {
        let calls = AtomicUsize::new(0);
        run(threads, 3, &|_| _ = calls.fetch_add(1, Ordering::Relaxed));
        assert_eq!(calls.into_inner(), 3);
    }
}

/// Members that skip the barrier, or panic.
#[test]
fn teams_that_break_their_rule() {
    let calls = AtomicUsize::new(0);
    let called = team(2, &|_, _| _ = calls.fetch_add(1, Ordering::Relaxed));
    assert_eq!(calls.into_inner(), if called { 2 } else { 0 });
    let caught = std::panic::catch_unwind(|| {
        while !team(2, &|member, barrier| {
            assert!(member != 0, "member 0");
            barrier.wait();
        }) {}
    });
    assert!(caught.is_err());
}

#[test]
fn memory_of_any_size() {
    large_pages::<f64>(&mut []);
    large_pages(&mut [MaybeUninit::<u8>::uninit(); 3]);
    large_pages(Vec::<u8>::with_capacity(9 << 20).spare_capacity_mut());
}

#[test]
fn views_that_leave_their_memory() {
    let (data, mut to) = ([1f32; 12], [1f32; 12]);
    let huge = [isize::MAX, isize::MIN, isize::MAX / 2, -1, 13];
    for stride in huge {
        assert!(View::strided(&data, &[3], &[stride], 0).is_err(), "{stride}");
        assert!(ViewMut::strided(&mut to, &[3], &[stride], 0).is_err(), "{stride}");
    }
    for shape in [&[13][..], &[usize::MAX], &[usize::MAX, 2], &[1 << 32, 1 << 32], &[1; 17]] {
        assert!(View::new(&data, shape).is_err(), "{shape:?}");
        assert!(ViewMut::new(&mut to, shape).is_err(), "{shape:?}");
    }
    assert!(ViewMut::strided(&mut to, &[3, 4], &[0, 1], 0).is_err(), "an output that overlaps itself");
    assert!(View::strided(&data, &[0, 5], &[isize::MAX, 1], usize::MAX).is_ok_and(|view| view.is_empty()));
}

/// Statistics and parameters whose public fields are inconsistent.
#[test]
fn fields_of_other_lengths() {
    let x = [1f32; 12];
    let mut layer = LayerNorm::<f32>::new([4]);
    let (y, mut saved) = layer.forward_train(&x).unwrap();
    saved.delta.clear();
    assert!(layer.backward(&x, &y, &saved).is_err());
    layer.weight = Some(vec![1.0; 3]);
    assert!(layer.forward(&x).is_err());
    let mut group = GroupNorm::<f32>::new(2, 4);
    group.bias = Some(Vec::new());
    assert!(group.forward(&x, &[3, 4]).is_err());
    let mut batch = BatchNorm::<f32>::new(4);
    batch.running_mean.pop();
    assert!(batch.forward(&x, &[3, 4]).is_err());
    assert!(batch.forward_train(&x, &[3, 4]).is_err());

    let (mut y, [mut m, mut delta, mut rstd]) = ([0f32; 12], [vec![0f32; 3], vec![0f32; 2], vec![0f32; 3]]);
    let stats = StatsMut { m: &mut m, delta: &mut delta, rstd: &mut rstd };
    let (from, to) = (View::new(&x, &[3, 4]).unwrap(), ViewMut::new(&mut y, &[3, 4]).unwrap());
    assert!(layer_norm::forward(from, to, Some(stats), &NormConfig::new(), &mut Context::new()).is_err());
    assert_eq!(Saved::<f32>::default().rows(), 0);
}

fn config(input: usize, hidden: usize) -> Config {
    Config::new(Variant::named(Kind::Lstm, "paper").unwrap(), input, hidden)
}

fn network(input: usize, hidden: usize) -> Network<f32> {
    Network::new(config(input, hidden), Init::paper(), 1).unwrap()
}

/// Replaces the parameters of a network with those of a smaller one.
#[test]
fn parameters_of_another_network() {
    let mut victim = network(8, 16);
    *victim.params_mut() = Params::zeros(&config(2, 2)).unwrap();
    let x = vec![0.5f32; 8 * 3];
    let mut runner = Runner::default();
    let refused = |outcome: Result<(), Error>| {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("expected the 9 parameters of this network, found different ones"), "{text}");
    };
    refused(runner.forward(&victim, &Sequences::new(&x, 3, 1), None).map(drop));
    refused(runner.train(&victim, &Sequences::new(&x, 3, 1), None, Training::default()).map(drop));
    let mut state = victim.zero_state(1).unwrap();
    refused(runner.step(&victim, &x[..8], &mut state, &mut [0.0; 16]));
    assert_eq!(state, victim.zero_state(1).unwrap());
    // Restores its own layout.
    *victim.params_mut() = Params::zeros(&config(8, 16)).unwrap();
    assert!(runner.forward(&victim, &Sequences::new(&x, 3, 1), None).is_ok());
}

/// Exchanges the network, the gradients or the runner after a forward pass.
#[test]
fn backward_through_something_else() {
    let (small, large) = (network(2, 2), network(8, 16));
    let x = [0.5f32; 8 * 3];
    let mut runner = Runner::default();
    runner.train(&small, &Sequences::new(&x[..6], 3, 1), None, Training::default()).unwrap();
    assert_eq!(runner.backward(&large, &[0f32; 48], None).unwrap_err(), Error::OtherNetwork);
    let mut gradients =
        Gradients { input: Vec::new(), params: large.params().zeros_like(), state: State { h: vec![], c: vec![] } };
    assert_eq!(runner.backward_into(&small, &[0f32; 6], None, 0, &mut gradients).unwrap_err(), Error::OtherNetwork);
    gradients = Gradients { input: vec![0.0; 5], params: small.params().zeros_like(), state: gradients.state };
    assert!(runner.backward_into(&small, &[0f32; 6], None, 0, &mut gradients).is_err());
    assert!(runner.backward_into(&small, &[0f32; 5], None, 0, &mut gradients).is_err());
    assert!(runner.backward_from(&small, &[0f32; 6], None, 9).is_err());

    let pool = Arc::new(RunnerPool::default());
    let lease = |config: Config| RunnerLease::<f32>::new(&pool, &config, Context::new).unwrap();
    let (mut a, mut b) = (lease(config(2, 2)), lease(config(8, 16)));
    let a_ref = &mut *a;
    a_ref.runner.train(&a_ref.network, &Sequences::new(&x[..6], 3, 1), None, Training::default()).unwrap();
    std::mem::swap(&mut a.runner, &mut b.runner);
    assert_eq!(b.backward(&[0f32; 48], None, Vec::new(), |_| ()).unwrap_err(), Error::OtherNetwork);
    std::mem::swap(&mut a.network, &mut b.network);
    assert_eq!(a.backward(&[0f32; 48], None, Vec::new(), |_| ()).unwrap_err(), Error::NothingRecorded);
    // The recorded pass with its network, but with memory for the gradients of another.
    assert_eq!(b.backward(&[0f32; 6], None, Vec::new(), |_| ()).unwrap_err(), Error::OtherNetwork);
    assert!(a.set_params(&[0.0; 3]).is_err());
}

/// States, sequences and lengths whose public fields are inconsistent.
#[test]
fn sequences_of_other_sizes() {
    let network = network(2, 2);
    let mut runner = Runner::default();
    let x = [0.5f32; 6];
    for (steps, batch) in [(3, 2), (usize::MAX, 2), (1 << 63, 1 << 63), (0, 1), (3, 0)] {
        assert!(runner.forward(&network, &Sequences::new(&x, steps, batch), None).is_err(), "{steps}, {batch}");
    }
    for lengths in [&[4][..], &[0], &[], &[usize::MAX], &[1, 1]] {
        assert!(
            runner.forward(&network, &Sequences::new(&x, 3, 1).with_lengths(lengths), None).is_err(),
            "{lengths:?}"
        );
    }
    let state = State { h: vec![0.0; 2], c: vec![0.0; 1] };
    assert!(runner.forward(&network, &Sequences::new(&x, 3, 1), Some(&state)).is_err());
    assert!(runner.forward(&network, &Sequences::<f32>::new(&[], 0, usize::MAX), None).is_err());
    assert!(runner.forward(&network, &Sequences::<f32>::new(&[], usize::MAX, 0), None).is_ok());
}

/// Random variants: each is rejected, or runs without accessing memory that it does not own.
#[test]
fn cells_put_together_at_random() {
    use layernorm_rnn::{CellNorm, NormSpec, Over, Reset, Update};
    // With this seed, several of the 30 cells that Miri has time for are valid.
    let mut random = layernorm::parts::SplitMix64::new(10);
    let mut next = |below: u64| random.next_u64() % below;
    let (mut ran, x) = (0, [0.5f32; 3 * 2 * 4]);
    for case in 0..if cfg!(miri) { 30 } else { 2000 } {
        let kind = [Kind::Lstm, Kind::Gru, Kind::Rnn][next(3) as usize];
        let mut norm = || match next(8) {
            0 => Some(NormSpec::new(1e-5)),
            1 => Some(NormSpec::new(0.0).over(Over::EachGate).without_bias()),
            2 => Some(NormSpec::new(1e-5).over(Over::GatesAndCandidate)),
            _ => None,
        };
        let (input_norm, recurrent_norm, sum_norm, cell) = (norm(), norm(), norm(), norm());
        let mut flag = || next(4) == 0;
        let cell_norm = cell.map(|norm| CellNorm { norm, carried: flag() });
        let variant = Variant {
            input_norm,
            recurrent_norm,
            sum_norm,
            cell_norm,
            input_bias: flag(),
            recurrent_bias: flag(),
            bias: flag(),
            tied_bias: flag(),
            peephole: flag(),
            coupled: flag(),
            cell_clip: flag().then_some(0.5),
            projection_bias: flag(),
            projection_clip: flag().then_some(0.5),
            reset: [Reset::State, Reset::Product, Reset::Sum][next(3) as usize],
            update: [Update::KeepsOld, Update::TakesNew][next(2) as usize],
            ..Variant::plain(kind)
        };
        let mut config = Config::new(variant, 4, 1 + next(9) as usize).with_layers(1 + next(2) as usize);
        config.projection = (next(4) == 0).then(|| 1 + next(9) as usize);
        config.direction = [Direction::Forward, Direction::Reverse, Direction::Both][next(3) as usize];
        let Ok(network) = Network::<f32>::new(config, Init::paper(), case) else { continue };
        let keep = [Keep::All, Keep::Recompute][next(2) as usize];
        let mut runner = Runner::default();
        let output = runner
            .train(&network, &Sequences::new(&x, 3, 2).with_lengths(&[2, 3]), None, Training { seed: 1, keep })
            .unwrap_or_else(|error| panic!("{variant:?}: {error}"));
        runner.backward(&network, &output.y, None).unwrap_or_else(|error| panic!("{variant:?}: {error}"));
        ran += 1;
    }
    assert!(ran > 3, "{ran} cells ran");
}

//! From the second call on nothing is allocated, counted by the allocator itself, and what a runner holds does not grow. One test
//! alone, so that no other allocates meanwhile.

#[path = "common/sample.rs"]
mod sample;

use layernorm::Context;
use layernorm_rnn::{Config, Direction, Gradients, Keep, Noise, Runner, Sequences, State, Training};
use sample::{Rng, label, network32, state32, variants};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs a call and says how often and how much it allocated.
fn counted(call: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATIONS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    call();
    (ALLOCATIONS.load(Ordering::Relaxed) - before.0, BYTES.load(Ordering::Relaxed) - before.1)
}

/// Calls that allocated. Twice more if there are any: the test harness has a thread of its own, which may allocate once.
fn rounds(
    name: &str,
    config: &Config,
    threads: usize,
    sizes: (usize, usize),
    training: Training,
    found: &mut Vec<String>,
) {
    let mut attempts = (0..3).map(|_| attempt(name, config, threads, sizes, training));
    // The last attempt if all of them allocated.
    let last = attempts.try_fold(Vec::new(), |_, calls| if calls.is_empty() { Err(()) } else { Ok(calls) });
    found.extend(last.into_iter().flatten());
}

fn attempt(
    name: &str,
    config: &Config,
    threads: usize,
    (steps, batch): (usize, usize),
    training: Training,
) -> Vec<String> {
    let mut found = Vec::new();
    let network = network32(config, 3);
    let mut rng = Rng::new(5);
    let x = rng.vec32(steps * batch * config.input);
    let width = config.output() * config.directions();
    let dy = rng.vec32(steps * batch * width);
    let initial = state32(&network, batch, &mut rng);
    let lengths: Vec<usize> = (0..batch).map(|b| steps - b % 3).collect();
    let sequences = Sequences::new(&x, steps, batch).with_lengths(&lengths);
    let mut runner = Runner::new(Context::new().with_threads(threads).unwrap());
    let (mut y, mut last) = (vec![0.0; dy.len()], State::default());
    let mut gradients = Gradients {
        input: x.clone(),
        params: network.params().zeros_like(),
        state: network.zero_state(batch).unwrap(),
    };
    let (mut step_y, mut state) = (vec![0.0; batch * width], initial.clone());
    let mut memory = None;
    for round in 0..5 {
        let forward = counted(|| runner.forward_into(&network, &sequences, Some(&initial), &mut y, &mut last).unwrap());
        let train = counted(|| {
            runner.train_into(&network, &sequences, Some(&initial), training, &mut y, &mut last).unwrap();
        });
        let backward = counted(|| runner.backward_into(&network, &dy, Some(&initial), 0, &mut gradients).unwrap());
        let step = counted(|| {
            if config.direction == Direction::Forward {
                runner.step(&network, &x[..batch * config.input], &mut state, &mut step_y).unwrap();
            }
        });
        if round == 0 && threads > 1 {
            // A thread allocates when it starts, which may be later than it was asked for.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        // A step after backward is at home from the second round on.
        if round > 0 {
            let calls = [("forward_into", forward), ("train_into", train), ("backward_into", backward), ("step", step)];
            for (call, (count, bytes)) in calls.into_iter().filter(|(_, (count, _))| *count > 0) {
                found.push(format!("{name}, {threads} threads, round {round}: {call}: {count} times, {bytes} bytes"));
            }
            let held = *memory.get_or_insert(runner.memory());
            assert_eq!(runner.memory(), held, "{name}: what the runner holds, in round {round}");
        }
    }
    found
}

#[test]
fn from_the_second_call_on_nothing_is_allocated() {
    // Looked up once in the life of a process.
    layernorm::Isa::detect().unwrap();
    let mut found = Vec::new();
    for variant in variants() {
        for direction in [Direction::Forward, Direction::Both] {
            for keep in [Keep::All, Keep::Recompute] {
                let layers = if direction == Direction::Both { 2 } else { 1 };
                let config = Config::new(variant, 5, 12).with_layers(layers).with_direction(direction);
                let name = format!("{}, {direction:?}, {keep:?}", label(&variant));
                rounds(&name, &config, 1, (5, 90), Training { seed: 1, keep }, &mut found);
                let noise = Noise { dropout: 0.1, recurrent_dropout: 0.1, zoneout_hidden: 0.1, ..Noise::default() };
                rounds(
                    &format!("{name}, noise"),
                    &config.with_noise(noise),
                    1,
                    (5, 90),
                    Training { seed: 1, keep },
                    &mut found,
                );
            }
        }
    }
    // With a team: each member has sequences of its own, or all share each step.
    let variant = variants().next().unwrap();
    rounds("team", &Config::new(variant, 40, 60), 2, (40, 40), Training::default(), &mut found);
    rounds("team at each step", &Config::new(variant, 40, 300), 2, (8, 4), Training::default(), &mut found);
    assert!(found.is_empty(), "{} calls allocated, such as\n{}", found.len(), found[..found.len().min(20)].join("\n"));
}

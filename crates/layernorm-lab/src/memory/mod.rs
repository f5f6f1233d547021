//! Estimates the memory of a network or a run before it is allocated, and reads how much is available. If an allocation
//! within Burn fails, the process aborts, so a run that does not fit is rejected before it starts.
//!
//! ```text
//! sizes → numbers of parameters and of activations → bytes, a little more than measured → compared with
//!   a file's bytes (a saved network), or with the available memory (a run)
//! ```

mod available;
mod language;

pub use available::available;
pub(crate) use language::{language_fits_file, of_language};

use crate::models::{Arch, Norm, Reads, RecurrentSize};
use crate::training::Spec;
use available::shown;
use std::num::NonZeroUsize;

/// Bytes per number.
const NUMBER: f64 = 4.0;
/// Copies of every parameter in training: the parameter, its gradient, Adam's two moments, all of these a second time
/// while a step replaces them, and the copies for writing a checkpoint.
const COPIES: f64 = 12.0;
/// Other memory of the program: data, code, threads.
const BESIDE: f64 = 256.0 * 1024.0 * 1024.0;
/// Maximum batch size in evaluations.
const EVALUATED: usize = 250;
/// Fraction of the activations that exist at once without gradients.
const PASSING: f64 = 0.25;
/// Maximum memory per image for a network loaded from a file.
const LARGEST_ANSWER: f64 = (1u64 << 30) as f64;

/// Size of a network, in numbers. They are f64, so that the sizes in any header can be multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    /// Number of parameters.
    parameters: f64,
    /// Numbers saved per image for the backward pass.
    activations: f64,
}

/// Size of a network for images of this size: a lower bound for parameters, an upper bound for activations.
fn size(arch: &Arch, norm: Norm, [rows, columns]: [usize; 2]) -> Size {
    let [rows, columns] = [rows, columns].map(|side| side as f64);
    let pixels = rows * columns;
    match arch {
        Arch::Mlp { hidden, .. } => {
            let units = || hidden.iter().map(|&units| units as f64);
            let (parameters, last) =
                units().fold((0.0, pixels), |(sum, inputs), units| (sum + (inputs + 1.0) * units, units));
            Size {
                parameters: parameters + (last + 1.0) * 10.0,
                activations: 2.0 * pixels + 8.0 * units().sum::<f64>(),
            }
        }
        Arch::Rnn(size) => recurrent([1.0, 1.0, 12.0, 40.0], size, norm, [rows, columns]),
        Arch::Gru(size) => recurrent([3.0, 6.0, 24.0, 100.0], size, norm, [rows, columns]),
        Arch::Lstm(size) => recurrent([4.0, 9.0, 24.0, 100.0], size, norm, [rows, columns]),
        Arch::Cnn { channels } => {
            let [first, second] = channels.map(|channels| channels as f64);
            let (half, quarter) =
                ((rows / 2.0).ceil() * (columns / 2.0).ceil(), (rows / 4.0).ceil() * (columns / 4.0).ceil());
            let parameters = 9.0 * first * (1.0 + second) + 10.0 * (second * quarter + 1.0);
            // A convolution also unfolds its input: nine numbers per output pixel.
            let spread = 9.0 * (half + first * quarter);
            Size { parameters, activations: 2.0 * pixels + 8.0 * (first * half + second * quarter) + 2.0 * spread }
        }
        &Arch::Transformer { width, heads, blocks, .. } => {
            let [width, heads, blocks] = [width, heads, blocks].map(|size| size as f64);
            let block = 8.0 * width * width + 7.0 * width;
            let parameters = width * (columns + rows + 1.0) + blocks * block + 10.0 * (rows * width + 1.0);
            let activations = 2.0 * pixels + rows * width * (24.0 * blocks + 8.0) + 6.0 * blocks * heads * rows * rows;
            Size { parameters, activations }
        }
    }
}

/// Size of a recurrent network. Per hidden unit: the number of gates, the number of normalized values, and the numbers
/// saved by the fused operation (gates, states and normalized sums) or by separate operations (all intermediate results).
fn recurrent(
    [gates, normalized, fused, separate]: [f64; 4],
    size: &RecurrentSize,
    norm: Norm,
    [rows, columns]: [f64; 2],
) -> Size {
    let (steps, input) = match size.reads {
        Reads::Rows => (rows, columns),
        Reads::Pixels => (rows * columns, 1.0),
    };
    let [hidden, layers] = [size.hidden, size.layers].map(|size| size as f64);
    // The input of every layer but the first is the state below. Biases are left out: some cells have none.
    let inputs = input + (layers - 1.0) * hidden;
    let cells = gates * hidden * (inputs + layers * hidden) + 10.0 * (hidden + 1.0);
    // Running means and variances for every step.
    let running = if norm == Norm::Batch { steps * 2.0 * normalized * hidden } else { 0.0 };
    let saved = if matches!(norm, Norm::Batch | Norm::Rms) { separate } else { fused };
    let activations = 2.0 * rows * columns + steps * (layers * saved * hidden + 4.0 * input);
    Size { parameters: cells + running, activations }
}

/// Checks that a network of these sizes fits a file with `bytes` bytes of parameters and needs little memory for
/// inference.
pub(crate) fn fits_file(arch: &Arch, norm: Norm, image: [usize; 2], bytes: usize) -> Result<(), String> {
    arch.check_image(image)?;
    let Size { parameters, activations } = size(arch, norm, image);
    let (name, [rows, columns], least) = (arch.name(), image, NUMBER * parameters);
    if least > bytes as f64 {
        let least = shown(least);
        return Err(format!(
            "expected the parameters of this {name} for images of {rows}×{columns}, {least} or more, found {bytes} bytes"
        ));
    }
    let answer = NUMBER * PASSING * activations;
    if answer > LARGEST_ANSWER {
        let (most, answer) = (shown(LARGEST_ANSWER), shown(answer));
        return Err(format!("expected a network that needs at most {most} per image, found one that needs {answer}"));
    }
    Ok(())
}

/// Estimated bytes of a training run; errs on the high side.
pub(crate) fn of_run(spec: &Spec, image: [usize; 2]) -> f64 {
    // The statistics of batch norm in a recurrent network are computed in training mode.
    let evaluated = if spec.norm == Norm::Batch { 1.0 } else { PASSING };
    let trials = spec.trials.iter().map(|trial| {
        let part = if trial.as_in_training { 1.0 } else { evaluated };
        let rows = image[0].saturating_add(trial.blank_rows).saturating_mul(trial.repeats.saturating_add(1));
        (trial.batch.min(spec.test), rows, part)
    });
    let batches = trials.chain([(spec.batch_size, image[0], 1.0), (EVALUATED, image[0], evaluated)]);
    let of_batch = |(images, rows, part): (usize, usize, f64)| {
        part * images as f64 * size(&spec.arch, spec.norm, [rows, image[1]]).activations
    };
    let most = batches.map(of_batch).fold(0.0, f64::max);
    of_numbers(size(&spec.arch, spec.norm, image).parameters, most)
}

/// Estimated bytes of training with this many parameters and saved activations.
pub(crate) fn of_numbers(parameters: f64, activations: f64) -> f64 {
    NUMBER * (COPIES * parameters + activations)
}

/// How many of these runs fit in memory in parallel, even the largest ones: at least one and at most `wanted`.
pub(crate) fn at_a_time(mut bytes: Vec<f64>, wanted: NonZeroUsize) -> NonZeroUsize {
    let Some(there) = available() else { return wanted };
    bytes.sort_by(|a, b| b.total_cmp(a));
    let sums = bytes.iter().scan(BESIDE, |sum, &bytes| {
        *sum += bytes;
        Some(*sum)
    });
    // Runs that are not in the list need almost no memory.
    match sums.take(wanted.get()).take_while(|&sum| sum <= there as f64).count() {
        all if all == bytes.len() => wanted,
        some => NonZeroUsize::new(some).unwrap_or(NonZeroUsize::MIN),
    }
}

/// Checks that there is enough memory for `what`, which needs `bytes`. The error says how much there is.
pub(crate) fn check(bytes: f64, what: &str) -> Result<(), String> {
    let needed = bytes + BESIDE;
    let refuse = |there: String| {
        Err(format!("{what} needs about {} of memory, {there}; choose smaller sizes or batches", shown(needed)))
    };
    match available() {
        Some(there) if needed > there as f64 => refuse(format!("but only {} are available", shown(there as f64))),
        // If the system does not say, or has other limits (`ulimit -v`), try to reserve the memory without touching it.
        _ if !can_reserve(needed) => refuse("but the system cannot allocate it".to_owned()),
        _ => Ok(()),
    }
}

/// Whether the system can reserve this much. The memory is released untouched.
fn can_reserve(bytes: f64) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes as usize).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::numbers::numbers;
    use crate::models::{Net, Start};
    use burn::tensor::Device;

    fn archs() -> Vec<Arch> {
        vec![
            Arch::mlp(&[24, 16]),
            Arch::mlp(&[]),
            Arch::lstm(12, Reads::Rows),
            Arch::lstm(3, Reads::Pixels),
            Arch::Gru(RecurrentSize { hidden: 12, reads: Reads::Rows, layers: 1 }),
            Arch::Gru(RecurrentSize { hidden: 6, reads: Reads::Rows, layers: 3 }),
            Arch::Rnn(RecurrentSize { hidden: 12, reads: Reads::Rows, layers: 1 }),
            Arch::Rnn(RecurrentSize { hidden: 3, reads: Reads::Pixels, layers: 2 }),
            Arch::Cnn { channels: [4, 6] },
            Arch::Transformer { width: 8, heads: 2, blocks: 2, pre_norm: true },
        ]
    }

    #[test]
    fn parameters_are_counted_from_below_and_nearly_all() {
        for arch in archs() {
            for norm in Norm::ALL.into_iter().filter(|&norm| arch.refuses(norm).is_none()) {
                let net = Net::new(&arch, norm, [9, 14], &Start::new(1), &Device::flex()).unwrap();
                let numbers: usize = numbers(&net).unwrap().iter().map(|tensor| tensor.numbers.len()).sum();
                let counted = size(&arch, norm, [9, 14]).parameters;
                let share = counted / numbers as f64;
                assert!((0.5..=1.0).contains(&share), "{arch:?} {norm}: {counted} of {numbers}");
            }
        }
    }

    #[test]
    fn sizes_that_overflow_are_only_large() {
        let huge = usize::MAX;
        for arch in [
            Arch::mlp(&[huge; 9]),
            Arch::lstm(huge, Reads::Pixels),
            Arch::Gru(RecurrentSize { hidden: 1, reads: Reads::Pixels, layers: 1000 }),
            Arch::Rnn(RecurrentSize { hidden: huge, reads: Reads::Rows, layers: 1000 }),
            Arch::Cnn { channels: [huge; 2] },
            Arch::Transformer { width: huge, heads: huge, blocks: huge, pre_norm: true },
        ] {
            assert!(NUMBER * size(&arch, Norm::Batch, [huge; 2]).parameters > 1e37, "{arch:?}");
            let error = fits_file(&arch, Norm::Layer, [28, 28], 1000).unwrap_err();
            assert!(error.contains("found 1000 bytes"), "{error}");
            assert!(fits_file(&arch, Norm::Layer, [huge; 2], 1000).is_err());
        }
    }

    #[test]
    fn runs_are_as_many_as_there_is_memory_for() {
        let number = |n: usize| NonZeroUsize::new(n).unwrap();
        let huge = 1e18;
        for (bytes, wanted, expected) in [
            (vec![], 4, 4),
            (vec![1.0; 9], 4, 4),
            (vec![1.0], 4, 4),
            (vec![huge], 4, if available().is_some() { 1 } else { 4 }),
            (vec![1.0, huge, 1.0], 2, if available().is_some() { 1 } else { 2 }),
        ] {
            assert_eq!(at_a_time(bytes.clone(), number(wanted)), number(expected), "{bytes:?}");
        }
    }

    #[test]
    fn what_no_system_has_is_refused_with_its_bytes() {
        let error = check(1e18, "the run").unwrap_err();
        assert!(error.starts_with("the run needs about 1000000000.3 GB of memory, but "), "{error}");
        assert!(check(0.0, "the run").is_ok());
    }
}

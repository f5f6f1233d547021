//! Memory of a language model.
//!
//! ```text
//! V symbols, H hidden units, L layers, G gates
//! parameters                  G·H·(V + (2L − 1)·H) + V·(H + 1)     biases of the cells are left out: some have none
//! activations per character   24·L·H + 10·V                        cells; one-hot input, logits and their gradients
//! ```

use super::{COPIES, NUMBER, PASSING, Size, shown};
use crate::language::{Cell, Spec};

/// Most characters in an evaluation batch.
const EVALUATED: f64 = 64.0 * 512.0;

fn size(spec: &Spec, symbols: usize) -> Size {
    let gates = match spec.cell {
        Cell::Rnn => 1.0,
        Cell::Gru => 3.0,
        Cell::Lstm => 4.0,
    };
    let [v, h, l] = [symbols, spec.hidden, spec.layers].map(|size| size as f64);
    Size { parameters: gates * h * (v + (2.0 * l - 1.0) * h) + v * (h + 1.0), activations: 24.0 * l * h + 10.0 * v }
}

/// Estimated bytes of a training run; errs on the high side.
pub(crate) fn of_language(spec: &Spec, symbols: usize) -> f64 {
    let Size { parameters, activations } = size(spec, symbols);
    let trained = spec.batch_size as f64 * spec.sampling.longest() as f64;
    let evaluated = PASSING * EVALUATED.max(64.0 * spec.positions as f64);
    NUMBER * (COPIES * parameters + activations * trained.max(evaluated))
}

/// Checks that a network of these sizes fits a file with `bytes` bytes of parameters.
pub(crate) fn language_fits_file(spec: &Spec, symbols: usize, bytes: usize) -> Result<(), String> {
    let least = NUMBER * size(spec, symbols).parameters;
    if least > bytes as f64 {
        let (name, least) = (spec.cell.name(), shown(least));
        return Err(format!(
            "expected the parameters of this {name} for {symbols} characters, {least} or more, found {bytes} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::numbers::numbers;
    use crate::models::{CharacterNet, Norm};
    use burn::tensor::Device;

    #[test]
    fn parameters_are_counted() {
        for cell in [Cell::Rnn, Cell::Gru, Cell::Lstm] {
            for (norm, layers) in [(Norm::None, 1), (Norm::Layer, 1), (Norm::Layer, 3)] {
                let spec = Spec { layers, ..Spec::new(cell, norm, 16, 1, "text") };
                let net = CharacterNet::new(spec.size(30), norm, &spec.start, &Device::flex()).unwrap();
                let numbers: usize = numbers(&net).unwrap().iter().map(|tensor| tensor.numbers.len()).sum();
                let counted = size(&spec, 30).parameters;
                assert!((0.6..=1.0).contains(&(counted / numbers as f64)), "{spec:?}: {counted} of {numbers}");
                assert!(language_fits_file(&spec, 30, 4 * numbers).is_ok());
                assert!(language_fits_file(&spec, 30, 2 * numbers).unwrap_err().contains("expected the parameters"));
            }
        }
    }
}

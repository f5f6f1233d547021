//! Generates text: one character at a time, each drawn from the network's distribution and read next.
//!
//! ```text
//! p_k ∝ exp(l_k/τ)     l: the logits, τ: the temperature; τ → 0 always takes the most probable character
//! ```

use crate::data::SplitMix64;
use crate::models::CharacterNet;
use burn::tensor::Device;
use layernorm_burn::functional::States;

/// Largest vocabulary of a model.
pub(super) const MOST_SYMBOLS: usize = 4096;

/// Generates text; an iterator over its characters. It ends only if the network's output is not finite.
pub struct Writer<'a> {
    net: &'a CharacterNet,
    vocabulary: &'a [char],
    temperature: f64,
    random: SplitMix64,
    device: Device,
    states: States,
    logits: Vec<f32>,
}

impl<'a> Writer<'a> {
    /// A writer that has read the prompt, from a state of zero. An empty prompt stands for a line break, or for the
    /// first character of the vocabulary if that has none. `net` is a network without autodiff.
    pub(super) fn new(
        net: &'a CharacterNet,
        vocabulary: &'a [char],
        prompt: &[u16],
        temperature: f64,
        seed: u64,
    ) -> Writer<'a> {
        let random = SplitMix64::new(seed);
        let (device, states) = (Device::flex(), [None, None]);
        let mut writer = Writer { net, vocabulary, temperature, random, device, states, logits: Vec::new() };
        let line_break = vocabulary.binary_search(&'\n').unwrap_or(0) as u16;
        writer.read(if prompt.is_empty() { std::slice::from_ref(&line_break) } else { prompt });
        writer
    }

    fn read(&mut self, characters: &[u16]) {
        let states = std::mem::take(&mut self.states);
        let shape = [1, characters.len()];
        let (logits, states) = self.net.forward(characters, shape, states, None, &self.device);
        self.states = states;
        let last = logits.narrow(0, characters.len() - 1, 1);
        self.logits = last.into_data().iter::<f32>().collect();
    }

    /// Position of the next character in the vocabulary.
    fn draw(&mut self) -> Option<usize> {
        let most = self.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !self.logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        if self.temperature == 0.0 {
            return self.logits.iter().position(|&logit| logit == most);
        }
        let weight = |&logit: &f32| ((f64::from(logit) - f64::from(most)) / self.temperature).exp();
        let weights: Vec<f64> = self.logits.iter().map(weight).collect();
        let mut left = self.random.uniform() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little; the most probable character takes it.
        found.or_else(|| self.logits.iter().position(|&logit| logit == most))
    }
}

impl Iterator for Writer<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let symbol = self.draw()?;
        self.read(&[symbol as u16]);
        self.vocabulary.get(symbol).copied()
    }
}

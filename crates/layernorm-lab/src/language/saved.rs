//! A trained language model in one file: specification, vocabulary and parameters.

use super::generate::{MOST_SYMBOLS, Writer};
use super::{Outcome, Spec};
use crate::memory;
use crate::models::CharacterNet;
use crate::models::numbers::{numbers, with_numbers};
use crate::training::tensors::{self, Entry};
use crate::training::{self, container};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The format's name in the file.
pub(crate) const FORMAT: &str = "layernorm language model";

/// A trained language model.
#[derive(Debug)]
pub struct LanguageModel {
    net: CharacterNet,
    spec: Spec,
    vocabulary: Vec<char>,
}

/// Header of the file.
#[derive(Serialize, Deserialize)]
struct Head {
    spec: Spec,
    vocabulary: Vec<char>,
    /// The parameters.
    tensors: Vec<Entry>,
}

impl LanguageModel {
    /// The model of a finished run.
    pub fn new(outcome: Outcome, spec: &Spec, vocabulary: &[char]) -> LanguageModel {
        LanguageModel { net: outcome.net, spec: spec.clone(), vocabulary: vocabulary.to_vec() }
    }

    /// Writes the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let named = numbers(&self.net).map_err(|error| format!("{}: {error}", path.display()))?;
        let (tensors, blob) = tensors::join(&named);
        let head = Head { spec: self.spec.clone(), vocabulary: self.vocabulary.clone(), tensors };
        container::write(path, FORMAT, &head, &[&blob]).map_err(|error| error.to_string())
    }

    /// Reads the file. The error names it.
    pub fn load(path: &Path) -> Result<LanguageModel, String> {
        let bytes = layernorm_files::read(path).map_err(|error| error.to_string());
        bytes.and_then(|bytes| Self::read(&bytes)).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Decodes a file. Sizes are checked against the bytes before the network is created.
    fn read(bytes: &[u8]) -> Result<LanguageModel, String> {
        if container::format_of(bytes).is_some_and(|format| format == training::FORMAT) {
            return Err("expected a language model, found a network for images: use `layernorm predict`".to_owned());
        }
        let (head, blob) = container::parse_one(bytes, FORMAT)?;
        let Head { spec, vocabulary, tensors } =
            Head::deserialize(&head).map_err(|error| format!("header: {error}"))?;
        if !(2..=MOST_SYMBOLS).contains(&vocabulary.len()) || !vocabulary.is_sorted_by(|a, b| a < b) {
            let found = vocabulary.len();
            return Err(format!("vocabulary: expected 2 to {MOST_SYMBOLS} characters in order, found {found}"));
        }
        spec.check_network()?;
        memory::language_fits_file(&spec, vocabulary.len(), blob.len())?;
        let tensors = tensors::split(tensors, blob)?;
        let fresh = CharacterNet::new(spec.size(vocabulary.len()), spec.norm, &spec.start, &Device::flex())?;
        Ok(LanguageModel { net: with_numbers(fresh, tensors)?, spec, vocabulary })
    }

    /// The run's specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Generates text that continues the prompt.
    ///
    /// # Errors
    /// If the prompt has a character that is not in the vocabulary, or the temperature is negative or not finite.
    pub fn write(&self, prompt: &str, temperature: f64, seed: u64) -> Result<Writer<'_>, String> {
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(format!("temperature: expected a finite number, 0 or more, found {temperature}"));
        }
        let number = |c: char| match self.vocabulary.binary_search(&c) {
            Ok(place) => Ok(place as u16),
            Err(_) => Err(format!("prompt: expected only characters of the model's training text, found {c:?}")),
        };
        let prompt: Vec<u16> = prompt.chars().map(number).collect::<Result<_, _>>()?;
        Ok(Writer::new(&self.net, &self.vocabulary, &prompt, temperature, seed))
    }
}

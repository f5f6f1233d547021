//! Reads and writes weights as safetensors files, in this crate's own format and in those of other libraries.
//!
//! A [`Format`] is a table of names, gate orders and orientations (`formats/`); the same code runs it in both
//! directions (`mapping.rs`). Loading is strict: a tensor that is missing, unexpected, of the wrong shape or not of a
//! floating-point type is an error that names it, and so is a variant that does not compute what the format's library
//! does.
//!
//! ```
//! use layernorm_rnn::weights::{self, Dtype, Format};
//! use layernorm_rnn::{Config, Init, Kind, Network, Variant};
//! let variant = Variant::named(Kind::Lstm, "none")?;
//! let network = Network::<f32>::new(Config::new(variant, 3, 4), Init::torch(), 0)?;
//! // The names of torch.nn.LSTM: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0.
//! let bytes = weights::to_bytes(&network, Format::Torch, Dtype::F32)?;
//! assert_eq!(weights::detect(&bytes), Some(Format::Torch));
//! let config = weights::config_of(&bytes, Format::Torch, variant, "")?;
//! assert_eq!((config.input, config.hidden), (3, 4));
//! assert_eq!(weights::load::<f32>(&bytes, Format::Torch, &config, "")?, network);
//! # Ok::<(), layernorm_rnn::Error>(())
//! ```

mod builder;
mod file;
mod fits;
mod formats;
mod mapping;
mod native;
mod places;
mod rounding;
mod sizes;
mod table;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::error::Error;
use crate::network::Network;
use crate::params::Params;
use crate::variant::Variant;
use layernorm::Float;
use mapping::Mapping;
use places::Places;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use table::{Mark, Spec};

pub use rounding::Rounding;

fn fail<T>(what: String) -> Result<T, Error> {
    Err(Error::Weights { what })
}

/// Format of a file: the library whose tensors it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// This crate's own format. Such a file describes its network.
    Native,
    /// `torch.nn.LSTM`, `GRU`, `RNN` and their cells: `weight_ih_l0`.
    Torch,
    /// torchaudio's `_CustomLSTM`: `x2g.weight`, alone or as `….{k}.x2g.weight`.
    Torchaudio,
    /// PyTorch's `benchmarks/fastrnns`: `layers.0.cell.weight_ih`.
    Fastrnns,
    /// Keras's LSTM, GRU, SimpleRNN, and the cells of TensorFlow Addons: `…/kernel`, `…/recurrent_kernel`.
    Keras,
    /// haste's PyTorch modules: `kernel`, `recurrent_kernel`, `gamma`.
    Haste,
    /// DreamerV3 (JAX): `gru/kernel` on `[h, x]`.
    Dreamer,
    /// NM512's port of DreamerV3 (PyTorch): `_layer.weight` on `[x, h]`.
    DreamerTorch,
    /// The Theano code of the paper's authors: `lnlstm_W`, `lngru_U`.
    Theano,
    /// tf.contrib's LayerNormBasicLSTMCell: `…/kernel` on `[x, h]`, `…/input/gamma`.
    Contrib,
    /// TensorFlow Lite: `input_to_forget_weights`.
    Tflite,
    /// ONNX's LSTM, GRU and RNN: `W`, `R`, `B`, `P`.
    Onnx,
    /// The paper's equations: `W_h`, `W_x`, `alpha_1`.
    Paper,
    /// The Torch module of the paper's authors: `in_gate.i2h.weight`.
    Draw,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 14] = [
        Format::Native,
        Format::Torch,
        Format::Torchaudio,
        Format::Fastrnns,
        Format::Keras,
        Format::Haste,
        Format::Dreamer,
        Format::DreamerTorch,
        Format::Theano,
        Format::Contrib,
        Format::Tflite,
        Format::Onnx,
        Format::Paper,
        Format::Draw,
    ];

    fn spec(self) -> &'static Spec {
        match self {
            Format::Native => &formats::NATIVE,
            Format::Torch => &formats::TORCH,
            Format::Torchaudio => &formats::TORCHAUDIO,
            Format::Fastrnns => &formats::FASTRNNS,
            Format::Keras => &formats::KERAS,
            Format::Haste => &formats::HASTE,
            Format::Dreamer => &formats::DREAMER,
            Format::DreamerTorch => &formats::DREAMER_TORCH,
            Format::Theano => &formats::THEANO,
            Format::Contrib => &formats::CONTRIB,
            Format::Tflite => &formats::TFLITE,
            Format::Onnx => &formats::ONNX,
            Format::Paper => &formats::PAPER,
            Format::Draw => &formats::DRAW,
        }
    }

    /// Returns the name: `native`, `torch`, `dreamer-torch` and so on.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        match Format::ALL.into_iter().find(|format| format.name() == name) {
            Some(format) => Ok(format),
            None => fail(format!("format: expected {}, found {name:?}", Format::ALL.map(Format::name).join(", "))),
        }
    }
}

/// Element type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 64 bits.
    F64,
    /// 32 bits.
    F32,
    /// 16 bits, IEEE.
    F16,
    /// 16 bits, the upper half of an f32.
    BF16,
}

impl Dtype {
    /// All types.
    pub const ALL: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

    /// Returns `f64`, `f32`, `f16` or `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
        }
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(name: &str) -> Result<Dtype, Error> {
        match Dtype::ALL.into_iter().find(|dtype| dtype.name() == name) {
            Some(dtype) => Ok(dtype),
            None => fail(format!("dtype: expected {}, found {name:?}", Dtype::ALL.map(Dtype::name).join(", "))),
        }
    }
}

/// A tensor: its shape and its elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<A> {
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements, as many as the shape requires.
    pub values: Vec<A>,
}

/// Loads the network from a safetensors file. Only names that begin with `prefix` are considered, and all of them
/// must be used.
///
/// Numbers are rounded to `A` if it is narrower than the file's type. If the file has two biases whose sum is one
/// bias here, they are added; if it has one for two here, the second is 0. A constant that the library adds and the
/// variant does not (tf.contrib's `forget_bias` of 1) is added to a bias. [`load_rounding`] returns what all of this
/// rounds.
///
/// Shapes are compared before the network is allocated, so a small file cannot request much memory.
pub fn load<A: Float>(bytes: &[u8], format: Format, config: &Config, prefix: &str) -> Result<Network<A>, Error> {
    file::check_numbers(bytes, prefix)?;
    let mapping = found(&file::shapes(bytes)?, format, config, prefix)?;
    filled(&mapping, &file::tensors(bytes, prefix)?, config)
}

/// Returns what [`load`] rounded when it read this network from these bytes: nothing, unless `A` is narrower than the
/// file's numbers or sums of biases are inexact.
pub fn load_rounding<A: Float>(
    network: &Network<A>,
    bytes: &[u8],
    format: Format,
    prefix: &str,
) -> Result<Option<Rounding>, Error> {
    let mapping = found(&file::shapes(bytes)?, format, network.config(), prefix)?;
    Ok(mapping.rounding_of_read(&file::tensors(bytes, prefix)?, network.params()))
}

/// Loads the network from a file in this crate's own format, which describes its network.
pub fn load_native<A: Float>(bytes: &[u8]) -> Result<Network<A>, Error> {
    load(bytes, Format::Native, &native_config(bytes)?, "")
}

/// Loads the network from a set of tensors, as [`load`] does from a file.
pub fn from_tensors<A: Float>(
    tensors: &BTreeMap<String, Tensor<f64>>,
    format: Format,
    config: &Config,
    prefix: &str,
) -> Result<Network<A>, Error> {
    let shapes = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect();
    filled(&found(&shapes, format, config, prefix)?, tensors, config)
}

/// Checks that tensors of these shapes fit the network, as [`load`] would. The error says what does not fit. Allocates
/// no memory for tensors.
pub fn check_shapes(
    shapes: &BTreeMap<String, Vec<usize>>,
    format: Format,
    config: &Config,
    prefix: &str,
) -> Result<(), Error> {
    found(shapes, format, config, prefix).map(|_| ())
}

/// Returns which number is which parameter, if tensors of these shapes fit the network.
fn found(
    shapes: &BTreeMap<String, Vec<usize>>,
    format: Format,
    config: &Config,
    prefix: &str,
) -> Result<Mapping, Error> {
    let spec = format.spec();
    let cell = spec.cell(config.variant.kind)?;
    spec.check_offset(cell, &config.variant)?;
    let (entries, _) = Params::<f64>::form_of(config)?;
    let places = Places::found(spec, cell, prefix, shapes.keys().map(String::as_str))?;
    let mapping = Mapping::new(spec, config, &entries, &places)?;
    mapping.check_shapes(shapes, &places)?;
    mapping.check_extra(spec, &places)?;
    Ok(mapping)
}

fn filled<A: Float>(
    mapping: &Mapping,
    tensors: &BTreeMap<String, Tensor<f64>>,
    config: &Config,
) -> Result<Network<A>, Error> {
    let mut params = Params::zeros(config)?;
    mapping.read(tensors, &mut params)?;
    Network::from_params(*config, params)
}

/// Returns the configuration of the network in a file, for a cell of this variant: its sizes, layers and directions,
/// from the shapes of its tensors. Biases, peepholes and the like that the file lacks are turned off in the variant.
/// A constant that the library adds to a gate (tf.contrib's `forget_bias` of 1) becomes the variant's offset, if that
/// is 0. A file of one direction is assumed to run forward. For a file in this crate's own format, its description is
/// used, if it has one.
pub fn config_of(bytes: &[u8], format: Format, variant: Variant, prefix: &str) -> Result<Config, Error> {
    if format == Format::Native && file::metadata(bytes, native::KEY)?.is_some() {
        return native_config(bytes);
    }
    sizes::config_of(format.spec(), variant, prefix, &file::shapes(bytes)?)
}

/// Like [`config_of`], but takes the shapes of a set of tensors.
pub fn config_of_shapes(
    shapes: &BTreeMap<String, Vec<usize>>,
    format: Format,
    variant: Variant,
    prefix: &str,
) -> Result<Config, Error> {
    sizes::config_of(format.spec(), variant, prefix, shapes)
}

/// Returns the configuration that a file in this crate's own format describes. Fails if it has no description.
pub fn native_config(bytes: &[u8]) -> Result<Config, Error> {
    match file::metadata(bytes, native::KEY)? {
        Some(text) => native::config(&text),
        None => fail("expected a file with a description of its network, found one without".into()),
    }
}

/// Guesses the format of a file from the names of its tensors.
pub fn detect(bytes: &[u8]) -> Option<Format> {
    let shapes = file::shapes(bytes).ok()?;
    let has = |mark: &Mark| {
        let fits = |name: &str, rank| name.trim_end_matches(":0").ends_with(mark.0) && (mark.1 == 0 || mark.1 == rank);
        shapes.iter().any(|(name, shape)| fits(name, shape.len()))
    };
    // Keras's names are parts of other formats' names, so it comes last.
    let last = |format: &Format| *format == Format::Keras;
    let mut formats = Format::ALL;
    formats.sort_by_key(last);
    formats.into_iter().find(|format| format.spec().marks.iter().any(|marks| marks.iter().all(has)))
}

/// Returns the network as a safetensors file. If the format has two biases for one here, the first gets its value and
/// the second is 0; if it has one for two here, it is their sum. A constant that the variant adds to a gate and the
/// library does not (or vice versa) goes into a bias. [`rounding`] returns what sums and a narrower dtype round;
/// apart from that, [`load`] reads the same network from the file bit for bit, up to how biases are split.
pub fn to_bytes<A: Float>(network: &Network<A>, format: Format, dtype: Dtype) -> Result<Vec<u8>, Error> {
    let tensors = to_tensors(network.params(), format, network.config())?;
    let description = (format == Format::Native).then(|| (native::KEY, native::describe(network.config())));
    file::bytes(&tensors, dtype, description)
}

/// Returns what [`to_bytes`] rounds: nothing, unless the dtype is narrower than the numbers or sums of biases are
/// inexact.
pub fn rounding<A: Float>(network: &Network<A>, format: Format, dtype: Dtype) -> Result<Option<Rounding>, Error> {
    let (params, config) = (network.params(), network.config());
    let mapping = checked(params, format, config, &Places::written(format.spec(), config)?)?;
    Ok(mapping.rounding(params, &mapping.write(params)?, |value| file::rounded(value.to_f64(), dtype)))
}

/// Writes [`to_bytes`] to a file, via a temporary file next to it, so that the file is replaced atomically.
pub fn save<A: Float>(network: &Network<A>, format: Format, dtype: Dtype, path: impl AsRef<Path>) -> Result<(), Error> {
    file::replace(path.as_ref(), &to_bytes(network, format, dtype)?)
}

/// Returns the parameters with a format's names, order and orientation.
pub fn to_tensors<A: Float>(
    params: &Params<A>,
    format: Format,
    config: &Config,
) -> Result<BTreeMap<String, Tensor<A>>, Error> {
    let places = Places::written(format.spec(), config)?;
    checked(params, format, config, &places)?.write(params)
}

/// Returns the gradients with a format's names, order and orientation. If the format has two biases whose sum is one
/// here, both get its gradient; tensors that the variant requires to be 0 have a gradient of 0.
pub fn map_gradients<A: Float>(
    gradients: &Params<A>,
    format: Format,
    config: &Config,
) -> Result<BTreeMap<String, Tensor<A>>, Error> {
    let places = Places::written(format.spec(), config)?;
    checked(gradients, format, config, &places)?.gradients(gradients)
}

/// Like [`map_gradients`], but with the names that the parameters have in a file: those of `names` that begin with
/// `prefix`.
pub fn map_gradients_like<'a, A: Float>(
    gradients: &Params<A>,
    format: Format,
    config: &Config,
    prefix: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Tensor<A>>, Error> {
    let spec = format.spec();
    let places = Places::found(spec, spec.cell(config.variant.kind)?, prefix, names)?;
    checked(gradients, format, config, &places)?.gradients(gradients)
}

/// Returns the mapping for parameters. Fails if they are not those of the configuration.
fn checked<A: Float>(params: &Params<A>, format: Format, config: &Config, places: &Places) -> Result<Mapping, Error> {
    let (expected, _) = Params::<A>::form_of(config)?;
    if expected != params.entries() {
        return fail(format!(
            "expected the {} parameters of this config, found {} different ones",
            expected.len(),
            params.entries().len()
        ));
    }
    Mapping::new(format.spec(), config, params.entries(), places)
}

//! Recurrent networks: any variant of [`layernorm_rnn`], with its parameters as Burn parameters.

mod cell;
mod config;
mod gru;
mod lstm;
mod rnn;

pub use cell::Cell;
pub use gru::{Gru, GruConfig};
pub use lstm::{Lstm, LstmConfig};
pub use rnn::{Rnn, RnnConfig};

use crate::functional::{self, States};
use crate::ops::{Call, RunnerPool};
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::tensor::{DType, Device, Distribution, Tensor};
use layernorm::Float;
use layernorm_rnn::{Config, Direction, Error, Init, Layout, Network, Params, Slot};
use std::sync::Arc;

/// A recurrent network of any kind and variant, with any number of layers and directions. [`Lstm`], [`Gru`] and [`Rnn`]
/// wrap it with their own type of state.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Recurrent {
    /// The cells: layer by layer, and within a layer one per direction.
    pub cells: Vec<Cell>,
    #[module(skip)]
    plan: Plan,
}

/// The configuration, and the runners that run it.
#[derive(Clone, Debug)]
struct Plan {
    config: Config,
    batch_first: bool,
    pool: Arc<RunnerPool>,
}

impl Recurrent {
    /// Creates a network, initialized as in the variant's source ([`Init::for_variant`]). With the same seed it has the
    /// same numbers as [`Network::new`]; without one, the seed comes from the device's random numbers.
    pub fn try_new(config: Config, batch_first: bool, seed: Option<u64>, device: &Device) -> Result<Recurrent, Error> {
        config.check()?;
        let (init, seed) = (Init::for_variant(&config.variant), seed.unwrap_or_else(|| random_seed(device)));
        if Tensor::<1>::empty([1], device).dtype() == DType::F64 {
            Recurrent::from_network(&Network::<f64>::new(config, init, seed)?, batch_first, device)
        } else {
            Recurrent::from_network(&Network::<f32>::new(config, init, seed)?, batch_first, device)
        }
    }

    /// Creates a network with the parameters of a network of the core, in its type: f64, or f32, which also works with
    /// f16 or bf16 sequences. Use this to import weights of other libraries: [`layernorm_rnn::weights`].
    ///
    /// # Errors
    /// If the network has noise in training: use Burn's own dropout.
    pub fn from_network<A>(network: &Network<A>, batch_first: bool, device: &Device) -> Result<Recurrent, Error>
    where
        A: Float + burn::tensor::Element,
    {
        let config = *network.config();
        if config.noise != Default::default() {
            return Err(Error::Unsupported { what: format!("noise: expected none, found {:?}", config.noise) });
        }
        let cells =
            (0..config.layers).flat_map(|layer| (0..config.directions()).map(move |direction| (layer, direction)));
        let cells =
            cells.map(|(layer, direction)| Cell::new(network.params(), &config, layer, direction, device)).collect();
        Ok(Recurrent { cells, plan: Plan { config, batch_first, pool: Arc::default() } })
    }

    /// A network of the core with these parameters, in f32 or f64.
    pub fn to_network<A>(&self) -> Result<Network<A>, Error>
    where
        A: Float + burn::tensor::Element,
    {
        self.check()?;
        let config = &self.plan.config;
        let mut params = Params::<A>::zeros(config)?;
        for (number, cell) in self.cells.iter().enumerate() {
            let (layer, direction) = (number / config.directions(), number % config.directions());
            for slot in Slot::ALL {
                if let (Some(to), Some(values)) = (params.get_mut(layer, direction, slot), cell.values(slot)) {
                    let values =
                        values.try_into_vec_as::<A>().map_err(|e| Error::Weights { what: format!("{e:?}") })?;
                    to.copy_from_slice(&values);
                }
            }
        }
        Network::from_params(*config, params)
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.plan.config
    }

    /// Whether sequences are `[B, T, …]` instead of `[T, B, …]`.
    pub fn batch_first(&self) -> bool {
        self.plan.batch_first
    }

    /// Runs the network over sequences, from zeros or from a given state.
    ///
    /// # Shapes
    /// I is the input size, H the number of hidden units, P the size of h (H without a projection), L the number of
    /// layers, D that of directions.
    /// - x: `[B, T, I]` with `batch_first`, else `[T, B, I]`
    /// - y: `[B, T, D·P]` or `[T, B, D·P]`: h of the last layer at every step, 0 past the end of a sequence
    /// - states: h `[L·D, B, P]` and, for an LSTM, c `[L·D, B, H]`, in the arithmetic type: f64 for f64, else f32
    /// - lengths: the number of valid steps of each sequence, 1 to T. Later steps are not read.
    ///
    /// # Panics
    /// On a shape mismatch, with the message of [`layernorm_rnn::Error`].
    pub fn forward(&self, x: Tensor<3>, initial: States, lengths: Option<&[usize]>) -> (Tensor<3>, States) {
        functional::recurrent(self, x, initial, lengths)
    }

    /// Checks that all parameters of the network exist and have the right shapes. Users can change cells and records,
    /// and the right number of elements is not enough: a transposed weight would give different results.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let config = &self.plan.config;
        let (found, expected) = (self.cells.len(), config.layers * config.directions());
        if found != expected {
            return Err(Error::Weights { what: format!("expected {expected} cells, found {found}") });
        }
        for (number, cell) in self.cells.iter().enumerate() {
            let layer = number / config.directions();
            for slot in Slot::ALL {
                let (found, expected) = (cell.shape(slot), slot.shape(config, layer));
                if found != expected {
                    let words = |shape: Option<Vec<usize>>| {
                        shape.map_or("none".to_owned(), |shape| format!("one of shape {shape:?}"))
                    };
                    let (name, expected, found) = (slot.name(), words(expected), words(found));
                    return Err(Error::Weights {
                        what: format!("{name} of cell {number}: expected {expected}, found {found}"),
                    });
                }
            }
        }
        Ok(())
    }

    /// All parameters one after the other, as in [`Params`].
    pub(crate) fn parameters(&self) -> Tensor<1> {
        Tensor::cat(self.cells.iter().flat_map(Cell::flat).collect(), 0)
    }

    pub(crate) fn call(&self, lengths: Option<&[usize]>) -> Call {
        let Plan { config, batch_first, pool } = &self.plan;
        let layout = if *batch_first { Layout::BatchFirst } else { Layout::TimeFirst };
        Call { config: *config, layout, lengths: lengths.map(<[usize]>::to_vec), pool: Arc::clone(pool) }
    }
}

/// A seed from the device's random numbers, so that `device.seed` determines it.
fn random_seed(device: &Device) -> u64 {
    let draw = Tensor::<1>::random([4], Distribution::Uniform(0.0, 1.0), (device, DType::F32));
    draw.into_data().iter::<f32>().fold(0u64, |seed, x| seed << 16 ^ u64::from((x * 65536.0) as u32))
}

impl ModuleDisplay for Recurrent {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let config = &self.plan.config;
        content
            .add("kind", &config.variant.kind.name().to_owned())
            .add("variant", &config.variant.name.to_owned())
            .add("d_input", &config.input)
            .add("d_hidden", &config.hidden)
            .add("layers", &config.layers)
            .add("bidirectional", &(config.direction == Direction::Both))
            .optional()
    }
}

//! A network: its configuration and its parameters. A [`crate::Runner`] runs it.

use crate::config::Config;
use crate::error::Error;
use crate::init::Init;
use crate::params::{Entry, Params};
use layernorm::parts::memory;
use layernorm::{Element, Float};
use std::sync::Arc;

/// A recurrent network with its parameters, in the arithmetic type: f64, or f32 for f32, f16 and bf16.
#[derive(Clone, Debug, PartialEq)]
pub struct Network<A> {
    config: Config,
    params: Params<A>,
    /// Layout of the parameters for this configuration. `params` can be replaced as a whole, even with those of
    /// another network.
    form: Arc<Vec<Entry>>,
}

impl<A: Float> Network<A> {
    /// Creates a network. The same seed gives the same parameters.
    pub fn new(config: Config, init: Init, seed: u64) -> Result<Network<A>, Error> {
        let params = Params::zeros(&config)?;
        let mut network = Network { form: params.form(), params, config };
        init.fill(&network.config, &mut network.params, seed)?;
        Ok(network)
    }

    /// Creates a network with the given parameters. Fails if they do not fit the configuration.
    pub fn from_params(config: Config, params: Params<A>) -> Result<Network<A>, Error> {
        let (form, _) = Params::<A>::form_of(&config)?;
        let network = Network { config, params, form: Arc::new(form) };
        network.check()?;
        Ok(network)
    }

    /// Fails if the parameters no longer have this network's layout.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.params.has_form(&self.form) {
            return Ok(());
        }
        Err(Error::Weights {
            what: format!(
                "expected the {} parameters of this network, found different ones ({} numbers instead of {})",
                self.form.len(),
                self.params.values().len(),
                self.form.last().map_or(0, |last| last.range.end),
            ),
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the parameters.
    pub fn params(&self) -> &Params<A> {
        &self.params
    }

    /// Returns the parameters for writing. If you replace them, the new ones must have the same layout; otherwise the
    /// next call fails.
    pub fn params_mut(&mut self) -> &mut Params<A> {
        &mut self.params
    }

    /// Returns a state of zeros for this many sequences.
    pub fn zero_state(&self, batch: usize) -> Result<State<A>, Error> {
        let mut state = State { h: Vec::new(), c: Vec::new() };
        state.resize(&self.config, batch)?;
        Ok(state)
    }
}

/// Memory order of a tensor of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `[T, B, …]`.
    #[default]
    TimeFirst,
    /// `[B, T, …]`.
    BatchFirst,
}

/// A batch of sequences, `[T, B, I]` or `[B, T, I]`.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// T: steps.
    pub steps: usize,
    /// B: sequences.
    pub batch: usize,
    /// Which dimension comes first.
    pub layout: Layout,
    /// Number of valid steps of each sequence, 1 to T. Later steps are neither read nor written.
    pub lengths: Option<&'a [usize]>,
}

impl<'a, T> Sequences<'a, T> {
    /// Creates a time-first batch, with all sequences of full length.
    pub fn new(data: &'a [T], steps: usize, batch: usize) -> Sequences<'a, T> {
        Sequences { data, steps, batch, layout: Layout::TimeFirst, lengths: None }
    }

    /// Sets the batch-first order.
    pub fn batch_first(self) -> Sequences<'a, T> {
        Sequences { layout: Layout::BatchFirst, ..self }
    }

    /// Sets the lengths of the sequences.
    pub fn with_lengths(self, lengths: &'a [usize]) -> Sequences<'a, T> {
        Sequences { lengths: Some(lengths), ..self }
    }
}

/// State of a network between steps, or its gradient, for every layer, direction (L·D in total) and sequence. It is
/// kept in the arithmetic type, so that single steps give the same bits as the whole sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State<A> {
    /// h `[L·D, B, P]`.
    pub h: Vec<A>,
    /// c `[L·D, B, H]` of an LSTM, otherwise empty.
    pub c: Vec<A>,
}

impl<A: Float> State<A> {
    /// Resizes the state for this many sequences and sets it to zero. Fails if memory runs out.
    pub(crate) fn resize(&mut self, config: &Config, batch: usize) -> Result<(), Error> {
        let (h, c) = State::<A>::sizes(config, batch)?;
        for (numbers, count) in [(&mut self.h, h), (&mut self.c, c)] {
            let more = count.saturating_sub(numbers.len());
            numbers.try_reserve_exact(more).map_err(|_| memory::out_of_memory::<A>(count))?;
        }
        for (numbers, count) in [(&mut self.h, h), (&mut self.c, c)] {
            numbers.clear();
            numbers.resize(count, A::ZERO);
        }
        Ok(())
    }

    /// Returns the sizes of h and of c.
    fn sizes(config: &Config, batch: usize) -> Result<(usize, usize), Error> {
        let cells = (config.layers * config.directions()).checked_mul(batch);
        let too_many = || Error::OutOfMemory { bytes: usize::MAX };
        let size = |width| cells.and_then(|cells| cells.checked_mul(width)).ok_or_else(too_many);
        Ok((size(config.output())?, if config.has_cell() { size(config.hidden)? } else { 0 }))
    }

    pub(crate) fn check(&self, config: &Config, batch: usize, names: [&'static str; 2]) -> Result<(), Error> {
        let cells = config.layers * config.directions();
        let (h, c) = State::<A>::sizes(config, batch)?;
        let length = |what, expected: usize, found: usize, shape: &dyn Fn() -> String| {
            if expected == found { Ok(()) } else { Err(Error::Length { what, shape: shape(), expected, found }) }
        };
        let shape_h = || format!("[L·D, B, P] = [{cells}, {batch}, {}]", config.output());
        let shape_c = || match config.has_cell() {
            true => format!("[L·D, B, H] = [{cells}, {batch}, {}]", config.hidden),
            false => "a cell without c".to_owned(),
        };
        length(names[0], h, self.h.len(), &shape_h)?;
        length(names[1], c, self.c.len(), &shape_c)
    }
}

/// Result of a forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T: Element> {
    /// h of the last layer at every step, `[T, B, D·P]` or `[B, T, D·P]` like the input; 0 past the end of a
    /// sequence.
    pub y: Vec<T>,
    /// State after the last valid step of each sequence.
    pub state: State<T::Acc>,
}

/// Result of a backward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients<T: Element> {
    /// Gradient of the input, in the same order; 0 past the end of a sequence. If empty, it is not computed, which
    /// saves a matrix product.
    pub input: Vec<T>,
    /// Gradient of the parameters.
    pub params: Params<T::Acc>,
    /// Gradient of the initial state.
    pub state: State<T::Acc>,
}

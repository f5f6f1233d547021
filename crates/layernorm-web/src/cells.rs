//! Recurrent cells: from the options of a call to the crate `layernorm-rnn` and back.

use crate::error::Error;
use crate::message::Value;
use crate::norms::zeros;
use crate::options::Options;
use layernorm::Context;
use layernorm_rnn::{Config, Init, Kind, Network, Params, Runner, State, Variant};

pub(crate) const KINDS: [(&str, Kind); 3] = [("lstm", Kind::Lstm), ("gru", Kind::Gru), ("rnn", Kind::Rnn)];

/// Largest input and hidden size.
const MOST: u32 = 1 << 16;

/// One layer of cells over a batch of sequences.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) config: Config,
    pub(crate) steps: usize,
    pub(crate) batch: usize,
    /// `[T, B, I]`.
    pub(crate) x: Vec<f32>,
    pub(crate) parameters: Vec<f32>,
    /// `[B, H]`; zeros if absent.
    pub(crate) h0: Option<Vec<f32>>,
    /// `[B, H]`; zeros if absent.
    pub(crate) c0: Option<Vec<f32>>,
}

/// The states of every step.
#[derive(Debug)]
pub(crate) struct States {
    /// `[T, B, H]`.
    pub(crate) h: Vec<f32>,
    /// `[T, B, H]` of an LSTM, otherwise empty.
    pub(crate) c: Vec<f32>,
}

fn config(options: &mut Options) -> Result<Config, Error> {
    let kind = options.choice("kind", &KINDS)?;
    let variant = Variant::named(kind, &options.text("variant")?)?;
    let input = options.whole("input", 1, MOST, None)?;
    let hidden = options.whole("hidden", 1, MOST, None)?;
    Ok(Config::new(variant, input, hidden))
}

fn length(option: &'static str, shape: String, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Length { option, shape, expected, found }) }
}

impl Sequence {
    fn new(options: &mut Options) -> Result<Sequence, Error> {
        let config = config(options)?;
        Ok(Sequence {
            config,
            steps: options.whole("steps", 0, u32::MAX, None)?,
            batch: options.whole("batch", 1, u32::MAX, None)?,
            x: options.floats("x")?,
            parameters: options.floats("parameters")?,
            h0: options.floats_or_none("h0")?,
            c0: options.floats_or_none("c0")?,
        })
    }

    fn network(&self) -> Result<Network<f32>, Error> {
        let mut params = Params::zeros(&self.config)?;
        let Variant { kind, name, .. } = self.config.variant;
        let shape =
            format!("the {} {name} of {} inputs and {} units", kind.name(), self.config.input, self.config.hidden);
        length("parameters", shape, params.values().len(), self.parameters.len())?;
        params.values_mut().copy_from_slice(&self.parameters);
        Ok(Network::from_params(self.config, params)?)
    }

    fn state(&self, network: &Network<f32>) -> Result<State<f32>, Error> {
        let mut state = network.zero_state(self.batch)?;
        let Config { hidden, .. } = self.config;
        let places = [("h0", &self.h0, &mut state.h), ("c0", &self.c0, &mut state.c)];
        for (option, from, to) in places {
            if let Some(from) = from {
                let shape = if to.is_empty() {
                    "a cell without c".to_owned()
                } else {
                    format!("[batch, hidden] = [{}, {hidden}]", self.batch)
                };
                length(option, shape, to.len(), from.len())?;
                to.copy_from_slice(from);
            }
        }
        Ok(state)
    }

    /// Runs the cells step by step: the results have the bits of a whole sequence.
    pub(crate) fn run(&self, runner: &mut Runner<f32>) -> Result<States, Error> {
        let Config { input, hidden, .. } = self.config;
        let too_large = || Error::from(layernorm::Error::OutOfMemory { bytes: usize::MAX });
        let rows = self.steps.checked_mul(self.batch).ok_or_else(too_large)?;
        let shape = format!("[steps, batch, input] = [{}, {}, {input}]", self.steps, self.batch);
        length("x", shape, rows.checked_mul(input).ok_or_else(too_large)?, self.x.len())?;
        let network = self.network()?;
        let mut state = self.state(&network)?;
        let mut h = zeros(rows.checked_mul(hidden).ok_or_else(too_large)?)?;
        let mut c = zeros(if self.config.has_cell() { h.len() } else { 0 })?;
        let (step_x, step_h) = (self.batch * input, self.batch * hidden);
        for (step, (x, y)) in self.x.chunks(step_x).zip(h.chunks_mut(step_h)).enumerate() {
            runner.step(&network, x, &mut state, y)?;
            if let Some(c) = c.get_mut(step * step_h..(step + 1) * step_h) {
                c.copy_from_slice(&state.c);
            }
        }
        Ok(States { h, c })
    }
}

/// Returns a runner with one thread, all that a page's worker has.
pub(crate) fn runner() -> Result<Runner<f32>, Error> {
    Ok(Runner::new(Context::new().with_threads(1)?))
}

/// The command `cell`.
pub(crate) fn run(options: &mut Options) -> Result<Value, Error> {
    let sequence = Sequence::new(options)?;
    let States { h, c } = sequence.run(&mut runner()?)?;
    let c = if sequence.config.has_cell() { Value::Floats(c) } else { Value::Absent };
    Ok(Value::object([("h", Value::Floats(h)), ("c", c)]))
}

/// The command `cellParameters`.
pub(crate) fn parameters(options: &mut Options) -> Result<Value, Error> {
    let config = config(options)?;
    let network = Network::<f32>::new(config, Init::for_variant(&config.variant), options.seed("seed")?)?;
    let number = |number: usize| Value::Number(number as f64);
    let entry = |entry: &layernorm_rnn::Entry| {
        Value::object([
            ("name", Value::Text(entry.slot.name().to_owned())),
            ("offset", number(entry.range.start)),
            ("shape", Value::List(entry.shape.iter().map(|&size| number(size)).collect())),
        ])
    };
    Ok(Value::object([
        ("parameters", Value::Floats(network.params().values().to_vec())),
        ("layout", Value::List(network.params().entries().iter().map(entry).collect())),
    ]))
}

/// The command `variants`: the names of a kind's variants.
pub(crate) fn variants(options: &mut Options) -> Result<Value, Error> {
    let kind = options.choice("kind", &KINDS)?;
    Ok(Value::List(Variant::all(kind).map(|variant| Value::Text(variant.name.to_owned())).collect()))
}

//! A recurrent cell as data: where its norms are and what they cover, which biases it has, and what its gates do.
//!
//! With H hidden units, G gates, LN a layer norm and σ the sigmoid, every cell of this crate is an instance of
//!
//! ```text
//! zx = W x + bx                     zh = U h + bh                   each [G·H]; biases are optional
//! s  = LNx(zx) + LNh(zh) + p∘c      a = LNs(s) + b + offset         an absent norm is the identity
//!
//! LSTM  i = σ(aᵢ)  f = σ(a_f)  g = tanh(a_g)  o = σ(a_o)            coupled: i = 1 − f
//!       c = f∘c + i∘g               clipped to ±cell_clip
//!       h = o∘tanh(LNc(c))          carried: LNc(c) takes the place of c
//!       h = P h + bp                with a projection; clipped to ±projection_clip
//! GRU   r = σ(a_r)  z = σ(a_z)      n = tanh(…), see Reset
//!       h = z∘h + (1 − z)∘n         or the reverse, see Update
//! RNN   h = tanh(a) or relu(a)
//! ```
//!
//! The peephole p∘c uses the old c for i and f, and the new c for o.

use crate::error::Error;

/// Kind of recurrent network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Long short-term memory.
    Lstm,
    /// Gated recurrent unit.
    Gru,
    /// Simple RNN: a single tanh or relu layer.
    Rnn,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Lstm, Kind::Gru, Kind::Rnn];

    /// Returns `lstm`, `gru` or `rnn`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lstm => "lstm",
            Kind::Gru => "gru",
            Kind::Rnn => "rnn",
        }
    }
}

/// A gate. Vectors of G·H elements have one gate after the other, in the order of [`Variant::gates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// LSTM: how much of the candidate is added.
    Input,
    /// LSTM: how much of the cell is kept.
    Forget,
    /// The candidate: LSTM's g, GRU's n, all of a simple RNN.
    Candidate,
    /// LSTM: how much of the cell is output.
    Output,
    /// GRU: how much of the state enters the candidate.
    Reset,
    /// GRU: the mixture of old and new.
    Update,
}

/// What a norm of the gates covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// All gates together: one row of G·H.
    AllGates,
    /// Each gate separately: G rows of H.
    EachGate,
    /// The gates together and the candidate separately: a row of 2H and a row of H, for GRUs.
    GatesAndCandidate,
}

impl Over {
    /// Returns the number of rows of a norm over this many gates.
    pub(crate) fn groups(self, gates: usize) -> usize {
        match self {
            Over::AllGates => 1,
            Over::EachGate => gates,
            Over::GatesAndCandidate => 2,
        }
    }
}

/// Where ε is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpsPlace {
    /// Under the root, to the variance: r = 1/sqrt(v + ε).
    Variance,
    /// To the standard deviation: r = 1/(sqrt(v) + ε).
    Deviation,
}

/// A layer norm inside a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSpec {
    /// What it covers. The cell norm always covers the cell's H units and ignores this field.
    pub over: Over,
    /// Whether it has a gain γ.
    pub gain: bool,
    /// Whether it has a bias β.
    pub bias: bool,
    /// ε.
    pub eps: f64,
    /// Where ε is added.
    pub eps_place: EpsPlace,
}

impl NormSpec {
    /// Creates a norm over all gates together, with gain and bias, and ε added to the variance.
    pub const fn new(eps: f64) -> NormSpec {
        NormSpec { over: Over::AllGates, gain: true, bias: true, eps, eps_place: EpsPlace::Variance }
    }

    /// Sets what the norm covers.
    pub const fn over(self, over: Over) -> NormSpec {
        NormSpec { over, ..self }
    }

    /// Removes β.
    pub const fn without_bias(self) -> NormSpec {
        NormSpec { bias: false, ..self }
    }
}

/// The norm of an LSTM's cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellNorm {
    /// The norm.
    pub norm: NormSpec,
    /// Whether the normalized cell is carried to the next step; otherwise only the output uses it.
    pub carried: bool,
}

/// What the reset gate of a GRU multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reset {
    /// The state before the product: n = tanh(LNx(zx) + LNh(U (r∘h) + bh) + b).
    State,
    /// The recurrent product: n = tanh(LNx(zx) + r∘LNh(zh) + b).
    Product,
    /// The whole sum: n = tanh(r∘LNs(s) + b).
    Sum,
}

/// Role of a GRU's update gate z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// z weights the old state: h = z∘h + (1 − z)∘n.
    KeepsOld,
    /// z weights the new state: h = (1 − z)∘h + z∘n.
    TakesNew,
}

/// The nonlinearity of a simple RNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// tanh.
    Tanh,
    /// max(0, x).
    Relu,
}

/// A recurrent cell. Select one by name ([`Variant::named`]) or define your own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Name.
    pub name: &'static str,
    /// Kind of recurrent network.
    pub kind: Kind,
    /// LNx, the norm of the input's product.
    pub input_norm: Option<NormSpec>,
    /// LNh, the norm of the recurrent product.
    pub recurrent_norm: Option<NormSpec>,
    /// LNs, the norm of their sum.
    pub sum_norm: Option<NormSpec>,
    /// LNc, the norm of the cell (LSTM).
    pub cell_norm: Option<CellNorm>,
    /// Whether there is a bias bx, inside LNx.
    pub input_bias: bool,
    /// Whether there is a bias bh, inside LNh.
    pub recurrent_bias: bool,
    /// Whether there is a bias b, after the norms.
    pub bias: bool,
    /// Whether b is also used as bx: one parameter in two places.
    pub tied_bias: bool,
    /// Constant added to the forget gate (LSTM) or to the update gate (GRU).
    pub offset: f64,
    /// Whether i, f and o have peepholes to the cell (LSTM).
    pub peephole: bool,
    /// Whether i = 1 − f, so that there is no input gate (LSTM).
    pub coupled: bool,
    /// The cell is clipped to ± this (LSTM).
    pub cell_clip: Option<f64>,
    /// Whether a projection has a bias, if there is a projection (LSTM).
    pub projection_bias: bool,
    /// The projection, if any, is clipped to ± this (LSTM).
    pub projection_clip: Option<f64>,
    /// What the reset gate multiplies (GRU).
    pub reset: Reset,
    /// Role of the update gate (GRU).
    pub update: Update,
    /// The nonlinearity (RNN).
    pub activation: Activation,
}

impl Variant {
    /// Returns a cell without norms and with one bias: a starting point for your own.
    pub const fn plain(kind: Kind) -> Variant {
        Variant {
            name: "plain",
            kind,
            input_norm: None,
            recurrent_norm: None,
            sum_norm: None,
            cell_norm: None,
            input_bias: false,
            recurrent_bias: false,
            bias: true,
            tied_bias: false,
            offset: 0.0,
            peephole: false,
            coupled: false,
            cell_clip: None,
            projection_bias: false,
            projection_clip: None,
            reset: Reset::Product,
            update: Update::KeepsOld,
            activation: Activation::Tanh,
        }
    }

    /// Uses one shared bias: removes β of the gates' norms, which b makes redundant.
    ///
    /// LNx(zx) + LNh(zh) + b has three biases that only matter as their sum.
    pub fn with_shared_bias(mut self) -> Variant {
        for norm in [&mut self.input_norm, &mut self.recurrent_norm, &mut self.sum_norm].into_iter().flatten() {
            norm.bias = false;
        }
        (self.input_bias, self.recurrent_bias, self.tied_bias, self.bias) = (false, false, false, true);
        self
    }

    /// Sets ε of all norms.
    pub fn with_eps(mut self, eps: f64) -> Variant {
        self.norms_mut().for_each(|norm| norm.eps = eps);
        self
    }

    fn norms_mut(&mut self) -> impl Iterator<Item = &mut NormSpec> {
        let cell = self.cell_norm.as_mut().map(|cell| &mut cell.norm);
        [self.input_norm.as_mut(), self.recurrent_norm.as_mut(), self.sum_norm.as_mut(), cell].into_iter().flatten()
    }

    /// Returns the norms of the variant with their names.
    pub fn norms(&self) -> impl Iterator<Item = (&'static str, NormSpec)> {
        let cell = self.cell_norm.map(|cell| cell.norm);
        [
            ("input_norm", self.input_norm),
            ("recurrent_norm", self.recurrent_norm),
            ("sum_norm", self.sum_norm),
            ("cell_norm", cell),
        ]
        .into_iter()
        .filter_map(|(name, norm)| Some((name, norm?)))
    }

    /// Returns the gates, in the order of their rows in every parameter.
    pub fn gates(&self) -> &'static [Gate] {
        match (self.kind, self.coupled) {
            (Kind::Lstm, false) => &[Gate::Input, Gate::Forget, Gate::Candidate, Gate::Output],
            (Kind::Lstm, true) => &[Gate::Forget, Gate::Candidate, Gate::Output],
            (Kind::Gru, _) => &[Gate::Reset, Gate::Update, Gate::Candidate],
            (Kind::Rnn, _) => &[Gate::Candidate],
        }
    }

    /// Returns the index of the gate that [`Variant::offset`] is added to.
    pub(crate) fn offset_gate(&self) -> usize {
        let gate = if self.kind == Kind::Lstm { Gate::Forget } else { Gate::Update };
        self.gates().iter().position(|&g| g == gate).unwrap_or(0)
    }

    /// Checks the settings. Fails if they contradict each other, and says which.
    pub fn check(&self) -> Result<(), Error> {
        let conflict = |what: &'static str| Err(Error::Variant { name: self.name.to_string(), what });
        for (_, norm) in self.norms() {
            if !(norm.eps >= 0.0 && norm.eps.is_finite()) {
                return Err(Error::Norm(layernorm::Error::Epsilon { found: norm.eps }));
            }
            if norm.over == Over::GatesAndCandidate && self.kind != Kind::Gru {
                return conflict("only a GRU can have a norm over the gates and one over the candidate");
            }
        }
        if self.kind != Kind::Lstm {
            if self.cell_norm.is_some() || self.peephole || self.coupled || self.cell_clip.is_some() {
                return conflict("a cell norm, peepholes, coupled gates and a cell clip belong to LSTMs");
            }
            if self.projection_bias || self.projection_clip.is_some() {
                return conflict("a projection belongs to LSTMs");
            }
        }
        if self.kind == Kind::Rnn && self.offset != 0.0 {
            return conflict("an offset needs the forget gate of an LSTM or the update gate of a GRU");
        }
        if self.peephole && self.sum_norm.is_some_and(|norm| norm.over != Over::EachGate) {
            return conflict(
                "with peepholes, the norm of the sum must cover each gate separately: the output gate uses the new cell",
            );
        }
        if self.kind == Kind::Gru && self.sum_norm.is_some() && self.reset != Reset::Sum {
            return conflict("a GRU with a norm of the sum must apply its reset gate to that sum");
        }
        if self.kind == Kind::Gru
            && self.reset == Reset::State
            && self.recurrent_norm.is_some_and(|norm| norm.over == Over::AllGates)
        {
            return conflict("if the reset gate multiplies the state, the candidate must have its own recurrent norm");
        }
        if self.tied_bias && (!self.bias || self.input_bias) {
            return conflict("a tied bias uses b in both places: it needs b and excludes an input bias");
        }
        if !self.offset.is_finite() {
            return Err(Error::Number { what: "offset", expected: "a finite number", found: self.offset });
        }
        for (what, clip) in [("cell clip", self.cell_clip), ("projection clip", self.projection_clip)] {
            if let Some(found) = clip.filter(|clip| !(*clip > 0.0 && clip.is_finite())) {
                return Err(Error::Number { what, expected: "a positive number", found });
            }
        }
        Ok(())
    }
}

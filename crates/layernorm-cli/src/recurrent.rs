//! What the commands on recurrent networks share: cells, variants, formats and types by name.

use crate::failure::Failure;
use crate::show::Table;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use layernorm_rnn::weights::{Dtype, Format, to_tensors};
use layernorm_rnn::{Config, Direction, EpsPlace, Kind, Norm, Over, Params, Variant};
use serde::Serialize;
use std::fmt;

/// A kind of cell, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// Long short-term memory
    Lstm,
    /// Gated recurrent unit
    Gru,
    /// A single layer of tanh or relu
    Rnn,
}

impl Cell {
    /// All of them.
    pub const ALL: [Cell; 3] = [Cell::Lstm, Cell::Gru, Cell::Rnn];

    /// As the library has it.
    pub fn kind(self) -> Kind {
        match self {
            Cell::Lstm => Kind::Lstm,
            Cell::Gru => Kind::Gru,
            Cell::Rnn => Kind::Rnn,
        }
    }

    /// The other way round.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Lstm => Cell::Lstm,
            Kind::Gru => Cell::Gru,
            Kind::Rnn => Cell::Rnn,
        }
    }

    /// A variant by its name; the failure lists the names there are.
    pub fn variant(self, name: &str) -> Result<Variant, Failure> {
        Variant::named(self.kind(), name).map_err(|error| Failure::bad_input(format!("--variant: {error}")))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// The names of all formats of weights, for the command line.
pub fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

/// The types that weights can be written in, for the command line.
pub fn dtypes() -> impl TypedValueParser<Value = Dtype> {
    PossibleValuesParser::new(Dtype::ALL.map(Dtype::name)).try_map(|name| name.parse::<Dtype>())
}

/// A network in words.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// Its kind of cell.
    pub cell: Cell,
    /// The variant's name.
    pub variant: &'static str,
    /// I.
    pub input: usize,
    /// H.
    pub hidden: usize,
    /// How many layers.
    pub layers: usize,
    /// `forward`, `reverse` or `both`.
    pub direction: &'static str,
    /// P, where h is projected.
    pub projection: Option<usize>,
}

impl Described {
    /// This network.
    pub fn new(config: &Config) -> Self {
        Described {
            cell: Cell::of(config.variant.kind),
            variant: config.variant.name,
            input: config.input,
            hidden: config.hidden,
            layers: config.layers,
            direction: match config.direction {
                Direction::Forward => "forward",
                Direction::Reverse => "reverse",
                Direction::Both => "both",
            },
            projection: config.projection,
        }
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described { cell, variant, input, hidden, layers, direction, projection } = self;
        write!(f, "{cell}, variant {variant}: input {input}, hidden {hidden}")?;
        if let Some(projection) = projection {
            write!(f, ", projection {projection}")?;
        }
        let direction = if *direction == "both" { "both directions" } else { direction };
        write!(f, ", {layers} layer{}, {direction}", if *layers == 1 { "" } else { "s" })
    }
}

/// A table of the variants of a cell: what each normalizes, its ε, and the formats that hold its weights.
pub fn list(cell: Cell) -> String {
    let mut table = Table::new(4, ["variant", "norms", "ε", "formats"]);
    for variant in Variant::all(cell.kind()) {
        let norms: Vec<_> = variant.norms().map(|(name, norm)| norm_in_words(variant, name, norm)).collect();
        let eps = variant.norms().next().map_or("–".to_owned(), |(_, norm)| eps_in_words(norm));
        let norms = if norms.is_empty() { "none".to_owned() } else { norms.join(", ") };
        table.row([variant.name.to_owned(), norms, eps, formats_of(variant).join(", ")]);
    }
    format!("Variants of {cell}; docs/RECURRENT.md has their equations and where they come from.\n\n{}", table.render())
}

fn norm_in_words(variant: &Variant, name: &str, norm: Norm) -> String {
    let over = match norm.over {
        _ if name == "cell_norm" => "",
        Over::AllGates => "",
        Over::EachGate => ", each gate",
        Over::GatesAndCandidate => ", candidate apart",
    };
    match name {
        "input_norm" => format!("W x{over}"),
        "recurrent_norm" => format!("U h{over}"),
        "sum_norm" => format!("W x + U h{over}"),
        _ if variant.cell_norm.is_some_and(|norm| norm.carried) => "c (carried)".to_owned(),
        _ => "c (shown)".to_owned(),
    }
}

fn eps_in_words(norm: Norm) -> String {
    let place = if norm.eps_place == EpsPlace::Deviation { " on the deviation" } else { "" };
    format!("{:e}{place}", norm.eps)
}

/// The formats that a variant can be written in: those that do not refuse it.
fn formats_of(variant: &Variant) -> Vec<&'static str> {
    let config = Config::new(*variant, 2, 3);
    let Ok(params) = Params::<f32>::zeros(&config) else { return Vec::new() };
    let writes = |format: &Format| to_tensors(&params, *format, &config).is_ok();
    Format::ALL.into_iter().filter(writes).map(Format::name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_listed_with_a_format() {
        for cell in Cell::ALL {
            let text = list(cell);
            for variant in Variant::all(cell.kind()) {
                let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{} ", variant.name)));
                assert!(line.is_some_and(|line| line.contains("native")), "{cell} {}", variant.name);
            }
        }
        assert!(Cell::Gru.variant("papier").unwrap_err().message.contains("dreamer"));
    }

    #[test]
    fn networks_are_described() {
        let variant = Variant::named(Kind::Lstm, "paper").unwrap();
        let config = Config::new(variant, 3, 4).with_layers(2).with_direction(Direction::Both).with_projection(2);
        let text = "lstm, variant paper: input 3, hidden 4, projection 2, 2 layers, both directions";
        assert_eq!(Described::new(&config).to_string(), text);
    }
}

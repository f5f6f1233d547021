//! Shared by the commands for recurrent networks: cells, variants, formats and types by name.

use crate::failure::Failure;
use crate::show::Table;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use layernorm_rnn::weights::{Dtype, Format, to_tensors};
use layernorm_rnn::{Config, Direction, EpsPlace, Kind, NormSpec, Over, Params, Variant};
use serde::Serialize;
use std::fmt;

/// A kind of cell by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// Long short-term memory
    Lstm,
    /// Gated recurrent unit
    Gru,
    /// Simple recurrent network with tanh or relu
    Rnn,
}

impl Cell {
    /// All of them.
    pub const ALL: [Cell; 3] = [Cell::Lstm, Cell::Gru, Cell::Rnn];

    /// The library's value for this cell.
    pub fn kind(self) -> Kind {
        match self {
            Cell::Lstm => Kind::Lstm,
            Cell::Gru => Kind::Gru,
            Cell::Rnn => Kind::Rnn,
        }
    }

    /// The cell for a value of the library.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Lstm => Cell::Lstm,
            Kind::Gru => Cell::Gru,
            Kind::Rnn => Cell::Rnn,
        }
    }

    /// Finds a variant by name; the error lists the valid names.
    pub fn variant(self, name: &str) -> Result<Variant, Failure> {
        Variant::named(self.kind(), name).map_err(|error| Failure::bad_input(format!("--variant: {error}")))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// Parses the name of a weight format on the command line.
pub fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

/// Parses the name of a type of weights on the command line.
pub fn dtypes() -> impl TypedValueParser<Value = Dtype> {
    PossibleValuesParser::new(Dtype::ALL.map(Dtype::name)).try_map(|name| name.parse::<Dtype>())
}

/// The description of a network.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// Kind of cell.
    pub cell: Cell,
    /// Name of the variant.
    pub variant: &'static str,
    /// Input size.
    pub input: usize,
    /// Hidden size.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// `forward`, `reverse` or `both`.
    pub direction: &'static str,
    /// Projection size, if h is projected.
    pub projection: Option<usize>,
}

impl Described {
    /// Describes a network.
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

/// A table of a cell's variants: what each normalizes, its ε, and the formats that can store its weights.
pub fn list(cell: Cell) -> String {
    let mut table = Table::new(4, ["variant", "norms", "ε", "formats"]);
    for variant in Variant::all(cell.kind()) {
        let norms: Vec<_> = variant.norms().map(|(name, norm)| norm_in_words(variant, name, norm)).collect();
        let eps = variant.norms().next().map_or("–".to_owned(), |(_, norm)| eps_in_words(norm));
        let norms = if norms.is_empty() { "none".to_owned() } else { norms.join(", ") };
        table.row([variant.name.to_owned(), norms, eps, formats_of(variant).join(", ")]);
    }
    format!("Variants of {cell}; docs/RECURRENT.md has their equations and sources.\n\n{}", table.render())
}

fn norm_in_words(variant: &Variant, name: &str, norm: NormSpec) -> String {
    let over = match norm.over {
        _ if name == "cell_norm" => "",
        Over::AllGates => "",
        Over::EachGate => ", each gate",
        Over::GatesAndCandidate => ", candidate separately",
    };
    match name {
        "input_norm" => format!("W x{over}"),
        "recurrent_norm" => format!("U h{over}"),
        "sum_norm" => format!("W x + U h{over}"),
        _ if variant.cell_norm.is_some_and(|norm| norm.carried) => "c (carried)".to_owned(),
        _ => "c (output only)".to_owned(),
    }
}

fn eps_in_words(norm: NormSpec) -> String {
    let place = if norm.eps_place == EpsPlace::Deviation { " added to σ" } else { "" };
    format!("{:e}{place}", norm.eps)
}

/// The formats that can store a variant: those that do not reject it.
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

//! The description in a file of this crate's own format: the whole configuration, as lines of `key = value`.

use super::fail;
use crate::config::{Config, Direction, Noise};
use crate::error::Error;
use crate::variant::{Activation, CellNorm, EpsPlace, Kind, NormSpec, Over, Reset, Update, Variant};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Key of the file's metadata.
pub(super) const KEY: &str = "layernorm-rnn";
const VERSION: &str = "1";

/// Names of values, used for both writing and reading.
type Words<T, const N: usize> = [(T, &'static str); N];
const KINDS: Words<Kind, 3> = [(Kind::Lstm, "lstm"), (Kind::Gru, "gru"), (Kind::Rnn, "rnn")];
const DIRECTIONS: Words<Direction, 3> =
    [(Direction::Forward, "forward"), (Direction::Reverse, "reverse"), (Direction::Both, "both")];
const OVERS: Words<Over, 3> =
    [(Over::AllGates, "all-gates"), (Over::EachGate, "each-gate"), (Over::GatesAndCandidate, "gates-and-candidate")];
const PLACES: Words<EpsPlace, 2> = [(EpsPlace::Variance, "variance"), (EpsPlace::Deviation, "deviation")];
const RESETS: Words<Reset, 3> = [(Reset::State, "state"), (Reset::Product, "product"), (Reset::Sum, "sum")];
const UPDATES: Words<Update, 2> = [(Update::KeepsOld, "keeps-old"), (Update::TakesNew, "takes-new")];
const ACTIVATIONS: Words<Activation, 2> = [(Activation::Tanh, "tanh"), (Activation::Relu, "relu")];
const CARRIED: Words<bool, 2> = [(true, "carried"), (false, "shown")];
const GAIN: Words<bool, 2> = [(true, "gain"), (false, "no-gain")];
const BIAS: Words<bool, 2> = [(true, "bias"), (false, "no-bias")];
const NONE: &str = "none";
/// Name of a variant whose name is not in the catalog.
const OWN: &str = "custom";

fn word<T: PartialEq, const N: usize>(words: &Words<T, N>, value: T) -> &'static str {
    words.iter().find(|(other, _)| *other == value).map_or(NONE, |(_, word)| word)
}

fn norm(norm: &NormSpec) -> String {
    let (over, place) = (word(&OVERS, norm.over), word(&PLACES, norm.eps_place));
    format!("{over} {} {} {:?} {place}", word(&GAIN, norm.gain), word(&BIAS, norm.bias), norm.eps)
}

fn optional<T>(value: &Option<T>, text: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or(NONE.to_owned(), text)
}

/// Returns the lines. Numbers are written so that they are read back bit for bit; the name comes last, because it can
/// be any text.
pub(super) fn describe(config: &Config) -> String {
    let (v, noise) = (&config.variant, &config.noise);
    let cell = |cell: &CellNorm| format!("{} {}", norm(&cell.norm), word(&CARRIED, cell.carried));
    let number = |value: &f64| format!("{value:?}");
    let lines = [
        ("version", VERSION.to_owned()),
        ("kind", word(&KINDS, v.kind).to_owned()),
        ("input", config.input.to_string()),
        ("hidden", config.hidden.to_string()),
        ("layers", config.layers.to_string()),
        ("direction", word(&DIRECTIONS, config.direction).to_owned()),
        ("projection", optional(&config.projection, usize::to_string)),
        ("dropout", number(&noise.dropout)),
        ("recurrent_dropout", number(&noise.recurrent_dropout)),
        ("drop_connect", number(&noise.drop_connect)),
        ("zoneout_hidden", number(&noise.zoneout_hidden)),
        ("zoneout_cell", number(&noise.zoneout_cell)),
        ("input_norm", optional(&v.input_norm, norm)),
        ("recurrent_norm", optional(&v.recurrent_norm, norm)),
        ("sum_norm", optional(&v.sum_norm, norm)),
        ("cell_norm", optional(&v.cell_norm, cell)),
        ("input_bias", v.input_bias.to_string()),
        ("recurrent_bias", v.recurrent_bias.to_string()),
        ("bias", v.bias.to_string()),
        ("tied_bias", v.tied_bias.to_string()),
        ("offset", number(&v.offset)),
        ("peephole", v.peephole.to_string()),
        ("coupled", v.coupled.to_string()),
        ("cell_clip", optional(&v.cell_clip, number)),
        ("projection_bias", v.projection_bias.to_string()),
        ("projection_clip", optional(&v.projection_clip, number)),
        ("reset", word(&RESETS, v.reset).to_owned()),
        ("update", word(&UPDATES, v.update).to_owned()),
        ("activation", word(&ACTIVATIONS, v.activation).to_owned()),
        ("name", v.name.to_string()),
    ];
    lines.map(|(key, value)| format!("{key} = {value}")).join("\n")
}

/// The lines of a description, by key.
struct Lines<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        let (lines, name) = text.split_once("\nname = ").unwrap_or((text, ""));
        let mut map: BTreeMap<_, _> = lines.lines().filter_map(|line| line.split_once(" = ")).collect();
        map.insert("name", name);
        Lines(map)
    }

    fn get(&self, key: &str) -> Result<&'a str, Error> {
        match self.0.get(key) {
            Some(value) => Ok(value),
            None => fail(format!("description of the network: expected a line {key:?}, found none")),
        }
    }

    fn value<T: FromStr>(&self, key: &str) -> Result<T, Error> {
        parse(key, self.get(key)?)
    }

    fn optional<T>(&self, key: &str, read: impl Fn(&str, &str) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let text = self.get(key)?;
        if text == NONE { Ok(None) } else { read(key, text).map(Some) }
    }

    fn word<T: Copy, const N: usize>(&self, key: &str, words: &Words<T, N>) -> Result<T, Error> {
        meaning(key, self.get(key)?, words)
    }
}

fn meaning<T: Copy, const N: usize>(key: &str, text: &str, words: &Words<T, N>) -> Result<T, Error> {
    match words.iter().find(|(_, word)| *word == text) {
        Some((value, _)) => Ok(*value),
        None => {
            let known = words.each_ref().map(|(_, word)| *word).join(" or ");
            fail(format!("description of the network: {key}: expected {known}, found {text:?}"))
        }
    }
}

fn parse<T: FromStr>(key: &str, text: &str) -> Result<T, Error> {
    match text.parse() {
        Ok(value) => Ok(value),
        Err(_) => fail(format!("description of the network: {key}: expected a value, found {text:?}")),
    }
}

fn parse_norm(key: &str, text: &str) -> Result<NormSpec, Error> {
    let [over, gain, bias, eps, place] = text.split(' ').collect::<Vec<_>>()[..] else {
        return fail(format!("description of the network: {key}: expected five words, found {text:?}"));
    };
    Ok(NormSpec {
        over: meaning(key, over, &OVERS)?,
        gain: meaning(key, gain, &GAIN)?,
        bias: meaning(key, bias, &BIAS)?,
        eps: parse(key, eps)?,
        eps_place: meaning(key, place, &PLACES)?,
    })
}

fn parse_cell_norm(key: &str, text: &str) -> Result<CellNorm, Error> {
    let (norm, carried) = text.rsplit_once(' ').unwrap_or((text, ""));
    Ok(CellNorm { norm: parse_norm(key, norm)?, carried: meaning(key, carried, &CARRIED)? })
}

/// Returns the configuration that the lines describe.
pub(super) fn config(text: &str) -> Result<Config, Error> {
    let lines = Lines::new(text);
    let version = lines.get("version")?;
    if version != VERSION {
        return fail(format!("description of the network: version: expected {VERSION}, found {version:?}"));
    }
    let config = Config {
        variant: variant(&lines)?,
        input: lines.value("input")?,
        hidden: lines.value("hidden")?,
        layers: lines.value("layers")?,
        direction: lines.word("direction", &DIRECTIONS)?,
        projection: lines.optional("projection", parse)?,
        noise: Noise {
            dropout: lines.value("dropout")?,
            recurrent_dropout: lines.value("recurrent_dropout")?,
            drop_connect: lines.value("drop_connect")?,
            zoneout_hidden: lines.value("zoneout_hidden")?,
            zoneout_cell: lines.value("zoneout_cell")?,
        },
    };
    config.check()?;
    Ok(config)
}

fn variant(lines: &Lines<'_>) -> Result<Variant, Error> {
    let kind = lines.word("kind", &KINDS)?;
    let known = Variant::named(kind, lines.get("name")?);
    Ok(Variant {
        name: known.map_or(OWN, |variant| variant.name),
        kind,
        input_norm: lines.optional("input_norm", parse_norm)?,
        recurrent_norm: lines.optional("recurrent_norm", parse_norm)?,
        sum_norm: lines.optional("sum_norm", parse_norm)?,
        cell_norm: lines.optional("cell_norm", parse_cell_norm)?,
        input_bias: lines.value("input_bias")?,
        recurrent_bias: lines.value("recurrent_bias")?,
        bias: lines.value("bias")?,
        tied_bias: lines.value("tied_bias")?,
        offset: lines.value("offset")?,
        peephole: lines.value("peephole")?,
        coupled: lines.value("coupled")?,
        cell_clip: lines.optional("cell_clip", parse)?,
        projection_bias: lines.value("projection_bias")?,
        projection_clip: lines.optional("projection_clip", parse)?,
        reset: lines.word("reset", &RESETS)?,
        update: lines.word("update", &UPDATES)?,
        activation: lines.word("activation", &ACTIVATIONS)?,
    })
}

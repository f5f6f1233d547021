//! Weights of every variant in every format that has it, and of deep and bidirectional networks.

use layernorm_rnn::weights::{Dtype, Format, to_bytes};
use layernorm_rnn::{Config, Direction, Init, Kind, Network, Variant};

/// Returns all seeds. They alternate between the number types.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut add = |name: String, config: Config, format: Format| {
        let network = Network::<f64>::new(config, Init::torch(), 1).expect("a small network is valid");
        let dtype = Dtype::ALL[files.len() % Dtype::ALL.len()];
        // Not every format has every network.
        if let Ok(bytes) = to_bytes(&network, format, dtype) {
            files.push((format!("{}-{name}", format.name()), bytes));
        }
    };
    for format in Format::ALL {
        for kind in [Kind::Lstm, Kind::Gru, Kind::Rnn] {
            for variant in Variant::all(kind) {
                let name = format!("{}-{}", kind.name(), variant.name);
                add(name, Config::new(*variant, 2, 1), format);
            }
            let plain = Variant::named(kind, "none").expect("every kind has this variant");
            let deep = Config::new(plain, 1, 2).with_layers(2).with_direction(Direction::Both);
            add(format!("{}-deep", kind.name()), deep, format);
        }
        let projected =
            Config::new(Variant::named(Kind::Lstm, "none").expect("the variant exists"), 1, 3).with_projection(2);
        add("lstm-projected".to_owned(), projected, format);
    }
    files
}

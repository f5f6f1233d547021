//! Files match what their libraries write, are read back bit for bit, and are rejected if anything is wrong with
//! them.

mod errors;
mod layouts;
mod offsets;
mod round_trips;
mod roundings;

use super::*;
use crate::noise::{NoiseStream, Purpose};
use crate::variant::Kind;

/// A network with a different number everywhere, including a −0.
fn network(config: Config) -> Network<f64> {
    let mut params = Params::zeros(&config).unwrap();
    let random = NoiseStream::new(1, Purpose::Init, 0, 0);
    params.values_mut().iter_mut().enumerate().for_each(|(i, value)| *value = random.normal(i));
    params.values_mut()[1] = -0.0;
    Network::from_params(config, params).unwrap()
}

fn named(kind: Kind, name: &str) -> Variant {
    Variant::named(kind, name).unwrap()
}

fn bits(network: &Network<f64>) -> Vec<u64> {
    network.params().values().iter().map(|value| value.to_bits()).collect()
}

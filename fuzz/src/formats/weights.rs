//! Any bytes as a safetensors file of weights: for every format and variant, an error or a network; and a network
//! that is written is read back unchanged.

use crate::memory;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Kind, Network, Variant};

/// Maximum memory for one read: tensors as numbers of 8 bytes, and names, shapes and positions of tensors, whose text
/// in the file may be short.
fn allowance(length: usize) -> usize {
    64 * length + (256 << 10)
}

/// Checks the properties. Returns whether the bytes were accepted.
pub fn check(bytes: &[u8]) -> bool {
    let detected = memory::within(allowance(bytes.len()), || weights::detect(bytes));
    // If the names do not tell, choose a format by the length, which is as good as random.
    let format = detected.unwrap_or(Format::ALL[bytes.len() % Format::ALL.len()]);
    let mut seen: Vec<Config> = Vec::new();
    let mut accepted = false;
    for kind in [Kind::Lstm, Kind::Gru, Kind::Rnn] {
        for variant in Variant::all(kind) {
            let found = memory::within(allowance(bytes.len()), || weights::config_of(bytes, format, *variant, ""));
            match found {
                Ok(config) if !seen.contains(&config) => {
                    seen.push(config);
                    accepted |= load(bytes, format, &config);
                }
                Ok(_) => {}
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    accepted
}

fn load(bytes: &[u8], format: Format, config: &Config) -> bool {
    match memory::within(allowance(bytes.len()), || weights::load::<f64>(bytes, format, config, "")) {
        Ok(network) => {
            let own = weights::to_bytes(&network, Format::Native, Dtype::F64)
                .expect("every network can be written in the native format");
            let again = weights::load_native::<f64>(&own).expect("a written file can be read");
            assert_eq!(again.config(), network.config());
            assert_same(&again, &network);
            // Two biases may become one: from the second time on, nothing changes.
            let Some(once) = through(&network, format, config) else { return true };
            let twice = through(&once, format, config).expect("a network that was written once can be written twice");
            assert_same(&once, &twice);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Writes the network in a format and reads it again. Not every network can be written in the format of its file: it
/// may have names that are only read.
fn through(network: &Network<f64>, format: Format, config: &Config) -> Option<Network<f64>> {
    let bytes = weights::to_bytes(network, format, Dtype::F64).ok()?;
    Some(weights::load(&bytes, format, config, "").expect("a written file can be read"))
}

fn assert_same(left: &Network<f64>, right: &Network<f64>) {
    let (left, right) = (left.params().values(), right.params().values());
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(left.len() == right.len() && left.iter().zip(right).all(same), "the numbers have changed");
}

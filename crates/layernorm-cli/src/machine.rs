//! The machine and the program version that a result was measured with.

use layernorm::{Context, Error};
use serde::Serialize;
use std::fmt;

/// The machine and the settings of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    /// The architecture and operating system.
    pub target: String,
    /// Number of threads that can run at the same time.
    pub cores: usize,
    /// Number of threads that large calls use.
    pub threads: usize,
    /// The instruction set that calls use.
    pub isa: String,
    /// This program's version.
    pub version: String,
    /// Whether the program was built with optimization.
    pub optimized: bool,
}

impl Machine {
    /// Describes this machine and the settings of the context.
    pub fn new(cx: &Context) -> Result<Self, Error> {
        Ok(Machine {
            cpu: cpu_model().unwrap_or_else(|| "unknown processor".to_owned()),
            target: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            threads: cx.threads(),
            isa: cx.isa()?.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            optimized: !cfg!(debug_assertions),
        })
    }

    /// The processor, the system and the instruction set as text.
    pub fn words(&self) -> String {
        let Machine { cpu, target, cores, isa, .. } = self;
        format!("{cpu} ({target}, {cores} core{}), {isa}", plural(*cores))
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads;
        write!(f, "{}, {threads} thread{}, layernorm {}", self.words(), plural(threads), self.version)?;
        if self.optimized { Ok(()) } else { f.write_str(", DEBUG BUILD: times are meaningless") }
    }
}

/// The processor's model name, if the system provides it.
fn cpu_model() -> Option<String> {
    field(&std::fs::read_to_string("/proc/cpuinfo").ok()?, "model name")
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nMemAvailable:   123 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "MemAvailable").as_deref(), Some("123 kB"));
        assert_eq!(field(text, "model"), None);
    }
}

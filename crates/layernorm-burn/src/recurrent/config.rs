//! Shared by the configurations of the three kinds of networks.

/// A configuration of one kind of network: fields, builder, and the network itself. The last argument is for what only
/// LSTMs have.
macro_rules! recurrent_config {
    ($config:ident, $module:ident, $kind:expr, $names:literal $(, $projection:ident)?) => {
        #[doc = concat!("Configuration of ", stringify!($module), ".")]
        #[derive(Clone, Debug, PartialEq, burn::serde::Serialize, burn::serde::Deserialize)]
        #[serde(crate = "burn::serde")]
        pub struct $config {
            /// I: size of the input at each step.
            pub d_input: usize,
            /// H: number of hidden units.
            pub d_hidden: usize,
            #[doc = concat!("Variant: ", $names, " (docs/RECURRENT.md has their equations). Default: `none`")]
            pub variant: String,
            /// ε of all norms. Default: that of the variant
            pub epsilon: Option<f64>,
            /// Number of layers. Default: 1
            pub layers: usize,
            /// Whether there is one cell per direction, with their outputs concatenated. Default: false
            pub bidirectional: bool,
            /// Whether a network with one direction runs from the last step to the first. Default: false
            pub reverse: bool,
            /// Whether sequences are `[B, T, …]` instead of `[T, B, …]`. Default: true
            pub batch_first: bool,
            /// Seed of the initial parameters. Default: drawn from the device's random numbers
            pub seed: Option<u64>,
            $(
                /// P: h is projected to this size. Default: no projection
                pub $projection: Option<usize>,
            )?
        }

        impl burn::config::Config for $config {}

        impl std::fmt::Display for $config {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&burn::config::config_to_json(self))
            }
        }

        impl $config {
            /// One layer forward in time, without norms.
            pub fn new(d_input: usize, d_hidden: usize) -> Self {
                $config {
                    d_input,
                    d_hidden,
                    variant: "none".to_owned(),
                    epsilon: None,
                    layers: 1,
                    bidirectional: false,
                    reverse: false,
                    batch_first: true,
                    seed: None,
                    $($projection: None,)?
                }
            }

            /// Sets the variant of the cell by name.
            pub fn with_variant(self, variant: impl Into<String>) -> Self {
                $config { variant: variant.into(), ..self }
            }

            /// Sets ε of all norms.
            pub fn with_epsilon(self, epsilon: f64) -> Self {
                $config { epsilon: Some(epsilon), ..self }
            }

            /// Sets the number of layers.
            pub fn with_layers(self, layers: usize) -> Self {
                $config { layers, ..self }
            }

            /// Sets whether there is one cell per direction.
            pub fn with_bidirectional(self, bidirectional: bool) -> Self {
                $config { bidirectional, ..self }
            }

            /// Sets whether it runs from the last step to the first.
            pub fn with_reverse(self, reverse: bool) -> Self {
                $config { reverse, ..self }
            }

            /// Sets whether sequences are `[B, T, …]` or `[T, B, …]`.
            pub fn with_batch_first(self, batch_first: bool) -> Self {
                $config { batch_first, ..self }
            }

            /// Sets the seed of the initial parameters.
            pub fn with_seed(self, seed: u64) -> Self {
                $config { seed: Some(seed), ..self }
            }

            $(
                /// Sets the size to which h is projected.
                pub fn with_projection(self, projection: usize) -> Self {
                    $config { $projection: Some(projection), ..self }
                }
            )?

            /// The core's configuration of this network.
            pub fn network(&self) -> Result<layernorm_rnn::Config, layernorm_rnn::Error> {
                let mut variant = layernorm_rnn::Variant::named($kind, &self.variant)?;
                if let Some(epsilon) = self.epsilon {
                    variant = variant.with_eps(epsilon);
                }
                let direction = match (self.bidirectional, self.reverse) {
                    (true, _) => layernorm_rnn::Direction::Both,
                    (false, true) => layernorm_rnn::Direction::Reverse,
                    (false, false) => layernorm_rnn::Direction::Forward,
                };
                let config = layernorm_rnn::Config::new(variant, self.d_input, self.d_hidden)
                    .with_layers(self.layers)
                    .with_direction(direction);
                $(let config = layernorm_rnn::Config { $projection: self.$projection, ..config };)?
                config.check()?;
                Ok(config)
            }

            /// Creates a network, initialized as in the variant's source.
            ///
            /// # Panics
            /// If the configuration is invalid, with the message of [`layernorm_rnn::Error`].
            pub fn init(&self, device: &burn::tensor::Device) -> $module {
                crate::checks::or_panic(self.try_init(device))
            }

            #[doc = concat!("Like [`", stringify!($config), "::init`], but returns an error instead of panicking.")]
            pub fn try_init(&self, device: &burn::tensor::Device) -> Result<$module, layernorm_rnn::Error> {
                let net = crate::Recurrent::try_new(self.network()?, self.batch_first, self.seed, device)?;
                Ok($module { net })
            }
        }
    };
}
pub(super) use recurrent_config;

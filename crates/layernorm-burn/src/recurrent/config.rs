//! What the configurations of the three kinds have in common.

/// A configuration of one kind of network: fields, builder, and the network itself. The last argument is what only LSTMs have.
macro_rules! recurrent_config {
    ($config:ident, $module:ident, $kind:expr, $names:literal $(, $projection:ident)?) => {
        #[doc = concat!("Configuration of ", stringify!($module), ".")]
        #[derive(Clone, Debug, PartialEq, burn::serde::Serialize, burn::serde::Deserialize)]
        #[serde(crate = "burn::serde")]
        pub struct $config {
            /// I: numbers of the input at a step.
            pub d_input: usize,
            /// H: hidden units.
            pub d_hidden: usize,
            #[doc = concat!("The cell: ", $names, " (docs/RECURRENT.md has their equations). Default: `none`")]
            pub variant: String,
            /// ε of all norms. Default: that of the variant
            pub epsilon: Option<f64>,
            /// How many layers. Default: 1
            pub layers: usize,
            /// One cell each way, their outputs side by side. Default: false
            pub bidirectional: bool,
            /// From the last step to the first, where only one way is gone. Default: false
            pub reverse: bool,
            /// Whether sequences are `[B, T, …]`; else they are `[T, B, …]`. Default: true
            pub batch_first: bool,
            /// The seed of the start. Default: drawn from the device's random numbers
            pub seed: Option<u64>,
            $(
                /// P: h is projected to so many numbers. Default: not
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

            /// The cell with this name.
            pub fn with_variant(self, variant: impl Into<String>) -> Self {
                $config { variant: variant.into(), ..self }
            }

            /// With this ε in all norms.
            pub fn with_epsilon(self, epsilon: f64) -> Self {
                $config { epsilon: Some(epsilon), ..self }
            }

            /// So many layers.
            pub fn with_layers(self, layers: usize) -> Self {
                $config { layers, ..self }
            }

            /// One cell each way.
            pub fn with_bidirectional(self, bidirectional: bool) -> Self {
                $config { bidirectional, ..self }
            }

            /// From the last step to the first.
            pub fn with_reverse(self, reverse: bool) -> Self {
                $config { reverse, ..self }
            }

            /// `[B, T, …]` or `[T, B, …]`.
            pub fn with_batch_first(self, batch_first: bool) -> Self {
                $config { batch_first, ..self }
            }

            /// The start of this seed.
            pub fn with_seed(self, seed: u64) -> Self {
                $config { seed: Some(seed), ..self }
            }

            $(
                /// With h projected to so many numbers.
                pub fn with_projection(self, projection: usize) -> Self {
                    $config { $projection: Some(projection), ..self }
                }
            )?

            /// What the core calls this network.
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

            /// A new network, started as the variant's source does.
            ///
            /// # Panics
            /// If the network cannot be, with the message of [`layernorm_rnn::Error`].
            pub fn init(&self, device: &burn::tensor::Device) -> $module {
                crate::checks::or_panic(self.try_init(device))
            }

            #[doc = concat!("[`", stringify!($config), "::init`], with an error in place of a panic.")]
            pub fn try_init(&self, device: &burn::tensor::Device) -> Result<$module, layernorm_rnn::Error> {
                let net = crate::Recurrent::try_new(self.network()?, self.batch_first, self.seed, device)?;
                Ok($module { net })
            }
        }
    };
}
pub(super) use recurrent_config;

//! Every threshold in one place. None of them changes a bit of any result. Each was set by `layernorm bench --op lstm`.

/// Multiply-adds of a sequence from which on a second thread pays. (Miri sees teams at sizes that it can bear.)
pub(crate) const PRODUCTS_FOR_A_TEAM: usize = if cfg!(miri) { 1 << 8 } else { 8 << 20 };

/// The same where the weights are heavy and the members share each step: reading them takes longer than multiplying.
pub(crate) const PRODUCTS_FOR_SHARED_STEPS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 18 };

/// Numbers of U that no longer fit beside the rest into one core's second-level cache.
pub(crate) const WEIGHTS_BEYOND_A_CORE: usize = if cfg!(miri) { 60 } else { 1 << 18 };

/// With fewer sequences a member and heavy weights, the members share each step: each then reads a part of the weights.
pub(crate) const SEQUENCES_FOR_A_MEMBER: usize = 6;

/// Rows whose numbers are computed together: few enough to stay in the first-level cache between norm and gates.
pub(crate) const TILE: usize = 8;

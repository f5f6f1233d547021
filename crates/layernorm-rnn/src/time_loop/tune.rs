//! All tuning thresholds. None of them affects the results. Each was set by `layernorm bench --op lstm`.

/// Multiply-adds of a sequence from which a second thread pays off. (The value for Miri uses teams at sizes that Miri
/// can run.)
pub(crate) const PRODUCTS_FOR_A_TEAM: usize = if cfg!(miri) { 1 << 8 } else { 8 << 20 };

/// The same, if the weights are large and the members share each step: reading them takes longer than multiplying.
pub(crate) const PRODUCTS_FOR_SHARED_STEPS: usize = if cfg!(miri) { 1 << 8 } else { 1 << 18 };

/// Size of U from which it no longer fits in one core's L2 cache along with the rest.
pub(crate) const WEIGHTS_BEYOND_A_CORE: usize = if cfg!(miri) { 60 } else { 1 << 18 };

/// With fewer sequences per member and large weights, the members share each step, so that each reads only a part of
/// the weights.
pub(crate) const SEQUENCES_FOR_A_MEMBER: usize = 6;

/// Rows that are computed together: few enough to stay in the L1 cache between norm and gates.
pub(crate) const TILE: usize = 8;

//! DRAW (Gregor et al., 2015): a recurrent variational autoencoder that draws an image in T glimpses, with layer norm
//! on the cells of its two LSTMs (Ba, Kiros and Hinton, 2016, section 6.4).
//!
//! ```text
//! x    binary image [B, R·C]        c_t  canvas: logits of the pixels [B, R·C]        c_0  learned
//! h    state of the encoder [B, H]  d    state of the decoder [B, H]                  both start at 0
//!
//! x̂_t = x − σ(c_{t−1})                       what the canvas still lacks
//! r_t = read(x, x̂_t, d_{t−1})
//! h_t = LSTM(h_{t−1}, [r_t, d_{t−1}])        encoder
//! μ_t, ln σ_t = W h_t + b                    q(z_t | x, z_<t) = N(μ_t, σ_t²)
//! z_t = μ_t + σ_t ∘ ε_t                      ε_t ~ N(0, 1), drawn outside: the gradient passes through μ and σ
//! d_t = LSTM(d_{t−1}, z_t)                   decoder
//! c_t = c_{t−1} + write(d_t)
//!
//! reconstruction   −ln p(x|z) = Σ over pixels of ln(1 + exp c_T) − x·c_T
//! KL               Σ over t of ½ Σ (μ_t² + σ_t² − 2 ln σ_t − 1)
//! bound            reconstruction + KL ≥ −ln p(x), on average over ε; in nats per image
//! ```
//!
//! With attention, read and write see the image through N×N Gaussian filters (`attention`); without it, r = [x, x̂]
//! and write is linear. A generated image uses z_t ~ N(0, 1) and the decoder only.
//!
//! ```text
//! Spec + Dataset → binary images → Net, Adam → steps → events: evaluate, digits, test → records
//! ```
//!
//! | event | when | what |
//! |---|---|---|
//! | `evaluate` | before the first step and at even intervals up to the last | bounds on training and validation images |
//! | `digits` | with it, if the run draws digits | generated images; at the end, after several glimpses |
//! | `diverged` | when the bound becomes NaN or infinite; the run ends there | the step |
//! | `test` | at the end | bound on the test images |

mod attention;
mod binary;
pub mod events;
mod net;
mod normal;
mod run;
mod spec;
#[cfg(test)]
mod tests;

pub use events::{Drawn, row};
pub use run::run;
pub use spec::{Norms, Spec};

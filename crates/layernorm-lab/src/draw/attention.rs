//! Attention: N×N Gaussian filters on a regular grid, whose place and size a state of the decoder determines.
//!
//! ```text
//! (g̃x, g̃y, ln σ², ln δ̃, ln γ) = W d + b
//! gx = (C + 1)/2 · (g̃x + 1)       centre, in pixels; gy likewise with R
//! δ  = (max(R, C) − 1)/(N − 1)·δ̃   distance between filters: at δ̃ = 1 they span the image
//! μx_i = gx + (i − N/2 − ½)·δ      i = 1 … N; μy_i likewise
//! Fx[i, a] ∝ exp(−(a − μx_i)²/(2σ²)), a = 1 … C, with Σ_a Fx[i, a] = 1
//!
//! read(x)  = γ · Fy x Fxᵀ          [N, N]
//! write(w) = 1/γ · Fyᵀ w Fx        [R, C]
//! ```
//!
//! Each row of F is a softmax, so it is finite wherever the grid lies.

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};

/// Number of parameters of a window.
pub(super) const PARAMETERS: usize = 5;

/// A window of each image of a batch.
pub(super) struct Window {
    /// Fy `[B, N, R]`.
    rows: Tensor<3>,
    /// Fx `[B, N, C]`.
    columns: Tensor<3>,
    /// ln γ `[B, 1, 1]`.
    log_gain: Tensor<3>,
}

impl Window {
    /// The windows with these parameters, `[B, 5]`.
    pub(super) fn new(parameters: Tensor<2>, filters: usize, [rows, columns]: [usize; 2]) -> Window {
        let device = parameters.device();
        let parameter = |number: usize| parameters.clone().narrow(1, number, 1);
        let span = (rows.max(columns) - 1) as f64 / (filters - 1) as f64;
        // [B, N]: the filters' distances from the centre.
        let offsets = parameter(3).exp().mul_scalar(span) * grid(filters, -(filters as f64) / 2.0 + 0.5, &device);
        // 1/(2σ²), [B, 1, 1].
        let sharpness = parameter(2).neg().exp().mul_scalar(0.5).unsqueeze_dim::<3>(2);
        let bank = |centre: Tensor<2>, length: usize| {
            let centre = centre.add_scalar(1.0).mul_scalar((length + 1) as f64 / 2.0);
            let means = (offsets.clone() + centre).unsqueeze_dim::<3>(2);
            let distances = grid(length, 1.0, &device).unsqueeze_dim::<3>(1) - means;
            softmax((distances.clone() * distances * sharpness.clone()).neg(), 2)
        };
        Window {
            rows: bank(parameter(1), rows),
            columns: bank(parameter(0), columns),
            log_gain: parameter(4).unsqueeze_dim(2),
        }
    }

    /// γ Fy x Fxᵀ of two images, `[B, R, C]` each, as `[B, 2·N·N]`.
    pub(super) fn read(self, x: Tensor<3>, other: Tensor<3>) -> Tensor<2> {
        let [batch, filters, columns] = self.columns.dims();
        // Side by side for one product, then one below the other: their rows alternate.
        let both = self.rows.matmul(Tensor::cat(vec![x, other], 2)).reshape([batch, 2 * filters, columns]);
        let patches = both.matmul(self.columns.swap_dims(1, 2)) * self.log_gain.exp();
        patches.reshape([batch, 2 * filters * filters])
    }

    /// Fyᵀ w Fx / γ of patches `[B, N·N]`, as `[B, R·C]`.
    pub(super) fn write(self, patches: Tensor<2>) -> Tensor<2> {
        let [batch, filters, columns] = self.columns.dims();
        let rows = self.rows.dims()[2];
        let patches = patches.reshape([batch, filters, filters]);
        let written = self.rows.swap_dims(1, 2).matmul(patches).matmul(self.columns) * self.log_gain.neg().exp();
        written.reshape([batch, rows * columns])
    }
}

/// `from`, `from` + 1, … as `[1, count]`.
fn grid(count: usize, from: f64, device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..count).map(|index| (from + index as f64) as f32).collect();
    Tensor::from_data(TensorData::new(numbers, [1, count]), device)
}

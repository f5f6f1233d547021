//! Tape: what a forward pass saves for its backward pass, one matrix per quantity, one row per step of a sequence. A
//! pass without training uses the same matrices, and reuses the rows of one step.

use super::cell_params::fused;
use super::norms::Stats;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::error::Error;
use crate::real::Real;
use crate::variant::{Kind, NormSpec, Reset};

#[derive(Debug)]
pub(crate) struct Tape<A> {
    /// The input `[I]`.
    pub(crate) x: Matrix<A>,
    /// zx `[G·H]`; s if both products go into one sum.
    pub(crate) zx: Matrix<A>,
    /// zh `[G·H]`, if it is separate.
    pub(crate) zh: Matrix<A>,
    /// s `[G·H]`, if it is normalized or has peepholes and is not in zx.
    pub(crate) s: Matrix<A>,
    /// The gates after their nonlinearity `[G·H]`.
    pub(crate) gates: Matrix<A>,
    /// h of the previous step `[P]`.
    pub(crate) before: Matrix<A>,
    /// h of the previous step under recurrent dropout.
    pub(crate) masked: Matrix<A>,
    /// r∘h `[P]` of a GRU whose reset gate multiplies the state.
    pub(crate) reset: Matrix<A>,
    /// The candidate's recurrent part `[H]` of a GRU.
    pub(crate) q: Matrix<A>,
    /// c of the previous step `[H]`.
    pub(crate) cell_before: Matrix<A>,
    /// c `[H]`, clipped and not yet normalized.
    pub(crate) cell: Matrix<A>,
    /// tanh of the cell or of its norm `[H]`.
    pub(crate) t: Matrix<A>,
    /// Input of the projection `[H]`.
    pub(crate) unprojected: Matrix<A>,
    /// The projection after its clip `[P]`.
    pub(crate) projected: Matrix<A>,
    pub(crate) input_stats: Stats<A>,
    pub(crate) recurrent_stats: Stats<A>,
    pub(crate) sum_stats: Stats<A>,
    pub(crate) cell_stats: Stats<A>,
}

/// Rows and columns, or rows and groups, of N matrices.
type Shapes<const N: usize> = [(usize, usize); N];

/// Number of rows of a tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapeRows {
    /// Rows of inputs.
    pub(crate) inputs: usize,
    /// Rows of the inputs' products.
    pub(crate) products: usize,
    /// Rows of everything else.
    pub(crate) steps: usize,
}

impl<A: Real> Tape<A> {
    pub(crate) const fn new() -> Self {
        Tape {
            x: Matrix::new(),
            zx: Matrix::new(),
            zh: Matrix::new(),
            s: Matrix::new(),
            gates: Matrix::new(),
            before: Matrix::new(),
            masked: Matrix::new(),
            reset: Matrix::new(),
            q: Matrix::new(),
            cell_before: Matrix::new(),
            cell: Matrix::new(),
            t: Matrix::new(),
            unprojected: Matrix::new(),
            projected: Matrix::new(),
            input_stats: Stats::new(),
            recurrent_stats: Stats::new(),
            sum_stats: Stats::new(),
            cell_stats: Stats::new(),
        }
    }

    /// Returns rows and columns of the matrices, and rows and groups of the statistics, in the order of
    /// [`Tape::matrices`] and of the fields. `masked`: whether there is recurrent dropout.
    fn shapes(config: &Config, layer: usize, rows: TapeRows, masked: bool) -> (Shapes<14>, Shapes<4>) {
        let v = &config.variant;
        let (width, hidden, output) = (config.gate_width(), config.hidden, config.output());
        let (fused, lstm, gru) = (fused(config), v.kind == Kind::Lstm, v.kind == Kind::Gru);
        let projected = config.projection.is_some();
        let need = |columns: usize, wanted: bool| (if wanted { rows.steps } else { 0 }, columns);
        let matrices = [
            (rows.inputs, config.layer_input(layer)),
            (rows.products, width),
            need(width, !fused),
            need(width, !fused && (v.sum_norm.is_some() || v.peephole)),
            need(width, true),
            need(output, true),
            need(output, masked),
            need(output, gru && v.reset == Reset::State),
            need(hidden, gru),
            need(hidden, lstm),
            need(hidden, lstm),
            need(hidden, lstm),
            need(hidden, projected),
            need(output, projected && v.projection_clip.is_some()),
        ];
        let groups = |norm: Option<NormSpec>| (rows.steps, norm.map_or(0, |norm| norm.over.groups(v.gates().len())));
        let cell = (rows.steps, usize::from(v.cell_norm.is_some()));
        (matrices, [groups(v.input_norm), groups(v.recurrent_norm), groups(v.sum_norm), cell])
    }

    /// Returns the total bytes that [`Tape::reshape`] takes; `usize::MAX` if the number overflows.
    pub(crate) fn need(config: &Config, layer: usize, rows: TapeRows, masked: bool) -> usize {
        let (matrices, stats) = Self::shapes(config, layer, rows, masked);
        let matrices = matrices.map(|(rows, columns)| Matrix::<A>::need(rows, columns));
        let stats = stats.map(|(rows, groups)| Stats::<A>::need(rows, groups));
        matrices.into_iter().chain(stats).fold(0, usize::saturating_add)
    }

    /// Resizes the tape to this many rows.
    pub(crate) fn reshape(&mut self, config: &Config, layer: usize, rows: TapeRows, masked: bool) -> Result<(), Error> {
        let (matrices, stats) = Self::shapes(config, layer, rows, masked);
        for (matrix, (rows, columns)) in self.matrices_mut().into_iter().zip(matrices) {
            matrix.reshape(rows, columns)?;
        }
        let all = [&mut self.input_stats, &mut self.recurrent_stats, &mut self.sum_stats, &mut self.cell_stats];
        for (one, (rows, groups)) in all.into_iter().zip(stats) {
            one.reshape(rows, groups)?;
        }
        Ok(())
    }

    /// Returns the operand of the recurrent product.
    pub(crate) fn operand(&self) -> &Matrix<A> {
        if self.masked.rows > 0 { &self.masked } else { &self.before }
    }

    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let stats = [&self.input_stats, &self.recurrent_stats, &self.sum_stats, &self.cell_stats];
        self.matrices().map(Matrix::bytes).into_iter().chain(stats.map(Stats::bytes)).sum()
    }

    fn matrices(&self) -> [&Matrix<A>; 14] {
        [
            &self.x,
            &self.zx,
            &self.zh,
            &self.s,
            &self.gates,
            &self.before,
            &self.masked,
            &self.reset,
            &self.q,
            &self.cell_before,
            &self.cell,
            &self.t,
            &self.unprojected,
            &self.projected,
        ]
    }

    fn matrices_mut(&mut self) -> [&mut Matrix<A>; 14] {
        [
            &mut self.x,
            &mut self.zx,
            &mut self.zh,
            &mut self.s,
            &mut self.gates,
            &mut self.before,
            &mut self.masked,
            &mut self.reset,
            &mut self.q,
            &mut self.cell_before,
            &mut self.cell,
            &mut self.t,
            &mut self.unprojected,
            &mut self.projected,
        ]
    }
}

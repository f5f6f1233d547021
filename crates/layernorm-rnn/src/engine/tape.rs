//! What a forward pass leaves for its backward pass, one matrix a quantity, one row a step of a sequence. A pass without
//! training uses the same matrices, with the rows of one step used again and again.

use super::norms::Stats;
use super::prepared::fused;
use crate::buffer::Matrix;
use crate::config::Config;
use crate::real::Real;
use crate::variant::{Kind, Norm, Reset};

#[derive(Debug)]
pub(crate) struct Tape<A> {
    /// The input `[I]`.
    pub(crate) x: Matrix<A>,
    /// zx `[G·H]`; where both products go into one sum, s.
    pub(crate) zx: Matrix<A>,
    /// zh `[G·H]`, where it is by itself.
    pub(crate) zh: Matrix<A>,
    /// s `[G·H]`, where it is normalized or has peepholes and is not in zx.
    pub(crate) s: Matrix<A>,
    /// The gates after their nonlinearity `[G·H]`.
    pub(crate) gates: Matrix<A>,
    /// h of the step before `[P]`.
    pub(crate) before: Matrix<A>,
    /// The same under recurrent dropout.
    pub(crate) masked: Matrix<A>,
    /// r∘h `[P]` of a GRU whose reset gate multiplies the state.
    pub(crate) reset: Matrix<A>,
    /// The candidate's recurrent part `[H]` of a GRU.
    pub(crate) q: Matrix<A>,
    /// c of the step before `[H]`.
    pub(crate) cell_before: Matrix<A>,
    /// c `[H]`, clipped and not yet normalized.
    pub(crate) cell: Matrix<A>,
    /// tanh of the cell or of its norm `[H]`.
    pub(crate) t: Matrix<A>,
    /// What is projected `[H]`.
    pub(crate) unprojected: Matrix<A>,
    /// The projection after its clip `[P]`.
    pub(crate) projected: Matrix<A>,
    pub(crate) input_stats: Stats<A>,
    pub(crate) recurrent_stats: Stats<A>,
    pub(crate) sum_stats: Stats<A>,
    pub(crate) cell_stats: Stats<A>,
}

/// How many rows a tape has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Of inputs.
    pub(crate) inputs: usize,
    /// Of their products.
    pub(crate) products: usize,
    /// Of everything else.
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

    /// Room for so many rows. `masked`: whether there is recurrent dropout.
    pub(crate) fn reshape(&mut self, config: &Config, layer: usize, room: Room, masked: bool) {
        let Room { inputs, products, steps: step_rows } = room;
        let v = &config.variant;
        let (width, hidden, output) = (config.gate_width(), config.hidden, config.output());
        let fused = fused(config);
        let gates = v.gates().len();
        let need = |matrix: &mut Matrix<A>, columns: usize, wanted: bool| {
            matrix.reshape(if wanted { step_rows } else { 0 }, columns);
        };
        need(&mut self.zh, width, !fused);
        need(&mut self.s, width, !fused && (v.sum_norm.is_some() || v.peephole));
        need(&mut self.gates, width, true);
        need(&mut self.before, output, true);
        need(&mut self.masked, output, masked);
        need(&mut self.reset, output, v.kind == Kind::Gru && v.reset == Reset::State);
        need(&mut self.q, hidden, v.kind == Kind::Gru);
        let lstm = v.kind == Kind::Lstm;
        need(&mut self.cell_before, hidden, lstm);
        need(&mut self.cell, hidden, lstm);
        need(&mut self.t, hidden, lstm);
        need(&mut self.unprojected, hidden, config.projection.is_some());
        need(&mut self.projected, output, config.projection.is_some() && v.projection_clip.is_some());
        self.x.reshape(inputs, config.layer_input(layer));
        self.zx.reshape(products, width);
        let groups = |norm: Option<Norm>| norm.map_or(0, |norm| norm.over.groups(gates));
        self.input_stats.reshape(step_rows, groups(v.input_norm));
        self.recurrent_stats.reshape(step_rows, groups(v.recurrent_norm));
        self.sum_stats.reshape(step_rows, groups(v.sum_norm));
        self.cell_stats.reshape(step_rows, usize::from(v.cell_norm.is_some()));
    }

    /// What the recurrent product takes.
    pub(crate) fn operand(&self) -> &Matrix<A> {
        if self.masked.rows > 0 { &self.masked } else { &self.before }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let matrices = [
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
        ];
        let stats = [&self.input_stats, &self.recurrent_stats, &self.sum_stats, &self.cell_stats];
        matrices.iter().map(|matrix| matrix.bytes()).sum::<usize>() + stats.iter().map(|s| s.bytes()).sum::<usize>()
    }
}

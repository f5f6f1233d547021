//! Every recurrent cell, composed of Burn's operations from the equations at the top of [`layernorm_rnn::Variant`]'s
//! module: the input product for all steps at once, then step by step.

use super::centred;
use crate::functional::{States, in_type, wide};
use crate::recurrent::{Cell, Recurrent};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::linear;
use burn::tensor::{Bool, DType, Tensor, TensorData};
use layernorm_rnn::{
    Activation, Config, Direction, EpsPlace, Gate, Kind, NormSpec, Over, Reset, Slot, Update, Variant,
};

/// Computes [`Recurrent::forward`] on any backend.
///
/// The bounds of [`crate::fallback`] hold for each product and norm of a step. From step to step they grow as the cell
/// amplifies a difference in its state.
///
/// # Panics
/// On shape mismatches, with Burn's messages.
pub fn recurrent(network: &Recurrent, x: Tensor<3>, initial: States, lengths: Option<&[usize]>) -> (Tensor<3>, States) {
    let (config, dtype) = (network.config(), x.dtype());
    let arithmetic = wide(dtype);
    let mut x = in_type(if network.batch_first() { x.swap_dims(0, 1) } else { x }, arithmetic);
    let [steps, batch, _] = x.dims();
    let padding = lengths.map(|lengths| Padding { lengths, steps });
    if let Some(padding) = &padding {
        x = padding.blank(x);
    }
    let initial = initial.map(|part| part.map(|part| in_type(part, arithmetic)));
    let mut last: [Vec<Tensor<2>>; 2] = [Vec::new(), Vec::new()];
    for layer in 0..config.layers {
        let mut outputs = Vec::new();
        for direction in 0..config.directions() {
            let number = layer * config.directions() + direction;
            let widths = [config.output(), if config.has_cell() { config.hidden } else { 0 }];
            let mut part = 0;
            let state = widths.map(|width| {
                let given = initial[part].clone().map(|state| state.narrow(0, number, 1).squeeze_dim::<2>(0));
                part += 1;
                given.unwrap_or_else(|| Tensor::zeros([batch, width], (&x.device(), DType::from(arithmetic))))
            });
            let weights = Weights::new(config, &network.cells[number], x.dtype());
            let reverse = config.direction == Direction::Reverse || direction == 1;
            let (y, state) = weights.run(x.clone(), state, reverse, padding.as_ref());
            outputs.push(y);
            last.iter_mut().zip(state).for_each(|(all, part)| all.push(part));
        }
        x = Tensor::cat(outputs, 2);
    }
    let y = in_type(if network.batch_first() { x.swap_dims(0, 1) } else { x }, dtype.into());
    let [h, c] = last;
    (y, [Some(Tensor::stack(h, 0)), config.has_cell().then(|| Tensor::stack(c, 0))])
}

/// Which steps are past the end of a sequence.
struct Padding<'a> {
    lengths: &'a [usize],
    steps: usize,
}

impl Padding<'_> {
    /// True past the ends of the sequences, `[B, width]`.
    fn at(&self, t: usize, like: &Tensor<2>) -> Tensor<2, Bool> {
        let [batch, width] = like.dims();
        let ended = self.lengths.iter().flat_map(|&length| std::iter::repeat_n(t >= length, width)).collect();
        Tensor::from_data(TensorData::new::<bool, _>(ended, [batch, width]), &like.device())
    }

    /// Replaces everything past the ends by 0.
    fn blank(&self, x: Tensor<3>) -> Tensor<3> {
        let [_, batch, width] = x.dims();
        let ended = (0..self.steps).flat_map(|t| self.lengths.iter().map(move |&length| t >= length));
        let ended = ended.flat_map(|ended| std::iter::repeat_n(ended, width)).collect();
        let data = TensorData::new::<bool, _>(ended, [self.steps, batch, width]);
        let mask = Tensor::<3, Bool>::from_data(data, &x.device());
        x.mask_fill(mask, 0.0)
    }
}

/// One cell's parameters, transposed for products from the right, all in the arithmetic type.
struct Weights<'a> {
    config: &'a Config,
    cell: &'a Cell,
    dtype: DType,
    /// Wᵀ `[I, G·H]`.
    input: Tensor<2>,
    /// Uᵀ `[P, G·H]`.
    recurrent: Tensor<2>,
}

impl<'a> Weights<'a> {
    fn new(config: &'a Config, cell: &'a Cell, dtype: DType) -> Self {
        let across = |weight: Tensor<2>| in_type(weight, dtype.into()).transpose();
        let (input, recurrent) = (across(cell.input_weight.val()), across(cell.recurrent_weight.val()));
        Weights { config, cell, dtype, input, recurrent }
    }

    fn variant(&self) -> &'a Variant {
        &self.config.variant
    }

    fn vector(&self, slot: Slot) -> Option<Tensor<1>> {
        self.cell.values(slot).map(|values| in_type(values, self.dtype.into()))
    }

    /// Runs all steps; returns y `[T, B, P]` and the last h and c.
    fn run(
        &self,
        x: Tensor<3>,
        [mut h, mut c]: [Tensor<2>; 2],
        reverse: bool,
        padding: Option<&Padding>,
    ) -> (Tensor<3>, [Tensor<2>; 2]) {
        let [steps, batch, _] = x.dims();
        if steps == 0 {
            let empty = Tensor::zeros([0, batch, self.config.output()], (&x.device(), self.dtype));
            return (empty, [h, c]);
        }
        let bias = self.vector(if self.variant().tied_bias { Slot::Bias } else { Slot::InputBias });
        let zx = linear(x, self.input.clone(), bias);
        let mut y = vec![None; steps];
        let times: Vec<usize> = if reverse { (0..steps).rev().collect() } else { (0..steps).collect() };
        for t in times {
            let (mut new, mut cell) = self.step(zx.clone().narrow(0, t, 1).squeeze_dim::<2>(0), &h, &c);
            let mut shown = new.clone();
            if let Some(padding) = padding {
                let ended = padding.at(t, &h);
                shown = shown.mask_fill(ended.clone(), 0.0);
                new = new.mask_where(ended, h);
                cell = if self.config.has_cell() { cell.mask_where(padding.at(t, &c), c) } else { c };
            }
            (h, c, y[t]) = (new, cell, Some(shown));
        }
        (Tensor::stack(y.into_iter().flatten().collect(), 0), [h, c])
    }

    /// One step from zx = W x + bx; returns the new h and c.
    fn step(&self, zx: Tensor<2>, h: &Tensor<2>, c: &Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let v = self.variant();
        let zh = linear(h.clone(), self.recurrent.clone(), self.vector(Slot::RecurrentBias));
        let x = self.norm(v.input_norm, zx, Slot::InputNormGain, Slot::InputNormBias);
        let (new, cell) = match v.kind {
            Kind::Lstm => self.lstm(x, self.norm_h(zh), c),
            Kind::Gru => (self.gru(x, zh, h), c.clone()),
            Kind::Rnn => (self.rnn(x, self.norm_h(zh)), c.clone()),
        };
        match &self.cell.projection {
            Some(projection) => {
                let projection = in_type(projection.val(), self.dtype.into()).transpose();
                let h = linear(new, projection, self.vector(Slot::ProjectionBias));
                (clip(h, v.projection_clip), cell)
            }
            None => (new, cell),
        }
    }

    fn norm_h(&self, zh: Tensor<2>) -> Tensor<2> {
        self.norm(self.variant().recurrent_norm, zh, Slot::RecurrentNormGain, Slot::RecurrentNormBias)
    }

    fn norm_s(&self, s: Tensor<2>) -> Tensor<2> {
        self.norm(self.variant().sum_norm, s, Slot::SumNormGain, Slot::SumNormBias)
    }

    /// A norm of the gates, over the groups that it specifies.
    fn norm(&self, norm: Option<NormSpec>, x: Tensor<2>, gain: Slot, bias: Slot) -> Tensor<2> {
        let Some(norm) = norm else { return x };
        let (gates, hidden) = (self.variant().gates().len(), self.config.hidden);
        let widths = match norm.over {
            Over::AllGates => vec![gates * hidden],
            Over::EachGate => vec![hidden; gates],
            Over::GatesAndCandidate => vec![(gates - 1) * hidden, hidden],
        };
        self.norm_over(norm, x, widths, gain, bias)
    }

    fn norm_over(&self, norm: NormSpec, x: Tensor<2>, widths: Vec<usize>, gain: Slot, bias: Slot) -> Tensor<2> {
        let groups = x.split_with_sizes(widths, 1).into_iter().map(|group| normalize(group, norm)).collect();
        let mut y = Tensor::cat(groups, 1);
        if let Some(gain) = self.vector(gain) {
            y = y.mul(gain.unsqueeze());
        }
        match self.vector(bias) {
            Some(bias) => y.add(bias.unsqueeze()),
            None => y,
        }
    }

    /// Splits the gates, after adding b and the offset.
    fn gates(&self, a: Tensor<2>) -> Vec<Tensor<2>> {
        let v = self.variant();
        let a = match self.vector(Slot::Bias) {
            Some(bias) => a.add(bias.unsqueeze()),
            None => a,
        };
        let mut gates = a.chunk(v.gates().len(), 1);
        if let Some(place) = v.gates().iter().position(|gate| matches!(gate, Gate::Forget | Gate::Update)) {
            gates[place] = gates[place].clone().add_scalar(v.offset);
        }
        gates
    }

    fn gate(&self, gate: Gate) -> usize {
        self.variant().gates().iter().position(|&g| g == gate).unwrap_or(0)
    }

    fn lstm(&self, x: Tensor<2>, zh: Tensor<2>, c: &Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let v = self.variant();
        let mut s = x.add(zh).chunk(v.gates().len(), 1);
        let peepholes = self.cell.peephole.as_ref().map(|p| in_type(p.val(), self.dtype.into()).chunk(s.len() - 1, 0));
        let peep = |s: &mut Tensor<2>, p: &Tensor<2>, c: &Tensor<2>| *s = s.clone().add(p.clone().mul(c.clone()));
        if let Some(p) = &peepholes {
            if !v.coupled {
                peep(&mut s[self.gate(Gate::Input)], &p[0], c);
            }
            peep(&mut s[self.gate(Gate::Forget)], &p[p.len() - 2], c);
        }
        let mut a = self.gates(self.norm_s(Tensor::cat(s.clone(), 1)));
        let f = sigmoid(a[self.gate(Gate::Forget)].clone());
        let i = if v.coupled { f.clone().neg().add_scalar(1.0) } else { sigmoid(a[self.gate(Gate::Input)].clone()) };
        let g = a[self.gate(Gate::Candidate)].clone().tanh();
        let new = clip(f.mul(c.clone()).add(i.mul(g)), v.cell_clip);
        if let Some(p) = &peepholes {
            peep(&mut s[self.gate(Gate::Output)], &p[p.len() - 1], &new);
            a = self.gates(self.norm_s(Tensor::cat(s, 1)));
        }
        let o = sigmoid(a[self.gate(Gate::Output)].clone());
        let (shown, carried) = match v.cell_norm {
            Some(norm) => {
                let widths = vec![self.config.hidden];
                let shown = self.norm_over(norm.norm, new.clone(), widths, Slot::CellNormGain, Slot::CellNormBias);
                (shown.clone(), if norm.carried { shown } else { new })
            }
            None => (new.clone(), new),
        };
        (o.mul(shown.tanh()), carried)
    }

    fn gru(&self, x: Tensor<2>, mut zh: Tensor<2>, h: &Tensor<2>) -> Tensor<2> {
        let (v, hidden) = (self.variant(), self.config.hidden);
        if v.reset == Reset::State {
            // The candidate's part of zh is U (r∘h) + bh, so r must be computed first.
            let r = sigmoid(self.gates(x.clone().add(self.norm_h(zh.clone())))[0].clone());
            let late = self.recurrent.clone().narrow(1, 2 * hidden, hidden);
            let bias = self.vector(Slot::RecurrentBias).map(|bias| bias.narrow(0, 2 * hidden, hidden));
            let late = linear(r.mul(h.clone()), late, bias);
            zh = Tensor::cat(vec![zh.narrow(1, 0, 2 * hidden), late], 1);
        }
        let zh = self.norm_h(zh);
        let sum = self.norm_s(x.clone().add(zh.clone()));
        let gates = self.gates(sum.clone());
        let (r, z) = (sigmoid(gates[0].clone()), sigmoid(gates[1].clone()));
        let part = |tensor: Tensor<2>| tensor.narrow(1, 2 * hidden, hidden);
        let before = match v.reset {
            Reset::State => part(x).add(part(zh)),
            Reset::Product => part(x).add(r.mul(part(zh))),
            Reset::Sum => r.mul(part(sum)),
        };
        let bias = self.vector(Slot::Bias).map(|bias| bias.narrow(0, 2 * hidden, hidden).unsqueeze());
        let n = match bias {
            Some(bias) => before.add(bias),
            None => before,
        }
        .tanh();
        match v.update {
            Update::KeepsOld => z.mul(h.clone().sub(n.clone())).add(n),
            Update::TakesNew => z.mul(n.sub(h.clone())).add(h.clone()),
        }
    }

    fn rnn(&self, x: Tensor<2>, zh: Tensor<2>) -> Tensor<2> {
        let a = self.gates(self.norm_s(x.add(zh)))[0].clone();
        match self.variant().activation {
            Activation::Tanh => a.tanh(),
            Activation::Relu => relu(a),
        }
    }
}

fn normalize(x: Tensor<2>, norm: NormSpec) -> Tensor<2> {
    let (d, var) = centred(x);
    match norm.eps_place {
        EpsPlace::Variance => d.div(var.add_scalar(norm.eps).sqrt()),
        EpsPlace::Deviation => d.div(var.sqrt().add_scalar(norm.eps)),
    }
}

fn clip(x: Tensor<2>, limit: Option<f64>) -> Tensor<2> {
    match limit {
        Some(limit) => x.clamp(-limit, limit),
        None => x,
    }
}

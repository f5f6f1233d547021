//! Attention over the rows of an image.
//!
//! ```text
//! post-norm   x = N(x + A(x));  x = N(x + F(x))          as originally (Vaswani et al., 2017)
//! pre-norm    x = x + A(N(x));  x = x + F(N(x))          now standard, with a final norm
//! A(x) = concat(softmax(q kᵀ/sqrt(d)) v)·O,  F(x) = relu(x·W₁ + b₁)·W₂ + b₂
//! ```
//!
//! Rows are projected and get a learned position embedding; the classifier reads all positions together. (Their mean
//! would carry no information after instance norm, which makes every mean β.)

use super::dense::Dense;
use super::norm::NormLayer;
use super::start::Draw;
use super::{LOGITS, Norm, Taps, Weight};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{relu, softmax};

/// Width of the MLP relative to that of a position.
const WIDENING: usize = 2;

/// A block: attention and MLP.
#[derive(Module, Debug)]
pub struct Block {
    query: Dense,
    key: Dense,
    value: Dense,
    out: Dense,
    wide: Dense,
    narrow: Dense,
    attention_norm: Option<NormLayer>,
    product_norm: Option<NormLayer>,
}

/// A Transformer.
#[derive(Module, Debug)]
pub struct Transformer {
    rows: Dense,
    places: Param<Tensor<2>>,
    blocks: Vec<Block>,
    last_norm: Option<NormLayer>,
    last: Dense,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    pre_norm: bool,
}

impl Block {
    fn new(width: usize, norm: Norm, draw: &mut Draw<'_>) -> Block {
        let mut dense = |inputs: usize, outputs: usize| Dense::new(inputs, outputs, norm, draw);
        let (query, key, value) = (dense(width, width), dense(width, width), dense(width, width));
        let out = dense(width, width);
        let (wide, narrow) = (dense(width, WIDENING * width), dense(WIDENING * width, width));
        let attention_norm = NormLayer::of_units(norm, width, draw);
        let product_norm = NormLayer::of_units(norm, width, draw);
        Block { query, key, value, out, wide, narrow, attention_norm, product_norm }
    }

    fn attention(&self, x: Tensor<3>, heads: usize) -> Tensor<3> {
        let [batch, positions, width] = x.dims();
        let split = |x: Tensor<3>| x.reshape([batch, positions, heads, width / heads]).swap_dims(1, 2);
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|dense| split(dense.forward(x.clone())));
        let scores = q.matmul(k.transpose()) / ((width / heads) as f64).sqrt();
        let mixed = softmax(scores, 3).matmul(v).swap_dims(1, 2).reshape([batch, positions, width]);
        self.out.forward(mixed)
    }

    fn products(&self, x: Tensor<3>) -> Tensor<3> {
        self.narrow.forward(relu(self.wide.forward(x)))
    }
}

impl Transformer {
    pub(super) fn new(
        [rows, columns]: [usize; 2],
        [width, heads, blocks]: [usize; 3],
        pre_norm: bool,
        norm: Norm,
        draw: &mut Draw<'_>,
    ) -> Transformer {
        let rows_in = Dense::new(columns, width, norm, draw);
        let places = draw.weight([rows, width], width);
        let blocks = (0..blocks).map(|_| Block::new(width, norm, draw)).collect();
        let last = Dense::new(rows * width, LOGITS, norm, draw);
        let last_norm = if pre_norm { NormLayer::of_units(norm, width, draw) } else { None };
        Transformer { rows: rows_in, places, blocks, last_norm, last, heads, pre_norm }
    }

    pub(super) fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        let mut x = self.rows.forward(images) + self.places.val().unsqueeze_dim(0);
        for (number, block) in self.blocks.iter().enumerate() {
            let attention = |x| block.attention(x, self.heads);
            x = self.around(x, &block.attention_norm, attention, taps, || format!("attention {}", number + 1));
            x = self.around(x, &block.product_norm, |x| block.products(x), taps, || format!("products {}", number + 1));
        }
        let x = normed(&self.last_norm, x);
        self.last.forward(x.flatten::<2>(1, 2))
    }

    /// A sublayer with its norm and residual connection.
    fn around(
        &self,
        x: Tensor<3>,
        norm: &Option<NormLayer>,
        part: impl Fn(Tensor<3>) -> Tensor<3>,
        taps: &mut Taps,
        name: impl FnOnce() -> String,
    ) -> Tensor<3> {
        if self.pre_norm {
            let normed = normed(norm, x.clone());
            taps.positions(name, &x, &normed);
            x + part(normed)
        } else {
            let sum = x.clone() + part(x);
            let normed = normed(norm, sum.clone());
            taps.positions(name, &sum, &normed);
            normed
        }
    }

    pub(super) fn weights(&self) -> Vec<(String, Weight)> {
        let mut weights = vec![("rows".to_owned(), self.rows.handle())];
        for (number, block) in (1..).zip(&self.blocks) {
            let parts =
                [("values", &block.value), ("out", &block.out), ("wide", &block.wide), ("narrow", &block.narrow)];
            weights.extend(parts.map(|(name, dense)| (format!("{name} {number}"), dense.handle())));
        }
        weights.push(("logits".to_owned(), self.last.handle()));
        weights
    }
}

fn normed(norm: &Option<NormLayer>, x: Tensor<3>) -> Tensor<3> {
    match norm {
        Some(norm) => norm.positions(x),
        None => x,
    }
}

//! The parameters of one cell, named as in [`Slot`].

use burn::module::{Module, Param};
use burn::tensor::{Device, Element, Tensor, TensorData};
use layernorm::Float;
use layernorm_rnn::{Config, Params, Slot};

/// The parameters of one layer in one direction. I is the input size of the layer, H the number of hidden units, P the
/// size of h, G the number of gates. Parameters that the variant does not have are `None`. The gates are in the order
/// i, f, g, o (LSTM) and r, z, n (GRU).
#[derive(Module, Debug)]
pub struct Cell {
    /// W `[G·H, I]`.
    pub input_weight: Param<Tensor<2>>,
    /// U `[G·H, P]`.
    pub recurrent_weight: Param<Tensor<2>>,
    /// bx `[G·H]`.
    pub input_bias: Option<Param<Tensor<1>>>,
    /// bh `[G·H]`.
    pub recurrent_bias: Option<Param<Tensor<1>>>,
    /// b `[G·H]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// γ of LNx `[G·H]`.
    pub input_norm_gain: Option<Param<Tensor<1>>>,
    /// β of LNx `[G·H]`.
    pub input_norm_bias: Option<Param<Tensor<1>>>,
    /// γ of LNh `[G·H]`.
    pub recurrent_norm_gain: Option<Param<Tensor<1>>>,
    /// β of LNh `[G·H]`.
    pub recurrent_norm_bias: Option<Param<Tensor<1>>>,
    /// γ of LNs `[G·H]`.
    pub sum_norm_gain: Option<Param<Tensor<1>>>,
    /// β of LNs `[G·H]`.
    pub sum_norm_bias: Option<Param<Tensor<1>>>,
    /// γ of LNc `[H]`.
    pub cell_norm_gain: Option<Param<Tensor<1>>>,
    /// β of LNc `[H]`.
    pub cell_norm_bias: Option<Param<Tensor<1>>>,
    /// p `[3, H]`: for i, f and o (coupled: `[2, H]`, for f and o).
    pub peephole: Option<Param<Tensor<2>>>,
    /// P `[P, H]`.
    pub projection: Option<Param<Tensor<2>>>,
    /// bp `[P]`.
    pub projection_bias: Option<Param<Tensor<1>>>,
}

/// A parameter in the data's own type.
fn param<const D: usize>(data: TensorData, device: &Device) -> Param<Tensor<D>> {
    let dtype = data.dtype();
    Param::from_tensor(Tensor::from_data(data, (device, dtype)))
}

impl Cell {
    /// The parameters of one cell of a network.
    pub(super) fn new<A: Float + Element>(
        params: &Params<A>,
        config: &Config,
        layer: usize,
        direction: usize,
        device: &Device,
    ) -> Cell {
        let data = |slot: Slot| {
            let values = params.get(layer, direction, slot)?;
            Some(TensorData::new(values.to_vec(), slot.shape(config, layer)?))
        };
        let vector = |slot| data(slot).map(|data| param::<1>(data, device));
        let matrix = |slot| data(slot).map(|data| param::<2>(data, device));
        Cell {
            input_weight: matrix(Slot::InputWeight).expect("every cell has W"),
            recurrent_weight: matrix(Slot::RecurrentWeight).expect("every cell has U"),
            input_bias: vector(Slot::InputBias),
            recurrent_bias: vector(Slot::RecurrentBias),
            bias: vector(Slot::Bias),
            input_norm_gain: vector(Slot::InputNormGain),
            input_norm_bias: vector(Slot::InputNormBias),
            recurrent_norm_gain: vector(Slot::RecurrentNormGain),
            recurrent_norm_bias: vector(Slot::RecurrentNormBias),
            sum_norm_gain: vector(Slot::SumNormGain),
            sum_norm_bias: vector(Slot::SumNormBias),
            cell_norm_gain: vector(Slot::CellNormGain),
            cell_norm_bias: vector(Slot::CellNormBias),
            peephole: matrix(Slot::Peephole),
            projection: matrix(Slot::Projection),
            projection_bias: vector(Slot::ProjectionBias),
        }
    }

    /// A parameter's numbers in row-major order, if the cell has it.
    pub fn values(&self, slot: Slot) -> Option<Tensor<1>> {
        self.with(slot, Param::val, |matrix| matrix.val().flatten::<1>(0, 1))
    }

    /// A parameter's shape, if the cell has it.
    pub(super) fn shape(&self, slot: Slot) -> Option<Vec<usize>> {
        self.with(slot, |vector| vector.dims().to_vec(), |matrix| matrix.dims().to_vec())
    }

    /// Applies one of two functions to a parameter, if the cell has it.
    fn with<R>(
        &self,
        slot: Slot,
        vector: impl Fn(&Param<Tensor<1>>) -> R,
        matrix: impl Fn(&Param<Tensor<2>>) -> R,
    ) -> Option<R> {
        match slot {
            Slot::InputWeight => Some(matrix(&self.input_weight)),
            Slot::RecurrentWeight => Some(matrix(&self.recurrent_weight)),
            Slot::InputBias => self.input_bias.as_ref().map(vector),
            Slot::RecurrentBias => self.recurrent_bias.as_ref().map(vector),
            Slot::Bias => self.bias.as_ref().map(vector),
            Slot::InputNormGain => self.input_norm_gain.as_ref().map(vector),
            Slot::InputNormBias => self.input_norm_bias.as_ref().map(vector),
            Slot::RecurrentNormGain => self.recurrent_norm_gain.as_ref().map(vector),
            Slot::RecurrentNormBias => self.recurrent_norm_bias.as_ref().map(vector),
            Slot::SumNormGain => self.sum_norm_gain.as_ref().map(vector),
            Slot::SumNormBias => self.sum_norm_bias.as_ref().map(vector),
            Slot::CellNormGain => self.cell_norm_gain.as_ref().map(vector),
            Slot::CellNormBias => self.cell_norm_bias.as_ref().map(vector),
            Slot::Peephole => self.peephole.as_ref().map(matrix),
            Slot::Projection => self.projection.as_ref().map(matrix),
            Slot::ProjectionBias => self.projection_bias.as_ref().map(vector),
        }
    }

    /// All existing parameters, in the order of [`Slot::ALL`], which is that of [`Params`].
    pub(super) fn flat(&self) -> Vec<Tensor<1>> {
        Slot::ALL.into_iter().filter_map(|slot| self.values(slot)).collect()
    }
}

//! Taps: optional access to the hidden units of a forward pass.

use burn::tensor::Tensor;

/// The hidden units of a layer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Name of the layer.
    pub layer: String,
    /// Before the norm, `[samples, units]`: samples are images or positions of images. Without a norm, the same as
    /// `after`.
    pub before: Tensor<2>,
    /// After the norm.
    pub after: Tensor<2>,
}

/// Collects hidden units; closed taps have no cost.
#[derive(Debug, Default)]
pub struct Taps {
    open: bool,
    seen: Vec<Seen>,
}

impl Taps {
    /// Collects nothing.
    pub fn closed() -> Taps {
        Taps::default()
    }

    /// Collects every hidden layer.
    pub fn open() -> Taps {
        Taps { open: true, seen: Vec::new() }
    }

    /// The collected units, in the order of the layers.
    pub fn seen(self) -> Vec<Seen> {
        self.seen
    }

    /// A layer's units: vectors.
    pub(super) fn vectors(&mut self, layer: impl FnOnce() -> String, before: &Tensor<2>, after: &Tensor<2>) {
        if self.open {
            self.seen.push(Seen { layer: layer(), before: before.clone().detach(), after: after.clone().detach() });
        }
    }

    /// A layer's units: positions `[B, T, C]`.
    pub(super) fn positions(&mut self, layer: impl FnOnce() -> String, before: &Tensor<3>, after: &Tensor<3>) {
        let flat = |x: &Tensor<3>| {
            let [batch, positions, units] = x.dims();
            x.clone().reshape([batch * positions, units])
        };
        if self.open {
            self.vectors(layer, &flat(before), &flat(after));
        }
    }

    /// A layer's units: images `[B, C, H, W]`, where each channel is a unit.
    pub(super) fn images(&mut self, layer: impl FnOnce() -> String, before: &Tensor<4>, after: &Tensor<4>) {
        let flat = |x: &Tensor<4>| {
            let [batch, channels, height, width] = x.dims();
            x.clone().swap_dims(1, 3).reshape([batch * width * height, channels])
        };
        if self.open {
            self.vectors(layer, &flat(before), &flat(after));
        }
    }
}

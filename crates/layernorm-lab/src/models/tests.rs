mod batch;
mod fits;
mod norms;
mod recurrent;
mod start;
mod states;

use super::*;
use burn::module::{ModuleVisitor, Param};
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// Half the distance from 1 to the next f32: the maximum relative error of one rounding.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Rows and columns of the test images.
const IMAGE: [usize; 2] = [6, 5];

fn cpu() -> Device {
    Device::flex()
}

fn training() -> Device {
    Device::flex().autodiff()
}

/// One network of each architecture and each of its variants.
fn archs() -> Vec<Arch> {
    let transformer = |pre_norm| Arch::Transformer { width: 8, heads: 2, blocks: 2, pre_norm };
    vec![
        Arch::mlp(&[16, 12]),
        Arch::Mlp { hidden: vec![16], activation: Activation::Tanh, output_norm: true },
        lstm(Reads::Rows),
        lstm(Reads::Pixels),
        recurrent(Kind::Gru, Reads::Rows),
        recurrent(Kind::Rnn, Reads::Rows),
        Arch::Cnn { channels: [8, 12] },
        transformer(true),
        transformer(false),
    ]
}

fn lstm(reads: Reads) -> Arch {
    recurrent(Kind::Lstm, reads)
}

/// A recurrent network with one layer.
fn recurrent(kind: Kind, reads: Reads) -> Arch {
    Arch::recurrent(kind, RecurrentSize { hidden: 7, reads, layers: 1 })
}

/// All networks with all norms that they support.
fn fitting() -> impl Iterator<Item = (Arch, Norm)> {
    let all = archs().into_iter().flat_map(|arch| Norm::ALL.map(|norm| (arch.clone(), norm)));
    all.filter(|(arch, norm)| arch.refuses(*norm).is_none())
}

fn net(arch: &Arch, norm: Norm, device: &Device) -> Net {
    with_start(arch, norm, &Start::new(1), device)
}

fn with_start(arch: &Arch, norm: Norm, start: &Start, device: &Device) -> Net {
    Net::new(arch, norm, IMAGE, start, device).unwrap()
}

/// Numbers in ±2 from a seed.
fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut random = crate::data::SplitMix64::new(seed);
    (0..count).map(|_| (random.next_u64() >> 40) as f32 / (1 << 22) as f32 - 2.0).collect()
}

/// Images `[count, rows, columns]`.
fn images_of(seed: u64, shape: [usize; 3], device: &Device) -> Tensor<3> {
    Tensor::from_data(TensorData::new(random(seed, shape.iter().product()), shape), device)
}

fn images(seed: u64, count: usize, device: &Device) -> Tensor<3> {
    images_of(seed, [count, IMAGE[0], IMAGE[1]], device)
}

fn logits(net: &Net, images: Tensor<3>) -> Tensor<2> {
    net.forward(images, &mut Taps::closed())
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().try_to_vec().unwrap()
}

fn wide<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    values(tensor).into_iter().map(f64::from).collect()
}

fn bits<const D: usize>(tensor: &Tensor<D>) -> Vec<u32> {
    values(tensor).into_iter().map(f32::to_bits).collect()
}

/// A parameter or running statistic: its shape and its numbers.
#[derive(Clone, Debug, PartialEq)]
struct Numbers {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// All parameters and running statistics of a network by name. In both the fused and the step-by-step LSTM the names
/// are `Lstm.input`, `Lstm.recurrent` and `Lstm.bias`, and so for the GRU and the RNN.
fn parameters(net: &Net) -> BTreeMap<String, Numbers> {
    #[derive(Default)]
    struct Collect {
        path: Vec<String>,
        found: BTreeMap<String, Numbers>,
    }
    impl ModuleVisitor for Collect {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let numbers = Numbers { shape: param.val().dims().to_vec(), values: values(&param.val()) };
            self.found.insert(self.path.join("."), numbers);
        }
    }
    let mut collect = Collect::default();
    net.visit(&mut collect);
    let plain = |name: String| {
        let name = name.replace("cells.Fused.lstm.net.cells.0.", "").replace("cells.Steps.", "");
        name.replace("input_weight", "input").replace("recurrent_weight", "recurrent")
    };
    collect.found.into_iter().map(|(name, numbers)| (plain(name), numbers)).collect()
}

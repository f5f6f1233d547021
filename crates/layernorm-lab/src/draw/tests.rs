mod attention;
mod gradient;
mod spec;

use super::net::Net;
use super::{Norms, Spec};
use crate::models::numbers::{numbers, with_numbers};
use crate::training::Images;
use burn::tensor::{Device, Tensor, TensorData};

/// A tiny network's specification.
fn tiny(norms: Norms, attention: Option<[usize; 2]>) -> Spec {
    Spec {
        norms,
        seed: 1,
        glimpses: 2,
        hidden: 4,
        latent: 2,
        attention,
        images: Images::default(),
        learning_rate: 0.01,
        batch_size: 2,
        steps: 1,
        evaluations: 1,
        data: String::new(),
        train: 2,
        validation: 1,
        test: 0,
        digits: 0,
    }
}

fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

#[test]
fn networks_with_other_norms_start_from_the_same_weights() {
    let device = Device::flex();
    let of = |norms| numbers(&Net::new(&tiny(norms, Some([2, 3])), [4, 5], &[0.5; 20], &device).unwrap()).unwrap();
    let (none, cell) = (of(Norms::None), of(Norms::Cell));
    for tensor in &none {
        assert!(cell.contains(tensor), "{}", tensor.entry.name);
    }
    // γ and β of each LSTM's cell.
    assert_eq!(cell.len(), none.len() + 4);
    assert_eq!(of(Norms::All).len(), none.len() + 12);
}

#[test]
fn the_bound_of_a_network_without_weights_is_known() {
    let device = Device::flex();
    let canvas = [0.5, -1.0, 2.0, 0.0];
    let net = Net::new(&tiny(Norms::None, None), [2, 2], &canvas, &device).unwrap();
    let mut zeros = numbers(&net).unwrap();
    zeros.iter_mut().filter(|tensor| tensor.entry.name != "canvas").for_each(|tensor| tensor.numbers.fill(0.0));
    // μ = (1, −2) and ln σ = (0, ½) for each of two glimpses.
    zeros.iter_mut().find(|tensor| tensor.entry.name == "posterior.bias").unwrap().numbers = vec![1.0, -2.0, 0.0, 0.5];
    let net = with_numbers(net, zeros).unwrap();
    let x = [1.0, 0.0, 0.0, 1.0];
    let loss = net.loss(tensor(x.to_vec(), [1, 4], &device), tensor(vec![0.3; 4], [2, 1, 2], &device));
    let nats = |(x, c): (f32, f64)| (1.0 + c.exp()).ln() - f64::from(x) * c;
    let expected = [
        x.into_iter().zip(canvas).map(nats).sum::<f64>(),
        2.0 * 0.5 * (1.0 + 1.0 - 0.0 - 1.0 + 4.0 + 1f64.exp() - 1.0 - 1.0),
    ];
    let found = [loss.reconstruction, loss.kl].map(|nats| f64::from(nats.into_scalar::<f32>()));
    for (found, expected) in found.into_iter().zip(expected) {
        // Sums of at most eight numbers below 8: an error of at most 8·8·2⁻²⁴ from rounding them.
        assert!((found - expected).abs() < 4e-6, "{found}, not {expected}");
    }
}

#[test]
fn generated_canvases_add_up() {
    let device = Device::flex();
    let net = Net::new(&tiny(Norms::Cell, Some([2, 3])), [4, 5], &[0.5; 20], &device).unwrap();
    let noise = |from: f32| tensor((0..8).map(|n| from + n as f32 / 8.0).collect(), [2, 2, 2], &device);
    let read = |canvas: &Tensor<2>| canvas.to_data().try_into_vec_as::<f32>().unwrap();
    let canvases: Vec<Vec<f32>> = net.generate(noise(0.0)).iter().map(read).collect();
    assert_eq!(canvases.len(), 2);
    // Every glimpse changes the canvas, and different z give different images.
    assert_ne!(canvases[0], canvases[1]);
    assert_ne!(canvases[1][..20], canvases[1][20..]);
    assert_ne!(canvases[1], read(&net.generate(noise(-1.0))[1]));
}

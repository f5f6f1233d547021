//! The gradient of the whole bound against finite differences.

use super::{tensor, tiny};
use crate::data::SplitMix64;
use crate::draw::Norms;
use crate::draw::net::Net;
use crate::draw::normal::normals;
use crate::models::numbers::{numbers, with_numbers};
use crate::training::tensors::Named;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};

const IMAGE: [usize; 2] = [3, 4];
const BATCH: usize = 2;

/// Reads the gradients in module order.
struct Reader<'a> {
    gradients: &'a Gradients,
    found: Vec<Vec<f32>>,
}

impl ModuleVisitor for Reader<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.gradients).expect("a gradient of every parameter");
        self.found.push(gradient.into_data().try_into_vec_as::<f32>().unwrap());
    }
}

fn bound(net: &Net, device: &Device) -> Tensor<1> {
    let pixels = (0..BATCH * 12).map(|n| f32::from(u8::from(n % 3 == 0 || n % 7 == 2))).collect();
    let noise = normals(&mut SplitMix64::new(2), 2 * BATCH * 2);
    let loss = net.loss(tensor(pixels, [BATCH, 12], device), tensor(noise, [2, BATCH, 2], device));
    loss.reconstruction + loss.kl
}

/// Central differences with step s, (L(w + s) − L(w − s))/2s, of the bound L ≈ 10. L is computed in f32 with an error of
/// some 8 units in the last place, 8·2⁻²⁰, so the difference has an error of 8·2⁻²⁰/s = 8·10⁻⁴ at s = 10⁻², and the
/// missing cubic term s²/6·L‴ ≈ 2·10⁻⁵·L‴ adds as much for L‴ ≈ 40. The tolerance is the sum, with room for the size
/// of the gradient.
const STEP: f32 = 1e-2;
const TOLERANCE: f64 = 2e-3;

fn check(norms: Norms, attention: Option<[usize; 2]>) {
    let canvas: Vec<f64> = (0..12).map(|n| f64::from(n) / 8.0 - 0.7).collect();
    let device = Device::flex().autodiff();
    let net = Net::new(&tiny(norms, attention), IMAGE, &canvas, &device).unwrap();
    let gradients = bound(&net, &device).backward();
    let mut reader = Reader { gradients: &gradients, found: Vec::new() };
    net.visit(&mut reader);
    let (plain, parameters) = (Device::flex(), numbers(&net).unwrap());
    let fresh = Net::new(&tiny(norms, attention), IMAGE, &canvas, &plain).unwrap();
    let at = |parameters: Vec<Named>| {
        let net = with_numbers(fresh.clone(), parameters).unwrap();
        f64::from(bound(&net, &plain).into_scalar::<f32>())
    };
    let mut largest = 0f64;
    for (number, gradient) in reader.found.iter().enumerate() {
        for (place, &gradient) in gradient.iter().enumerate() {
            let moved = |by: f32| {
                let mut parameters = parameters.clone();
                parameters[number].numbers[place] += by;
                at(parameters)
            };
            let found = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
            let off = (found - f64::from(gradient)).abs();
            let name = &parameters[number].entry.name;
            assert!(off < TOLERANCE * (1.0 + found.abs()), "{name}[{place}]: {gradient}, not {found}");
            largest = largest.max(found.abs());
        }
    }
    // Not a comparison of zeros.
    assert!(largest > 0.5, "{largest}");
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    check(Norms::None, None);
    check(Norms::Cell, Some([2, 3]));
    check(Norms::All, None);
}

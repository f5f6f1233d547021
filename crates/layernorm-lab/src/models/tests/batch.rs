//! Whether a sample's logits depend on the other samples of its batch.
//!
//! Our kernels give a sample the same bits in any batch. Burn's products do not: flex multiplies a single row in
//! a different order than 64 rows. Bits are therefore compared where only our kernels are used, and logits within the
//! rounding error of reordered sums.

use super::*;
use crate::models::norm::NormLayer;
use crate::models::start::Draw;

/// As large as in a study, so that blocked products are used.
fn large() -> Vec<Arch> {
    vec![
        Arch::mlp(&[128, 64]),
        Arch::lstm(32, Reads::Rows),
        Arch::Gru(RecurrentSize { hidden: 32, reads: Reads::Rows, layers: 1 }),
        Arch::Rnn(RecurrentSize { hidden: 32, reads: Reads::Rows, layers: 2 }),
        Arch::Cnn { channels: [8, 16] },
        Arch::Transformer { width: 32, heads: 4, blocks: 2, pre_norm: true },
        Arch::Transformer { width: 32, heads: 4, blocks: 2, pre_norm: false },
    ]
}

const MNIST: [usize; 2] = [28, 28];
const BATCH: usize = 64;

fn many(device: &Device) -> Tensor<3> {
    images_of(1, [BATCH, MNIST[0], MNIST[1]], device)
}

/// Large networks in inference mode, with running statistics that differ from the initial ones.
fn trained() -> impl Iterator<Item = (Arch, Norm, Net)> {
    let all = large().into_iter().flat_map(|arch| Norm::ALL.map(|norm| (arch.clone(), norm)));
    let fit = all.filter(|(arch, norm)| arch.refuses(*norm).is_none());
    fit.map(|(arch, norm)| {
        let device = training();
        let net = Net::new(&arch, norm, MNIST, &Start::new(1), &device).unwrap();
        logits(&net, many(&device));
        let net = net.valid();
        (arch, norm, net)
    })
}

fn case<const D: usize>(tensor: &Tensor<D>, number: usize) -> Tensor<D> {
    tensor.clone().narrow(0, number, 1)
}

#[test]
fn norms_give_a_case_the_same_bits_alone_and_among_64() {
    let (device, start) = (cpu(), Start { gain: 0.7, bias: 0.3, ..Start::new(1) });
    let draw = Draw::new(&start, &device);
    let norms = Norm::ALL.into_iter().filter(|norm| !matches!(norm, Norm::None | Norm::Weight));
    for norm in norms {
        let (units, images) = (NormLayer::of_units(norm, 24, &draw), NormLayer::of_images(norm, [24, 3, 5], &draw));
        let (units, images) = (units.unwrap(), images.unwrap());
        let random = |shape: &[usize]| TensorData::new(random(5, shape.iter().product()), shape.to_vec());
        let vectors = Tensor::<2>::from_data(random(&[BATCH, 24]), &device);
        let positions = Tensor::<3>::from_data(random(&[BATCH, 7, 24]), &device);
        let pictures = Tensor::<4>::from_data(random(&[BATCH, 24, 3, 5]), &device);
        let together =
            (units.vectors(vectors.clone()), units.positions(positions.clone()), images.images(pictures.clone()));
        for number in 0..BATCH {
            let alone = (
                units.vectors(case(&vectors, number)),
                units.positions(case(&positions, number)),
                images.images(case(&pictures, number)),
            );
            assert_eq!(bits(&alone.0), bits(&case(&together.0, number)), "{norm}, vectors");
            assert_eq!(bits(&alone.1), bits(&case(&together.1, number)), "{norm}, positions");
            assert_eq!(bits(&alone.2), bits(&case(&together.2, number)), "{norm}, images");
        }
    }
}

#[test]
fn the_states_of_fused_networks_are_the_same_bits_alone_and_among_64() {
    let state = |net: &Net, images| {
        let mut taps = Taps::open();
        net.forward(images, &mut taps);
        taps.seen().remove(0).after
    };
    let fused = |norm| matches!(norm, Norm::None | Norm::Layer | Norm::Group | Norm::Weight);
    let networks = trained().filter(|(arch, norm, _)| arch.as_recurrent().is_some() && fused(*norm));
    for (arch, norm, net) in networks {
        let (images, together) = (many(&cpu()), state(&net, many(&cpu())));
        for number in 0..BATCH {
            assert_eq!(bits(&state(&net, case(&images, number))), bits(&case(&together, number)), "{arch:?} {norm}");
        }
    }
}

#[test]
fn in_inference_logits_do_not_depend_on_the_batch() {
    for (arch, norm, net) in trained() {
        let (images, together) = (many(&cpu()), logits(&net, many(&cpu())));
        for number in [0, 1, 31, BATCH - 1] {
            let (alone, among) = (logits(&net, case(&images, number)), case(&together, number));
            for (alone, among) in wide(&alone).into_iter().zip(wide(&among)) {
                // Reordering k terms changes a sum by at most k units of the terms' size. A number passes through at
                // most 1,700 terms (28 steps of the LSTM with 28 and 32 each).
                let tolerance = 1700.0 * UNIT * (1.0 + alone.abs());
                assert!((alone - among).abs() <= tolerance, "{arch:?} {norm}: {alone} {among}");
            }
        }
    }
}

#[test]
fn in_training_only_batch_norms_logits_depend_on_the_batch() {
    let device = training();
    let all = large().into_iter().flat_map(|arch| Norm::ALL.map(|norm| (arch.clone(), norm)));
    for (arch, norm) in all.filter(|(arch, norm)| arch.refuses(*norm).is_none()) {
        let net = Net::new(&arch, norm, MNIST, &Start::new(1), &device).unwrap();
        let few = logits(&net, many(&device).narrow(0, 0, 4));
        let among = logits(&net, many(&device)).narrow(0, 0, 4);
        let pairs = wide(&few).into_iter().zip(wide(&among));
        let apart = pairs.fold(0.0, |most: f64, (few, among)| most.max((few - among).abs()));
        // Mean and variance of four samples differ a lot from those of 64; rounding effects are far smaller.
        assert_eq!(apart > 1e-2, norm == Norm::Batch, "{arch:?} {norm}: {apart}");
    }
}

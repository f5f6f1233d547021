//! Modules can replace candle-nn's: the same constructors, the same names in checkpoints, the same values within
//! rounding.

use crate::common::{CPU, builder, numbers, tensor, values};
use candle_core::{DType, Module, Tensor};
use candle_nn::{LayerNormConfig, VarBuilder};
use std::collections::HashMap;

fn x() -> Tensor {
    tensor(&numbers(1, 3 * 8 * 5), &[3, 8, 5])
}

/// Two ways to compute one formula: sums of at most 40 numbers of both signs, whose variance is of the order of their
/// mean square. That leaves a few units in the last place per term, relative to the largest output.
fn close(name: &str, ours: &dyn Module, theirs: &dyn Module, x: &Tensor) {
    let (ours, theirs) = (ours.forward(x).unwrap(), theirs.forward(x).unwrap());
    assert_eq!((ours.dtype(), ours.dims()), (theirs.dtype(), theirs.dims()), "{name}");
    let largest = |x: Tensor| x.abs().unwrap().max_all().unwrap().to_dtype(DType::F64).unwrap().to_scalar::<f64>();
    let unit = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (off, most) = (largest((&ours - &theirs).unwrap()).unwrap(), largest(theirs).unwrap());
    assert!(off <= 300.0 * unit * most, "{name}, {:?}: {off} of {most}", x.dtype());
}

fn checkpoint(names: &[(&str, usize)], dtype: DType) -> VarBuilder<'static> {
    let tensors = names.iter().zip(2..).map(|(&(name, n), seed)| (name.to_owned(), tensor(&numbers(seed, n), &[n])));
    VarBuilder::from_tensors(tensors.collect::<HashMap<_, _>>(), dtype, &CPU)
}

/// In f32 with a contiguous input, for which candle-nn has kernels, and in f64 with one that is not contiguous:
/// candle-nn rejects contiguous f64.
#[test]
fn the_values_are_candles() {
    let turned = x().transpose(1, 2).unwrap().contiguous().unwrap().transpose(1, 2).unwrap();
    for x in [x().to_dtype(DType::F32).unwrap(), turned] {
        let rows = || checkpoint(&[("weight", 5), ("bias", 5)], x.dtype());
        // candle-nn rounds ε to f32 on its fast path: 2⁻²⁰ is the same in both types.
        let eps = 2f64.powi(-20);
        let ours = layernorm_candle::layer_norm(5, eps, rows()).unwrap();
        close("layer norm", &ours, &candle_nn::layer_norm(5, eps, rows()).unwrap(), &x);
        let ours = layernorm_candle::layer_norm_no_bias(5, eps, rows()).unwrap();
        close("without a bias", &ours, &candle_nn::layer_norm_no_bias(5, eps, rows()).unwrap(), &x);
        let ours = layernorm_candle::rms_norm(5, eps, rows()).unwrap();
        close("RMS norm", &ours, &candle_nn::rms_norm(5, eps, rows()).unwrap(), &x);
        let config = LayerNormConfig { eps, remove_mean: false, affine: true };
        let ours = layernorm_candle::layer_norm(5, config, rows()).unwrap();
        close("the mean stays", &ours, &candle_nn::layer_norm(5, config, rows()).unwrap(), &x);
        let channels = || checkpoint(&[("weight", 8), ("bias", 8)], x.dtype());
        for groups in [1, 2, 8] {
            let ours = layernorm_candle::group_norm(groups, 8, eps, channels()).unwrap();
            close("group norm", &ours, &candle_nn::group_norm(groups, 8, eps, channels()).unwrap(), &x);
        }
    }
}

/// Rows with mean 10,000: E[x²] − E[x]² in f32 has no correct digit left there.
#[test]
fn a_large_mean_costs_nothing_here() {
    let row: Vec<f32> = (0..64).map(|i| 10_000.0 + (i % 8) as f32).collect();
    let x = tensor(&row, &[1, 64]);
    let (weight, bias) = (tensor(&[1.0f32; 64], &[64]), tensor(&[0.0f32; 64], &[64]));
    let exact = |i: usize| ((i % 8) as f64 - 3.5) / (5.25f64 + 1e-5).sqrt();
    let off = |y: Tensor| {
        let errors = values::<f32>(&y).into_iter().enumerate().map(|(i, y)| (f64::from(y) - exact(i)).abs());
        errors.fold(0.0, |most: f64, error| if error > most || error.is_nan() { error } else { most })
    };
    let ours = off(layernorm_candle::LayerNorm::new(weight.clone(), bias.clone(), 1e-5).forward(&x).unwrap());
    // Two units in the last place of numbers below 2.
    assert!(ours <= 2.0 * f64::from(f32::EPSILON), "{ours}");
    let theirs = off(candle_nn::LayerNorm::new(weight, bias, 1e-5).forward(&x).unwrap());
    assert!(theirs > 0.01 || theirs.is_nan(), "candle-nn 0.11.1 was off by {theirs}");
}

#[test]
fn old_names_are_found() {
    let ours = layernorm_candle::layer_norm(5, 1e-5, checkpoint(&[("gamma", 5), ("beta", 5)], DType::F64)).unwrap();
    assert_eq!(values::<f64>(ours.weight()), numbers(2, 5));
    assert_eq!(values::<f64>(ours.bias().unwrap()), numbers(3, 5));
}

#[test]
fn instance_norm_is_group_norm_of_single_channels() {
    let (map, vb) = builder(DType::F64);
    let config = layernorm_candle::InstanceNormConfig { affine: true, ..Default::default() };
    let instance = layernorm_candle::instance_norm(8, config, vb.clone()).unwrap();
    assert_eq!(map.all_vars().len(), 2);
    let group = layernorm_candle::group_norm(8, 8, 1e-5, vb.clone()).unwrap();
    let expected = values::<f64>(&group.forward(&x()).unwrap());
    assert_eq!(values::<f64>(&instance.forward(&x()).unwrap()), expected);
    // Without weight and bias it has no variables, and the values of weight 1 and bias 0.
    let plain = layernorm_candle::instance_norm(8, 1e-5, vb.pp("plain")).unwrap();
    assert_eq!(map.all_vars().len(), 2);
    assert_eq!(values::<f64>(&plain.forward(&x()).unwrap()), expected);
}

/// candle-nn reads our checkpoints, and we read candle-nn's.
#[test]
fn checkpoints_go_both_ways() {
    let (map, vb) = builder(DType::F32);
    layernorm_candle::layer_norm(5, 1e-5, vb.pp("norm")).unwrap();
    layernorm_candle::group_norm(2, 4, 1e-5, vb.pp("group")).unwrap();
    let mut names: Vec<_> = map.data().lock().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["group.bias", "group.weight", "norm.bias", "norm.weight"]);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("norms.safetensors");
    map.save(&path).unwrap();
    let (mut other, vb) = builder(DType::F32);
    candle_nn::layer_norm(5, 1e-5, vb.pp("norm")).unwrap();
    candle_nn::group_norm(2, 4, 1e-5, vb.pp("group")).unwrap();
    other.load(&path).unwrap();
}

/// Modules can be sent to other threads, as Candle's can, and clones of a recurrent module run at the same time with
/// the same bits.
#[test]
fn modules_go_to_other_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<layernorm_candle::LayerNorm>();
    shared::<layernorm_candle::RmsNorm>();
    shared::<layernorm_candle::GroupNorm>();
    shared::<layernorm_candle::InstanceNorm>();
    let gru = layernorm_candle::gru(5, 7, "paper", builder(DType::F64).1).unwrap();
    let run = |gru: &layernorm_candle::Gru| {
        let (y, _) = gru.forward(&x(), None).unwrap();
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let (_, weight) = gru.net.named_parameters().next().unwrap();
        [&y, gradients.get(weight).unwrap()].map(values::<f64>)
    };
    let expected = run(&gru);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| gru.clone()).map(|gru| scope.spawn(move || run(&gru))).collect();
        for thread in threads {
            assert!(thread.join().unwrap() == expected);
        }
    });
}

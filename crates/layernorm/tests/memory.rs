//! Where there is no memory, a call says so with the bytes that it could not have, and writes nothing.

use layernorm::batch_norm::{self, BatchConfig, Moments};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{
    Affine, BatchNorm, Context, Error, Gradients, GroupNorm, LayerNorm, NormConfig, Saved, View, ViewMut, bf16,
    layer_norm,
};

#[path = "common/faults.rs"]
mod faults;

fn each_refused<P, R: PartialEq>(what: &str, prepare: impl Fn() -> P, call: impl Fn(P) -> Result<R, Error>) {
    faults::each_refused(what, prepare, call, |error| match error {
        Error::OutOfMemory { bytes } => Some(*bytes),
        _ => None,
    });
}

const ROWS: usize = 150;
const N: usize = 300;

fn context() -> Context {
    Context::new().with_threads(1).unwrap()
}

#[test]
fn what_cannot_be_had_is_an_error() {
    let x: Vec<f32> = (0..ROWS * N).map(|i| (i % 97) as f32 - 40.0).collect();
    rows(&x);
    channels(&x);
    layers(&x);
    let (saved, layer) =
        faults::with_limit(1 << 20, || (Saved::<f32>::try_new(1 << 30), LayerNorm::<f32>::new([1 << 30])));
    assert_eq!(saved.unwrap_err().to_string(), "out of memory: 4294967296 bytes could not be allocated");
    assert_eq!(layer.forward(&[]).unwrap_err().to_string(), "weight: expected 1073741824 elements, found 0");
}

/// Columns as rows, which are packed, and sums down the rows.
fn rows(x: &[f32]) {
    let x: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
    let gain = vec![bf16::ONE; ROWS];
    let affine = Affine { weight: Some(View::new(&gain, &[ROWS]).unwrap().into()), ..Affine::default() };
    let config = NormConfig::new().affine(affine);
    let (shape, strides) = ([N, ROWS], [1, N as isize]);
    let columns = || View::strided(&x, &shape, &strides, 0).unwrap();
    let prepare = || (vec![bf16::ZERO; x.len()], vec![bf16::ZERO; ROWS], Saved::new(N));
    each_refused("strided rows", prepare, |(mut y, mut dgain, mut saved)| {
        let to = ViewMut::strided(&mut y, &shape, &strides, 0)?;
        let outcome = layer_norm::forward(columns(), to, Some(saved.as_mut()), &config, &mut context());
        assert!(outcome.is_ok() || y.iter().all(|&y| y == bf16::ZERO), "something was written");
        outcome?;
        let gradients = Gradients { weight: Some(ViewMut::new(&mut dgain, &[ROWS])?.into()), ..Gradients::default() };
        layer_norm::backward(columns(), columns(), saved.as_ref(), gradients, &config, &mut context())?;
        Ok((y, dgain))
    });
}

fn channels(x: &[f32]) {
    let shape = [3, 50, N];
    let view = || View::new(x, &shape).unwrap();
    let gain = vec![2f32; 50];
    let affine = Affine { weight: Some(View::new(&gain, &[50]).unwrap().into()), ..Affine::default() };
    let config = GroupConfig { affine, ..GroupConfig::new(5) };
    let prepare = || (x.to_vec(), x.to_vec(), vec![0f32; 50], Saved::new(15));
    each_refused("group norm", prepare, |(mut y, mut dx, mut dgain, mut saved)| {
        let to = ViewMut::new(&mut y, &shape)?;
        group_norm::forward(view(), to, Some(saved.as_mut()), &config, &mut context())?;
        let input = Some(ViewMut::new(&mut dx, &shape)?);
        let gradients = Gradients { input, weight: Some(ViewMut::new(&mut dgain, &[50])?.into()), bias: None };
        group_norm::backward(view(), view(), saved.as_ref(), gradients, &config, &mut context())?;
        Ok((y, dx, dgain))
    });
    let (mean, var, shape) = (vec![0.5f32; ROWS], vec![2f32; ROWS], [N, ROWS]);
    let moments = Moments { mean: &mean, var: &var };
    let config = BatchConfig::default();
    each_refused(
        "batch norm at inference",
        || x.to_vec(),
        |mut y| {
            batch_norm::infer(View::new(x, &shape)?, ViewMut::new(&mut y, &shape)?, moments, &config, &mut context())?;
            Ok(y)
        },
    );
    let shape = [ROWS, N];
    let prepare = || (vec![1f32; ROWS], x.to_vec(), vec![0f32; ROWS], Saved::new(ROWS));
    each_refused("weight norm", prepare, |(g, mut w, mut dg, mut saved)| {
        let (v, g, cx) = (View::new(x, &shape)?, View::new(&g, &[ROWS])?, &mut context());
        weight_norm::forward(v, g, ViewMut::new(&mut w, &shape)?, Some(saved.as_mut()), Some(0), cx)?;
        let gradients = WeightGradients { v: None, g: Some(ViewMut::new(&mut dg, &[ROWS])?) };
        weight_norm::backward(v, g, v, saved.as_ref(), gradients, Some(0), &mut context())?;
        Ok((w, dg))
    });
}

fn layers(x: &[f32]) {
    let layer = LayerNorm::<f32>::new([N]);
    each_refused(
        "a layer",
        || (),
        |()| {
            let (y, saved) = layer.forward_train(x)?;
            let gradients = layer.backward(x, &y, &saved)?;
            Ok((y, saved, gradients))
        },
    );
    let (group, shape) = (GroupNorm::<f32>::new(5, 50), [3, 50, N]);
    each_refused(
        "a layer of group norm",
        || (),
        |()| {
            let (y, saved) = group.forward_train(x, &shape)?;
            let gradients = group.backward(x, &y, &shape, &saved)?;
            Ok((y, saved, gradients))
        },
    );
    let shape = [N, ROWS];
    each_refused(
        "a layer of batch norm",
        || BatchNorm::<f32>::new(ROWS),
        |mut batch| {
            let (y, saved) = batch.forward_train(x, &shape)?;
            let gradients = batch.backward(x, &y, &shape, &saved)?;
            Ok((y, saved, gradients, batch.forward(x, &shape)?, batch.running_var))
        },
    );
}

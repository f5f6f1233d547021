//! Sizes, strides and numbers of threads that no sensible caller passes, and tensors without elements: no call panics.

use super::*;

/// Sizes, strides and offsets from nothing to everything.
const ODD_SIZES: [usize; 8] = [0, 1, 2, 3, 1 << 31, 1 << 60, isize::MAX as usize, MAX];
const ODD_STRIDES: [isize; 7] = [0, 1, -1, 3, isize::MAX, isize::MIN, isize::MIN + 1];

/// Calls everything with these views; only that nothing panics is asked.
fn call_all(x: View<f32>, y: &mut ViewMut<f32>, threads: usize) {
    let cx = &mut Context::new().with_threads(threads).unwrap();
    let mut saved = Saved::new(2);
    let axes: [&[isize]; 6] = [&[], &[0], &[-1], &[0, 1], &[1, 2], &[isize::MIN, isize::MAX]];
    let configs = axes.map(Axes::These).into_iter().chain([0, 1, 2, MAX].map(Axes::Last));
    for config in configs.map(|axes| NormConfig::new().axes(axes)) {
        let _ = layer_norm::forward(x, y.reborrow(), Some(saved.as_mut()), &config, cx);
        let _ = rms_norm::forward_in_place(y.reborrow(), None, &config, cx);
        let _ = rms_norm::forward(x, y.reborrow(), None, &config, cx);
        // Without gradients to write nothing is too large to ask for, so only what has few elements.
        if x.len() <= 64 {
            let _ = layer_norm::backward(x, x, saved.as_ref(), Gradients::default(), &config, cx);
        }
        let gradients = Gradients { input: Some(y.reborrow()), ..Gradients::default() };
        let _ = layer_norm::backward_residual(x, x, Some(x), saved.as_ref(), gradients, &config, cx);
    }
    for groups in [0, 1, 2, MAX] {
        let config = GroupConfig::new(groups);
        let _ = group_norm::forward(x, y.reborrow(), None, &config, cx);
        let _ = group_norm::forward(x, y.reborrow(), Some(saved.as_mut()), &config, cx);
        let gradients = Gradients { input: Some(y.reborrow()), ..Gradients::default() };
        let _ = group_norm::backward(x, x, saved.as_ref(), gradients, &config, cx);
    }
    let _ = instance_norm::forward(x, y.reborrow(), None, &InstanceConfig::default(), cx);
    let config = BatchConfig::default();
    let _ = batch_norm::forward(x, y.reborrow(), saved.as_mut(), &config, cx);
    let gradients = Gradients { input: Some(y.reborrow()), ..Gradients::default() };
    let _ = batch_norm::backward(x, x, saved.as_ref(), gradients, &config, cx);
    let (mean, var) = (&[0.0; 2], &[1.0; 2]);
    let _ = batch_norm::infer(x, y.reborrow(), Moments { mean, var }, &config, cx);
    for axis in [None, Some(0), Some(1), Some(MAX)] {
        for lengths in [0, 1, 2] {
            let g = of(&X, &[lengths]);
            let _ = weight_norm::forward(x, g, y.reborrow(), None, axis, cx);
            let gradients = WeightGradients { v: Some(y.reborrow()), g: None };
            let _ = weight_norm::backward(x, g, x, saved.as_ref(), gradients, axis, cx);
        }
    }
}

#[test]
fn odd_shapes_and_strides() {
    let data = [1.0f32; 8];
    let sizes = || ODD_SIZES.into_iter();
    let mut shapes: Vec<Vec<usize>> = vec![vec![], vec![1; MAX_RANK], vec![2; 17], vec![MAX; 17]];
    shapes.extend(sizes().map(|a| vec![a]));
    shapes.extend(sizes().flat_map(|a| sizes().map(move |b| vec![a, b])));
    shapes.extend(sizes().flat_map(|a| sizes().flat_map(move |b| sizes().map(move |c| vec![a, b, c]))));
    for (i, shape) in shapes.iter().enumerate() {
        let mut empty: [f32; 0] = [];
        if let (Ok(x), Ok(mut y)) = (View::new(&[], shape), ViewMut::new(&mut empty, shape)) {
            call_all(x, &mut y, [1, 2, MAX][i % 3]);
        }
        for (j, &first) in ODD_STRIDES.iter().enumerate() {
            let strides: Vec<isize> =
                (0..shape.len()).map(|axis| if axis == 0 { first } else { ODD_STRIDES[(i + j + axis) % 7] }).collect();
            for offset in [0, 3, MAX] {
                let mut memory = [MARK; 8];
                let x = View::strided(&data, shape, &strides, offset);
                let y = ViewMut::strided(&mut memory, shape, &strides, offset);
                if let (Ok(x), Ok(mut y)) = (x, y) {
                    call_all(x, &mut y, 1);
                }
            }
        }
    }
}

/// A dimension of 1 may have any stride, as NumPy's arrays do.
#[test]
fn any_stride_of_a_dimension_of_one() {
    for stride in ODD_STRIDES {
        let gain = View::strided(&X, &[3, 1], &[1, stride], 0).unwrap();
        let x = View::strided(&X, &[2, 3, 1], &[3, 1, stride], 0).unwrap();
        let config = |weight| {
            let affine = Affine { weight: Some(Param::Same(weight)), bias: None, zero_centered: true };
            NormConfig::new().axes(Axes::Last(2)).affine(affine)
        };
        let (mut found, mut expected, mut dgain) = ([MARK; 6], [MARK; 6], [MARK; 3]);
        let cx = &mut Context::new();
        let y = ViewMut::strided(&mut found, &[2, 3, 1], &[3, 1, stride], 0).unwrap();
        let mut saved = Saved::new(2);
        layer_norm::forward(x, y, Some(saved.as_mut()), &config(gain), cx).unwrap();
        let plain = config(of(&X, &[3, 1]));
        layer_norm::forward(of(&X, &[2, 3, 1]), to(&mut expected, &[2, 3, 1]), None, &plain, cx).unwrap();
        assert_eq!(found, expected, "stride {stride}");
        let weight = ViewMut::strided(&mut dgain, &[3, 1], &[1, stride], 0).unwrap();
        let gradients = Gradients { weight: Some(weight.into()), ..Gradients::default() };
        layer_norm::backward(x, x, saved.as_ref(), gradients, &config(gain), cx).unwrap();
        assert!(!dgain.contains(&MARK));
    }
}

/// More threads than any machine has, on work that is large enough to be shared.
#[test]
fn odd_numbers_of_threads() {
    let n = 40_000;
    let x: Vec<f32> = (0..2 * n).map(|i| (i % 89) as f32).collect();
    let shape = [2, n];
    let run = |threads: usize| {
        let cx = &mut Context::new().with_threads(threads).unwrap();
        let (mut y, mut dx, mut dgain, mut saved) = (x.clone(), x.clone(), x[..n].to_vec(), Saved::new(2));
        let config = NormConfig::new();
        let stats = Some(saved.as_mut());
        layer_norm::forward(of(&x, &shape), to(&mut y, &shape), stats, &config, cx).unwrap();
        let weight = Some(to(&mut dgain, &[n]).into());
        let gradients = Gradients { input: Some(to(&mut dx, &shape)), weight, bias: None };
        layer_norm::backward(of(&x, &shape), of(&x, &shape), saved.as_ref(), gradients, &config, cx).unwrap();
        (y, dx, dgain)
    };
    let expected = run(1);
    for threads in [2, 1000, 1 << 31, 1 << 50, 1 << 57, 1 << 60, MAX] {
        assert!(run(threads) == expected, "{threads} threads");
    }
}

#[test]
fn layers_of_odd_shapes() {
    let group = GroupNorm::<f32>::new(2, 2);
    for samples in ODD_SIZES {
        for shape in [vec![samples, 2], vec![samples, 2, 0], vec![samples, 2, MAX], vec![samples, 2, 0, MAX]] {
            // Statistics of empty rows that fit into memory would be given, but there are gigabytes of them.
            if (4..1 << 59).contains(&samples) {
                continue;
            }
            let _ = group.forward_train(&[], &shape);
            let _ = group.backward(&[], &[], &shape, &Saved::new(0));
            let mut batch = BatchNorm::<f32>::new(2);
            let _ = batch.forward(&[], &shape);
            let _ = batch.forward_train(&[], &shape);
            let _ = batch.backward(&[], &[], &shape, &Saved::new(2));
        }
    }
    for shape in [vec![0, MAX], vec![MAX, 0], vec![MAX, MAX], vec![MAX; 20], vec![0; 20], vec![]] {
        let layer = LayerNorm::<f32>::new(shape.clone());
        let _ = (layer.forward(&[]), layer.forward(&X), layer.backward(&[], &[], &Saved::new(0)));
        let layer = RmsNorm::<f32>::new(shape);
        let _ = (layer.forward(&[]), layer.forward(&X), layer.backward(&X, &X, &Saved::new(12)));
    }
}

/// No rows, no elements, or neither: an empty result, NaN for the mean of nothing, gradients of 0.
#[test]
fn empty_tensors() {
    let cx = &mut Context::new();
    for (shape, rows) in [([0, 3], 0), ([3, 0], 3), ([0, 0], 0), ([0, 1 << 59], 0)] {
        let (x, mut saved, mut dgain) = (View::<f32>::new(&[], &shape).unwrap(), Saved::new(rows), vec![MARK; 3]);
        let mut nothing: [f32; 0] = [];
        let y = ViewMut::new(&mut nothing, &shape).unwrap();
        layer_norm::forward(x, y, Some(saved.as_mut()), &NormConfig::new(), cx).unwrap();
        assert!(saved.mean().iter().all(|mean| mean.is_nan()), "{shape:?}");
        let mut gradients = Gradients::default();
        if shape[1] <= 3 {
            gradients.weight = Some(to(&mut dgain, &shape[1..]).into());
        }
        layer_norm::backward(x, x, saved.as_ref(), gradients, &NormConfig::new(), cx).unwrap();
        let (zeros, rest) = dgain.split_at(if shape[1] <= 3 { shape[1] } else { 0 });
        assert!(zeros.iter().all(|&x| x == 0.0) && rest.iter().all(|&x| x == MARK), "{shape:?}");
    }
}

#[test]
fn empty_channels() {
    let cx = &mut Context::new();
    for (shape, samples, channels) in
        [([0, 3, 2], 0, 3), ([2, 0, 2], 2, 0), ([2, 3, 0], 2, 3), ([MAX, 0, 1], MAX, 0), ([0, 1 << 59, 1], 0, 1 << 59)]
    {
        let (x, mut nothing) = (View::<f32>::new(&[], &shape).unwrap(), [0f32; 0]);
        let mut y = ViewMut::new(&mut nothing, &shape).unwrap();
        let rows = if samples == 0 || channels == 0 { 0 } else { samples * channels };
        let (mut saved, config) = (Saved::new(rows), InstanceConfig::default());
        instance_norm::forward(x, y.reborrow(), Some(saved.as_mut()), &config, cx).unwrap();
        let mut dgain = vec![MARK; if channels <= 3 { channels } else { 0 }];
        let mut gradients = Gradients::default();
        if channels <= 3 {
            gradients.weight = Some(to(&mut dgain, &[channels]).into());
        }
        instance_norm::backward(x, x, saved.as_ref(), gradients, &config, cx).unwrap();
        assert!(dgain.iter().all(|&x| x == 0.0), "{shape:?}");
        if channels > 3 {
            continue;
        }
        let (mut mean, mut var, mut saved) = (vec![MARK; channels], vec![MARK; channels], Saved::new(channels));
        let (momentum, variance) = (Momentum::Exponential(0.1), RunningVariance::Unbiased);
        let running = Running { mean: &mut mean, var: &mut var, momentum, variance };
        let config = BatchConfig::default();
        batch_norm::forward_running(x, y.reborrow(), saved.as_mut(), running, &config, cx).unwrap();
        // A batch of nothing teaches nothing.
        assert!(mean.iter().chain(&var).all(|&x| x == MARK), "{shape:?}");
        let gradients = Gradients { weight: Some(to(&mut dgain, &[channels]).into()), ..Gradients::default() };
        batch_norm::backward(x, x, saved.as_ref(), gradients, &config, cx).unwrap();
        batch_norm::infer(x, y.reborrow(), Moments { mean: &mean, var: &var }, &config, cx).unwrap();
        assert!(dgain.iter().all(|&x| x == 0.0), "{shape:?}");
    }
}

#[test]
fn empty_weights() {
    let cx = &mut Context::new();
    for (shape, axis, rows) in
        [([0, 3], Some(0), 0), ([3, 0], Some(0), 3), ([3, 0], None, 1), ([0, 1 << 59], Some(0), 0)]
    {
        let (v, mut nothing, mut dg) = (View::<f32>::new(&[], &shape).unwrap(), [0f32; 0], vec![MARK; rows]);
        let (g, mut saved) = (of(&X, &[rows]), Saved::new(rows));
        let w = ViewMut::new(&mut nothing, &shape).unwrap();
        weight_norm::forward(v, g, w, Some(saved.as_mut()), axis, cx).unwrap();
        let gradients = WeightGradients { v: None, g: Some(to(&mut dg, &[rows])) };
        weight_norm::backward(v, g, v, saved.as_ref(), gradients, axis, cx).unwrap();
        assert!(dg.iter().all(|&x| x == 0.0), "{shape:?}");
    }
}

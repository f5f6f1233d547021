//! Views of `ndarray` arrays, whatever their layout, give the bits of the contiguous copy.
#![cfg(feature = "ndarray")]

use layernorm::{Affine, Axes, Context, Error, Gradients, NormConfig, Saved, View, ViewMut, layer_norm};
use ndarray::{Array, Array0, Array2, ArrayD, ArrayViewD, ArrayViewMutD, Axis, Dimension, IxDyn, Slice, s};

/// An array of numbers without a pattern, of any shape.
fn array(shape: &[usize]) -> ArrayD<f32> {
    let mut state = 1u32;
    ArrayD::from_shape_simple_fn(IxDyn(shape), || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 65_536.0 - 100.0
    })
}

fn bits<D: Dimension>(array: &Array<f32, D>) -> Vec<u32> {
    array.iter().map(|x| x.to_bits()).collect()
}

/// Ways to look at an array that share its memory.
fn looks(x: &ArrayD<f32>) -> Vec<(&'static str, ArrayViewD<'_, f32>)> {
    let mut looks = vec![("as it is", x.view()), ("transposed", x.t())];
    let mut reversed = x.view();
    (0..x.ndim()).for_each(|axis| reversed.invert_axis(Axis(axis)));
    looks.push(("reversed", reversed));
    let mut sliced = x.view();
    for axis in 0..x.ndim() {
        // From the back, every second one.
        sliced.slice_axis_inplace(Axis(axis), Slice::new(0, None, -2));
    }
    looks.push(("sliced", sliced));
    if x.ndim() > 1 {
        let mut swapped = x.view();
        swapped.swap_axes(0, 1);
        looks.push(("first two axes swapped", swapped));
    }
    looks
}

/// The layer norm of a contiguous copy, in plain slices.
fn of_the_copy(x: &ArrayViewD<f32>, config: &NormConfig<f32>) -> Array<f32, IxDyn> {
    let copy: Vec<f32> = x.iter().copied().collect();
    let mut y = vec![0.0; copy.len()];
    let (from, to) = (View::new(&copy, x.shape()).unwrap(), ViewMut::new(&mut y, x.shape()).unwrap());
    layer_norm::forward(from, to, None, config, &mut Context::new()).unwrap();
    ArrayD::from_shape_vec(x.raw_dim(), y).unwrap()
}

/// Shapes of 0 to 4 dimensions.
const SHAPES: [&[usize]; 7] = [&[], &[37], &[6, 9], &[130, 33], &[4, 5, 6], &[3, 4, 5, 7], &[2, 0, 3]];

#[test]
fn every_layout_gives_the_bits_of_the_copy() {
    for shape in SHAPES {
        let x = array(shape);
        for (look, view) in looks(&x) {
            for last in 0..=shape.len() {
                let config = NormConfig::new().axes(Axes::Last(last));
                let expected = of_the_copy(&view, &config);
                let mut y = ArrayD::zeros(view.raw_dim());
                let (from, to) = (view.clone().try_into().unwrap(), y.view_mut().try_into().unwrap());
                layer_norm::forward(from, to, None, &config, &mut Context::new()).unwrap();
                assert_eq!(bits(&y), bits(&expected), "{shape:?}, {look}, {last} axes");
            }
        }
    }
}

/// The counterparts of [`looks`] for writing.
fn look_mut<'a>(x: &'a mut ArrayD<f32>, look: &str) -> ArrayViewMutD<'a, f32> {
    let rank = x.ndim();
    let mut view = x.view_mut();
    match look {
        "transposed" => return view.reversed_axes(),
        "reversed" => (0..rank).for_each(|axis| view.invert_axis(Axis(axis))),
        "sliced" => (0..rank).for_each(|axis| view.slice_axis_inplace(Axis(axis), Slice::new(0, None, -2))),
        "first two axes swapped" => view.swap_axes(0, 1),
        _ => {}
    }
    view
}

#[test]
fn in_place_changes_the_view_and_nothing_else() {
    for shape in SHAPES {
        let original = array(shape);
        for (look, view) in looks(&original) {
            let config = NormConfig::new().axes(Axes::Last(view.ndim().min(1)));
            // What should be there: the norm of the copy, put back through the same look.
            let mut expected = original.clone();
            look_mut(&mut expected, look).assign(&of_the_copy(&view, &config));
            let mut x = original.clone();
            let to: ViewMut<f32> = look_mut(&mut x, look).try_into().unwrap();
            layer_norm::forward_in_place(to, None, &config, &mut Context::new()).unwrap();
            assert_eq!(bits(&x), bits(&expected), "{shape:?}, {look}");
        }
    }
}

/// y, dx, dγ and dβ of a layer norm, into the memory that `to` names in this order.
fn train<'a>(
    [x, dy, gain, bias]: [View<'a, f32>; 4],
    [y, dx, dgain, dbias]: [ViewMut<'a, f32>; 4],
    rows: usize,
) -> Result<(), Error> {
    let config = NormConfig::new().affine(Affine::new(gain, bias));
    let (mut saved, mut cx) = (Saved::new(rows), Context::new());
    layer_norm::forward(x, y, Some(saved.as_mut()), &config, &mut cx)?;
    let gradients = Gradients { input: Some(dx), weight: Some(dgain.into()), bias: Some(dbias.into()) };
    layer_norm::backward(x, dy, saved.as_ref(), gradients, &config, &mut cx)
}

#[test]
fn parameters_and_gradients_of_any_layout() -> Result<(), Error> {
    let (rows, n) = (70, 20);
    let (x, dy, parameters) = (array(&[rows, n]), array(&[n, rows]), array(&[2, n]));
    // dy is transposed, γ runs backwards; so do dx and dγ.
    let (dy, gain, bias) = (dy.t(), parameters.slice(s![0, ..;-1]), parameters.slice(s![1, ..]));
    let (mut y, mut dx) = (Array2::zeros((rows, n)), Array2::zeros((n, rows)));
    let mut dparameters = Array2::zeros((n, 2));
    let (dgain, dbias) = dparameters.view_mut().split_at(Axis(1), 1);
    train(
        [x.view().try_into()?, dy.clone().try_into()?, gain.try_into()?, bias.try_into()?],
        [
            y.view_mut().try_into()?,
            dx.view_mut().reversed_axes().try_into()?,
            dgain.slice_move(s![..;-1, 0]).try_into()?,
            dbias.slice_move(s![.., 0]).try_into()?,
        ],
        rows,
    )?;

    let inputs = [x.view(), dy, gain.into_dyn(), bias.into_dyn()];
    let copies = inputs.map(|of| of.iter().copied().collect::<Vec<f32>>());
    let mut results = copies.clone().map(|of| vec![0.0; of.len()]);
    let (matrix, row) = (&[rows, n][..], &[n][..]);
    let [a, b, c, d] = &copies;
    let [e, f, g, h] = &mut results;
    train(
        [View::new(a, matrix)?, View::new(b, matrix)?, View::new(c, row)?, View::new(d, row)?],
        [ViewMut::new(e, matrix)?, ViewMut::new(f, matrix)?, ViewMut::new(g, row)?, ViewMut::new(h, row)?],
        rows,
    )?;
    let found = [
        bits(&y),
        bits(&dx.t().to_owned()),
        bits(&dparameters.slice(s![..;-1, 0]).to_owned()),
        bits(&dparameters.column(1).to_owned()),
    ];
    assert_eq!(found, results.map(|of| of.into_iter().map(f32::to_bits).collect::<Vec<_>>()));
    Ok(())
}

#[test]
fn a_broadcast_can_be_read() {
    let row = array(&[5]);
    let x = row.broadcast(IxDyn(&[3, 5])).unwrap();
    assert!(View::try_from(x.clone()).is_ok());
    let mut y = Array2::zeros((3, 5));
    let (from, to) = (x.clone().try_into().unwrap(), y.view_mut().try_into().unwrap());
    layer_norm::forward(from, to, None, &NormConfig::new(), &mut Context::new()).unwrap();
    assert_eq!(bits(&y.into_dyn()), bits(&of_the_copy(&x, &NormConfig::new())));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let x = Array2::<f64>::zeros((3, 5));
    let mut y = Array0::<f64>::zeros(());
    let (from, to) = (x.view().try_into().unwrap(), y.view_mut().try_into().unwrap());
    let error = layer_norm::forward(from, to, None, &NormConfig::new(), &mut Context::new()).unwrap_err();
    assert_eq!(error, Error::Shape { what: "output", expected: vec![3, 5], found: vec![] });
    // ndarray has no limit to the dimensions of an array; a view has.
    let deep = ArrayD::<f64>::zeros(IxDyn(&[1; 17]));
    assert_eq!(View::try_from(deep.view()).unwrap_err(), Error::Rank { max: 16, found: 17 });
}

//! The norms give the core's bits, forward and backward, for all types and strides.

use crate::common::{loss, random, same, same_gradient, tensor, var};
use candle_core::{Tensor, WithDType};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Affine, Context, Element, Gradients, NormConfig, Param, ParamMut, Saved, View, ViewMut};
use layernorm::{bf16, f16, layer_norm, rms_norm};
use layernorm_candle::ops;

#[derive(Clone, Copy, Debug)]
enum NormUnderTest {
    Layer,
    Rms,
    Group(usize),
}

const EPS: f64 = 1e-5;

/// y, dx, dγ and dβ.
struct Expected<T, P> {
    y: Vec<T>,
    dx: Vec<T>,
    dweight: Vec<P>,
    dbias: Vec<P>,
}

/// The type of a parameter: that of the input, or f32.
trait ParamOf<T>: WithDType + Element {
    fn param(view: View<'_, Self>) -> Param<'_, T>;
    fn param_mut(view: ViewMut<'_, Self>) -> ParamMut<'_, T>;
}

/// Parameters of the input's type.
impl<T: WithDType + Element> ParamOf<T> for T {
    fn param(view: View<'_, T>) -> Param<'_, T> {
        Param::Same(view)
    }
    fn param_mut(view: ViewMut<'_, T>) -> ParamMut<'_, T> {
        ParamMut::Same(view)
    }
}

macro_rules! f32_params {
    ($($t:ty),*) => {$(
        impl ParamOf<$t> for f32 {
            fn param(view: View<'_, f32>) -> Param<'_, $t> {
                Param::F32(view)
            }
            fn param_mut(view: ViewMut<'_, f32>) -> ParamMut<'_, $t> {
                ParamMut::F32(view)
            }
        }
    )*};
}
f32_params!(f16, bf16, f64);

struct Case<T, P> {
    norm: NormUnderTest,
    shape: Vec<usize>,
    features: usize,
    rows: usize,
    x: Vec<T>,
    dy: Vec<T>,
    weight: Option<Vec<P>>,
    bias: Option<Vec<P>>,
}

impl<T: WithDType + Element, P: ParamOf<T>> Case<T, P> {
    fn new(norm: NormUnderTest, shape: &[usize], [weight, bias]: [bool; 2]) -> Self {
        let (features, rows) = match norm {
            NormUnderTest::Group(groups) => (shape[1], shape[0] * groups),
            _ => (shape[shape.len() - 1], shape[..shape.len() - 1].iter().product()),
        };
        let count = shape.iter().product();
        let part = |there: bool, seed| there.then(|| random(seed, features));
        let (x, dy) = (random(1, count), random(2, count));
        Case { norm, shape: shape.to_vec(), features, rows, x, dy, weight: part(weight, 3), bias: part(bias, 4) }
    }

    /// The core's results.
    fn expected(&self) -> Expected<T, P> {
        let affine = Affine {
            weight: self.weight.as_deref().map(|values| P::param(View::new(values, &[self.features]).unwrap())),
            bias: self.bias.as_deref().map(|values| P::param(View::new(values, &[self.features]).unwrap())),
            zero_centered: false,
        };
        let (shape, cx) = (&self.shape[..], &mut Context::new());
        let (mut y, mut dx) = (self.x.clone(), self.x.clone());
        let mut saved = Saved::new(self.rows);
        let mut sums = [vec![P::zero(); self.features], vec![P::zero(); self.features]];
        let x = View::new(&self.x, shape).unwrap();
        let to = ViewMut::new(&mut y, shape).unwrap();
        let dy = View::new(&self.dy, shape).unwrap();
        let [dweight, dbias] = &mut sums;
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, shape).unwrap()),
            weight: Some(P::param_mut(ViewMut::new(dweight, &[self.features]).unwrap())),
            bias: Some(P::param_mut(ViewMut::new(dbias, &[self.features]).unwrap())),
        };
        let row = NormConfig::new().affine(affine).eps(EPS);
        match self.norm {
            NormUnderTest::Layer => {
                layer_norm::forward(x, to, Some(saved.as_mut()), &row, cx).unwrap();
                layer_norm::backward(x, dy, saved.as_ref(), gradients, &row, cx).unwrap();
            }
            NormUnderTest::Rms => {
                rms_norm::forward(x, to, Some(saved.as_mut()), &row, cx).unwrap();
                rms_norm::backward(x, dy, saved.as_ref(), gradients, &row, cx).unwrap();
            }
            NormUnderTest::Group(groups) => {
                let config = GroupConfig { groups, affine, eps: EPS };
                group_norm::forward(x, to, Some(saved.as_mut()), &config, cx).unwrap();
                group_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
            }
        }
        let [dweight, dbias] = sums;
        Expected { y, dx, dweight, dbias }
    }

    fn run(&self, x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Tensor {
        match self.norm {
            NormUnderTest::Layer => ops::layer_norm(x, weight, bias, EPS),
            NormUnderTest::Rms => ops::rms_norm(x, weight, bias, EPS),
            NormUnderTest::Group(groups) => ops::group_norm(x, weight, bias, groups, EPS),
        }
        .unwrap()
    }

    /// With and without a graph, with variables and with constants.
    fn check(&self) {
        let name = format!("{:?} of {:?}, {}", self.norm, self.shape, T::NAME);
        let expected = self.expected();
        let [weight, bias] =
            [&self.weight, &self.bias].map(|part| part.as_ref().map(|values| var(values, &[self.features])));
        let [weight, bias] = [&weight, &bias].map(|part| part.as_ref().map(|var| var.as_tensor()));
        let plain = |part: Option<&Tensor>| part.map(Tensor::detach);
        let (constant_weight, constant_bias) = (plain(weight), plain(bias));
        let y = self.run(&tensor(&self.x, &self.shape), constant_weight.as_ref(), constant_bias.as_ref());
        same(&format!("{name}: y without a graph"), &y, &expected.y);
        assert!(!y.track_op(), "{name}");

        let (x, dy) = (var(&self.x, &self.shape), tensor(&self.dy, &self.shape));
        let y = self.run(&x, weight, bias);
        same(&format!("{name}: y"), &y, &expected.y);
        // The same graph can be used for backward more than once.
        for _ in 0..2 {
            let gradients = loss(&y, &dy).backward().unwrap();
            same_gradient(&format!("{name}: dx"), &gradients, &x, &expected.dx);
            if let Some(weight) = weight {
                same_gradient(&format!("{name}: dweight"), &gradients, weight, &expected.dweight);
            }
            if let Some(bias) = bias {
                same_gradient(&format!("{name}: dbias"), &gradients, bias, &expected.dbias);
            }
        }

        // Constants get no gradient, and do not change the others.
        let constant = self.run(&x, constant_weight.as_ref(), constant_bias.as_ref());
        let gradients = loss(&constant, &dy).backward().unwrap();
        same_gradient(&format!("{name}: dx of constants"), &gradients, &x, &expected.dx);
        if let Some(weight) = weight {
            let y = self.run(&x.detach(), Some(weight), constant_bias.as_ref());
            let gradients = loss(&y, &dy).backward().unwrap();
            same_gradient(&format!("{name}: dweight alone"), &gradients, weight, &expected.dweight);
            assert!(gradients.get(&x).is_none(), "{name}");
        }
    }
}

const ALL: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];

fn every_norm<T: WithDType + Element, P: ParamOf<T>>() {
    for affine in ALL {
        for shape in [&[7][..], &[5, 33], &[2, 3, 4, 17], &[1, 1], &[300, 65]] {
            Case::<T, P>::new(NormUnderTest::Layer, shape, affine).check();
            Case::<T, P>::new(NormUnderTest::Rms, shape, affine).check();
        }
        for (groups, shape) in [(1, &[3, 6][..]), (2, &[3, 6, 5]), (3, &[2, 6, 4, 3]), (6, &[2, 6, 4, 3])] {
            Case::<T, P>::new(NormUnderTest::Group(groups), shape, affine).check();
        }
    }
}

#[test]
fn every_norm_has_the_cores_bits() {
    every_norm::<f32, f32>();
}

#[test]
fn other_types_have_the_cores_bits() {
    every_norm::<f64, f64>();
    every_norm::<f16, f16>();
    every_norm::<bf16, bf16>();
}

#[test]
fn f32_parameters_go_with_any_input() {
    every_norm::<f16, f32>();
    every_norm::<bf16, f32>();
    every_norm::<f64, f32>();
}

/// Transposed, narrowed, broadcast: the bits of the contiguous copy, and gradients at the original tensor.
#[test]
fn strides_change_no_bit() {
    let x = var(&random::<f32>(1, 4 * 6 * 10), &[4, 6, 10]);
    let (weight, bias) = (var(&random::<f32>(2, 20), &[20]), var(&random::<f32>(3, 20), &[20]));
    type View = fn(&Tensor) -> Tensor;
    let views: [(&str, View); 4] = [
        ("transposed", |x| x.transpose(0, 2).unwrap()),
        ("narrowed", |x| x.narrow(2, 3, 5).unwrap().narrow(1, 1, 4).unwrap()),
        ("broadcast", |x| x.narrow(0, 1, 1).unwrap().broadcast_as((3, 6, 10)).unwrap()),
        ("permuted", |x| x.permute((2, 0, 1)).unwrap()),
    ];
    for (name, view) in views {
        let strided = view(&x);
        let (channels, last) = (strided.dim(1).unwrap(), strided.dim(2).unwrap());
        let parameter = |var: &Tensor, n| var.narrow(0, 1, n).unwrap();
        let dy = tensor(&random::<f32>(4, strided.elem_count()), strided.dims());
        let run = |x: &Tensor, dy: &Tensor| {
            let [w, b] = [&weight, &bias].map(|var| parameter(var, last));
            let [wc, bc] = [&weight, &bias].map(|var| parameter(var, channels));
            let y = [
                ops::layer_norm(x, Some(&w), Some(&b), EPS).unwrap(),
                ops::rms_norm(x, Some(&w), None, EPS).unwrap(),
                ops::group_norm(x, Some(&wc), Some(&bc), channels, EPS).unwrap(),
            ];
            y.map(|y| {
                let gradients = loss(&y, dy).backward().unwrap();
                let of = |var: &Tensor| gradients.get(var).map(crate::common::values::<f32>);
                (crate::common::values::<f32>(&y), of(&weight), of(&bias))
            })
        };
        assert!(!strided.is_contiguous(), "{name}");
        assert_eq!(run(&strided, &dy), run(&strided.contiguous().unwrap(), &dy), "{name}");
        // A gradient that is not contiguous either.
        let turned = tensor(&random::<f32>(4, strided.elem_count()), &[last, channels, strided.dim(0).unwrap()]);
        let turned = turned.transpose(0, 2).unwrap();
        assert_eq!(run(&strided, &turned), run(&strided, &turned.contiguous().unwrap()), "{name}");
        let y = ops::layer_norm(&strided, None, None, EPS).unwrap();
        let gradient = loss(&y, &dy).backward().unwrap();
        let copied = ops::layer_norm(&strided.contiguous().unwrap(), None, None, EPS).unwrap();
        let expected = loss(&copied, &dy).backward().unwrap();
        same_gradient(name, &gradient, &x, &crate::common::values::<f32>(expected.get(&x).unwrap()));
    }
}

/// Tensors without elements, and rows without elements.
#[test]
fn empty_tensors_stay_empty() {
    for shape in [&[0, 4][..], &[3, 0], &[0, 0], &[2, 0, 3]] {
        let last = shape[shape.len() - 1];
        let (x, weight) = (var::<f32>(&[], shape), var(&vec![1.0f32; last], &[last]));
        let y = ops::layer_norm(&x, Some(&weight), None, EPS).unwrap();
        assert_eq!(y.dims(), shape);
        let gradients = loss(&y, &y.detach()).backward().unwrap();
        same_gradient("dweight", &gradients, &weight, &vec![0.0f32; last]);
    }
}

/// The number of threads changes no bit.
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let x = var(&random::<f32>(1, 700 * 512), &[700, 512]);
    let weight = var(&random::<f32>(2, 512), &[512]);
    let run = || {
        let y = ops::layer_norm(&x, Some(&weight), None, EPS).unwrap();
        let gradients = loss(&y, &x.detach()).backward().unwrap();
        [&y, gradients.get(&x).unwrap(), gradients.get(&weight).unwrap()].map(crate::common::values::<f32>)
    };
    let expected = run();
    for threads in [1, 2, 5] {
        ops::set_threads(std::num::NonZeroUsize::new(threads));
        assert!(run() == expected, "{threads} threads");
    }
    ops::set_threads(None);
}

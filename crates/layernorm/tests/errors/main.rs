//! Every error that a call can return, with its text; that an error writes nothing; and that no argument, however odd, makes
//! anything panic.

mod odd_arguments;

use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, Axes, BatchNorm, Context, Error, Gradients, GroupNorm, Isa, LayerNorm, MAX_RANK, NormConfig};
use layernorm::{Param, RmsNorm, Saved, View, ViewMut, layer_norm, rms_norm};

const MAX: usize = usize::MAX;

/// What every place of an output holds before a call.
const MARK: f32 = -77.0;

const X: [f32; 12] = [1.0, 2.0, 4.0, -3.0, 0.5, 6.0, 7.0, -8.0, 9.0, 3.0, 1.5, 2.5];

/// Room for all outputs of any call here.
struct Outputs {
    y: [f32; 12],
    h: [f32; 12],
    dx: [f32; 12],
    dweight: [f32; 12],
    dbias: [f32; 12],
    saved: Saved<f32>,
    mean: [f32; 3],
    var: [f32; 3],
}

impl Outputs {
    /// With room for the statistics of so many rows.
    fn new(rows: usize) -> Self {
        let (memory, mut saved, few) = ([MARK; 12], Saved::new(rows), [MARK; 3]);
        [&mut saved.m, &mut saved.delta, &mut saved.rstd].into_iter().for_each(|array| array.fill(MARK));
        Outputs { y: memory, h: memory, dx: memory, dweight: memory, dbias: memory, saved, mean: few, var: few }
    }

    fn are_untouched(&self) -> bool {
        let Saved { m, delta, rstd } = &self.saved;
        let tensors = [&self.y[..], &self.h, &self.dx, &self.dweight, &self.dbias];
        let statistics = [&m[..], delta, rstd, &self.mean, &self.var];
        tensors.into_iter().chain(statistics).flatten().all(|&x| x == MARK)
    }

    fn gradients(&mut self, input: &[usize], parameter: &[usize]) -> Gradients<'_, f32> {
        Gradients {
            input: Some(to(&mut self.dx, input)),
            weight: Some(to(&mut self.dweight, parameter).into()),
            bias: Some(to(&mut self.dbias, parameter).into()),
        }
    }
}

/// The text of an error, from a call that has written nothing.
#[track_caller]
fn refused(rows: usize, run: impl FnOnce(&mut Outputs, &mut Context) -> Result<(), Error>) -> String {
    let mut outputs = Outputs::new(rows);
    let error = run(&mut outputs, &mut Context::new()).expect_err("the call is wrong");
    assert!(outputs.are_untouched(), "an error has written: {error}");
    error.to_string()
}

#[track_caller]
fn text<T>(result: Result<T, Error>) -> String {
    result.err().expect("the call is wrong").to_string()
}

/// The first elements of a slice, in this shape.
fn of<'a>(data: &'a [f32], shape: &[usize]) -> View<'a, f32> {
    View::new(&data[..shape.iter().product()], shape).unwrap()
}

fn to<'a>(data: &'a mut [f32], shape: &[usize]) -> ViewMut<'a, f32> {
    ViewMut::new(&mut data[..shape.iter().product()], shape).unwrap()
}

fn weight(data: &[f32]) -> Affine<'_, f32> {
    Affine { weight: Some(Param::Same(of(data, &[data.len()]))), ..Affine::default() }
}

fn bias(data: &[f32]) -> Affine<'_, f32> {
    Affine { bias: Some(Param::F32(of(data, &[data.len()]))), ..Affine::default() }
}

#[test]
fn views() {
    let data = [0f32; 12];
    assert_eq!(text(View::new(&data, &[3, 5])), "data: expected 15 elements, found 12");
    assert_eq!(text(View::new(&data, &[])), "data: expected 1 elements, found 12");
    assert_eq!(text(View::new(&data, &[0, MAX])), "data: expected 0 elements, found 12");
    assert_eq!(text(View::new(&data, &[1; 17])), "expected at most 16 dimensions, found 17");
    let huge = "shape [18446744073709551615, 2] has more elements than memory can hold";
    assert_eq!(text(View::new(&data, &[MAX, 2])), huge);
    assert_eq!(text(View::strided(&data, &[MAX, 2], &[0, 0], 0)), huge);
    assert_eq!(text(View::strided(&data, &[3, 4], &[4], 0)), "expected 2 strides, one per dimension, found 1");
    let bounds = "the view covers elements 1 to 12, but the memory has 12";
    assert_eq!(text(View::strided(&data, &[3, 4], &[4, 1], 1)), bounds);
    let below = "the view covers elements -1 to 10, but the memory has 12";
    assert_eq!(text(View::strided(&data, &[3, 4], &[4, -1], 2)), below);
    let wraps = "shape [3] has more elements than memory can hold";
    assert_eq!(text(View::strided(&data, &[3], &[isize::MIN], 0)), wraps);
    assert_eq!(text(View::strided(&data, &[3], &[isize::MAX], 0)), wraps);
    let far = "the view covers elements -9223372036854775808 to 0, but the memory has 12";
    assert_eq!(text(View::strided(&data, &[2], &[isize::MIN], 0)), far);
    let offset = "shape [2] has more elements than memory can hold";
    assert_eq!(text(View::strided(&data, &[2], &[1], MAX)), offset);
}

#[test]
fn views_to_write() {
    let mut data = [0f32; 12];
    assert_eq!(text(ViewMut::new(&mut data, &[3, 5])), "data: expected 15 elements, found 12");
    assert_eq!(text(ViewMut::new(&mut data, &[1; 17])), "expected at most 16 dimensions, found 17");
    let broadcast = "elements of the output overlap: shape [3, 4] with strides [0, 1]";
    assert_eq!(text(ViewMut::strided(&mut data, &[3, 4], &[0, 1], 0)), broadcast);
    let windows = "elements of the output overlap: shape [3, 4] with strides [2, 1]";
    assert_eq!(text(ViewMut::strided(&mut data, &[3, 4], &[2, 1], 0)), windows);
    let backwards = "elements of the output overlap: shape [2, 2] with strides [1, -1]";
    assert_eq!(text(ViewMut::strided(&mut data, &[2, 2], &[1, -1], 1)), backwards);
    // SAFETY: the view is refused; the pointer is valid all the same.
    let raw = unsafe { ViewMut::from_raw_parts(data.as_mut_ptr(), &[2, 2], &[0, 0]) };
    assert_eq!(text(raw), "elements of the output overlap: shape [2, 2] with strides [0, 0]");
    // SAFETY: as above.
    let raw = unsafe { ViewMut::from_raw_parts(data.as_mut_ptr(), &[2], &[isize::MAX, 1]) };
    assert_eq!(text(raw), "expected 1 strides, one per dimension, found 2");
}

#[test]
fn rows_forward() {
    let plain = NormConfig::new();
    for forward in [layer_norm::forward, rms_norm::forward] {
        let try_with = |config: NormConfig<f32>| {
            refused(2, |o, cx| forward(of(&X, &[2, 3]), to(&mut o.y, &[2, 3]), Some(o.saved.as_mut()), &config, cx))
        };
        let axes = |axes: &[isize]| try_with(plain.axes(Axes::These(axes)));
        assert_eq!(axes(&[2]), "axis 2 does not exist in a tensor of 2 dimensions");
        assert_eq!(axes(&[-3]), "axis -3 does not exist in a tensor of 2 dimensions");
        assert_eq!(axes(&[isize::MIN]), "axis -9223372036854775808 does not exist in a tensor of 2 dimensions");
        assert_eq!(axes(&[isize::MAX]), "axis 9223372036854775807 does not exist in a tensor of 2 dimensions");
        assert_eq!(axes(&[1, -1]), "axis 1 is listed twice");
        let last = "input: expected at least 3 dimensions, found 2";
        assert_eq!(try_with(plain.axes(Axes::Last(3))), last);
        assert_eq!(try_with(plain.affine(weight(&X[..2]))), "weight: expected shape [3], found [2]");
        assert_eq!(try_with(plain.affine(bias(&X[..4]))), "bias: expected shape [3], found [4]");
        let eps = |found: f64| format!("eps: expected a finite number, 0 or more, found {found}");
        for found in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300, 1e39] {
            assert_eq!(try_with(plain.eps(found)), eps(found));
        }
        let output =
            |shape: &[usize]| refused(2, |o, cx| forward(of(&X, &[2, 3]), to(&mut o.y, shape), None, &plain, cx));
        assert_eq!(output(&[3, 2]), "output: expected shape [2, 3], found [3, 2]");
        assert_eq!(output(&[2, 3, 1]), "output: expected shape [2, 3], found [2, 3, 1]");
        for rows in [0, 1, 3] {
            let found = refused(rows, |o, cx| {
                forward(of(&X, &[2, 3]), to(&mut o.y, &[2, 3]), Some(o.saved.as_mut()), &plain, cx)
            });
            assert_eq!(found, format!("statistics: expected 2 elements, found {rows}"));
        }
    }
}

/// Each of the three statistics is checked, not only the first.
#[test]
fn statistics_of_different_lengths() {
    for short in 0..3 {
        let found = refused(2, |o, cx| {
            let mut stats = o.saved.as_mut();
            *[&mut stats.m, &mut stats.delta, &mut stats.rstd][short] = &mut [];
            layer_norm::forward(of(&X, &[2, 3]), to(&mut o.y, &[2, 3]), Some(stats), &NormConfig::new(), cx)
        });
        assert_eq!(found, "statistics: expected 2 elements, found 0");
    }
}

#[test]
fn rows_in_place_and_residual() {
    for centered in [true, false] {
        let in_place = if centered { layer_norm::forward_in_place } else { rms_norm::forward_in_place };
        let residual = if centered { layer_norm::forward_residual } else { rms_norm::forward_residual };
        let eps = NormConfig::new().eps(-1.0);
        let found = refused(2, |o, cx| in_place(to(&mut o.y, &[2, 3]), Some(o.saved.as_mut()), &eps, cx));
        assert_eq!(found, "eps: expected a finite number, 0 or more, found -1");
        let shapes = |r: [usize; 2], h: [usize; 2], y: [usize; 2]| {
            refused(2, |o, cx| {
                let (h, y, stats) = (to(&mut o.h, &h), to(&mut o.y, &y), Some(o.saved.as_mut()));
                residual(of(&X, &[2, 3]), of(&X, &r), h, y, stats, &NormConfig::new(), cx)
            })
        };
        assert_eq!(shapes([3, 2], [2, 3], [2, 3]), "residual: expected shape [2, 3], found [3, 2]");
        assert_eq!(shapes([2, 3], [1, 3], [2, 3]), "residual output: expected shape [2, 3], found [1, 3]");
        assert_eq!(shapes([2, 3], [2, 3], [2, 2]), "output: expected shape [2, 3], found [2, 2]");
    }
}

#[test]
fn rows_backward() {
    let config = NormConfig::new();
    let shape = [2, 3];
    for centered in [true, false] {
        let backward = if centered { layer_norm::backward } else { rms_norm::backward };
        let residual = if centered { layer_norm::backward_residual } else { rms_norm::backward_residual };
        let saved = Saved::new(2);
        let shapes = |dy: &[usize], dx: &[usize], parameter: &[usize]| {
            refused(2, |o, cx| {
                backward(of(&X, &shape), of(&X, dy), saved.as_ref(), o.gradients(dx, parameter), &config, cx)
            })
        };
        assert_eq!(shapes(&[6], &[2, 3], &[3]), "gradient of the output: expected shape [2, 3], found [6]");
        assert_eq!(shapes(&[2, 3], &[3, 2], &[3]), "gradient of the input: expected shape [2, 3], found [3, 2]");
        assert_eq!(shapes(&[2, 3], &[2, 3], &[2]), "gradient of the weight: expected shape [3], found [2]");
        let bias = refused(2, |o, cx| {
            let gradients = Gradients { weight: None, ..o.gradients(&shape, &[1, 3]) };
            backward(of(&X, &shape), of(&X, &shape), saved.as_ref(), gradients, &config, cx)
        });
        assert_eq!(bias, "gradient of the bias: expected shape [3], found [1, 3]");
        let statistics = refused(2, |o, cx| {
            let (few, gradients) = (Saved::new(1), o.gradients(&shape, &[3]));
            backward(of(&X, &shape), of(&X, &shape), few.as_ref(), gradients, &config, cx)
        });
        assert_eq!(statistics, "statistics: expected 2 elements, found 1");
        let dh = refused(2, |o, cx| {
            let (dh, gradients) = (Some(of(&X, &[3, 2])), o.gradients(&shape, &[3]));
            residual(of(&X, &shape), of(&X, &shape), dh, saved.as_ref(), gradients, &config, cx)
        });
        assert_eq!(dh, "gradient of the residual output: expected shape [2, 3], found [3, 2]");
        let eps = refused(2, |o, cx| {
            let (config, gradients) = (config.eps(f64::NAN), o.gradients(&shape, &[3]));
            backward(of(&X, &shape), of(&X, &shape), saved.as_ref(), gradients, &config, cx)
        });
        assert_eq!(eps, "eps: expected a finite number, 0 or more, found NaN");
    }
}

#[test]
fn groups_and_instances() {
    let shape = [2, 3, 2];
    let forward = |config: GroupConfig<f32>, rows: usize| {
        refused(rows, |o, cx| {
            group_norm::forward(of(&X, &shape), to(&mut o.y, &shape), Some(o.saved.as_mut()), &config, cx)
        })
    };
    let groups = |groups: usize| forward(GroupConfig::new(groups), 6);
    assert_eq!(groups(0), "groups: expected a divisor of the 3 channels, found 0");
    assert_eq!(groups(2), "groups: expected a divisor of the 3 channels, found 2");
    assert_eq!(groups(6), "groups: expected a divisor of the 3 channels, found 6");
    assert_eq!(groups(MAX), "groups: expected a divisor of the 3 channels, found 18446744073709551615");
    assert_eq!(forward(GroupConfig::new(3), 2), "statistics: expected 6 elements, found 2");
    let affine = |affine| forward(GroupConfig { groups: 1, affine, eps: 1e-5 }, 2);
    assert_eq!(affine(weight(&X[..2])), "weight: expected shape [3], found [2]");
    assert_eq!(affine(bias(&X[..6])), "bias: expected shape [3], found [6]");
    let eps = forward(GroupConfig { groups: 1, affine: Affine::default(), eps: f64::NAN }, 2);
    assert_eq!(eps, "eps: expected a finite number, 0 or more, found NaN");
    let flat =
        refused(1, |o, cx| group_norm::forward(of(&X, &[12]), to(&mut o.y, &[12]), None, &GroupConfig::new(1), cx));
    assert_eq!(flat, "input: expected at least 2 dimensions, found 1");
    let saved = Saved::new(6);
    let backward = |dy: &[usize], dx: &[usize], parameter: &[usize]| {
        refused(6, |o, cx| {
            let (config, gradients) = (InstanceConfig::default(), o.gradients(dx, parameter));
            instance_norm::backward(of(&X, &shape), of(&X, dy), saved.as_ref(), gradients, &config, cx)
        })
    };
    assert_eq!(backward(&[12], &shape, &[3]), "gradient of the output: expected shape [2, 3, 2], found [12]");
    assert_eq!(backward(&shape, &[2, 6], &[3]), "gradient of the input: expected shape [2, 3, 2], found [2, 6]");
    assert_eq!(backward(&shape, &shape, &[6]), "gradient of the weight: expected shape [3], found [6]");
    let instance = refused(5, |o, cx| {
        let (y, stats) = (to(&mut o.y, &shape), Some(o.saved.as_mut()));
        instance_norm::forward(of(&X, &shape), y, stats, &InstanceConfig::default(), cx)
    });
    assert_eq!(instance, "statistics: expected 6 elements, found 5");
    let scalar = refused(1, |o, cx| {
        instance_norm::forward(of(&X, &[]), to(&mut o.y, &[]), None, &InstanceConfig::default(), cx)
    });
    assert_eq!(scalar, "input: expected at least 2 dimensions, found 0");
}

#[test]
fn batches() {
    let shape = [2, 3, 2];
    let train = |shape: &[usize], channels: usize, momentum, variance| {
        refused(3, |o, cx| {
            let (mean, var) = (&mut o.mean[..channels], &mut o.var[..]);
            let (y, running) = (to(&mut o.y, shape), Running { mean, var, momentum, variance });
            batch_norm::forward_running(of(&X, shape), y, o.saved.as_mut(), running, &BatchConfig::default(), cx)
        })
    };
    let unbiased = RunningVariance::Unbiased;
    let momentum = |found: f64| train(&shape, 3, Momentum::Exponential(found), unbiased);
    for found in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        assert_eq!(momentum(found), format!("momentum: expected a number from 0 to 1, found {found}"));
    }
    let length = train(&shape, 2, Momentum::Exponential(0.1), unbiased);
    assert_eq!(length, "running statistics: expected 3 elements, found 2");
    let single = train(&[1, 3, 1], 3, Momentum::Cumulative(0), unbiased);
    let expected = "batch norm in training: expected more than one value per channel, found shape [1, 3, 1]";
    assert_eq!(single, expected);
    let statistics = refused(2, |o, cx| {
        batch_norm::forward(of(&X, &shape), to(&mut o.y, &shape), o.saved.as_mut(), &BatchConfig::default(), cx)
    });
    assert_eq!(statistics, "statistics: expected 3 elements, found 2");
    let infer = |mean: &[f32], var: &[f32], eps| {
        refused(3, |o, cx| {
            let config = BatchConfig { affine: Affine::default(), eps };
            batch_norm::infer(of(&X, &shape), to(&mut o.y, &shape), Moments { mean, var }, &config, cx)
        })
    };
    assert_eq!(infer(&X[..2], &X[..3], 1e-5), "running mean: expected 3 elements, found 2");
    assert_eq!(infer(&X[..3], &X[..4], 1e-5), "running variance: expected 3 elements, found 4");
    assert_eq!(infer(&X[..3], &X[..3], -0.5), "eps: expected a finite number, 0 or more, found -0.5");
    let flat = refused(3, |o, cx| {
        batch_norm::forward(of(&X, &[3]), to(&mut o.y, &[3]), o.saved.as_mut(), &BatchConfig::default(), cx)
    });
    assert_eq!(flat, "input: expected at least 2 dimensions, found 1");
}

#[test]
fn batches_backward() {
    let (shape, saved) = ([2, 3, 2], Saved::new(3));
    let config = BatchConfig::default();
    let backward = |dy: &[usize], dx: &[usize], parameter: &[usize]| {
        refused(3, |o, cx| {
            batch_norm::backward(of(&X, &shape), of(&X, dy), saved.as_ref(), o.gradients(dx, parameter), &config, cx)
        })
    };
    assert_eq!(backward(&[3], &shape, &[3]), "gradient of the output: expected shape [2, 3, 2], found [3]");
    assert_eq!(backward(&shape, &[3], &[3]), "gradient of the input: expected shape [2, 3, 2], found [3]");
    assert_eq!(backward(&shape, &shape, &[2]), "gradient of the weight: expected shape [3], found [2]");
    let moments = Moments { mean: &X[..3], var: &X[..1] };
    let infer = refused(3, |o, cx| {
        let gradients = o.gradients(&shape, &[3]);
        batch_norm::infer_backward(of(&X, &shape), of(&X, &shape), moments, gradients, &config, cx)
    });
    assert_eq!(infer, "running variance: expected 3 elements, found 1");
}

#[test]
fn weights() {
    let shape = [2, 3];
    let forward = |axis: Option<usize>, lengths: usize, output: &[usize], rows: usize| {
        refused(rows, |o, cx| {
            let (g, w, stats) = (of(&X, &[lengths]), to(&mut o.y, output), Some(o.saved.as_mut()));
            weight_norm::forward(of(&X, &shape), g, w, stats, axis, cx)
        })
    };
    assert_eq!(forward(Some(2), 2, &shape, 2), "axis 2 does not exist in a tensor of 2 dimensions");
    assert_eq!(forward(Some(0), 3, &shape, 2), "g: expected 2 elements, found 3");
    assert_eq!(forward(None, 2, &shape, 1), "g: expected 1 elements, found 2");
    assert_eq!(forward(Some(1), 3, &[3, 2], 3), "output: expected shape [2, 3], found [3, 2]");
    assert_eq!(forward(Some(1), 3, &shape, 2), "statistics: expected 3 elements, found 2");
    let saved = Saved::new(2);
    let backward = |dw: &[usize], dv: &[usize], lengths: usize| {
        refused(2, |o, cx| {
            let gradients = WeightGradients { v: Some(to(&mut o.dx, dv)), g: Some(to(&mut o.dweight, &[lengths])) };
            let (v, g) = (of(&X, &shape), of(&X, &[2]));
            weight_norm::backward(v, g, of(&X, dw), saved.as_ref(), gradients, Some(0), cx)
        })
    };
    assert_eq!(backward(&[6], &shape, 2), "gradient of the output: expected shape [2, 3], found [6]");
    assert_eq!(backward(&shape, &[3, 2], 2), "gradient of v: expected shape [2, 3], found [3, 2]");
    assert_eq!(backward(&shape, &shape, 3), "gradient of g: expected 2 elements, found 3");
}

/// An axis beyond what the error can name is named by the largest, not by one that wrapped around.
#[test]
fn weight_axis_beyond_all() {
    let found = refused(1, |o, cx| {
        weight_norm::forward(of(&X, &[2, 3]), of(&X, &[1]), to(&mut o.y, &[2, 3]), None, Some(MAX), cx)
    });
    assert_eq!(found, "axis 9223372036854775807 does not exist in a tensor of 2 dimensions");
}

#[test]
fn row_layers() {
    let layer = LayerNorm::<f32>::new([2, 3]);
    assert_eq!(text(layer.forward(&X[..7])), "input: expected 12 elements, found 7");
    let into = refused(2, |o, cx| layer.forward_into(&X, &mut o.y[..6], Some(&mut o.saved), cx));
    assert_eq!(into, "output: expected 12 elements, found 6");
    let in_place = refused(2, |o, cx| layer.forward_in_place(&mut o.y[..7], cx));
    assert_eq!(in_place, "input: expected 12 elements, found 7");
    let saved = Saved::new(2);
    let dy = "gradient of the output: expected 12 elements, found 6";
    assert_eq!(text(layer.backward(&X, &X[..6], &saved)), dy);
    assert_eq!(text(layer.backward(&X, &X, &Saved::new(1))), "statistics: expected 2 elements, found 1");
    let eps = "eps: expected a finite number, 0 or more, found -1";
    assert_eq!(text(layer.clone().with_eps(-1.0).forward(&X)), eps);
    assert_eq!(text(RmsNorm::<f32>::new([3]).with_eps(-1.0).forward_train(&X)), eps);
    let mut other = layer.clone();
    other.weight = Some(vec![1.0; 5]);
    assert_eq!(text(other.forward(&X)), "weight: expected 6 elements, found 5");
    let mut other = layer.clone();
    other.bias = Some(vec![1.0; 7]);
    assert_eq!(text(other.backward(&X, &X, &saved)), "bias: expected 6 elements, found 7");
    // 16 dimensions of the row leave none for the rows.
    let deep = LayerNorm::<f32>::new([1; MAX_RANK]);
    assert_eq!(text(deep.forward(&X)), "expected at most 16 dimensions, found 17");
    let huge = RmsNorm::<f32>::new([MAX, 2]);
    assert_eq!(text(huge.forward(&X)), "shape [18446744073709551615, 2] has more elements than memory can hold");
    assert_eq!(LayerNorm::<f32>::new([0]).forward(&[]), Ok(vec![]));
}

/// A row of no elements cannot hold any: the text does not ask for what came.
#[test]
fn rows_of_nothing() {
    assert_eq!(text(LayerNorm::<f32>::new([0]).forward(&[1.0])), "input: expected 0 elements, found 1");
    assert_eq!(text(RmsNorm::<f32>::new([3, 0]).forward(&X)), "input: expected 0 elements, found 12");
}

/// Statistics that a layer grows for its caller are not written either.
#[test]
fn layers_leave_statistics_alone() {
    let layer = LayerNorm::<f32>::new([3]).with_eps(f64::NAN);
    let mut saved = Saved::new(1);
    let before = saved.clone();
    text(layer.forward_into(&X, &mut [0.0; 12], Some(&mut saved), &mut Context::new()));
    assert_eq!(saved, before);
}

#[test]
fn channel_layers() {
    let mut group = GroupNorm::<f32>::new(2, 4);
    assert_eq!(text(group.forward(&X, &[1, 3, 4])), "input: expected shape [1, 4, 4], found [1, 3, 4]");
    assert_eq!(text(group.forward(&X, &[12])), "input: expected at least 2 dimensions, found 1");
    assert_eq!(text(group.forward(&X, &[2, 4])), "data: expected 8 elements, found 12");
    assert_eq!(
        text(GroupNorm::<f32>::new(3, 4).forward(&X, &[3, 4])),
        "groups: expected a divisor of the 4 channels, found 3"
    );
    assert_eq!(text(group.backward(&X, &X[..8], &[3, 4], &Saved::new(6))), "data: expected 12 elements, found 8");
    assert_eq!(text(group.backward(&X, &X, &[3, 4], &Saved::new(1))), "statistics: expected 6 elements, found 1");
    group.weight = Some(vec![1.0; 3]);
    assert_eq!(text(group.forward(&X, &[3, 4])), "weight: expected 4 elements, found 3");
    let mut batch = BatchNorm::<f32>::new(3);
    let before = batch.clone();
    assert_eq!(text(batch.forward(&X, &[4, 2])), "input: expected shape [4, 3], found [4, 2]");
    assert_eq!(text(batch.forward_train(&X, &[])), "input: expected at least 2 dimensions, found 0");
    let single = "batch norm in training: expected more than one value per channel, found shape [1, 3]";
    assert_eq!(text(batch.forward_train(&X[..3], &[1, 3])), single);
    assert_eq!(batch, before, "an error has written");
    batch.momentum = Some(2.0);
    assert_eq!(text(batch.forward_train(&X, &[4, 3])), "momentum: expected a number from 0 to 1, found 2");
    batch.running_mean.pop();
    assert_eq!(text(batch.forward(&X, &[4, 3])), "running mean: expected 3 elements, found 2");
    batch.momentum = None;
    assert_eq!(text(batch.forward_train(&X, &[4, 3])), "running statistics: expected 3 elements, found 2");
    assert_eq!(batch.batches, 0);
}

#[test]
fn contexts() {
    assert_eq!(text(Context::new().with_threads(0)), "threads: expected 1 or more, found 0");
    let names = "expected one of scalar, avx2, avx512, neon, found \"sse9\" (LAYERNORM_ISA can also set it)";
    assert_eq!(text("sse9".parse::<Isa>()), format!("instruction set: {names}"));
    let has: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
    // No machine has both.
    let missing = if Isa::Neon.is_available() { Isa::Avx2 } else { Isa::Neon };
    let expected = format!("instruction set {missing} is not available on this machine, which has {}", has.join(", "));
    assert_eq!(text(Context::new().with_isa(missing)), expected);
}

/// The variable is read once in the life of a process, so this test runs itself in others.
#[test]
fn an_instruction_set_from_the_environment() {
    let run = |o: &mut Outputs, cx: &mut Context| {
        layer_norm::forward(of(&X, &[2, 3]), to(&mut o.y, &[2, 3]), Some(o.saved.as_mut()), &NormConfig::new(), cx)
    };
    if let Ok(expected) = std::env::var("EXPECTED_ERROR") {
        assert_eq!(refused(2, run), expected);
        return;
    }
    let missing = if Isa::Neon.is_available() { Isa::Avx2 } else { Isa::Neon };
    for (name, expected) in [("sse9", text("sse9".parse::<Isa>())), (missing.name(), text(missing.checked()))] {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "an_instruction_set_from_the_environment"])
            .env(layernorm::ISA_VARIABLE, name)
            .env("EXPECTED_ERROR", expected)
            .status()
            .unwrap();
        assert!(status.success(), "{name}");
    }
}

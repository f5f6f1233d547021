//! PyTorch's results, forward and backward, in f32, f64 and bf16: this library's results against theirs.
//!
//! A result is compared with PyTorch's in f64 from the same inputs (tensors whose names end in `64`). It may differ by what
//! rounding can do to ours plus what it can do to PyTorch's in f64, which counts only where ours is f64 too. And it is
//! compared with PyTorch's in the same type, from which it may be farther by no more than that is from the f64 one. (That
//! follows from the first comparison; it is there to name the case where a file's two results have drifted apart.)

mod common;
mod golden;

use common::{assert_same_bits, widen};
use golden::analysis::{Kind, Order, Problem, Quantity, Update};
use golden::check::{Output, Report, both};
use golden::file::{File, Stored, Tensor, files, wide};
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{
    Affine, Axes, Context, Gradients, NormConfig, Param, Saved, View, ViewMut, bf16, layer_norm, rms_norm,
};
use safetensors::Dtype;

/// Operations and how many cases each has, a third of them in each type.
const CASES: [(&str, usize); 8] = [
    ("layer_norm", 54),
    ("rms_norm", 18),
    ("group_norm", 18),
    ("instance_norm", 18),
    ("batch_norm", 27),
    ("weight_norm", 18),
    ("layer_norm_residual", 12),
    ("rms_norm_residual", 12),
];

#[test]
fn every_file_belongs_to_a_test() {
    let files = files("torch");
    assert_eq!(files.len(), 177);
    for (op, cases) in CASES {
        for dtype in ["f32", "f64", "bf16"] {
            let is_one = |file: &&File| file.metadata("op") == op && file.name.ends_with(&format!("-{dtype}"));
            assert_eq!(files.iter().filter(is_one).count(), cases / 3, "{op} {dtype}");
        }
    }
    assert_eq!(CASES.iter().map(|(_, cases)| cases).sum::<usize>(), 177);
}

/// Runs all cases of an operation, each in its type.
macro_rules! run_all {
    ($op:literal, $check:ident) => {{
        let mut report = Report::default();
        for file in files("torch").into_iter().filter(|file| file.metadata("op") == $op) {
            let dtype = file.names().find(|name| ["x", "v"].contains(name)).map(|name| file.dtype(name));
            match dtype.expect("every operation has an input") {
                Dtype::F32 => $check::<f32>(file, &mut report),
                Dtype::F64 => $check::<f64>(file, &mut report),
                Dtype::BF16 => $check::<bf16>(file, &mut report),
                other => panic!("{other:?} is none of the types"),
            }
        }
        report.finish(CASES.iter().find(|(name, _)| *name == $op).unwrap().1);
    }};
}

#[test]
fn layer_norm() {
    run_all!("layer_norm", check_layer);
}

#[test]
fn rms_norm() {
    run_all!("rms_norm", check_rms);
}

#[test]
fn group_norm() {
    run_all!("group_norm", check_group);
}

#[test]
fn instance_norm() {
    run_all!("instance_norm", check_instance);
}

#[test]
fn batch_norm() {
    run_all!("batch_norm", check_batch);
}

#[test]
fn weight_norm() {
    run_all!("weight_norm", check_weight);
}

#[test]
fn layer_norm_residual() {
    run_all!("layer_norm_residual", check_layer_residual);
}

#[test]
fn rms_norm_residual() {
    run_all!("rms_norm_residual", check_rms_residual);
}

/// Inputs of a case.
struct Case<T> {
    file: File,
    x: Tensor<T>,
    dy: Tensor<T>,
    weight: Option<Tensor<T>>,
    bias: Option<Tensor<T>>,
    eps: f64,
}

impl<T: Stored> Case<T> {
    /// `x` names the tensor that is normalized.
    fn new(file: File, x: &str) -> Self {
        let (x, dy) = (file.tensor(x), file.tensor("dy"));
        let (weight, bias) = (file.optional("weight"), file.optional("bias"));
        Case { x, dy, weight, bias, eps: file.number("eps"), file }
    }

    fn affine(&self) -> Affine<'_, T> {
        let [weight, bias] =
            [&self.weight, &self.bias].map(|tensor| tensor.as_ref().map(|tensor| Param::Same(tensor.view())));
        Affine { weight, bias, zero_centered: false }
    }

    /// The number of axes that are normalized, all of them last, and of elements that they have.
    fn trailing(&self) -> (usize, usize) {
        let axes = self.file.metadata("axes").split(',').count();
        (axes, self.x.shape[self.x.shape.len() - axes..].iter().product())
    }

    /// Channels of `[N, C, …]`, and elements of a channel of a sample.
    fn channels(&self) -> (usize, usize) {
        (self.x.shape[1], self.x.shape[2..].iter().product())
    }

    /// The problem, with an element's line and parameter by its number.
    fn problem(&self, kind: Kind, line: impl Fn(usize) -> usize, parameter: impl Fn(usize) -> usize) -> Problem {
        let numbers = 0..self.x.data.len();
        Problem {
            kind,
            eps: self.eps,
            x: self.x.wide(),
            line: numbers.clone().map(line).collect(),
            parameter: numbers.map(parameter).collect(),
            weight: self.weight.as_ref().map(Tensor::wide),
            bias: self.bias.as_ref().map(Tensor::wide),
            order: [Order::Row, Order::Column],
            dy: Some(self.dy.wide()),
            dh: self.file.optional::<T>("dh").as_ref().map(Tensor::wide),
            fixed: None,
            update: None,
        }
    }

    /// y, and the gradients of what the case has.
    fn run(&self, forward_and_backward: impl FnOnce(ViewMut<T>, Gradients<T>)) -> Vec<Output> {
        let zeros = |like: &Tensor<T>| vec![T::default(); like.data.len()];
        let (mut y, mut dx) = (zeros(&self.x), zeros(&self.x));
        let (mut dweight, mut dbias) = (self.weight.as_ref().map(zeros), self.bias.as_ref().map(zeros));
        let shapes = [&self.weight, &self.bias].map(|tensor| tensor.as_ref().map(|tensor| &tensor.shape[..]));
        let [weight, bias] = [(&mut dweight, shapes[0]), (&mut dbias, shapes[1])]
            .map(|(data, shape)| Some(ViewMut::new(data.as_mut()?, shape?).unwrap().into()));
        let input = Some(ViewMut::new(&mut dx, &self.x.shape).unwrap());
        forward_and_backward(ViewMut::new(&mut y, &self.x.shape).unwrap(), Gradients { input, weight, bias });
        let mut outputs = vec![Output::new("y", Quantity::Y, wide(&y)), Output::new("dx", Quantity::Dx, wide(&dx))];
        outputs.extend(dweight.map(|data| Output::new("dweight", Quantity::Dweight, wide(&data))));
        outputs.extend(dbias.map(|data| Output::new("dbias", Quantity::Dbias, wide(&data))));
        outputs
    }
}

/// Runs a case and compares all its results.
fn check<T: Stored>(file: &File, report: &mut Report, problem: &Problem, run: impl Fn(&mut Context) -> Vec<Output>) {
    let outputs = report.run(file, run);
    let (ours, theirs) = (problem.ours::<T>(), problem.torch64());
    for Output { tensor, quantity, values } in &outputs {
        let what = format!("{}: {tensor}", file.name);
        let tolerance = both(ours.of(*quantity), theirs.of(*quantity));
        let in_f64 = file.tensor::<f64>(&format!("{tensor}64")).data;
        report.compare(&what, values, &in_f64, &tolerance);
        let same_type = file.tensor::<T>(tensor).wide();
        report.compare(&format!("{what} in the same type"), values, &same_type, |i| {
            tolerance(i) + (same_type[i] - in_f64[i]).abs()
        });
        match problem.alone(*quantity) {
            Some(exact) => report.compare(&format!("{what} of one element alone"), values, &exact, |_| 0.0),
            None => report.says_something(&what, &in_f64, &tolerance, T::NOTICED),
        }
        if T::DTYPE == Dtype::F32 && *quantity == Quantity::Y && problem.alone(*quantity).is_none() {
            report.compare(&format!("{what} in units"), values, &in_f64, |i| UNITS * problem.unit(&in_f64, i));
        }
    }
    // Inference has no running statistics of its own.
    let idle = |name: &str| problem.fixed.is_some() && name.starts_with("running");
    let results = file.names().filter_map(|name| name.strip_suffix("64")).filter(|name| !idle(name));
    let missed: Vec<&str> = results.filter(|name| outputs.iter().all(|output| output.tensor != *name)).collect();
    assert!(missed.is_empty(), "{}: not compared: {missed:?}", file.name);
}

/// The most that y in f32 may be off, in units in the last place. This promise is tighter than the derived bound, which is
/// reached only if every rounding errs by the most it can, and all in one direction.
const UNITS: f64 = 4.0;

/// Layer norm and RMS norm: modules with the same functions.
macro_rules! row_norm {
    ($norm:ident, $kind:expr, $check:ident, $check_residual:ident) => {
        fn $check<T: Stored>(file: File, report: &mut Report) {
            let case = Case::<T>::new(file, "x");
            let (axes, n) = case.trailing();
            let config = NormConfig::new().axes(Axes::Last(axes)).affine(case.affine()).eps(case.eps);
            let problem = case.problem($kind, |i| i / n, |i| i % n);
            let (x, dy) = (case.x.view(), case.dy.view());
            check::<T>(&case.file, report, &problem, |cx| {
                case.run(|y, gradients| {
                    let mut saved = Saved::new(x.len() / n);
                    $norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
                    $norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
                })
            });
        }

        /// What is normalized is h, which has PyTorch's bits. dx is the gradient of x and of the residual.
        fn $check_residual<T: Stored>(file: File, report: &mut Report) {
            let (addend, residual, dh) = (file.tensor::<T>("x"), file.tensor::<T>("residual"), file.tensor::<T>("dh"));
            assert_eq!(file.tensor::<T>("dresidual").data, file.tensor::<T>("dx").data, "{}", file.name);
            let case = Case::<T>::new(file, "h");
            let (axes, n) = case.trailing();
            let config = NormConfig::new().axes(Axes::Last(axes)).affine(case.affine()).eps(case.eps);
            let problem = case.problem($kind, |i| i / n, |i| i % n);
            let (shape, rows) = (&case.x.shape, case.x.data.len() / n);
            check::<T>(&case.file, report, &problem, |cx| {
                case.run(|y, gradients| {
                    let (mut h, mut saved) = (vec![T::default(); case.x.data.len()], Saved::new(rows));
                    let (x, to) = (addend.view(), ViewMut::new(&mut h, shape).unwrap());
                    $norm::forward_residual(x, residual.view(), to, y, Some(saved.as_mut()), &config, cx).unwrap();
                    assert_same_bits(&h, &case.x.data, || format!("{}: h", case.file.name));
                    let (h, dy, dh) = (View::new(&h, shape).unwrap(), case.dy.view(), Some(dh.view()));
                    $norm::backward_residual(h, dy, dh, saved.as_ref(), gradients, &config, cx).unwrap();
                })
            });
        }
    };
}

row_norm!(layer_norm, Kind::Centered, check_layer, check_layer_residual);
row_norm!(rms_norm, Kind::MeanSquare, check_rms, check_rms_residual);

fn check_group<T: Stored>(file: File, report: &mut Report) {
    let case = Case::<T>::new(file, "x");
    let (channels, space) = case.channels();
    let config = GroupConfig { groups: case.file.number("groups"), affine: case.affine(), eps: case.eps };
    let n = channels / config.groups * space;
    let problem = case.problem(Kind::Centered, |i| i / n, |i| i / space % channels);
    let (x, dy) = (case.x.view(), case.dy.view());
    check::<T>(&case.file, report, &problem, |cx| {
        case.run(|y, gradients| {
            let mut saved = Saved::new(x.len() / n);
            group_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
            group_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
        })
    });
}

fn check_instance<T: Stored>(file: File, report: &mut Report) {
    let case = Case::<T>::new(file, "x");
    let (channels, space) = case.channels();
    let config = InstanceConfig { affine: case.affine(), eps: case.eps };
    let problem = case.problem(Kind::Centered, |i| i / space, |i| i / space % channels);
    let (x, dy) = (case.x.view(), case.dy.view());
    check::<T>(&case.file, report, &problem, |cx| {
        case.run(|y, gradients| {
            let mut saved = Saved::new(x.len() / space);
            instance_norm::forward(x, y, Some(saved.as_mut()), &config, cx).unwrap();
            instance_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
        })
    });
}

/// The running statistics of a file are in its type, ours in that of the arithmetic.
fn check_batch<T: Stored>(file: File, report: &mut Report) {
    let case = Case::<T>::new(file, "x");
    let (channels, space) = case.channels();
    let channel = |i| i / space % channels;
    let problem = Problem { order: [Order::Column; 2], ..case.problem(Kind::Centered, channel, channel) };
    let [mean, var] = ["mean", "var"].map(|of| case.file.tensor::<T>(&format!("running_{of}_before")));
    match case.file.metadata("training") {
        "true" => batch_training(&case, report, problem, mean, var),
        "false" => batch_inference(&case, report, problem, mean, var),
        other => panic!("{}: training is {other}", case.file.name),
    }
}

fn batch_training<T: Stored>(case: &Case<T>, report: &mut Report, problem: Problem, mean: Tensor<T>, var: Tensor<T>) {
    let (momentum, factor) = match case.file.metadata("momentum") {
        "none" => {
            let before = case.file.number("batches_before");
            (Momentum::Cumulative(before), 1.0 / (before as f64 + 1.0))
        }
        _ => (Momentum::Exponential(case.file.number("momentum")), case.file.number("momentum")),
    };
    let count = (case.x.data.len() / mean.data.len()) as f64;
    let update = Update { mean: mean.wide(), var: var.wide(), factor, correction: count / (count - 1.0) };
    let problem = Problem { update: Some(update), ..problem };
    let config = BatchConfig { affine: case.affine(), eps: case.eps };
    let (x, dy) = (case.x.view(), case.dy.view());
    check::<T>(&case.file, report, &problem, |cx| {
        let (mut mean, mut var) = (widen(&mean.data), widen(&var.data));
        let mut outputs = case.run(|y, gradients| {
            let mut saved = Saved::new(mean.len());
            let variance = RunningVariance::Unbiased;
            let running = Running { mean: &mut mean, var: &mut var, momentum, variance };
            batch_norm::forward_running(x, y, saved.as_mut(), running, &config, cx).unwrap();
            batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
        });
        outputs.push(Output::new("running_mean_after", Quantity::RunningMean, wide(&mean)));
        outputs.push(Output::new("running_var_after", Quantity::RunningVar, wide(&var)));
        outputs
    });
}

/// Inference leaves the running statistics as they are, in PyTorch too.
fn batch_inference<T: Stored>(case: &Case<T>, report: &mut Report, problem: Problem, mean: Tensor<T>, var: Tensor<T>) {
    for (of, before) in [("mean", &mean), ("var", &var)] {
        let after = case.file.tensor::<T>(&format!("running_{of}_after"));
        assert_eq!(after.data, before.data, "{}: running {of}", case.file.name);
    }
    let problem = Problem { fixed: Some([mean.wide(), var.wide()]), ..problem };
    let config = BatchConfig { affine: case.affine(), eps: case.eps };
    let (x, dy) = (case.x.view(), case.dy.view());
    check::<T>(&case.file, report, &problem, |cx| {
        let (mean, var) = (widen(&mean.data), widen(&var.data));
        let moments = Moments { mean: &mean, var: &var };
        case.run(|y, gradients| {
            batch_norm::infer(x, y, moments, &config, cx).unwrap();
            batch_norm::infer_backward(x, dy, moments, gradients, &config, cx).unwrap();
        })
    });
}

/// v is what is normalized, to length 1, and g is the γ of a line.
fn check_weight<T: Stored>(file: File, report: &mut Report) {
    let (v, g, dw) = (file.tensor::<T>("v"), file.tensor::<T>("g"), file.tensor::<T>("dw"));
    let axis = (file.metadata("dim") != "none").then(|| file.number("dim"));
    let line =
        |i: usize| axis.map_or(0, |axis: usize| i / v.shape[axis + 1..].iter().product::<usize>() % v.shape[axis]);
    let lines: Vec<usize> = (0..v.data.len()).map(line).collect();
    let problem = Problem {
        kind: Kind::Length,
        eps: 0.0,
        x: v.wide(),
        line: lines.clone(),
        parameter: lines,
        weight: Some(g.wide()),
        bias: None,
        order: [Order::Row; 2],
        dy: Some(dw.wide()),
        dh: None,
        fixed: None,
        update: None,
    };
    check::<T>(&file, report, &problem, |cx| {
        let zeros = |like: &Tensor<T>| vec![T::default(); like.data.len()];
        let (mut w, mut dv, mut dg, mut saved) = (zeros(&v), zeros(&v), zeros(&g), Saved::new(g.data.len()));
        let to = ViewMut::new(&mut w, &v.shape).unwrap();
        weight_norm::forward(v.view(), g.view(), to, Some(saved.as_mut()), axis, cx).unwrap();
        let gradients = WeightGradients {
            v: Some(ViewMut::new(&mut dv, &v.shape).unwrap()),
            g: Some(ViewMut::new(&mut dg, &g.shape).unwrap()),
        };
        weight_norm::backward(v.view(), g.view(), dw.view(), saved.as_ref(), gradients, axis, cx).unwrap();
        vec![
            Output::new("w", Quantity::Y, wide(&w)),
            Output::new("dv", Quantity::Dx, wide(&dv)),
            Output::new("dg", Quantity::Dweight, wide(&dg)),
        ]
    });
}

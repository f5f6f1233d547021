//! The ONNX backend tests of the normalization operators: this library's results against theirs.
//!
//! Both sides are in f32. A result may differ from ONNX's by what rounding can do to ours plus what it can do to theirs, and
//! from the exact result (in f64, from the same inputs) by the former alone.

mod common;
mod golden;

use golden::analysis::{Kind, Order, Problem, Quantity, Update};
use golden::check::{Output, Report, both};
use golden::file::{File, Tensor, files, wide};
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::{Affine, Axes, Context, NormConfig, Param, Saved, ViewMut, layer_norm, rms_norm};

/// Operators and how many cases each has.
const CASES: [(&str, usize); 5] = [
    ("LayerNormalization", 19),
    ("RMSNormalization", 19),
    ("GroupNormalization", 2),
    ("InstanceNormalization", 2),
    ("BatchNormalization", 4),
];

#[test]
fn every_file_belongs_to_a_test() {
    let files = files("onnx");
    assert_eq!(files.len(), 46);
    for (op, cases) in CASES {
        assert_eq!(files.iter().filter(|file| file.metadata("op") == op).count(), cases, "{op}");
    }
    assert_eq!(CASES.iter().map(|(_, cases)| cases).sum::<usize>(), 46);
}

/// Inputs of a case: the names of γ and β differ between operators.
struct Case {
    file: File,
    x: Tensor<f32>,
    weight: Tensor<f32>,
    bias: Option<Tensor<f32>>,
    eps: f64,
}

impl Case {
    fn new(file: File, [x, weight, bias]: [&str; 3]) -> Self {
        let (x, weight, bias) = (file.tensor(x), file.tensor(weight), file.optional(bias));
        Case { x, weight, bias, eps: file.number("epsilon"), file }
    }

    fn affine(&self) -> Affine<'_, f32> {
        let bias = self.bias.as_ref().map(|bias| Param::Same(bias.view()));
        Affine { weight: Some(self.weight.view().into()), bias, zero_centered: false }
    }

    /// y and, of so many lines, the statistics.
    fn forward(&self, lines: usize, forward: impl FnOnce(ViewMut<f32>, &mut Saved<f32>)) -> (Vec<f64>, Saved<f32>) {
        let (mut y, mut saved) = (vec![0.0; self.x.data.len()], Saved::new(lines));
        forward(ViewMut::new(&mut y, &self.x.shape).unwrap(), &mut saved);
        (wide(&y), saved)
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
            weight: Some(self.weight.wide()),
            bias: self.bias.as_ref().map(Tensor::wide),
            order: [Order::Row, Order::Column],
            dy: None,
            dh: None,
            fixed: None,
            update: None,
        }
    }

    fn check(&self, report: &mut Report, problem: &Problem, run: impl Fn(&mut Context) -> Vec<Output>) {
        let outputs = report.run(&self.file, run);
        let (ours, theirs) = (problem.ours::<f32>(), problem.onnx());
        for output in &outputs {
            let (ours, theirs) = (ours.of(output.quantity), theirs.of(output.quantity));
            let what = format!("{}: {}", self.file.name, output.tensor);
            let expected = self.file.tensor::<f32>(output.tensor).wide();
            report.compare(&what, &output.values, &expected, both(ours, theirs));
            let exact: Vec<f64> = ours.iter().map(|bound| bound.value).collect();
            report.compare(&format!("{what}, exact"), &output.values, &exact, |i| ours[i].error);
        }
    }
}

/// Runs all cases of an operator.
fn run_all(op: &str, names: [&str; 3], check: impl Fn(Case, &mut Report)) {
    let mut report = Report::default();
    for file in files("onnx").into_iter().filter(|file| file.metadata("op") == op) {
        check(Case::new(file, names), &mut report);
    }
    report.finish(CASES.iter().find(|(name, _)| *name == op).unwrap().1);
}

/// The number of axes from `axis` to the last, and of elements that they have.
fn trailing(case: &Case) -> (usize, usize) {
    let (axis, rank) = (case.file.number::<isize>("axis"), case.x.shape.len());
    let first = if axis < 0 { rank - axis.unsigned_abs() } else { axis.unsigned_abs() };
    (rank - first, case.x.shape[first..].iter().product())
}

#[test]
fn layer_normalization() {
    run_all("LayerNormalization", ["X", "Scale", "B"], |case, report| {
        let (axes, n) = trailing(&case);
        let config = NormConfig::new().axes(Axes::Last(axes)).affine(case.affine()).eps(case.eps);
        let problem = case.problem(Kind::Centered, |i| i / n, |i| i % n);
        case.check(report, &problem, |cx| {
            let (y, saved) = case.forward(case.x.data.len() / n, |y, saved| {
                layer_norm::forward(case.x.view(), y, Some(saved.as_mut()), &config, cx).unwrap();
            });
            vec![
                Output::new("Y", Quantity::Y, y),
                Output::new("Mean", Quantity::Mean, wide(&saved.mean())),
                Output::new("InvStdDev", Quantity::InverseDeviation, wide(&saved.rstd)),
            ]
        });
    });
}

#[test]
fn rms_normalization() {
    run_all("RMSNormalization", ["X", "scale", "none"], |case, report| {
        let (axes, n) = trailing(&case);
        let config = NormConfig::new().axes(Axes::Last(axes)).affine(case.affine()).eps(case.eps);
        let problem = case.problem(Kind::MeanSquare, |i| i / n, |i| i % n);
        case.check(report, &problem, |cx| {
            let (y, _) = case.forward(case.x.data.len() / n, |y, saved| {
                rms_norm::forward(case.x.view(), y, Some(saved.as_mut()), &config, cx).unwrap();
            });
            vec![Output::new("Y", Quantity::Y, y)]
        });
    });
}

/// Channels of `[N, C, …]`, and elements of a channel of a sample.
fn channels(case: &Case) -> (usize, usize) {
    (case.x.shape[1], case.x.shape[2..].iter().product())
}

#[test]
fn group_normalization() {
    run_all("GroupNormalization", ["X", "scale", "bias"], |case, report| {
        let (channels, space) = channels(&case);
        let groups = case.file.number("num_groups");
        let n = channels / groups * space;
        let config = GroupConfig { groups, affine: case.affine(), eps: case.eps };
        let problem = case.problem(Kind::Centered, |i| i / n, |i| i / space % channels);
        case.check(report, &problem, |cx| {
            let (y, _) = case.forward(case.x.data.len() / n, |y, saved| {
                group_norm::forward(case.x.view(), y, Some(saved.as_mut()), &config, cx).unwrap();
            });
            vec![Output::new("Y", Quantity::Y, y)]
        });
    });
}

#[test]
fn instance_normalization() {
    run_all("InstanceNormalization", ["input", "scale", "B"], |case, report| {
        let (channels, space) = channels(&case);
        let config = InstanceConfig { affine: case.affine(), eps: case.eps };
        let problem = case.problem(Kind::Centered, |i| i / space, |i| i / space % channels);
        case.check(report, &problem, |cx| {
            let (y, _) = case.forward(case.x.data.len() / space, |y, saved| {
                instance_norm::forward(case.x.view(), y, Some(saved.as_mut()), &config, cx).unwrap();
            });
            vec![Output::new("output", Quantity::Y, y)]
        });
    });
}

#[test]
fn batch_normalization() {
    run_all("BatchNormalization", ["X", "scale", "B"], |case, report| {
        let (channels, space) = channels(&case);
        let channel = |i| i / space % channels;
        let problem = case.problem(Kind::Centered, channel, channel);
        let problem = Problem { order: [Order::Column; 2], ..problem };
        let (mean, var) = (case.file.tensor::<f32>("input_mean"), case.file.tensor::<f32>("input_var"));
        if case.file.number::<u8>("training_mode") == 1 {
            batch_training(&case, report, problem, mean, var);
        } else {
            batch_inference(&case, report, problem, mean, var);
        }
    });
}

/// ONNX's momentum is what the old statistics count, and its variance is the biased one.
fn batch_training(case: &Case, report: &mut Report, problem: Problem, mean: Tensor<f32>, var: Tensor<f32>) {
    let factor = 1.0 - case.file.number::<f64>("momentum");
    let update = Update { mean: mean.wide(), var: var.wide(), factor, correction: 1.0 };
    let config = BatchConfig { affine: case.affine(), eps: case.eps };
    case.check(report, &Problem { update: Some(update), ..problem }, |cx| {
        let (mut mean, mut var) = (mean.data.clone(), var.data.clone());
        let (y, _) = case.forward(mean.len(), |y, saved| {
            let momentum = Momentum::Exponential(factor);
            let running = Running { mean: &mut mean, var: &mut var, momentum, variance: RunningVariance::Biased };
            batch_norm::forward_running(case.x.view(), y, saved.as_mut(), running, &config, cx).unwrap();
        });
        vec![
            Output::new("Y", Quantity::Y, y),
            Output::new("running_mean", Quantity::RunningMean, wide(&mean)),
            Output::new("running_var", Quantity::RunningVar, wide(&var)),
        ]
    });
}

fn batch_inference(case: &Case, report: &mut Report, problem: Problem, mean: Tensor<f32>, var: Tensor<f32>) {
    let config = BatchConfig { affine: case.affine(), eps: case.eps };
    let problem = Problem { fixed: Some([mean.wide(), var.wide()]), ..problem };
    case.check(report, &problem, |cx| {
        let moments = Moments { mean: &mean.data, var: &var.data };
        let (y, _) = case.forward(0, |y, _| {
            batch_norm::infer(case.x.view(), y, moments, &config, cx).unwrap();
        });
        vec![Output::new("Y", Quantity::Y, y)]
    });
}

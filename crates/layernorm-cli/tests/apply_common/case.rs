//! One operation on one shape, run forward and backward and compared with the oracle.

use super::oracle::{Answer, Kind, Problem, assert_close, labels};
use super::{Folder, Random, wide};
use layernorm::Element;
use layernorm_npy::Scalar;

/// An element type of files.
pub trait Number: Element<Acc: Scalar> + Scalar {}

impl<T: Element<Acc: Scalar> + Scalar> Number for T {}

/// Options for the results of forward, except the mean, which RMS norm does not have.
pub const FORWARD: &str = "--output y.npy --rstd-output s.npy";

/// Options for the results of backward.
pub const BACKWARD: &str = "--grad-output dy.npy --grad-input dx.npy --grad-weight dw.npy --grad-bias db.npy";

/// The operation to run, its options, and what the oracle needs to know.
#[derive(Clone, Debug)]
pub struct Case {
    pub op: &'static str,
    /// All options except files and ε.
    pub options: String,
    pub shape: Vec<usize>,
    pub parameter_shape: Vec<usize>,
    pub stats_shape: Vec<usize>,
    pub kind: Kind,
    /// The set of statistics of each element.
    pub set: Vec<usize>,
    /// The parameter of each element.
    pub parameter: Vec<usize>,
    /// Whether there are γ and β.
    pub weight: bool,
    pub bias: bool,
    pub zero_centered: bool,
    pub eps: f64,
}

impl Case {
    /// An operation with statistics indexed by some axes and parameters by others.
    pub fn new(op: &'static str, shape: &[usize], stats_axes: &[usize], parameter_axes: &[usize]) -> Self {
        let pick = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).collect();
        Case {
            op,
            options: String::new(),
            shape: shape.to_vec(),
            parameter_shape: pick(parameter_axes),
            stats_shape: pick(stats_axes),
            kind: if op == "rms-norm" { Kind::Rms } else { Kind::Centered },
            set: labels(shape, stats_axes),
            parameter: labels(shape, parameter_axes),
            weight: true,
            bias: true,
            zero_centered: false,
            eps: 1e-5,
        }
    }

    /// With these options.
    pub fn options(self, options: &str) -> Self {
        Case { options: options.to_string(), ..self }
    }

    /// Writes the files of a problem with input of type `T` and parameters of type `P`.
    pub fn prepare<T: Number, P: Number>(&self, folder: &Folder, seed: u64) -> Problem {
        let mut random = Random::new(seed);
        let (len, parameters) = (self.shape.iter().product(), self.parameter_shape.iter().product());
        let (x, dy): (Vec<T>, Vec<T>) = (random.numbers(len, 1.5), random.numbers(len, 0.25));
        let (weight, bias): (Vec<P>, Vec<P>) = (random.numbers(parameters, 0.5), random.numbers(parameters, 0.0));
        folder.save("x.npy", &self.shape, &x);
        folder.save("dy.npy", &self.shape, &dy);
        folder.save("w.npy", &self.parameter_shape, &weight);
        folder.save("b.npy", &self.parameter_shape, &bias);
        let gain = |weight: f64| match (self.weight, self.zero_centered) {
            (false, _) => 1.0,
            (true, false) => weight,
            (true, true) => 1.0 + weight,
        };
        Problem {
            kind: self.kind.clone(),
            x: wide(&x),
            dy: wide(&dy),
            set: self.set.clone(),
            parameter: self.parameter.clone(),
            gain: wide(&weight).into_iter().map(gain).collect(),
            bias: wide(&bias).into_iter().map(|bias| if self.bias { bias } else { 0.0 }).collect(),
            eps: self.eps,
        }
    }

    /// The operation with its input, parameters and ε.
    pub fn command(&self) -> String {
        let (op, options, eps) = (self.op, &self.options, self.eps);
        let mut command = format!("{op} --input x.npy --eps {eps} {options}");
        let extras =
            [(self.weight, "--weight w.npy"), (self.bias, "--bias b.npy"), (self.zero_centered, "--zero-centered")];
        for (_, extra) in extras.iter().filter(|(wanted, _)| *wanted) {
            command = command + " " + extra;
        }
        command
    }

    /// Runs forward and backward and compares every result with the oracle.
    pub fn check<T: Number, P: Number>(&self, seed: u64) {
        self.check_with::<T, P>(seed, |_| ());
    }

    /// Like [`check`](Self::check), with more files.
    pub fn check_with<T: Number, P: Number>(&self, seed: u64, more: impl Fn(&Folder)) {
        let folder = Folder::new();
        more(&folder);
        let answer = self.prepare::<T, P>(&folder, seed).solve();
        let mean = if matches!(self.kind, Kind::Rms) { "" } else { "--mean-output m.npy" };
        folder.apply(&format!("{} {FORWARD} {mean} {BACKWARD}", self.command()));
        self.compare::<T, P>(&folder, &answer);
    }

    fn compare<T: Number, P: Number>(&self, folder: &Folder, answer: &Answer) {
        let what = |name: &str| format!("{name} of {} {} {:?} {}", self.op, self.options, self.shape, T::NAME);
        assert_close(&folder.load::<T>("y.npy", &self.shape), &answer.y, &what("y"));
        assert_close(&folder.load::<T::Acc>("s.npy", &self.stats_shape), &answer.rstd, &what("rstd"));
        if !matches!(self.kind, Kind::Rms) {
            assert_close(&folder.load::<T::Acc>("m.npy", &self.stats_shape), &answer.mean, &what("mean"));
        }
        assert_close(&folder.load::<T>("dx.npy", &self.shape), &answer.dx, &what("dx"));
        let shape = &self.parameter_shape;
        for (given, file, expected) in [(self.weight, "dw.npy", &answer.dweight), (self.bias, "db.npy", &answer.dbias)]
        {
            if given {
                assert_close(&folder.load::<P>(file, shape), expected, &what(file));
            } else {
                assert_close(&folder.load::<T>(file, shape), expected, &what(file));
            }
        }
    }
}

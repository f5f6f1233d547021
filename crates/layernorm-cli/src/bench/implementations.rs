//! `layernorm bench --implementations`: compares the speed and error of common implementations of layer norm.

use super::buffer::Buffer;
use super::race::{Rules, Timing, race};
use super::shape::Shape;
use super::{BEYOND_CACHE, check_memory};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::norm::EPS;
use crate::random::Random;
use crate::reference::{Distance, distance, normalized};
use crate::show::{self, Progress, Table};
use crate::textbook::Way;
use layernorm::Context;
use serde::Serialize;

/// The maximum number of rows whose error is computed.
const ERROR_ROWS: usize = 16;

/// The inputs: a name, the mean and the standard deviation.
const INPUTS: [(&str, f64, f64); 3] =
    [("randn", 0.0, 1.0), ("100 + 0.01·randn", 100.0, 0.01), ("10⁶ + randn", 1e6, 1.0)];

/// All shapes of one run.
#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    machine: Machine,
    seconds_per_shape: f64,
    ways: Vec<WayReport>,
    shapes: Vec<ShapeReport>,
}

/// The description of an implementation.
#[derive(Debug, Serialize)]
struct WayReport {
    way: &'static str,
    what: &'static str,
    fails: &'static str,
}

/// One shape.
#[derive(Debug, Serialize)]
struct ShapeReport {
    shape: Shape,
    results: Vec<Measured>,
}

/// One implementation on one shape.
#[derive(Debug, Serialize)]
struct Measured {
    way: &'static str,
    ns_per_element: f64,
    times_ours: f64,
    errors: Vec<InputError>,
}

/// The largest error on one kind of input.
#[derive(Debug, Serialize)]
struct InputError {
    input: &'static str,
    #[serde(flatten)]
    error: Distance,
}

/// Runs the comparison.
pub fn run(shapes: Vec<Shape>, seconds: f64, json: bool, cx: &mut Context) -> Result<(), Failure> {
    let default = [(1024, 64), (1024, 768), (64, 16384)];
    let shapes = if shapes.is_empty() { default.map(|(rows, n)| Shape::new(rows, n)).to_vec() } else { shapes };
    let progress = Progress::new();
    let machine = Machine::new(cx)?;
    let mut reports = Vec::new();
    for shape in shapes {
        progress.say(&format!("comparing implementations on {shape}"));
        reports.push(compare(shape, seconds, cx)?);
    }
    progress.clear();
    let ways = Way::ALL.map(|way| WayReport { way: way.name(), what: way.what(), fails: way.fails() }).into();
    let report =
        Report { command: "bench --implementations", machine, seconds_per_shape: seconds, ways, shapes: reports };
    if json { show::print_json(&report) } else { show::print(&report.render()) }
}

/// Computes errors first, then times.
fn compare(shape: Shape, seconds: f64, cx: &mut Context) -> Result<ShapeReport, Failure> {
    let n = shape.n();
    let bytes = (shape.len() * size_of::<f32>()) as u64;
    check_memory(&shape, 2 * bytes)?;
    let mut errors: Vec<Vec<InputError>> = Way::ALL.iter().map(|_| Vec::new()).collect();
    for input in INPUTS {
        let found = input_errors(input, shape.rows().min(ERROR_ROWS), n, cx)?;
        errors.iter_mut().zip(found).for_each(|(errors, error)| errors.push(error));
    }
    let mut random = Random::new(shape.len() as u64);
    let x = Buffer::new(shape.len(), || random.uniform() as f32)?;
    let mut y = Buffer::new(shape.len(), || 0.0f32)?;
    let rules = Rules { contestants: Way::ALL.len(), seconds, warm: bytes < BEYOND_CACHE };
    let timings = race(rules, |i| Way::ALL[i].run(x.get(), n, y.get_mut(), cx))?;
    let ours = Way::ALL.iter().position(|&way| way == Way::Ours).map_or(1.0, |i| timings[i].best);
    let measured = |((way, timing), errors): ((Way, Timing), Vec<InputError>)| Measured {
        way: way.name(),
        ns_per_element: timing.best * 1e9 / shape.len() as f64,
        times_ours: timing.best / ours,
        errors,
    };
    let results = Way::ALL.into_iter().zip(timings).zip(errors).map(measured).collect();
    Ok(ShapeReport { shape, results })
}

/// The largest error of each implementation.
fn input_errors(
    (input, mean, deviation): (&'static str, f64, f64),
    rows: usize,
    n: usize,
    cx: &mut Context,
) -> Result<Vec<InputError>, Failure> {
    let x: Vec<f32> = Random::new(n as u64).normals(rows * n, |z| mean + deviation * z);
    let references: Vec<_> = x.chunks(n).map(|row| normalized(row, true, EPS)).collect();
    let mut errors = Vec::new();
    for way in Way::ALL {
        let mut y = vec![f32::NAN; x.len()];
        way.run(&x, n, &mut y, cx)?;
        let rows = y.chunks(n).zip(&references);
        let error = rows.fold(Distance::Units(0.0), |max, (y, reference)| max.max(distance(y, reference)));
        errors.push(InputError { input, error });
    }
    Ok(errors)
}

impl Report {
    fn render(&self) -> String {
        let inputs = INPUTS.map(|(input, ..)| format!("error: {input}"));
        let headings =
            ["shape", "implementation", "ns/element", "× ours"].into_iter().chain(inputs.iter().map(String::as_str));
        let mut table = Table::new(2, headings);
        for shape in &self.shapes {
            for (i, result) in shape.results.iter().enumerate() {
                let head = [
                    if i == 0 { shape.shape.to_string() } else { String::new() },
                    result.way.to_owned(),
                    format!("{:.3}", result.ns_per_element),
                    format!("{:.2}", result.times_ours),
                ];
                table.row(head.into_iter().chain(result.errors.iter().map(|error| error.error.to_string())));
            }
            table.row([]);
        }
        let mut words = String::new();
        for WayReport { way, what, fails } in &self.ways {
            words += &format!("  {way:<11}  {what};\n  {:<11}  {fails}\n", "");
        }
        format!(
            "{}\n\
             Implementations of layer norm in f32, without γ and β, on one thread, into preallocated memory; best of many\n\
             alternating rounds. The error columns show the largest error against a 106-bit reference, in units in\n\
             the last place of the larger of |y| and a tenth of the row's largest |y|. All but ours are plain Rust,\n\
             vectorized by the compiler for this machine.\n\n\
             {}\n\n{words}",
            self.machine,
            table.render().trim_end(),
        )
    }
}

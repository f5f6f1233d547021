//! The story of NumPy and PyTorch.

use super::{ENDING, Found, Package, PackageError, Shape};
use crate::report::{Axis, Bars, Chart, Picture, Story};
use crate::studies::findings::Claim;
use crate::studies::implementations::pictures::{BAD, TONES, error_tile, input_name};
use crate::studies::implementations::{INPUTS, times};
use crate::studies::tools::{categories, chart, log_axis, short};
use std::path::Path;

const PACKAGES: [Package; 3] = [Package::Layernorm, Package::Numpy, Package::Torch];

impl Package {
    fn name(self) -> &'static str {
        match self {
            Package::Layernorm => "this library, from Python",
            Package::Numpy => "NumPy",
            Package::Torch => "PyTorch",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Package::Layernorm => "layernorm.layer_norm(x)",
            Package::Numpy => "(x − x.mean(−1)) / sqrt(x.var(−1) + ε)",
            Package::Torch => "torch.nn.functional.layer_norm",
        }
    }
}

/// Adds the stored results of a folder of records to the story, or a note on how to get them.
pub(in crate::studies::implementations) fn add(story: &mut Story, folder: &Path) {
    let Some(found) = times::files(folder, ENDING).find_map(|bytes| serde_json::from_slice::<Found>(&bytes).ok())
    else {
        story.notes.push(
            "NumPy and PyTorch were not measured. They are if the study finds a Python (`python3`, or the one that \
             LAYERNORM_PYTHON names) with the packages: `pip install 'layernorm[torch]'`, then run the study in a new \
             folder. `python -m layernorm.implementations` prints the same comparison."
                .to_owned(),
        );
        return;
    };
    if !found.is_sound() {
        return;
    }
    let measured: Vec<Package> =
        PACKAGES.into_iter().filter(|&package| time(&found.shapes[0], package).is_some()).collect();
    add_findings(story, &found, &measured);
    story.charts.extend([times_chart(&found, &measured), errors_chart(&found, &measured)]);
    let torch = found.torch.as_ref().map_or(String::new(), |version| format!(", PyTorch {version}"));
    let missing = if found.torch.is_none() { " PyTorch was not found: `pip install 'layernorm[torch]'`." } else { "" };
    story.notes.push(format!(
        "From Python {}, NumPy {}{torch}, layernorm {}: one thread, f32, without γ and β, the same inputs; times include \
         the call and the allocation of the result.{missing}",
        found.python, found.numpy, found.layernorm
    ));
}

fn time(shape: &Shape, package: Package) -> Option<f64> {
    Some(shape.packages.iter().find(|measured| measured.package == package)?.nanoseconds_per_element)
}

fn add_findings(story: &mut Story, found: &Found, measured: &[Package]) {
    let rivals: Vec<Package> = measured.iter().copied().filter(|&package| package != Package::Layernorm).collect();
    let ratios = |rival: Package| {
        let of = move |shape: &Shape| {
            Some((
                format!("{} × {}", shape.rows, shape.elements),
                time(shape, rival)? / time(shape, Package::Layernorm)?,
            ))
        };
        found.shapes.iter().filter_map(of)
    };
    let names = rivals.iter().map(|rival| rival.name()).collect::<Vec<_>>().join(" and ");
    for &rival in &rivals {
        let (least, most) =
            ratios(rival).fold((f64::INFINITY, 0.0f64), |(low, high), (_, r)| (low.min(r), high.max(r)));
        story.answer += &format!(" From Python, {} took {} times as long.", rival.name(), times::range(least, most));
    }
    let slower: Vec<String> = rivals
        .iter()
        .flat_map(|&rival| ratios(rival).map(move |(shape, ratio)| (rival, shape, ratio)))
        .filter(|(.., ratio)| *ratio <= 1.0)
        .map(|(rival, shape, ratio)| format!("{} at {shape}, {} times as long", rival.name(), short(ratio)))
        .collect();
    let all = rivals.len() * found.shapes.len();
    story.findings.push(
        Claim::new("python-time", format!("Called from Python on one thread, this library is faster than {names}"))
            .source("C19")
            .count(all - slower.len(), all, &times::except("comparisons", &slower)),
    );
    let lossy = |&package: &Package| {
        errors(found, package).filter(|error| error.units.is_none_or(|units| units > BAD)).count() > 0
    };
    let largest = |package: Package| {
        let most = errors(found, package).filter_map(|error| error.units).fold(0.0, f64::max);
        let failed = errors(found, package).filter(|error| error.units.is_none()).count();
        format!("{}: {} units, {failed} results completely wrong", package.name(), short(most))
    };
    story.findings.push(
        Claim::new("python-error", format!("{names} lose half of the digits or more on some inputs"))
            .source("C19")
            .exact(
                rivals.iter().all(lossy),
                rivals.iter().map(|&rival| largest(rival)).collect::<Vec<_>>().join("; "),
                "more than 4,096 units, or completely wrong results",
            ),
    );
}

fn errors(found: &Found, package: Package) -> impl Iterator<Item = &PackageError> {
    let of = move |shape: &'_ Shape| shape.packages.iter().position(|measured| measured.package == package);
    found.shapes.iter().filter_map(move |shape| Some(&shape.packages[of(shape)?])).flat_map(|measured| &measured.errors)
}

fn times_chart(found: &Found, measured: &[Package]) -> Chart {
    let bars = |&package: &Package| Bars {
        name: package.name().to_owned(),
        values: found.shapes.iter().map(|shape| time(shape, package)).collect(),
        ..Bars::default()
    };
    chart(
        "python-time",
        "Time per element from Python",
        "Lower is faster. At small sizes the cost of the call dominates; NumPy makes a pass over memory for every \
         operation of the formula.",
        Picture::Bars {
            x: categories(
                "rows × elements",
                found.shapes.iter().map(|shape| format!("{} × {}", shape.rows, shape.elements)),
            ),
            y: Axis { unit: Some("ns".to_owned()), ..log_axis("time per element") },
            series: measured.iter().map(bars).collect(),
        },
    )
}

fn errors_chart(found: &Found, measured: &[Package]) -> Chart {
    let worst = |package: Package, (mean, spread): (f64, f64)| {
        let of = errors(found, package).filter(move |error| (error.mean, error.spread) == (mean, spread));
        of.max_by(|a, b| a.units.unwrap_or(f64::INFINITY).total_cmp(&b.units.unwrap_or(f64::INFINITY)))
    };
    let cell = |package: Package, input| {
        let error = worst(package, input);
        error_tile(error.map(|error| (error.units, error.failure.as_deref())), package.what().to_owned())
    };
    let row = |&package: &Package| INPUTS.map(|input| cell(package, input)).to_vec();
    chart(
        "python-errors",
        "Largest errors from Python",
        "Blue: accurate to a few units. Hatched: half of the digits or more are lost, or the result is completely wrong.",
        Picture::Grid {
            rows: measured.iter().map(|package| package.name().to_owned()).collect(),
            columns: INPUTS.map(input_name).to_vec(),
            cells: measured.iter().map(row).collect(),
            scale: "error in units in the last place of f32; z is standard normal".to_owned(),
            tones: TONES,
        },
    )
}

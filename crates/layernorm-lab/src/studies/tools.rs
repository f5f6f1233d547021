//! Shared by all studies: seeded random numbers, runs made of steps, number formatting and parts of stories.

use super::{Common, Error, Observer, Settings};
use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::reference::norm::normalize;
use crate::reference::units::units;
use crate::report::{Axis, Chart, Picture, Story};
use layernorm::{Element, Float};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Default number of seeds.
pub(crate) const SEEDS: usize = 5;

/// The same for cases whose quick runs take a fraction of a second: twice as many seeds make intervals a third narrower.
pub(crate) const MANY_SEEDS: usize = 10;

/// The studies that have such cases.
const WITH_MANY: [&str; 6] = ["batch-size", "gain-bias", "generalization", "gradient-flow", "induced-shift", "stream"];

/// The requested seeds: 1, 2, ….
pub(crate) fn seeds(settings: &Settings) -> impl Iterator<Item = u64> + Clone + use<> {
    1..=settings.seeds.unwrap_or(SEEDS).max(1) as u64
}

/// The same for cases whose quick runs are short. In the full study they are as long as all others.
pub(crate) fn many_seeds(settings: &Settings) -> impl Iterator<Item = u64> + Clone + use<> {
    let usual = if settings.full { SEEDS } else { MANY_SEEDS };
    1..=settings.seeds.unwrap_or(usual).max(1) as u64
}

/// The largest seed of a study if no number of seeds is requested.
pub(crate) fn last_seed(study: &str, full: bool) -> u64 {
    (if !full && WITH_MANY.contains(&study) { MANY_SEEDS } else { SEEDS }) as u64
}

/// Uniform in [0, 1).
pub(crate) fn uniform(random: &mut SplitMix64) -> f64 {
    random.uniform()
}

/// Approximately standard normal, except for the far tails: a sum of twelve uniform numbers. It uses no library
/// function whose last bit could differ between machines.
pub(crate) fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// `count` of them.
pub(crate) fn normals(random: &mut SplitMix64, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(random)).collect()
}

/// Rounds numbers to a type.
pub(crate) fn narrow<T: Element>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::narrow(T::Acc::from_f64(value))).collect()
}

/// Converts numbers to f64, exactly.
pub(crate) fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.widen().to_f64()).collect()
}

/// The largest |value|; NaN if there is one.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |max: f64, value| {
        let value = value.abs();
        if value.is_nan() || max.is_nan() { f64::NAN } else { max.max(value) }
    })
}

/// The largest error of y, the layer norm of a row x without γ and β, in units in the last place: [`units`].
pub(crate) fn units_off(x: &[f32], y: &[f32], eps: f64) -> f64 {
    let x_hat = normalize(&wide(x), true, f64::from(eps as f32)).x_hat;
    units(y, &x_hat.iter().map(|x_hat| x_hat.to_f64()).collect::<Vec<_>>())
}

/// Mean and biased standard deviation.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    (mean, square.sqrt())
}

/// Root mean square.
pub(crate) fn rms(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    (values.map(|value| value * value).sum::<f64>() / count).sqrt()
}

/// Converts an error of the kernels to one of the run.
pub(crate) fn refused(error: layernorm::Error) -> Error {
    Error::Run(error.to_string())
}

/// Executes a part of a run that consists of independent steps. Each step writes one event called `name`; steps already
/// in the file are skipped. `share` is the part's range within the run's progress, from 0 to 1.
pub(crate) fn each<S, E: Serialize>(
    name: &str,
    steps: &[S],
    share: std::ops::Range<f64>,
    file: &mut RunFile,
    observer: &mut dyn Observer,
    mut step: impl FnMut(&S) -> Result<E, Error>,
) -> Result<(), Error> {
    let done = file.record().named(name).count();
    for (number, item) in steps.iter().enumerate().skip(done) {
        if observer.stop() {
            return Err(Error::Stopped);
        }
        let data = serde_json::to_value(step(item)?).map_err(|error| Error::Run(error.to_string()))?;
        file.event(name, data)?;
        let done = (number + 1) as f64 / steps.len() as f64;
        observer.progress(share.start + done * (share.end - share.start), name);
    }
    Ok(())
}

/// All readable events with this name; events in the format of a later version are skipped.
pub(crate) fn events<T: DeserializeOwned>(records: &[Record], name: &str) -> Vec<T> {
    records.iter().flat_map(|record| record.named(name)).filter_map(|data| T::deserialize(data).ok()).collect()
}

/// The command that reproduces these records.
pub(crate) fn reproduce(study: &str, records: &[Record]) -> String {
    let settings: Vec<Common> = records.iter().map(Common::read).collect();
    let full = settings.iter().any(|settings| settings.full);
    let seeds = settings.iter().filter_map(|settings| settings.seed).max();
    let seeds = seeds.filter(|&seeds| seeds != last_seed(study, full));
    let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
    let options = settings.iter().find_map(|settings| settings.options.as_deref());
    let options = options.filter(|options| !options.is_empty()).map_or(String::new(), |options| format!(" {options}"));
    format!("layernorm study {study}{seeds}{}{options}", if full { " --full" } else { "" })
}

/// A story without charts, to be filled in.
pub(crate) fn story(id: &str, title: &str, question: &str, records: &[Record]) -> Story {
    Story {
        id: id.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        answer: "There are no records yet.".to_owned(),
        findings: Vec::new(),
        expectation: String::new(),
        charts: Vec::new(),
        numbers: None,
        reproduce: reproduce(id, records),
        notes: Vec::new(),
    }
}

/// A chart.
pub(crate) fn chart(id: &str, title: &str, see: impl Into<String>, picture: Picture) -> Chart {
    Chart { id: id.to_owned(), title: title.to_owned(), see: see.into(), picture }
}

/// An axis.
pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

/// A logarithmic axis.
pub(crate) fn log_axis(label: &str) -> Axis {
    Axis { log: true, ..axis(label) }
}

/// An axis of names.
pub(crate) fn categories(label: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
    Axis { categories: Some(names.into_iter().map(Into::into).collect()), ..axis(label) }
}

/// A note that names the best rates at an end of their grid, beyond which a better one may lie; `None` if there are none.
pub(crate) fn at_an_end(best: impl IntoIterator<Item = (String, f64)>, grid: &[f64]) -> Option<String> {
    let end = |rate: f64| grid.iter().all(|&other| other >= rate) || grid.iter().all(|&other| other <= rate);
    let names: Vec<String> = best
        .into_iter()
        .filter(|(_, rate)| end(*rate))
        .map(|(name, rate)| format!("{name}: {}", short(rate)))
        .collect();
    (!names.is_empty() && grid.len() > 1).then(|| {
        format!("These best rates lie at an end of the grid, so better ones may lie beyond it: {}.", names.join("; "))
    })
}

/// Numbers in increasing order.
pub(crate) fn ascending(numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Numbers in words, such as `1, 2 and 3`.
pub(crate) fn listed(numbers: &[f64]) -> String {
    let numbers: Vec<String> = numbers.iter().copied().map(short).collect();
    match &numbers[..] {
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
        [] => String::new(),
    }
}

/// Formats a number with about three digits, with powers of ten if it is very large or small.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "not a number".to_owned(),
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => power(number),
        size if size >= 999.5 => thousands(number),
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => trimmed(format!("{number:.1}")),
        size if size >= 0.9995 => trimmed(format!("{number:.2}")),
        _ => trimmed(format!("{number:.3}")),
    }
}

/// Formats a number with at most `digits` decimals.
pub(crate) fn to_digits(number: f64, digits: i32) -> String {
    let scale = 10f64.powi(digits);
    short((number * scale).round() / scale)
}

/// Such as 3.2·10⁻⁷.
fn power(number: f64) -> String {
    let text = format!("{number:.1e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    let raised: String = exponent.chars().map(|c| c.to_digit(10).map_or('⁻', superscript)).collect();
    match digits {
        "1" => format!("10{raised}"),
        "-1" => format!("−10{raised}"),
        _ => format!("{}·10{raised}", digits.replace('-', "−")),
    }
}

fn superscript(digit: u32) -> char {
    ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize % 10]
}

fn thousands(number: f64) -> String {
    let whole = number.abs().round() as u64;
    format!("{}{},{:03}", if number < 0.0 { "−" } else { "" }, whole / 1000, whole % 1000)
}

/// Capitalizes the first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn trimmed(text: String) -> String {
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.replace('-', "−")
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        let words = [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (-0.5, "−0.5"),
            (3.24e-7, "3.2·10⁻⁷"),
            (1e-12, "10⁻¹²"),
            (12345.6, "12,346"),
            (31.62, "31.6"),
            (316.2, "316"),
            (2e9, "2·10⁹"),
            (f64::NAN, "not a number"),
        ];
        for (number, word) in words {
            assert_eq!(short(number), word);
        }
        assert_eq!([to_digits(-0.004, 2), to_digits(0.126, 2), to_digits(-2.04, 1)], ["0", "0.13", "−2"]);
    }

    #[test]
    fn normals_are_nearly_normal_and_reproducible() {
        let numbers = normals(&mut SplitMix64::new(1), 10_000);
        let (mean, deviation) = moments(&numbers);
        // Four standard deviations of each: 1/√10⁴ and √(1/(2·10⁴)).
        assert!(mean.abs() < 0.04 && (deviation - 1.0).abs() < 0.03, "{mean} {deviation}");
        assert_eq!(numbers, normals(&mut SplitMix64::new(1), 10_000));
        assert!(largest([1.0, f64::NAN, 2.0]).is_nan());
        assert_eq!(largest([1.0, -3.0]), 3.0);
    }
}

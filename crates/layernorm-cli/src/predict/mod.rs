//! `layernorm predict`: classifies an image with a trained network.

mod picture;

use crate::failure::Failure;
use crate::show;
use layernorm_files::shown;
use layernorm_lab::data::Dataset;
use layernorm_lab::training::{Prediction, SavedModel};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  layernorm predict trained/model.layernorm --test 7      test image 7 of the embedded digits
  layernorm predict trained/model.layernorm digit.png     your own image
  layernorm predict trained/model.layernorm digit.png --json

A picture is converted to grey, scaled to the network's input size, and inverted if it is dark on light. Transparent
pixels are composited over white or black, whichever gives more contrast. A blank picture is classified like any other,
with a warning on stderr.";

/// Classify an image with a network saved by `layernorm train`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Network saved by `layernorm train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// PNG image
    #[arg(value_name = "IMAGE", required_unless_present = "test", conflicts_with = "test")]
    image: Option<PathBuf>,
    /// Use test image N, starting at 0
    #[arg(long, value_name = "N")]
    test: Option<usize>,
    /// Dataset folder for --test [default: the embedded digits]
    #[arg(long, value_name = "DIR", requires = "test")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let model = SavedModel::load(&args.model).map_err(Failure::bad_input)?;
    let [rows, columns] = model.image();
    let (pixels, label) = match (&args.image, args.test) {
        (Some(path), _) => (seen(path, [rows, columns])?, None),
        (None, number) => test_image(args, number.unwrap_or(0), [rows, columns])?,
    };
    let prediction = model.predict(&pixels).map_err(Failure::bad_input)?;
    if args.json {
        return show::print_json(&Told { class: prediction.class, probabilities: &prediction.probabilities, label });
    }
    show::print(&format!("{}\n{}", picture::drawn(&pixels, columns), words(&prediction, label)))
}

/// Reads the user's picture; warns if it is blank.
fn seen(path: &Path, [rows, columns]: [usize; 2]) -> Result<Vec<u8>, Failure> {
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", shown(path)));
    let bytes = layernorm_files::read(path).map_err(|error| refuse(error.to_string()))?;
    let picture = picture::read(&bytes, rows, columns).map_err(refuse)?;
    if let Some(warning) = picture.warning() {
        show::say(&format!("warning: {}: {warning}", shown(path)));
    }
    Ok(picture.pixels)
}

#[derive(Serialize)]
struct Told<'a> {
    class: usize,
    probabilities: &'a [f32],
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<u8>,
}

fn test_image(args: &Args, number: usize, [rows, columns]: [usize; 2]) -> Result<(Vec<u8>, Option<u8>), Failure> {
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::embedded()?,
    };
    if number >= data.test.len() {
        return Err(Failure::bad_input(format!("--test: expected 0 to {}, found {number}", data.test.len() - 1)));
    }
    let found = (data.test.rows(), data.test.columns());
    if found != (rows, columns) {
        return Err(Failure::bad_input(format!(
            "images: expected {rows}×{columns} pixels, as in the network's training data, found {}×{}; use --data DIR",
            found.0, found.1
        )));
    }
    Ok((data.test.image(number).to_vec(), Some(data.test.labels()[number])))
}

/// The predicted class and the probability of every class.
fn words(prediction: &Prediction, label: Option<u8>) -> String {
    let mut text = format!("This is a {}", prediction.class);
    text += &match label {
        None => ".\n".to_owned(),
        Some(label) if usize::from(label) == prediction.class => ", which matches its label.\n".to_owned(),
        Some(label) => format!("; its label is {label}.\n"),
    };
    for (class, &probability) in prediction.probabilities.iter().enumerate() {
        let length = (40.0 * probability).round().clamp(0.0, 40.0) as usize;
        text += &format!("  {class}  {:>5.1} %  {}\n", 100.0 * probability, "█".repeat(length));
    }
    text
}

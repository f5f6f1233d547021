//! The values of an event, collected one by one.

use super::histogram::histogram;
use super::image::Picture;
use super::protobuf::{self, Message};

/// Values at a step.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Message>);

/// The most time steps of a sequence that have curves of their own.
const SHOWN: usize = 5;

impl Values {
    fn add(&mut self, tag: &str, plugin: &str, tensor: &Message) {
        self.0.push(protobuf::value(tag, plugin, None, tensor));
    }

    /// A scalar.
    pub(super) fn scalar(&mut self, tag: &str, number: f64) {
        self.add(tag, "scalars", &protobuf::scalar(number));
    }

    /// A number of a record, where `null` stands for one that is not finite.
    pub(super) fn number(&mut self, tag: &str, number: Option<f64>) {
        self.scalar(tag, number.unwrap_or(f64::NAN));
    }

    /// A number that is missing in some records, for example before the first step.
    pub(super) fn optional(&mut self, tag: &str, number: Option<f64>) {
        if let Some(number) = number {
            self.scalar(tag, number);
        }
    }

    /// Numbers of places with names; those without a number are left out.
    pub(super) fn each(&mut self, group: &str, places: &[String], numbers: &[Option<f64>]) {
        for (place, number) in places.iter().zip(numbers) {
            self.optional(&format!("{group}/{place}"), *number);
        }
    }

    /// Numbers of the time steps of a sequence: at most five of them, with the first and the last.
    pub(super) fn through_time(&mut self, group: &str, numbers: &[Option<f64>]) {
        let (count, last) = (numbers.len().min(SHOWN), numbers.len().saturating_sub(1));
        for shown in 0..count {
            let place = shown * last / (count - 1).max(1);
            // Padded, so that names sort.
            self.optional(&format!("{group}/time step {:03}", place + 1), numbers[place]);
        }
    }

    /// A histogram of the finite numbers, if there are some.
    pub(super) fn histogram(&mut self, tag: &str, numbers: impl IntoIterator<Item = f64>) {
        let buckets = histogram(numbers);
        if !buckets.is_empty() {
            self.add(tag, "histograms", &protobuf::rows(&buckets));
        }
    }

    /// An image, if it could be made.
    pub(super) fn image(&mut self, tag: &str, picture: Option<Picture>) {
        if let Some(Picture { width, height, png }) = picture {
            let [width, height] = [width, height].map(|side| side.to_string().into_bytes());
            self.add(tag, "images", &protobuf::strings(&[&width, &height, &png]));
        }
    }

    /// Text that is shown as it is, line by line.
    pub(super) fn text(&mut self, tag: &str, text: &str) {
        // Markdown: indented lines are taken literally.
        let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
        self.add(tag, "text", &protobuf::string(&lines));
    }

    /// A message for the HParams plugin.
    pub(super) fn hparams(&mut self, tag: &str, data: &Message) {
        self.0.push(protobuf::value(tag, "hparams", Some(data), &protobuf::nothing()));
    }

    /// The values, encoded; `None` if there are none.
    pub(super) fn summary(&self) -> Option<Vec<u8>> {
        (!self.0.is_empty()).then(|| protobuf::summary(&self.0))
    }
}

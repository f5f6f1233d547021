//! From the events of a record to values at a step.

use super::settings::{self, Columns};
use super::values::Values;
use super::{digits, language, training};
use crate::records::{Event, Header};
use serde::Deserialize;
use serde_json::Value;

/// Translates the events of a run.
#[derive(Debug)]
pub(super) enum Translation {
    Training(Box<crate::training::Spec>),
    Language(Box<crate::language::Spec>),
    Draw(Box<digits::Settings>),
}

impl Translation {
    /// `None` for a run that trains no network.
    pub(super) fn new(header: &Header) -> Option<Translation> {
        let spec = &header.settings["spec"];
        if let Ok(spec) = Deserialize::deserialize(spec) {
            return Some(Translation::Training(spec));
        }
        if let Ok(spec) = Deserialize::deserialize(spec) {
            return Some(Translation::Language(spec));
        }
        Deserialize::deserialize(&header.settings).ok().map(Translation::Draw)
    }

    /// The settings of the run.
    pub(super) fn settings(&self, header: &Header) -> Values {
        let columns = match self {
            Translation::Training(spec) => Columns::of_training(spec),
            Translation::Language(spec) => Columns::of_language(spec),
            Translation::Draw(settings) => Columns::of_draw(&settings.draw),
        };
        settings::settings(header, columns)
    }

    /// The values of an event; none if it has another form than this version's.
    pub(super) fn values(&self, event: &Event) -> Values {
        let mut values = Values::default();
        let (name, data) = (&*event.name, &event.data);
        match self {
            _ if name == "diverged" => values.scalar(self.loss(), f64::NAN),
            Translation::Training(spec) => training::add(spec, name, data, &mut values),
            Translation::Language(spec) => language::add(spec, name, data, &mut values),
            Translation::Draw(settings) => digits::add(settings, name, data, &mut values),
        }
        values
    }

    /// The name of the training loss.
    fn loss(&self) -> &'static str {
        match self {
            Translation::Training(_) => "loss/training",
            Translation::Language(_) => "bits per character/training",
            Translation::Draw(_) => "bound/training",
        }
    }
}

/// An event's data, if they have the form of this version.
pub(super) fn read<T: for<'a> Deserialize<'a>>(data: &Value) -> Option<T> {
    T::deserialize(data).ok()
}

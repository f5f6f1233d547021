//! Planned runs: a name, settings, and the work.
//!
//! A plan is typed. It becomes JSON once, in the header of its run's records; a run of another session is recognized by
//! that JSON, so the names and types of the fields below are part of the format.

#[cfg(test)]
mod tests;

use super::{Error, Observer, effort};
use crate::data::{Dataset, Text};
use crate::records::{Header, Record, RunFile};
use crate::training::{self, Spec};
use crate::{draw, language};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// A planned run of a study.
#[derive(Debug)]
pub struct RunPlan {
    header: Header,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Training(Box<Spec>),
    Draw(Box<draw::Spec>),
    Language(Box<language::Spec>),
    Computation(Box<dyn Computation>),
}

/// A run that trains no network. Its serialized form is the run's settings.
pub trait Computation: fmt::Debug + Send + Sync {
    /// Executes the run, or the rest of it: `file` holds what was done before.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the observer asked to stop: the same call resumes the run.
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error>;

    /// Approximate cost, in the unit of [`RunPlan::effort`].
    fn effort(&self) -> f64 {
        effort::COMPUTATION
    }
}

/// Settings of a training run of a study.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Training {
    /// What the run varies; within a study, case and seed identify a run.
    pub(crate) case: String,
    pub(crate) seed: u64,
    /// Whether this is the full-size study.
    pub(crate) full: bool,
    /// The user's other choices, as command-line options.
    pub(crate) options: String,
    /// Rows and columns of an image.
    pub(crate) image: [usize; 2],
    pub(crate) spec: Spec,
}

/// Settings of a DRAW run of a study.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Drawing {
    /// What the run varies; within a study, case and seed identify a run.
    pub(crate) case: String,
    pub(crate) seed: u64,
    /// Whether this is the full-size study.
    pub(crate) full: bool,
    /// The user's other choices, as command-line options.
    pub(crate) options: String,
    /// Rows and columns of an image, before it is halved.
    pub(crate) image: [usize; 2],
    pub(crate) draw: draw::Spec,
}

/// Settings of a run of a study that trains a language model on the embedded text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LanguageTraining {
    /// What the run varies; within a study, case and seed identify a run.
    pub(crate) case: String,
    pub(crate) seed: u64,
    /// Whether this is the full-size study.
    pub(crate) full: bool,
    /// The user's other choices, as command-line options.
    pub(crate) options: String,
    pub(crate) spec: language::Spec,
}

impl RunPlan {
    /// Plans a run that trains a language model.
    pub(crate) fn language(study: &str, training: LanguageTraining) -> RunPlan {
        let run = format!("{study}-{}-{}", training.case, training.seed);
        RunPlan { header: Header::new(study, &run, json!(training)), work: Work::Language(Box::new(training.spec)) }
    }

    /// Plans a training run.
    pub(crate) fn training(study: &str, training: Training) -> RunPlan {
        let run = format!("{study}-{}-{}", training.case, training.seed);
        RunPlan { header: Header::new(study, &run, json!(training)), work: Work::Training(Box::new(training.spec)) }
    }

    /// Plans a DRAW run.
    pub(crate) fn draw(study: &str, drawing: Drawing) -> RunPlan {
        let run = format!("{study}-{}-{}", drawing.case, drawing.seed);
        RunPlan { header: Header::new(study, &run, json!(drawing)), work: Work::Draw(Box::new(drawing.draw)) }
    }

    /// Plans a run without training.
    ///
    /// # Panics
    /// If `work` cannot be serialized as JSON.
    pub fn computation(study: &str, run: &str, work: impl Computation + Serialize + 'static) -> RunPlan {
        RunPlan { header: Header::new(study, run, json!(work)), work: Work::Computation(Box::new(work)) }
    }

    /// Name of the run and of its file.
    pub fn run(&self) -> &str {
        &self.header.run
    }

    /// The header of its records: study, name and settings.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The specification, if it is a training run on images.
    pub fn spec(&self) -> Option<&Spec> {
        match &self.work {
            Work::Training(spec) => Some(spec),
            Work::Draw(_) | Work::Language(_) | Work::Computation(_) => None,
        }
    }

    /// The specification, if it is a run that trains a language model.
    pub fn language_spec(&self) -> Option<&language::Spec> {
        match &self.work {
            Work::Language(spec) => Some(spec),
            Work::Training(_) | Work::Draw(_) | Work::Computation(_) => None,
        }
    }

    /// Checks that the run fits the data.
    ///
    /// # Errors
    /// [`Error::Run`], with what does not fit.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        match &self.work {
            Work::Training(spec) => spec.check(data),
            Work::Draw(spec) => spec.check(data),
            Work::Language(_) | Work::Computation(_) => Ok(()),
        }
    }

    /// Estimated memory for this data, in bytes; `None` if it is small.
    pub fn memory(&self, data: &Dataset) -> Option<f64> {
        match &self.work {
            Work::Training(spec) => Some(spec.memory(data)),
            Work::Draw(spec) => Some(spec.memory(data)),
            Work::Language(spec) => Some(spec.memory(Text::EMBEDDED_SYMBOLS)),
            Work::Computation(_) => None,
        }
    }

    /// Approximate cost, used to estimate times. The unit is [`REFERENCE_UNIT`](super::REFERENCE_UNIT).
    pub fn effort(&self) -> f64 {
        match &self.work {
            Work::Training(spec) => effort::of_training(spec),
            Work::Draw(spec) => effort::of_draw(spec),
            Work::Language(spec) => effort::of_language(spec),
            Work::Computation(work) => work.effort(),
        }
    }

    /// The plan with a changed specification.
    #[cfg(test)]
    pub(crate) fn with_spec(mut self, change: impl FnOnce(&mut Spec)) -> RunPlan {
        if let Work::Training(spec) = &mut self.work {
            change(spec);
            self.header.settings["spec"] = json!(spec);
        }
        self
    }

    /// The plan of a DRAW run with a changed specification.
    #[cfg(test)]
    pub(crate) fn with_draw(mut self, change: impl FnOnce(&mut draw::Spec)) -> RunPlan {
        if let Work::Draw(spec) = &mut self.work {
            change(spec);
            self.header.settings["draw"] = json!(spec);
        }
        self
    }

    /// The plan with a changed specification of a language model.
    #[cfg(test)]
    pub(crate) fn with_language_spec(mut self, change: impl FnOnce(&mut language::Spec)) -> RunPlan {
        if let Work::Language(spec) = &mut self.work {
            change(spec);
            self.header.settings["spec"] = json!(spec);
        }
        self
    }

    /// Executes the run, or the rest of it: `file` holds what was done before.
    ///
    /// # Errors
    /// [`Error::Run`] if the settings do not fit the data; [`Error::Stopped`] if the observer asked to stop: the same
    /// call resumes the run.
    pub fn execute(&self, data: &Dataset, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        match &self.work {
            Work::Training(spec) => training::run(spec, data, file, observer).map(drop),
            Work::Draw(spec) => draw::run(spec, data, file, observer),
            Work::Language(spec) => {
                let text = Text::embedded().map_err(|error| Error::Run(error.to_string()))?;
                language::run(spec, &text, file, observer).map(drop)
            }
            Work::Computation(work) => work.run(file, observer),
        }
    }
}

/// Settings that many runs have in common, as read from a record; the default where a run does not have them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Common {
    pub(crate) seed: Option<u64>,
    pub(crate) full: bool,
    pub(crate) options: Option<String>,
}

impl Common {
    pub(crate) fn read(record: &Record) -> Common {
        Common::deserialize(&record.header.settings).unwrap_or_default()
    }
}

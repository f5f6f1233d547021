//! The comparison's charts, table and answer.

use super::entries;
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Picture, Story, Table};
use crate::studies::tools::{self, axis, categories, chart, log_axis};
use crate::studies::trained::{Ran, Spread, bars, by_norm, cells, compared, curve, error, in_percent, verdict, words};
use std::cmp::Ordering;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Comparison of norms", question, records);
    story.expectation =
        "Networks learn faster with layer norm than without a norm (Ba, Kiros and Hinton, 2016, section 6). Where \
         batch norm is better, as in convolutional networks (section 6.7), the report shows that too."
            .to_owned();
    let groups = grouped(runs);
    if groups.is_empty() {
        return story;
    }
    story.charts = groups.iter().map(curves).collect();
    story.charts.push(overview(&groups));
    story.numbers = Some(table(&groups));
    let (answer, as_expected) = answer(&groups);
    (story.answer, story.as_expected) = (answer, as_expected);
    story.notes = vec![
        "For each seed, all networks start from the same weights and see the same batches; they differ only in the \
         norm. Learning rate and optimizer are the same for all and were not tuned."
            .to_owned(),
        "Bands and whiskers show the range from the worst to the best seed.".to_owned(),
        "The LSTM with batch norm starts with γ = 0.1, as its authors recommend (Cooijmans et al., 2016), and has \
         separate statistics for every time step, computed over 1,000 training images for inference. The first rows of \
         an image are mostly blank. A rare pixel there is large relative to its standard deviation over many images, \
         larger than it ever was within a batch."
            .to_owned(),
    ];
    let refused = entries(false).into_iter().filter_map(|entry| {
        let why = entry.arch.refuses(Norm::Instance)?;
        Some(format!("{}: {why}.", entry.title))
    });
    story.notes.extend(refused);
    story
}

/// A network's runs, by norm.
struct Group<'a> {
    id: &'static str,
    title: &'static str,
    norms: Vec<(Norm, Vec<&'a Ran>)>,
}

impl Group<'_> {
    fn error(&self, norm: Norm) -> Option<Spread> {
        error(&self.norms.iter().find(|(of, _)| *of == norm)?.1)
    }

    /// The validation loss averaged over training: the lower, the faster the network learned.
    fn loss(&self, norm: Norm) -> Option<Spread> {
        mean_loss(&self.norms.iter().find(|(of, _)| *of == norm)?.1)
    }

    fn best(&self) -> Option<(Norm, Spread)> {
        let all = self.norms.iter().filter_map(|(norm, runs)| Some((*norm, error(runs)?)));
        all.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }
}

/// The mean validation loss of a run, over seeds. The loss of a diverged run counts as larger than any other.
fn mean_loss(runs: &[&Ran]) -> Option<Spread> {
    Spread::of(runs.iter().map(|ran| {
        let losses = ran.trained.evaluations.iter().filter(|evaluation| evaluation.step > 0).map(|e| e.loss);
        match ran.trained.diverged {
            Some(_) => Some(f64::MAX / runs.len() as f64),
            None => Some(Spread::of(losses)?.mean),
        }
    }))
}

fn grouped(runs: &[Ran]) -> Vec<Group<'_>> {
    let group = |entry: &super::Entry| {
        let norms = by_norm(runs, entry.id);
        (!norms.is_empty()).then_some(Group { id: entry.id, title: entry.title, norms })
    };
    entries(true).iter().filter_map(group).collect()
}

fn curves(group: &Group<'_>) -> Chart {
    let series =
        group.norms.iter().map(|(norm, runs)| curve(words(*norm), runs, |evaluation| evaluation.loss)).collect();
    let see = match group.best() {
        Some((norm, error)) => format!(
            "Validation loss with each norm, with the range over seeds. The lower the curve, the faster the network \
             learns. At the end, {} has the lowest error, {}.",
            words(norm),
            error.percent()
        ),
        None => "Validation loss with each norm. The lower the curve, the faster the network learns.".to_owned(),
    };
    let picture = Picture::Lines { x: axis("training step"), y: log_axis("validation loss"), series, scrub: true };
    chart(&format!("curves-{}", group.id), &format!("{}: training", group.title), see, picture)
}

fn overview(groups: &[Group<'_>]) -> Chart {
    let norms = Norm::ALL.into_iter().filter(|norm| groups.iter().any(|group| group.error(*norm).is_some()));
    let series = norms
        .map(|norm| {
            let errors: Vec<Option<Spread>> = groups.iter().map(|group| in_percent(group.error(norm))).collect();
            bars(words(norm), &errors)
        })
        .collect();
    let x = categories("network", groups.iter().map(|group| group.title));
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("validation error") };
    let see = "Final validation error of every network and norm; whiskers show the range over seeds. A bar is missing \
               if the network does not support the norm, or if some of its runs have not finished.";
    chart("errors", "Final validation error", see, Picture::Bars { x, y, series })
}

fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        for (norm, runs) in &group.norms {
            let test = Spread::of(runs.iter().map(|ran| Some(1.0 - ran.trained.test.as_ref()?.accuracy?)));
            let mut row: Vec<Cell> = vec![group.title.into(), words(*norm).into(), (runs.len() as f64).into()];
            row.extend(cells(in_percent(error(runs))));
            row.push(in_percent(test).map(|test| test.mean).into());
            row.push(mean_loss(runs).map(|loss| loss.mean).filter(|&loss| loss < f64::MAX / 1e3).into());
            rows.push(row);
        }
    }
    let columns = [
        "network",
        "norm",
        "seeds",
        "validation error, %",
        "best seed",
        "worst seed",
        "test error, %",
        "mean validation loss during training",
    ];
    let notes = vec!["The mean loss during training is low if a network learns fast.".to_owned()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

/// The result, and whether networks learned faster with layer norm than without, wherever the seeds decide.
fn answer(groups: &[Group<'_>]) -> (String, Option<bool>) {
    let mut sentences = Vec::new();
    let (mut sooner, mut later, mut close) = (Vec::new(), Vec::new(), Vec::new());
    for group in groups {
        let (Some(none), Some(layer)) = (group.error(Norm::None), group.error(Norm::Layer)) else { continue };
        let percent = |spread: Spread| tools::short(100.0 * spread.mean);
        let batch =
            group.error(Norm::Batch).map_or(String::new(), |batch| format!(", batch norm {} %", percent(batch)));
        sentences.push(format!("{}: no norm {} %{batch}, layer norm {} %", group.title, percent(none), percent(layer)));
        let (Some(none), Some(layer)) = (group.loss(Norm::None), group.loss(Norm::Layer)) else { continue };
        match compared(&layer, &none) {
            Ordering::Less => sooner.push(group.title),
            Ordering::Greater => later.push(group.title),
            Ordering::Equal => close.push(group.title),
        }
    }
    if sentences.is_empty() {
        return ("Some runs with layer norm or without a norm have not finished yet.".to_owned(), None);
    }
    let list = |titles: &[&str]| if titles.is_empty() { "none".to_owned() } else { titles.join(", ") };
    let wins = groups.iter().filter_map(|group| Some((group.title, group.best()?.0)));
    let batch: Vec<&str> = wins.filter(|(_, norm)| *norm == Norm::Batch).map(|(title, _)| title).collect();
    let also = |words: &str, titles: &[&str]| match titles {
        [] => String::new(),
        titles => format!("; {words}: {}", titles.join(", ")),
    };
    let text = format!(
        "Networks that learn faster with layer norm than without a norm, in every seed: {}{}{}. Final validation \
         errors: {}. Networks in which batch norm has the lowest error of all norms: {}.",
        list(&sooner),
        also("slower", &later),
        also("too close to tell", &close),
        sentences.join("; "),
        list(&batch)
    );
    let found = [(&sooner, Ordering::Less), (&later, Ordering::Greater)];
    let found = found.into_iter().flat_map(|(titles, order)| titles.iter().map(move |_| order));
    (text, verdict(Ordering::Less, found))
}

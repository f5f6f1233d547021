//! The comparison's charts, table and answer.

mod rates;

use super::{Entry, entries};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table, Verdict};
use crate::studies::findings::{Claim, GUESSING, errors, mean_loss, mean_losses};
use crate::studies::tools::{self, axis, categories, chart, log_axis};
use crate::studies::trained::{Ran, Spread, bars, by_norm, cells, curve, error, in_percent, words};

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
    story.charts.extend(rates::chart(&groups));
    story.numbers = Some(table(&groups));
    story.findings = findings(&groups);
    story.findings.extend(groups.iter().flat_map(rates::findings));
    story.answer = answer(&groups, &story.findings);
    story.notes = vec![
        "For each seed, all networks start from the same weights and see the same batches; they differ only in the \
         norm. All use Adam. Unless “best rate” is mentioned, the learning rate is the same for all and was not \
         tuned."
            .to_owned(),
        "Bands and whiskers show the range from the worst to the best seed.".to_owned(),
        format!(
            "The best rate of a norm is the one of {} at which the mean validation loss during training, averaged over \
             seeds, is lowest. If it is the common rate for both sides of a comparison, the question is not asked twice. \
             Networks and norms that are not in the chart of rates were trained at the common rate only.",
            rates::listed()
        ),
        "The step at which a loss is reached is interpolated between evaluations and is only known to within their distance, \
         which counts as rounding. A run that never reaches the loss counts with its full length."
            .to_owned(),
        "The first rows of whole images are blank, which harms batch norm, so it is compared where the LSTM reads only \
         the 20 rows in the middle of an image. There it starts with γ = 0.1, as its authors recommend (Cooijmans et \
         al., 2016), and has separate statistics for every time step, computed over 1,000 training images for inference."
            .to_owned(),
    ];
    let refused = entries(false).into_iter().filter_map(|entry| {
        let why = entry.arch.refuses(Norm::Instance)?;
        Some(format!("{}: {why}.", entry.title))
    });
    story.notes.extend(refused);
    story.notes.extend(rates::at_an_end(&groups));
    story
}

/// A network's runs, by norm.
struct Group<'a> {
    id: &'static str,
    title: &'static str,
    goal: f64,
    /// At the common rate.
    norms: Vec<(Norm, Vec<&'a Ran>)>,
    /// At every rate of the grid, if the norm was trained with all of them.
    tuned: Vec<(Norm, rates::Grid<'a>)>,
}

impl<'a> Group<'a> {
    fn runs(&self, norm: Norm) -> &[&'a Ran] {
        self.norms.iter().find(|(of, _)| *of == norm).map_or(&[], |(_, runs)| runs)
    }

    fn is_recurrent(&self) -> bool {
        let first = self.norms.iter().flat_map(|(_, runs)| runs).next();
        first.is_some_and(|ran| ran.trained.spec.arch.as_recurrent().is_some())
    }

    /// Layer norm and batch norm, the one first that the sources expect to be better in this network.
    fn favourite_first(&self) -> [Norm; 2] {
        if self.is_recurrent() { [Norm::Layer, Norm::Batch] } else { [Norm::Batch, Norm::Layer] }
    }

    /// What may have caused that layer norm does not help.
    fn why_not(&self) -> &'static str {
        if self.is_recurrent() {
            "A possible reason, not tested: the network has few units and trains for few steps. The LSTM over rows has \
             twice as many units."
        } else if self.id.starts_with("transformer") {
            "A possible reason, not tested: Transformers of four narrow blocks also train without a norm. The study of deep \
             Transformers shows where they no longer do."
        } else {
            "A possible reason, not tested: the network is shallow and its weights start at a good scale, so it trains as well \
             without a norm."
        }
    }

    fn error(&self, norm: Norm) -> Option<Spread> {
        error(self.runs(norm))
    }

    fn best(&self) -> Option<(Norm, Spread)> {
        let all = self.norms.iter().filter_map(|(norm, runs)| Some((*norm, error(runs)?)));
        all.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }
}

fn grouped(runs: &[Ran]) -> Vec<Group<'_>> {
    let group = |entry: &Entry| {
        let Entry { id, title, goal, .. } = *entry;
        let norms = by_norm(runs, id);
        let tuned = norms.iter().filter_map(|(norm, _)| Some((*norm, rates::grid(runs, id, *norm)?))).collect();
        (!norms.is_empty()).then_some(Group { id, title, goal, norms, tuned })
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
               if the network was not trained with the norm, or if some of its runs have not finished.";
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
            row.push(Spread::of(runs.iter().map(|ran| mean_loss(ran))).map(|loss| loss.mean).into());
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
    let notes = vec![format!(
        "The mean loss during training is low if a network learns fast. Losses above {}, that of guessing, and those of \
         diverged runs count as {0}.",
        tools::short(GUESSING)
    )];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

/// The questions: how fast each network learns with layer norm and how well in the end, and two comparisons in which the
/// sources expect another winner.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let change = "layer norm − no norm";
    for group in groups {
        let (none, layer) = (group.runs(Norm::None), group.runs(Norm::Layer));
        let text = format!("{}: layer norm lowers the mean validation loss during training", group.title);
        let claim = Claim::new(format!("{}{FASTER}", group.id), text).source("C1").reason(group.why_not());
        findings.extend(claim.lower(mean_losses(change, layer, none)));
        let text = format!("{}: layer norm lowers the final validation error", group.title);
        let claim = Claim::new(format!("{}-better", group.id), text).source("C1").reason(group.why_not());
        findings.extend(claim.lower(errors(change, layer, none)));
        findings.extend(batch_norm(group));
        findings.extend(rates::batch_norm(group));
        findings.extend(rms_norm(group));
    }
    let group = |id: &str| groups.iter().find(|group| group.id == id);
    if let Some(cnn) = group("cnn") {
        let text = "CNN: batch norm has a lower final validation error than layer norm";
        let pair = errors("batch norm − layer norm", cnn.runs(Norm::Batch), cnn.runs(Norm::Layer));
        findings.extend(Claim::new("cnn-batch-norm", text).source("C3").reason(against_favourite(cnn)).lower(pair));
    }
    if let (Some(pre), Some(post)) = (group("transformer-pre"), group("transformer")) {
        let text = "Transformer with layer norm: pre-norm lowers the mean validation loss during training";
        let pair = mean_losses("pre-norm − post-norm", pre.runs(Norm::Layer), post.runs(Norm::Layer));
        findings.extend(Claim::new("pre-norm", text).source("C23").reason(SHALLOW).lower(pair));
    }
    findings
}

/// The question about layer norm and batch norm at the common rate.
fn batch_norm(group: &Group<'_>) -> Option<Finding> {
    let [winner, loser] = group.favourite_first();
    let text = format!(
        "{}: {} has a lower mean validation loss during training than {}",
        group.title,
        words(winner),
        words(loser)
    );
    // An older question about the CNN's final error has the shorter name.
    let id = if group.id == "cnn" { "cnn-batch-norm-faster".to_owned() } else { format!("{}-batch-norm", group.id) };
    let change = format!("{} − {}", words(winner), words(loser));
    let claim = Claim::new(id, text).source("C1").reason(against_favourite(group));
    claim.lower(mean_losses(change, group.runs(winner), group.runs(loser)))
}

/// The question whether the mean, which RMS norm leaves out, makes a difference.
fn rms_norm(group: &Group<'_>) -> Option<Finding> {
    let text = format!("{}: layer norm has a lower mean validation loss during training than RMS norm", group.title);
    let pair = mean_losses("layer norm − RMS norm", group.runs(Norm::Layer), group.runs(Norm::Rms));
    Claim::new(format!("{}-rms", group.id), text).source("C1").reason(RMS).lower(pair)
}

const SHALLOW: &str = "A possible reason, not tested: with four blocks, the large gradients of post-norm, for which pre-norm was made, do not appear yet.";

const RMS: &str =
    "RMS norm does not subtract the mean, which its authors found dispensable (Zhang and Sennrich, 2019).";

/// Why the norm that the sources prefer may be the worse one here.
fn against_favourite(group: &Group<'_>) -> &'static str {
    if group.id == "cnn" {
        "The sources' claim (section 6.7 of the paper) is about large CNNs that train for a long time; this one is small \
         and trains for few steps."
    } else if group.is_recurrent() {
        "Batch norm is done as published here, with statistics for every time step, γ = 0.1 at the start and images \
         without blank rows."
    } else {
        "A possible reason, not tested: at one common learning rate and over few steps, the norm for which this rate is closer to \
         the best one is ahead."
    }
}

/// Ending of the ids of the questions about the speed of learning.
const FASTER: &str = "-faster";

fn answer(groups: &[Group<'_>], findings: &[Finding]) -> String {
    let mut sentences = Vec::new();
    for group in groups {
        let (Some(none), Some(layer)) = (group.error(Norm::None), group.error(Norm::Layer)) else { continue };
        let percent = |spread: Spread| tools::short(100.0 * spread.mean);
        let batch =
            group.error(Norm::Batch).map_or(String::new(), |batch| format!(", batch norm {} %", percent(batch)));
        sentences.push(format!("{}: no norm {} %{batch}, layer norm {} %", group.title, percent(none), percent(layer)));
    }
    if sentences.is_empty() {
        return "Some runs with layer norm or without a norm have not finished yet.".to_owned();
    }
    let decided = |verdict: Verdict| -> Vec<&str> {
        let of = |group: &&Group<'_>| {
            let id = format!("{}{FASTER}", group.id);
            findings.iter().any(|finding| finding.id == id && finding.verdict == verdict)
        };
        groups.iter().filter(of).map(|group| group.title).collect()
    };
    let list = |titles: &[&str]| if titles.is_empty() { "none".to_owned() } else { titles.join(", ") };
    let wins = groups.iter().filter_map(|group| Some((group.title, group.best()?.0)));
    let batch: Vec<&str> = wins.filter(|(_, norm)| *norm == Norm::Batch).map(|(title, _)| title).collect();
    let also = |words: &str, verdict| match decided(verdict) {
        titles if titles.is_empty() => String::new(),
        titles => format!("; {words}: {}", titles.join(", ")),
    };
    format!(
        "Networks that learn faster with layer norm than without a norm: {}{}{}. Final validation errors, means over \
         seeds: {}. {}.",
        list(&decided(Verdict::Supported)),
        also("slower", Verdict::Contradicted),
        also("undecided", Verdict::Undecided),
        sentences.join("; "),
        match batch.is_empty() {
            true => "Batch norm has the lowest mean error in no network".to_owned(),
            false => format!("Batch norm has the lowest mean error of all norms in: {}", batch.join("; ")),
        }
    )
}

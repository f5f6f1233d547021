//! The story of language models.

use super::{CELLS, COMMON, Language, NORMS, case};
use crate::language::events::Trained;
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell as TableCell, Chart, Finding, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::characters::{Ran, by_seed, curve, final_bits, mean_bits, of_case, spread, test_bits, two};
use crate::studies::findings::{Claim, Pair};
use crate::studies::tools::{at_an_end, axis, chart, short, story as blank};
use crate::studies::trained::{with, words};

pub(super) fn story(study: &Language, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Language models", study.question(), records);
    story.expectation = "Layer norm stabilizes the hidden states of recurrent networks, which then train faster; in \
                         the paper's language tasks they also end at a lower loss (Ba, Kiros and Hinton, 2016, sections \
                         6.2 to 6.5)."
        .to_owned();
    let lines = lines(runs);
    if lines.is_empty() {
        return story;
    }
    for (name, cell) in CELLS {
        let of_cell: Vec<&Line<'_>> = lines.iter().filter(|line| line.name == name).collect();
        story.charts.extend(curves(&of_cell, name, cell.name()));
    }
    story.charts.extend(samples(&lines));
    story.numbers = Some(table(&lines));
    story.answer = answer(&lines);
    story.findings = findings(&lines);
    story.notes = notes(runs);
    story.notes.extend(best_at_an_end(&lines));
    story
}

/// A cell with a norm: the runs of each learning rate.
struct Line<'a> {
    name: &'static str,
    title: &'static str,
    norm: Norm,
    rates: Vec<AtRate<'a>>,
}

/// A learning rate and its runs.
type AtRate<'a> = (f64, Vec<&'a Ran>);

impl<'a> Line<'a> {
    /// The runs at the rate with the lowest mean of the final validation bits per character.
    fn best(&self) -> Option<&AtRate<'a>> {
        let mean = |runs: &[&Ran]| spread(runs, final_bits).map(|bits| bits.mean);
        let all = self.rates.iter().filter_map(|rate| Some((rate, mean(&rate.1)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(rate, _)| rate)
    }

    /// The runs at the common rate, or at the only one.
    fn common(&self) -> Option<&AtRate<'a>> {
        if self.rates.len() == 1 { self.rates.first() } else { self.rates.iter().find(|(rate, _)| *rate == COMMON) }
    }
}

fn lines(runs: &[Ran]) -> Vec<Line<'_>> {
    let mut rates: Vec<f64> = runs.iter().map(|ran| ran.trained.spec.learning_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let line = |name: &'static str, title, norm| {
        let of = |&rate: &f64| (rate, of_case(runs, &case(name, norm, rate)));
        Line { name, title, norm, rates: rates.iter().map(of).filter(|(_, runs)| !runs.is_empty()).collect() }
    };
    let all = CELLS.iter().flat_map(|(name, cell)| NORMS.map(|norm| line(name, cell.name(), norm)));
    all.filter(|line| !line.rates.is_empty()).collect()
}

/// Validation bits per character over steps, at the common rate and at each norm's best.
fn curves<'a>(lines: &[&Line<'a>], name: &str, title: &str) -> Vec<Chart> {
    let picture = |choose: for<'b> fn(&'b Line<'a>) -> Option<&'b AtRate<'a>>| {
        let series = |line: &&Line<'a>| Some(curve(words(line.norm), &choose(line)?.1, |evaluation| evaluation.bits));
        let series: Vec<_> = lines.iter().filter_map(series).collect();
        let (x, y) = (axis("training steps"), Axis { low: Some(2.0), high: Some(6.5), ..axis("bits per character") });
        (!series.is_empty()).then_some(Picture::Lines { x, y, series, scrub: false })
    };
    let rate = |norm| lines.iter().find(|line| line.norm == norm).and_then(|line| Some(short(line.best()?.0)));
    let rates = match [Norm::None, Norm::Layer].map(rate) {
        [Some(none), Some(layer)] => format!(" These are {none} without a norm and {layer} with layer norm."),
        _ => String::new(),
    };
    let common = picture(Line::common).map(|picture| {
        let see =
            "Lower is better; the band is the range over seeds. A curve that falls earlier means faster learning.";
        chart(&format!("{name}-common"), &format!("{title}: validation text, same learning rate"), see, picture)
    });
    let best = picture(Line::best).map(|picture| {
        let see = format!("Lower is better. Each network has its best learning rate of the grid.{rates}");
        chart(&format!("{name}-best"), &format!("{title}: validation text, best learning rates"), see, picture)
    });
    common.into_iter().chain(best).collect()
}

/// Text that each network generates, at its best rate.
fn samples(lines: &[Line<'_>]) -> Option<Chart> {
    let row = |line: &Line<'_>| {
        let (_, runs) = line.best()?;
        let ran = runs.iter().min_by_key(|ran| ran.trained.spec.start.seed)?;
        let sample = ran.trained.sample.as_ref()?;
        let bits = test_bits(&ran.trained).map_or(TableCell::Empty, |bits| two(bits).into());
        let text = sample.text.replace("\n\n", " ¶ ").replace('\n', " / ");
        Some(vec![line.title.into(), words(line.norm).into(), bits, text.into()])
    };
    let rows: Vec<Vec<TableCell>> = lines.iter().filter_map(row).collect();
    let columns = ["network", "norm", "bits per character", "generated text"].map(str::to_owned).to_vec();
    let see = "Each network continues the same text from Hamlet, one character at a time (temperature 0.8, the lowest \
               seed). / is a line break, ¶ an empty line. Networks this small learn word lengths, frequent words and \
               line breaks, not meaning.";
    let table = Table { columns, rows, notes: Vec::new() };
    (!table.rows.is_empty()).then(|| chart("samples", "Text generated by the networks", see, Picture::Table(table)))
}

fn table(lines: &[Line<'_>]) -> Table {
    let mut rows = Vec::new();
    for line in lines {
        for (rate, runs) in &line.rates {
            let cell = |value: fn(&Trained) -> Option<f64>| {
                spread(runs, value).map_or(TableCell::Empty, |bits| two(bits.mean).into())
            };
            rows.push(vec![
                line.title.into(),
                words(line.norm).into(),
                (*rate).into(),
                (runs.len() as f64).into(),
                cell(mean_bits),
                cell(final_bits),
                cell(test_bits),
            ]);
        }
    }
    let columns = ["network", "norm", "learning rate", "seeds", "mean during training", "final validation", "test"];
    let notes = vec!["Bits per character.".to_owned()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

/// Why layer norm may not help.
const SMALL: &str = "A possible reason, not tested: the network is small and trains for few steps, in which the gates of \
    a plain network do not saturate.";

/// The questions, for each cell: how fast and how well it learns with layer norm, at the common and at the best rates.
fn findings(lines: &[Line<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, cell) in CELLS {
        let of = |norm| lines.iter().find(|line| line.name == name && line.norm == norm);
        let (Some(none), Some(layer)) = (of(Norm::None), of(Norm::Layer)) else { continue };
        let title = cell.name();
        let mut ask = |id: &str,
                       text: String,
                       what: &str,
                       [layer, none]: [&[&Ran]; 2],
                       value: fn(&Trained) -> Option<f64>| {
            let pair = Pair {
                what: format!("{what}, layer norm − no norm"),
                unit: "bits per character",
                step: 0.0,
                ours: by_seed(layer, value),
                other: by_seed(none, value),
            };
            findings.extend(
                Claim::new(format!("{name}-{id}"), format!("{title}: {text}")).source("C22").reason(SMALL).lower(pair),
            );
        };
        if let (Some((rate, layer)), Some((_, none))) = (layer.common(), none.common()) {
            let at = format!("at learning rate {}, layer norm lowers", short(*rate));
            let text = format!("{at} the validation bits per character during training");
            ask("during", text, "mean during training", [layer, none], mean_bits);
            ask(
                "end",
                format!("{at} the final validation bits per character"),
                "at the end",
                [layer, none],
                final_bits,
            );
        }
        if let (Some((_, layer)), Some((_, none)), true) = (layer.best(), none.best(), layer.rates.len() > 1) {
            let at = "with each at its best learning rate, layer norm lowers";
            let text = format!("{at} the validation bits per character during training");
            ask("best-during", text, "mean during training", [layer, none], mean_bits);
            ask("best-test", format!("{at} the test bits per character"), "test", [layer, none], test_bits);
        }
    }
    findings
}

fn answer(lines: &[Line<'_>]) -> String {
    let told = |line: &Line<'_>| {
        let (rate, runs) = line.best()?;
        Some(format!("{} {} (rate {})", two(spread(runs, test_bits)?.mean), with(line.norm), short(*rate)))
    };
    let sentence = |(name, cell): &(&str, crate::language::Cell)| {
        let of_cell: Vec<String> = lines.iter().filter(|line| line.name == *name).filter_map(told).collect();
        (!of_cell.is_empty()).then(|| format!("{}: {}", cell.name(), of_cell.join(", ")))
    };
    let sentences: Vec<String> = CELLS.iter().filter_map(sentence).collect();
    if sentences.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    format!("Test bits per character, each network at its best learning rate. {}.", sentences.join(". "))
}

fn best_at_an_end(lines: &[Line<'_>]) -> Option<String> {
    let grid: Vec<f64> = lines.iter().flat_map(|line| &line.rates).map(|(rate, _)| *rate).collect();
    let best = |line: &Line<'_>| Some((format!("{} {}", line.title, with(line.norm)), line.best()?.0));
    at_an_end(lines.iter().filter_map(best), &grid)
}

fn notes(runs: &[Ran]) -> Vec<String> {
    let mut notes = vec![
        "The text is six plays by Shakespeare, 729,655 characters, 76 different ones: the first 90 % for training, the \
         next 5 % for validation, the last 5 % for the test. Guessing costs 6.25 bits per character; a diverged run \
         counts as that."
            .to_owned(),
        "A best learning rate is the one with the lowest mean of the final validation bits over the seeds; the question \
         about the end is then answered with the test text, which the choice has not seen."
            .to_owned(),
    ];
    if let Some(ran) = runs.first() {
        let spec = &ran.trained.spec;
        notes.push(format!(
            "{} hidden units, one layer. Adam, gradients clipped at a norm of {} over all parameters together, {} steps \
             of {} streams with {} characters each; states are carried over to the next step.",
            spec.hidden,
            short(spec.clip),
            spec.steps,
            spec.batch_size,
            spec.sampling.longest()
        ));
    }
    notes
}

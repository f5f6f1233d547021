//! Final error by depth, and the course of training of the deepest networks.

use super::{Case, DEPTHS, LOW_RATE, RATE, RATES, Way};
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table, Tile, Tone};
use crate::studies::findings::{Claim, errors, mean_loss, mean_losses};
use crate::studies::tools::{self, axis, chart, short};
use crate::studies::trained::{Ran, Spread, cells, curve, error, in_percent, of_case, series};

/// Above this error, a network counts as not trained; guessing has about 90 %.
const UNTRAINED: f64 = 0.5;
/// The blocks of the deepest networks.
const MOST: usize = DEPTHS[DEPTHS.len() - 1];

fn words(way: Way) -> &'static str {
    match way {
        Way::Post => "layer norm, post-norm",
        Way::Pre => "layer norm, pre-norm",
        Way::None => "no norm",
    }
}

/// The runs of a case. The user's learning rate, if there is one, takes the place of the usual one.
fn of(runs: &[Ran], case: Case) -> Vec<&Ran> {
    let found = of_case(runs, &case.name());
    match runs.iter().find(|ran| ran.case == Case::plain(Way::Pre, DEPTHS[0]).name()) {
        None if case.rate == RATE => {
            let rate = runs.first().map_or(RATE, |ran| ran.trained.spec.learning_rate);
            of_case(runs, &Case { rate, ..case }.name())
        }
        _ => found,
    }
}

/// A learning rate with its runs.
type AtRate<'a> = (f64, Vec<&'a Ran>);

/// The best learning rate of a deepest network, with its runs; `None` if a run is missing.
fn best(runs: &[Ran], way: Way) -> Option<AtRate<'_>> {
    let at = |rate: f64| {
        let runs = of_case(runs, &Case { rate, ..Case::plain(way, MOST) }.name());
        Some((loss(&runs)?.mean, (rate, runs)))
    };
    let all = RATES.into_iter().map(at).collect::<Option<Vec<_>>>()?;
    all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, best)| best)
}

/// The mean validation loss during training; `None` if there are no runs or one is not finished.
fn loss(runs: &[&Ran]) -> Option<Spread> {
    Spread::of(runs.iter().map(|ran| mean_loss(ran)))
}

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Deep Transformers", question, records);
    story.expectation =
        "With post-norm, the gradients near the output are large at the start, so deep Transformers need \
                         warm-up; pre-norm keeps an unbroken residual connection and trains without it (Xiong et al., \
                         2020)."
            .to_owned();
    if runs.is_empty() {
        return story;
    }
    story.charts = vec![by_depth(runs), deepest(runs)];
    story.charts.extend(rates(runs));
    story.numbers = Some(table(runs));
    story.answer = answer(runs);
    story.findings = findings(runs);
    story.notes = vec![
        about_rates(runs),
        "With warm-up, the rate rises linearly during the first half of training.".to_owned(),
        "Pre-norm has one more norm, before the classifier. The networks without a norm have residual connections too."
            .to_owned(),
    ];
    let own = Way::ALL.into_iter().filter_map(|way| Some((words(way).to_owned(), best(runs, way)?.0)));
    story.notes.extend(tools::at_an_end(own, &RATES));
    story
}

fn about_rates(runs: &[Ran]) -> String {
    if rates(runs).is_none() {
        return "Adam with a constant learning rate from the first step, the same at all depths.".to_owned();
    }
    format!(
        "Adam with a constant learning rate from the first step, {high} at all depths. All three networks of {MOST} blocks \
         train at each of {grid}, except post-norm at {high}, which is therefore the common rate. The best rate of a \
         network is the one of these with the lowest mean validation loss during training, averaged over seeds, in the \
         runs that are compared.",
        high = short(RATE),
        grid = RATES.map(short).join(", ")
    )
}

fn by_depth(runs: &[Ran]) -> Chart {
    let curve = |way: Way| {
        let at = |&blocks: &usize| (blocks as f64, in_percent(error(&of(runs, Case::plain(way, blocks)))));
        series(words(way), DEPTHS.iter().map(at))
    };
    let see = "Lower is better; guessing has an error of about 90 %. Where a curve rises to guessing, networks of this \
               depth no longer train. Bands show the range over seeds.";
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), high: Some(100.0), ..axis("validation error") };
    let picture = Picture::Lines { x: axis("blocks"), y, series: Way::ALL.map(curve).to_vec(), scrub: false };
    chart("depth", "Error by depth, without warm-up", see, picture)
}

/// The cases of the deepest networks at the common rate.
fn deepest_cases() -> Vec<Case> {
    let mut cases = Way::ALL.map(|way| Case::plain(way, MOST)).to_vec();
    cases.push(Case { warm_up: true, ..Case::plain(Way::Post, MOST) });
    cases
}

/// A network with its learning rate.
fn name(case: Case, rate: f64) -> String {
    let warm_up = if case.warm_up { ", with warm-up" } else { "" };
    format!("{}{warm_up}, learning rate {}", words(case.way), short(rate))
}

/// The learning rate of some runs.
fn rate(runs: &[&Ran]) -> Option<f64> {
    Some(runs.first()?.trained.spec.learning_rate)
}

fn deepest(runs: &[Ran]) -> Chart {
    let common = deepest_cases().into_iter().map(|case| (case, of(runs, case)));
    let own = Way::ALL.into_iter().filter_map(|way| Some((Case::plain(way, MOST), best(runs, way)?)));
    let own = own.filter(|(_, (rate, _))| *rate != RATE).map(|(case, (_, runs))| (case, runs));
    let curve =
        |(case, runs): (Case, Vec<&Ran>)| Some(curve(&name(case, rate(&runs)?), &runs, |evaluation| evaluation.loss));
    let series = common.chain(own).filter_map(curve).collect();
    let see = "A curve that stays at about 2.3 has learned nothing. Compare post-norm with pre-norm at the same learning \
               rate, with itself with warm-up, and all networks at their best rates.";
    let y = Axis { unit: Some("nats".to_owned()), low: Some(0.0), ..axis("validation loss") };
    let title = format!("Training of {MOST} blocks");
    chart("deepest", &title, see, Picture::Lines { x: axis("step"), y, series, scrub: true })
}

/// The loss of the deepest networks at every rate; `None` if there is only one rate.
fn rates(runs: &[Ran]) -> Option<Chart> {
    let tile = |way: Way, at: f64| {
        let spread = loss(&of_case(runs, &Case { rate: at, ..Case::plain(way, MOST) }.name()));
        let lowest = best(runs, way).is_some_and(|(rate, _)| rate == at);
        Tile {
            value: spread.map(|spread| spread.mean),
            text: spread.map_or("–".to_owned(), |spread| short(spread.mean)),
            tone: if lowest { Tone::Good } else { Tone::None },
            hint: spread.map(|s| format!("{} to {} over {} seeds", short(s.lo), short(s.hi), s.count)),
        }
    };
    let cells: Vec<Vec<Tile>> = Way::ALL.map(|way| RATES.map(|at| tile(way, at)).to_vec()).to_vec();
    if cells.iter().all(|row| row.iter().filter(|tile| tile.value.is_some()).count() < 2) {
        return None;
    }
    let picture = Picture::Grid {
        rows: Way::ALL.map(|way| words(way).to_owned()).to_vec(),
        columns: RATES.map(short).to_vec(),
        cells,
        scale: "mean validation loss during training".to_owned(),
        tones: ["best rate of the network", ""],
    };
    let see = "Each row is a network, each column a learning rate (Adam, no warm-up). Compare the blue cells: each network \
               at its best rate.";
    Some(chart("rates", &format!("{MOST} blocks at every learning rate"), see, picture))
}

fn table(runs: &[Ran]) -> Table {
    let shallow = DEPTHS[..DEPTHS.len() - 1].iter();
    let shallow = shallow.flat_map(|&blocks| Way::ALL.map(|way| Case::plain(way, blocks)));
    let lower = RATES.into_iter().rev().filter(|&rate| rate != RATE);
    let lower = lower.flat_map(|rate| Way::ALL.map(|way| Case { rate, ..Case::plain(way, MOST) }));
    let row = |case: Case| {
        let runs = of(runs, case);
        let name = format!("{}{}", words(case.way), if case.warm_up { ", with warm-up" } else { "" });
        let mut row: Vec<Cell> = vec![(case.blocks as f64).into(), name.into(), rate(&runs)?.into()];
        row.push((runs.len() as f64).into());
        row.extend(cells(in_percent(error(&runs))));
        row.push(loss(&runs).map(|loss| loss.mean).into());
        Some(row)
    };
    let columns = [
        "blocks",
        "network",
        "learning rate",
        "seeds",
        "validation error, %",
        "best seed",
        "worst seed",
        "mean validation loss during training",
    ];
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: shallow.chain(deepest_cases()).chain(lower).filter_map(row).collect(),
        notes: Vec::new(),
    }
}

/// How the answer names a network.
fn with(case: Case) -> String {
    let name = match case.way {
        Way::Post => "with post-norm",
        Way::Pre => "with pre-norm",
        Way::None => "without a norm",
    };
    format!("{name}{}", if case.warm_up { " and warm-up" } else { "" })
}

fn answer(runs: &[Ran]) -> String {
    let common = |case: Case| Some(format!("{} {}", error(&of(runs, case))?.percent(), with(case)));
    let told: Vec<String> = deepest_cases().into_iter().filter_map(common).collect();
    let Some(rate) = deepest_cases().into_iter().find_map(|case| rate(&of(runs, case))).filter(|_| !told.is_empty())
    else {
        return "Some runs have not finished yet.".to_owned();
    };
    let mut text =
        format!("With {MOST} blocks at a learning rate of {}, the error is {}.", short(rate), told.join(", "));
    let own = |way: Way| {
        let (rate, runs) = best(runs, way)?;
        Some(format!("{} {} at {}", error(&runs)?.percent(), with(Case::plain(way, MOST)), short(rate)))
    };
    if let Some(own) = Way::ALL.into_iter().map(own).collect::<Option<Vec<_>>>() {
        text += &format!(" Each at its best rate: {}.", own.join(", "));
    }
    text
}

/// The questions: pre-norm against post-norm at every depth, and what the deepest post-norm networks need.
fn findings(runs: &[Ran]) -> Vec<Finding> {
    let plain = |way, blocks| of(runs, Case::plain(way, blocks));
    let mut findings = Vec::new();
    for blocks in DEPTHS {
        let (pre, post) = (plain(Way::Pre, blocks), plain(Way::Post, blocks));
        let Some(rate) = rate(&pre) else { continue };
        let text = format!("{}: pre-norm has a lower {LOSS} than post-norm", at(blocks, rate));
        let reason = match blocks {
            MOST => STABLE,
            _ => {
                "A possible reason, not tested: the large gradients that make post-norm hard to train appear only with \
                  more blocks."
            }
        };
        let pair = mean_losses("pre-norm − post-norm", &pre, &post);
        findings.extend(Claim::new(format!("pre-{blocks}"), text).source("C23").reason(reason).lower(pair));
    }
    findings.extend(trains(&plain(Way::Post, MOST), &plain(Way::Pre, MOST)));
    if let Some(common) = rate(&plain(Way::Post, MOST)) {
        let warm = of(runs, Case { warm_up: true, ..Case::plain(Way::Post, MOST) });
        let text = format!("{}: warm-up lowers the error of post-norm", at(MOST, common));
        let pair = errors("with warm-up − without", &warm, &plain(Way::Post, MOST));
        findings.extend(Claim::new("warm-up", text).source("C23").reason(SHORT).lower(pair));
        let text = format!("{}: pre-norm has a lower {LOSS} than no norm", at(MOST, common));
        let pair = mean_losses("pre-norm − no norm", &plain(Way::Pre, MOST), &plain(Way::None, MOST));
        findings.extend(Claim::new("pre-none", text).source("C23").reason(IDENTITY).lower(pair));
    }
    let low = |way| of(runs, Case { rate: LOW_RATE, ..Case::plain(way, MOST) });
    let text = format!("{}: pre-norm has a lower {LOSS} than post-norm", at(MOST, LOW_RATE));
    let pair = mean_losses("pre-norm − post-norm", &low(Way::Pre), &low(Way::Post));
    findings.extend(Claim::new("pre-low-rate", text).source("C23").reason(STABLE).lower(pair));
    let others = [("pre-best", Way::Post, "post-norm"), ("pre-none-best", Way::None, "no norm")];
    findings.extend(others.into_iter().filter_map(|(id, way, name)| each_at_its_best(runs, id, way, name)));
    findings
}

const LOSS: &str = "mean validation loss during training";
const STABLE: &str =
    "A possible reason, not tested: at this rate, post-norm networks of this width still train stably without warm-up.";
const SHORT: &str = "A possible reason, not tested: these runs are so short that the steps lost to the warm-up are \
    missing at the end.";
const IDENTITY: &str = "A possible reason, not tested: without a norm, the small initial weights keep every block close to \
                        the identity, so that even deep networks of this width train.";

/// The start of a claim.
fn at(blocks: usize, rate: f64) -> String {
    format!("{blocks} blocks at a learning rate of {}", short(rate))
}

/// Pre-norm against another network, each at its best rate.
fn each_at_its_best(runs: &[Ran], id: &str, way: Way, name: &str) -> Option<Finding> {
    let ((pre_rate, pre), (rate, other)) = (best(runs, Way::Pre)?, best(runs, way)?);
    let text = format!("{MOST} blocks, each at its best rate: pre-norm has a lower {LOSS} than {name}");
    let what = format!("pre-norm at {} − {name} at {}", short(pre_rate), short(rate));
    let reason = if way == Way::None { IDENTITY } else { STABLE };
    Claim::new(id, text).source("C23").reason(reason).lower(mean_losses(what, &pre, &other))
}

/// Whether post-norm fails and pre-norm trains, in every run.
fn trains(post: &[&Ran], pre: &[&Ran]) -> Vec<Finding> {
    let percent = short(100.0 * UNTRAINED);
    let count = |id: &str, ours: &[&Ran], text: String, holds: fn(f64) -> bool| {
        let found: Vec<f64> = ours.iter().map(|ran| ran.trained.error()).collect::<Option<_>>()?;
        let claim = Claim::new(id, format!("{}: {text} {percent} % in every run)", at(MOST, rate(ours)?)));
        Some(claim.source("C23").count(found.iter().filter(|&&error| holds(error)).count(), found.len(), "runs"))
    };
    let fails = "post-norm does not train without warm-up (error above".to_owned();
    let works = "pre-norm trains without warm-up (error below".to_owned();
    let fails = count("post-fails", post, fails, |error| error > UNTRAINED);
    [fails, count("pre-trains", pre, works, |error| error < UNTRAINED)].into_iter().flatten().collect()
}

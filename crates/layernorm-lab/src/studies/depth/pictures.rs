//! Final error by depth, and the course of training of the deepest networks.

use super::{Case, DEPTHS, LOW_RATE, RATE, Way};
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::findings::{Claim, POINTS, Pair, by_seed, errors, mean_losses, one_image};
use crate::studies::tools::{self, axis, capitalized, chart, short};
use crate::studies::trained::{Ran, cells, curve, error, in_percent, of_case, series};

/// Above this error, a network counts as not trained; guessing has about 90 %.
const UNTRAINED: f64 = 0.5;

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
    story.numbers = Some(table(runs));
    story.answer = answer(runs);
    story.findings = findings(runs);
    story.notes = vec![
        format!(
            "Adam with a constant learning rate of {high} from the first step. With 12 blocks, 0.001, {low} and {high} \
             were tried first: all three networks train at all of them, except post-norm at {high}, which is therefore \
             the rate of this study; at {low}, the two are compared as well. With warm-up, the rate rises linearly \
             during the first half of training.",
            high = short(RATE),
            low = short(LOW_RATE)
        ),
        "Pre-norm has one more norm, before the classifier. The networks without a norm have residual connections too; \
         their weights start small enough for 12 blocks."
            .to_owned(),
    ];
    story
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

/// The cases of the deepest networks, with their names.
fn deepest_cases() -> Vec<(String, Case)> {
    let blocks = DEPTHS[DEPTHS.len() - 1];
    let mut cases: Vec<(String, Case)> = Way::ALL.map(|way| (words(way).to_owned(), Case::plain(way, blocks))).to_vec();
    let post = Case::plain(Way::Post, blocks);
    cases.push((format!("{}, with warm-up", words(Way::Post)), Case { warm_up: true, ..post }));
    for way in [Way::Post, Way::Pre] {
        let case = Case { rate: LOW_RATE, ..Case::plain(way, blocks) };
        cases.push((format!("{}, learning rate {}", words(way), short(LOW_RATE)), case));
    }
    cases
}

fn deepest(runs: &[Ran]) -> Chart {
    let curve = |(name, case): (String, Case)| {
        let runs = of(runs, case);
        (!runs.is_empty()).then(|| curve(&name, &runs, |evaluation| evaluation.loss))
    };
    let series = deepest_cases().into_iter().filter_map(curve).collect();
    let see = "A curve that stays at about 2.3 has learned nothing. Compare post-norm with pre-norm, and with the same \
               network with warm-up or at the lower learning rate.";
    let y = Axis { unit: Some("nats".to_owned()), low: Some(0.0), ..axis("validation loss") };
    let title = format!("Training of {} blocks", DEPTHS[DEPTHS.len() - 1]);
    chart("deepest", &title, see, Picture::Lines { x: axis("step"), y, series, scrub: true })
}

fn table(runs: &[Ran]) -> Table {
    let depths = DEPTHS[..DEPTHS.len() - 1].iter();
    let shallow = depths.flat_map(|&blocks| Way::ALL.map(|way| (words(way).to_owned(), Case::plain(way, blocks))));
    let row = |(name, case): (String, Case)| {
        let runs = of(runs, case);
        let rate = runs.first()?.trained.spec.learning_rate;
        let mut row: Vec<Cell> = vec![(case.blocks as f64).into(), name.into(), rate.into()];
        row.push((runs.len() as f64).into());
        row.extend(cells(in_percent(error(&runs))));
        Some(row)
    };
    let columns = ["blocks", "network", "learning rate", "seeds", "validation error, %", "best seed", "worst seed"];
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: shallow.chain(deepest_cases()).filter_map(row).collect(),
        notes: Vec::new(),
    }
}

fn answer(runs: &[Ran]) -> String {
    let blocks = DEPTHS[DEPTHS.len() - 1];
    let tell = |way: Way| {
        Some(format!("{} misclassifies {}", words(way), error(&of(runs, Case::plain(way, blocks)))?.percent()))
    };
    let mut told: Vec<String> = Way::ALL.into_iter().filter_map(tell).collect();
    let warm = Case { warm_up: true, ..Case::plain(Way::Post, blocks) };
    told.extend(
        error(&of(runs, warm)).map(|error| format!("post-norm with warm-up misclassifies {}", error.percent())),
    );
    if told.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    capitalized(&format!("with {blocks} blocks and without warm-up, {}.", told.join("; ")))
}

/// The questions: pre-norm against post-norm at every depth, and what the deepest post-norm networks need.
fn findings(runs: &[Ran]) -> Vec<Finding> {
    let pre_post = "pre-norm − post-norm";
    let plain = |way, blocks| of(runs, Case::plain(way, blocks));
    let mut findings = Vec::new();
    for blocks in DEPTHS {
        let text = format!("{blocks} blocks: pre-norm has a lower mean validation loss during training than post-norm");
        let pair = mean_losses(pre_post, &plain(Way::Pre, blocks), &plain(Way::Post, blocks));
        let reason = "Few blocks train with post-norm too, and its outputs are normalized once more at the end of every block; \
                      the difficulty of post-norm grows with the depth.";
        findings.extend(Claim::new(format!("pre-{blocks}"), text).source("C23").reason(reason).lower(pair));
    }
    let blocks = DEPTHS[DEPTHS.len() - 1];
    let untrained = |ours: &[&Ran]| {
        let errors = by_seed(ours, |ran| Some(100.0 * ran.trained.error()?));
        let other = errors.keys().map(|&seed| (seed, 100.0 * UNTRAINED)).collect();
        let step = one_image(ours.iter().map(|ran| ran.trained.spec.validation).min());
        let what = format!("validation error − {} %", short(100.0 * UNTRAINED));
        Pair { what, unit: POINTS, step, ours: errors, other }
    };
    let percent = short(100.0 * UNTRAINED);
    let text = format!("{blocks} blocks: post-norm does not train without warm-up (error above {percent} %)");
    findings.extend(Claim::new("post-fails", text).source("C23").higher(untrained(&plain(Way::Post, blocks))));
    let text = format!("{blocks} blocks: pre-norm trains without warm-up (error below {percent} %)");
    findings.extend(Claim::new("pre-trains", text).source("C23").lower(untrained(&plain(Way::Pre, blocks))));
    let warm = of(runs, Case { warm_up: true, ..Case::plain(Way::Post, blocks) });
    let text = format!("{blocks} blocks: warm-up lowers the error of post-norm");
    let pair = errors("with warm-up − without", &warm, &plain(Way::Post, blocks));
    findings.extend(Claim::new("warm-up", text).source("C23").lower(pair));
    let text = format!("{blocks} blocks: pre-norm has a lower mean validation loss during training than no norm");
    let pair = mean_losses("pre-norm − no norm", &plain(Way::Pre, blocks), &plain(Way::None, blocks));
    let reason = "Without a norm, the small initial weights keep every block close to the identity, so even deep networks \
                  of this width train; the claim is about wider networks.";
    findings.extend(Claim::new("pre-none", text).source("C23").reason(reason).lower(pair));
    let low = |way| of(runs, Case { rate: LOW_RATE, ..Case::plain(way, blocks) });
    let text = format!(
        "{blocks} blocks at the lower learning rate {}: pre-norm has a lower mean validation loss during training than \
         post-norm",
        short(LOW_RATE)
    );
    let pair = mean_losses(pre_post, &low(Way::Pre), &low(Way::Post));
    findings.extend(Claim::new("pre-low-rate", text).source("C23").lower(pair));
    findings
}

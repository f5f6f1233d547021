//! A report with every chart type, gaps, empty charts, and names that try to inject markup.

mod pictures;

use layernorm_lab::data::SplitMix64;
use layernorm_lab::report::{
    About, Cell, Chart, Evidence, Finding, Link, Paired, Picture, Report, RunRow, Series, Side, Story, SummaryRow,
    Table, Verdict,
};
use pictures::{
    activations, axis, batches, categories, correlation, epsilon, flow, histogram, images, loss, quiz, rates, speed,
    sphere, table1, worked,
};

const HOSTILE: &str =
    "</script><script>document.title='broken'</script><img src=x onerror=alert(1)> \u{2028} & \"q\" %%DATA%%";
const NORMS: [&str; 3] = ["no norm", "batch norm", "layer norm"];

/// Reproducible pseudorandom numbers.
struct Noise(SplitMix64);

impl Noise {
    fn new(seed: u64) -> Noise {
        Noise(SplitMix64::new(seed))
    }

    fn next(&mut self) -> f64 {
        self.0.uniform()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn chart(id: &str, title: &str, see: &str, picture: Picture) -> Chart {
    Chart { id: id.into(), title: title.into(), see: see.into(), picture }
}

fn finding(id: &str, claim: &str, verdict: Verdict, result: &str, evidence: Evidence) -> Finding {
    let explanation = "The interval contains 0. At this mean and spread, it would just exclude 0 with 12 seeds.";
    Finding {
        id: id.into(),
        claim: claim.into(),
        source: Some("C1".into()),
        evidence,
        result: result.into(),
        verdict,
        explanation: (verdict != Verdict::Supported).then(|| explanation.into()),
    }
}

fn paired(differences: &[f64], interval: Option<[f64; 2]>, claimed: Side) -> Evidence {
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    let what = "validation error, layer norm − no norm".into();
    Evidence::Paired(Paired {
        what,
        unit: "percentage points".into(),
        differences: differences.to_vec(),
        mean,
        interval,
        p: interval.map(|_| 0.01),
        claimed,
    })
}

fn exact(found: &str, expected: &str) -> Evidence {
    Evidence::Exact { found: found.into(), expected: expected.into() }
}

fn story(id: &str, title: &str, findings: Vec<Finding>, charts: Vec<Chart>) -> Story {
    Story {
        id: id.into(),
        title: title.into(),
        question: "Does a network learn faster when it is normalized, and which normalization helps which network?"
            .into(),
        answer:
            "Layer norm reached a validation loss of 0.21 after 400 steps; batch norm needed 310 steps for the same, \
                 and without normalization one of five seeds diverged."
                .into(),
        findings,
        expectation:
            "The paper reports that layer norm trains recurrent networks faster, and that batch norm is better in \
                      convolutional ones."
                .into(),
        charts,
        numbers: Some(Table {
            columns: vec!["norm".into(), "validation loss".into(), "steps to 0.25".into()],
            rows: vec![
                vec!["layer norm".into(), 0.210_348_1.into(), 402.0.into()],
                vec!["batch norm".into(), 0.198_22.into(), 310.0.into()],
                vec!["no norm".into(), f64::NAN.into(), Cell::Empty],
            ],
            notes: vec!["Mean of five seeds.".into()],
        }),
        reproduce: format!("layernorm study {id} --seeds 5"),
        notes: vec!["Five seeds per setting; bands show the range over seeds.".into()],
    }
}

fn empty() -> Vec<Chart> {
    let see = "There is nothing to draw, and the page says so.";
    let (x, y) = (axis("x"), axis("y"));
    vec![
        chart(
            "none-lines",
            "No curves",
            see,
            Picture::Lines { x: x.clone(), y: y.clone(), series: vec![], scrub: true },
        ),
        chart(
            "nan-lines",
            "A run that diverged at once",
            see,
            Picture::Lines {
                x: x.clone(),
                y: y.clone(),
                series: vec![Series {
                    name: "no norm".into(),
                    x: vec![0.0, 1.0],
                    y: vec![None, Some(f64::NAN)],
                    ..Series::default()
                }],
                scrub: true,
            },
        ),
        chart(
            "none-frames",
            "No frames",
            see,
            Picture::Frames { x: x.clone(), y: y.clone(), series: vec![], frames: vec![] },
        ),
        chart(
            "none-maps",
            "No maps",
            see,
            Picture::Heatmaps { maps: vec![], low: -1.0, high: 1.0, scale: "correlation".into() },
        ),
        chart(
            "none-images",
            "No images",
            see,
            Picture::Images { rows: 2, columns: 2, panels: vec![], frames: vec![], scale: "probability".into() },
        ),
        chart(
            "none-cloud",
            "No points",
            see,
            Picture::Scatter3d {
                panels: vec![],
                classes: vec![],
                axes: ["a", "b", "c"].map(String::from),
                equal: true,
            },
        ),
        chart("none-hist", "No counts", see, Picture::Histograms { x: x.clone(), y: y.clone(), groups: vec![] }),
        chart("none-bars", "No bars", see, Picture::Bars { x, y, series: vec![] }),
        chart(
            "none-grid",
            "No cells",
            see,
            Picture::Grid { rows: vec![], columns: vec![], cells: vec![], scale: String::new(), tones: ["", ""] },
        ),
        chart("none-steps", "No steps", see, Picture::Steps { steps: vec![] }),
        chart("none-quiz", "No questions", see, Picture::Quiz { questions: vec![] }),
        chart("none-table", "No rows", see, Picture::Table(Table::default())),
    ]
}

fn runs(noise: &mut Noise) -> Vec<RunRow> {
    (0..240)
        .map(|index| {
            let (norm, seed) = (NORMS[index % 3], (index / 3 % 3) as u64);
            let diverged = norm == "no norm" && index % 7 == 0;
            let number = |value: f64| (!diverged).then_some(value);
            RunRow {
                study: if index == 5 { HOSTILE.into() } else { ["compare", "batch-size", "rates"][index / 80].into() },
                model: ["mlp", "lstm", "cnn", "transformer"][index / 9 % 4].into(),
                norm: norm.into(),
                seed: Some(if index == 0 { u64::MAX } else { seed }),
                lr: Some([1e-3, 1e-2, 0.1][index / 27 % 3]),
                batch: Some([4, 64, 128][index / 5 % 3]),
                epochs: Some(5),
                train_loss: number(0.1 + noise.next()),
                val_loss: number(0.15 + noise.next()),
                val_accuracy: number(0.8 + 0.19 * noise.next()),
                diverged,
                file: format!("runs/compare/{index:04}.json"),
            }
        })
        .collect()
}

fn compare(noise: &mut Noise) -> Story {
    let layers = ["layer 1", "layer 2", "layer 3", "layer 4", "layer 5", "layer 6", "layer 7", "output"];
    let charts = vec![
        chart(
            "loss",
            "Training loss",
            "The normalized networks fall faster; without normalization one run ends.",
            loss(noise),
        ),
        chart(
            "layers",
            "Gradient by layer",
            "Without normalization the gradient shrinks towards the input.",
            flow(noise, 8, categories("layer", &layers)),
        ),
        chart(
            "time",
            "Gradient by time step",
            "The gradient reaches further back with layer norm.",
            flow(noise, 28, axis("time step")),
        ),
    ];
    let differences = [-1.0, -2.0, -3.0, -4.0, -5.0];
    let findings = vec![
        finding(
            "mlp",
            "MLP: layer norm lowers the final validation error",
            Verdict::Supported,
            "−3 percentage points (−4.96 to −1.04)",
            paired(&differences, Some([-4.96, -1.04]), Side::Below),
        ),
        finding(
            "lstm",
            "LSTM: layer norm raises the highest learning rate that works",
            Verdict::Contradicted,
            "−3 percentage points (−4.96 to −1.04)",
            paired(&differences, Some([-4.96, -1.04]), Side::Above),
        ),
    ];
    story("compare", "Side by side", findings, charts)
}

fn inside(noise: &mut Noise) -> Story {
    let charts = vec![
        chart(
            "maps",
            "Correlation of hidden units",
            "Fewer units are correlated after normalization.",
            correlation(noise),
        ),
        chart(
            "cloud",
            "Activations in three dimensions",
            "The classes are better separated with layer norm.",
            activations(noise),
        ),
        chart("digits", "Generated digits", "The digits become sharper.", images(noise)),
        chart("sphere", "Activations of three units", "With layer norm, they lie on a circle.", sphere(noise)),
        chart("gamma", "γ and β after training", "γ moved away from 1.", histogram(noise, &["γ", "β"])),
        chart(
            "layers",
            "Activations by layer",
            "The spread grows with depth.",
            histogram(noise, &["layer 1", "layer 2", "layer 3", "layer 4"]),
        ),
    ];
    let one = paired(&[0.2], None, Side::Below);
    let claim = "Hidden units are less correlated with layer norm";
    let findings = vec![finding("one-seed", claim, Verdict::Undecided, "+0.2 percentage points", one)];
    story("inside", "What the units do", findings, charts)
}

fn settings() -> Story {
    let charts = vec![
        chart("batch", "Accuracy by batch size", "Batch norm wins at 64 and more, and cannot train at 1.", batches()),
        chart("eps", "What ε does", "A large ε shrinks rows of small variance.", epsilon()),
        chart("table1", "Table 1, measured", "What is invariant in the paper is invariant here.", table1()),
        chart("rates", "Which learning rates train", "Layer norm trains at every rate tried.", rates()),
    ];
    let count = Evidence::Count { count: 1, of: 3, what: "shapes".into() };
    let findings = vec![
        finding(
            "eps",
            "A constant row gives β",
            Verdict::Supported,
            "20 of 20 rows",
            exact("20 of 20 rows", "20 of 20 rows"),
        ),
        finding("time", "Layer norm is faster", Verdict::Undecided, "1 of 3 shapes", count),
    ];
    story("settings", "Batch size, ε and learning rate", findings, charts)
}

fn by_hand() -> Story {
    let charts = vec![
        chart("example", "The same matrix, twice", "Only the direction differs.", worked()),
        chart(
            "quiz",
            "Quiz: batch norm or layer norm?",
            "Preprocessing steps that resemble batch or layer norm.",
            quiz(),
        ),
        chart("speed", "Speed", "Bytes per second, forward.", speed()),
    ];
    let findings =
        vec![finding("same", "The library agrees", Verdict::Supported, "0 bits differ", exact("0 bits differ", "0"))];
    story("worked", "By hand", findings, charts)
}

fn advice() -> Story {
    let link = |text: &str, view: &str| Link { text: text.into(), view: view.into() };
    let links = vec![
        link("supported: layer norm lowers the final validation error", "compare/q-mlp"),
        link(HOSTILE, "settings"),
        link("not in this report", ""),
    ];
    let table = Table {
        columns: ["situation", "recommendation", "evidence"].map(String::from).to_vec(),
        rows: vec![
            vec!["MLP".into(), "layer norm".into(), Cell::Links(links)],
            vec!["others".into(), "undecided".into(), Cell::Links(vec![])],
        ],
        notes: vec![],
    };
    let see = "Every link leads to its finding.";
    story("which-norm", "Which norm for what", vec![], vec![chart("situations", "Advice", see, Picture::Table(table))])
}

fn summary() -> Vec<SummaryRow> {
    let row = |what: &str, finding: &str| SummaryRow { what: what.into(), finding: finding.into() };
    vec![
        row("Side by side", "Normalized networks reach the same loss in half the steps."),
        row(
            "What the units do",
            "Mean correlation falls from 0.41 to 0.12; batch norm falls less, which was not expected.",
        ),
        row(HOSTILE, HOSTILE),
    ]
}

/// The whole sample.
pub fn report() -> Report {
    let noise = &mut Noise::new(7);
    Report {
        title: "Layer normalization, measured".into(),
        about: About {
            program: "layernorm 0.1.0".into(),
            machine: "AMD EPYC 9B14, 2 cores, Linux".into(),
            made: "2026-11-15".into(),
            command: "layernorm report --from runs --out report.html".into(),
        },
        summary: summary(),
        stories: vec![
            compare(noise),
            inside(noise),
            settings(),
            by_hand(),
            advice(),
            story(
                "hostile",
                HOSTILE,
                vec![finding("hostile", HOSTILE, Verdict::Contradicted, HOSTILE, exact(HOSTILE, HOSTILE))],
                empty(),
            ),
        ],
        runs: runs(noise),
    }
}

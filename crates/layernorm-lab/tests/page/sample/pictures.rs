//! The sample's pictures: one of every chart type, with made-up numbers.

use super::{HOSTILE, NORMS, Noise};
use layernorm_lab::report::{
    Axis, Bars, Cell, Frame, Group, Highlight, Map, Matrix, Panel, Picture, Question, Series, Sheets, Step, Table,
    Tile, Tone,
};

pub fn axis(label: &str) -> Axis {
    Axis { label: label.into(), ..Axis::default() }
}

pub fn categories(label: &str, names: &[&str]) -> Axis {
    Axis { categories: Some(names.iter().map(|&name| name.into()).collect()), ..axis(label) }
}

pub fn loss(noise: &mut Noise) -> Picture {
    let steps = 120;
    let series = NORMS
        .iter()
        .enumerate()
        .map(|(which, name)| {
            let x: Vec<f64> = (0..steps).map(|step| (step * 10) as f64).collect();
            let base = |step: f64| [0.9, 0.16, 0.2][which] + 2.1 * (-step / [420.0, 170.0, 210.0][which]).exp();
            let y: Vec<f64> = x.iter().map(|&step| base(step) * (1.0 + 0.04 * noise.normal())).collect();
            let gone = |index: usize| which == 0 && index > 90;
            let keep =
                |factor: f64| Some(y.iter().enumerate().map(|(i, v)| (!gone(i)).then_some(v * factor)).collect());
            Series {
                name: (*name).into(),
                lo: keep(0.88),
                hi: keep(1.14),
                y: y.iter().enumerate().map(|(i, &v)| (!gone(i)).then_some(v)).collect(),
                x,
                dashed: false,
            }
        })
        .collect();
    Picture::Lines {
        x: axis("step"),
        y: Axis { unit: Some("nats".into()), log: true, ..axis("training loss") },
        series,
        scrub: true,
    }
}

pub fn epsilon() -> Picture {
    let x: Vec<f64> = (0..25).map(|k| 10f64.powf(-12.0 + k as f64 * 0.5)).collect();
    let curve = |name: &str, variance: f64, dashed| Series {
        name: name.into(),
        y: x.iter().map(|eps| Some((variance / (variance + eps)).sqrt())).collect(),
        x: x.clone(),
        dashed,
        ..Series::default()
    };
    Picture::Lines {
        x: Axis { log: true, ..axis("ε") },
        y: axis("standard deviation of the output"),
        series: vec![
            curve("variance 1", 1.0, false),
            curve("variance 10⁻⁴", 1e-4, false),
            curve("variance 10⁻⁸", 1e-8, true),
        ],
        scrub: false,
    }
}

pub fn flow(noise: &mut Noise, places: usize, x: Axis) -> Picture {
    let frames = (0..12)
        .map(|moment| Frame {
            label: format!("step {}", moment * 100),
            values: (0..3)
                .map(|which| {
                    (0..places)
                        .map(|place| {
                            let depth = (places - place) as f64 / places as f64;
                            let slope = [-4.0, -0.9, -0.4][which] * depth - 0.06 * moment as f64;
                            let gone = which == 0 && moment > 9 && place < 2;
                            (!gone).then(|| 10f64.powf(slope + 0.08 * noise.normal()))
                        })
                        .collect()
                })
                .collect(),
        })
        .collect();
    Picture::Frames {
        x,
        y: Axis { log: true, ..axis("norm of the gradient") },
        series: NORMS.iter().map(|&name| name.into()).collect(),
        frames,
    }
}

pub fn correlation(noise: &mut Noise) -> Picture {
    let map = |name: &str, strength: f64, units: usize, noise: &mut Noise| {
        let sides: Vec<f64> = (0..units).map(|_| noise.normal()).collect();
        let values = (0..units * units)
            .map(|index| {
                let (row, column) = (index / units, index % units);
                if row == column {
                    1.0
                } else {
                    (strength * sides[row] * sides[column] + 0.06 * noise.normal()).clamp(-1.0, 1.0)
                }
            })
            .collect();
        Map { name: name.into(), rows: units, columns: units, values, labels: None }
    };
    let mut maps =
        vec![map("no norm", 0.6, 48, noise), map("batch norm", 0.25, 48, noise), map("layer norm", 0.15, 48, noise)];
    maps[0].values[5] = f64::NAN;
    Picture::Heatmaps { maps, low: -1.0, high: 1.0, scale: "correlation".into() }
}

pub fn images(noise: &mut Noise) -> Picture {
    let (rows, columns) = (14, 12);
    let mut image = |sharpness: f64| -> String {
        let (x, y, radius) = (6.0 + noise.normal(), 7.0 + noise.normal(), 3.0 + noise.next());
        let level = |place: usize| {
            let (row, column) = ((place / columns) as f64, (place % columns) as f64);
            let off = ((row - y).hypot(column - x) - radius).abs();
            (15.0 * sharpness * (-off * off).exp()).round() as u32
        };
        (0..rows * columns).map(|place| char::from_digit(level(place), 16).unwrap()).collect()
    };
    let mut frame = |number: usize| Sheets {
        label: format!("glimpse {number} of 24"),
        images: [16, 7, 0].map(|count| (0..count).map(|_| image(number as f64 / 24.0)).collect()).to_vec(),
    };
    let frames = (1..=24).map(&mut frame).collect();
    Picture::Images { rows, columns, panels: NORMS.map(String::from).to_vec(), frames, scale: "probability".into() }
}

pub fn activations(noise: &mut Noise) -> Picture {
    let panel = |name: &str, spread: f64, noise: &mut Noise| Panel {
        name: name.into(),
        points: (0..300)
            .map(|index| {
                let class = index % 10;
                let angle = class as f64 * std::f64::consts::TAU / 10.0;
                let centre = [angle.cos() * 3.0, angle.sin() * 3.0, (class % 3) as f64 * 1.5];
                let point = centre.map(|value| value + spread * noise.normal());
                [point[0], point[1], if index == 7 { f64::INFINITY } else { point[2] }, class as f64]
            })
            .collect(),
        sphere: None,
    };
    Picture::Scatter3d {
        panels: vec![panel("no norm", 1.3, noise), panel("layer norm", 0.5, noise)],
        classes: (0..10).map(|digit| format!("digit {digit}")).collect(),
        axes: ["PC 1".into(), "PC 2".into(), "PC 3".into()],
        equal: false,
    }
}

/// Points around a sphere and on a circle of it, in one scale.
pub fn sphere(noise: &mut Noise) -> Picture {
    let radius = 3f64.sqrt();
    let mut panel = |name: &str, spread: f64| Panel {
        name: name.into(),
        points: (0..200)
            .map(|index| {
                let angle = index as f64 * std::f64::consts::TAU / 200.0;
                // Two orthogonal directions in the plane x + y + z = 0.
                let at = |u: f64, v: f64| radius * (u * angle.cos() / 2f64.sqrt() + v * angle.sin() / 6f64.sqrt());
                let far = 1.0 + spread * noise.normal();
                [far * at(1.0, 1.0), far * at(-1.0, 1.0), far * at(0.0, -2.0), (index / 20) as f64]
            })
            .collect(),
        sphere: Some(radius),
    };
    Picture::Scatter3d {
        panels: vec![panel("no norm", 0.4), panel("layer norm", 0.0)],
        classes: (0..10).map(|digit| format!("digit {digit}")).collect(),
        axes: ["unit 1".into(), "unit 2".into(), "unit 3".into()],
        equal: true,
    }
}

pub fn histogram(noise: &mut Noise, names: &[&str]) -> Picture {
    let groups = names
        .iter()
        .enumerate()
        .map(|(which, name)| {
            let edges: Vec<f64> = (0..=40).map(|k| -4.0 + 0.2 * k as f64).collect();
            let mut counts = vec![0.0; 40];
            for _ in 0..2000 {
                let value = noise.normal() * (1.0 + 0.35 * which as f64) + 0.4 * which as f64;
                if (-4.0..4.0).contains(&value) {
                    counts[((value + 4.0) / 0.2) as usize] += 1.0;
                }
            }
            Group { name: (*name).into(), edges, counts }
        })
        .collect();
    Picture::Histograms { x: axis("value"), y: axis("count"), groups }
}

pub fn batches() -> Picture {
    let bars = |name: &str, values: [Option<f64>; 5]| Bars {
        name: name.into(),
        values: values.to_vec(),
        lo: Some(values.iter().map(|value| value.map(|v| v - 0.02)).collect()),
        hi: Some(values.iter().map(|value| value.map(|v| (v + 0.015).min(1.0))).collect()),
    };
    Picture::Bars {
        x: categories("batch size", &["1", "4", "16", "64", "128"]),
        y: Axis { low: Some(0.0), high: Some(1.0), ..axis("validation accuracy") },
        series: vec![
            bars("batch norm", [None, Some(0.71), Some(0.9), Some(0.955), Some(0.96)]),
            bars("layer norm", [Some(0.93), Some(0.94), Some(0.945), Some(0.94), Some(0.94)]),
            bars("layer norm, no γ and β", [Some(0.9), Some(0.91), Some(0.92), Some(0.92), Some(0.92)]),
        ],
    }
}

pub fn table1() -> Picture {
    let cell = |holds: bool| Tile {
        value: Some(if holds { 3e-7 } else { 0.8 }),
        text: if holds { "invariant, 3×10⁻⁷".into() } else { "changes, 0.8".into() },
        tone: if holds { Tone::Good } else { Tone::Bad },
        hint: Some("Largest relative change of the output over 100 trials.".into()),
    };
    Picture::Grid {
        rows: vec!["batch norm".into(), "weight norm".into(), "layer norm".into()],
        columns: ["weights ×", "weights +", "one weight ×", "data ×", "data +", "one sample ×"]
            .map(String::from)
            .to_vec(),
        cells: [
            [true, false, true, true, true, false],
            [true, false, true, false, false, false],
            [true, true, false, true, false, true],
        ]
        .map(|row| row.map(cell).to_vec())
        .to_vec(),
        scale: "largest relative deviation measured".into(),
        tones: ["invariant", "changes"],
    }
}

pub fn rates() -> Picture {
    let tile = |value: Option<f64>| Tile {
        value,
        text: value.map_or("diverged".into(), |v| format!("{v:.2}")),
        tone: if value.is_some() { Tone::None } else { Tone::Bad },
        hint: None,
    };
    Picture::Grid {
        rows: NORMS.map(String::from).to_vec(),
        columns: ["0.001", "0.01", "0.1", "1", "10"].map(String::from).to_vec(),
        cells: vec![
            [Some(1.2), Some(0.6), None, None, None].map(tile).to_vec(),
            [Some(1.1), Some(0.4), Some(0.2), Some(0.5), None].map(tile).to_vec(),
            [Some(1.1), Some(0.4), Some(0.2), Some(0.3), Some(1.9)].map(tile).to_vec(),
        ],
        scale: "validation loss by learning rate".into(),
        tones: ["", "diverged"],
    }
}

pub fn worked() -> Picture {
    let x = vec![vec![1.0, 2.0, 6.0], vec![4.0, 0.0, 2.0], vec![1.0, 4.0, 1.0]];
    let step = |title: &str, text: &str, name: &str, rows: Vec<Vec<f64>>, highlight| Step {
        title: title.into(),
        text: text.into(),
        matrices: vec![
            Matrix { name: "x".into(), rows: x.clone(), highlight },
            Matrix { name: name.into(), rows, highlight: Highlight::None },
        ],
    };
    Picture::Steps {
        steps: vec![
            step("The matrix", "Three samples (rows) with three features (columns).", "x", x.clone(), Highlight::None),
            step(
                "Batch norm goes down the columns",
                "Each feature gets mean 0 over the batch.",
                "μ",
                vec![vec![2.0, 2.0, 3.0]],
                Highlight::Columns,
            ),
            step(
                "Layer norm goes along the rows",
                "Each sample gets mean 0 by itself.",
                "μ",
                vec![vec![3.0], vec![2.0], vec![2.0]],
                Highlight::Rows,
            ),
        ],
    }
}

pub fn quiz() -> Picture {
    let question = |text: &str, right| Question {
        text: text.into(),
        options: vec!["like batch norm: by columns".into(), "like layer norm: by rows".into(), "like neither".into()],
        right,
        why: "The mean is taken over the samples, one feature at a time.".into(),
    };
    Picture::Quiz {
        questions: vec![
            question("Standardizing each column of a spreadsheet is", 0),
            question("Grading each pupil against their own average is", 1),
        ],
    }
}

pub fn speed() -> Picture {
    Picture::Table(Table {
        columns: ["library", "shape", "GB/s", "remark"].map(String::from).to_vec(),
        rows: vec![
            vec!["layernorm".into(), "4096 × 1024".into(), 11.92.into(), "forward".into()],
            vec![HOSTILE.into(), "4096 × 1024".into(), 7.4.into(), Cell::Empty],
        ],
        notes: vec!["One thread.".into()],
    })
}

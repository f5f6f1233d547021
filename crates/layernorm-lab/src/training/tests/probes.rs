//! Probes measure correctly at every evaluation and do not affect training.

use super::*;
use crate::training::events::{
    Activations, Affine, Correlation, Dynamics, Geometry, Gradients, Moments, Shift, Statistics, Weights,
};
use serde::de::DeserializeOwned;

const ALL: Probes = Probes {
    gradients: true,
    time: true,
    moments: true,
    correlation: 4,
    activations: 20,
    dynamics: true,
    statistics: false,
    geometry: 20,
    affine: true,
    shift: true,
    weights: true,
};

fn probed() -> Vec<Spec> {
    let all = kinds().into_iter().map(|spec| Spec { probes: ALL, ..spec });
    all.collect()
}

fn read<T: DeserializeOwned>(record: &Record, name: &str) -> Vec<T> {
    record.named(name).map(|data| serde_json::from_value(data.clone()).unwrap()).collect()
}

#[test]
fn probes_change_no_other_number() {
    for spec in probed() {
        let spec = Spec { trials: vec![Trial::plain("again")], ..spec };
        let others = ["evaluate", "trial", "test"];
        let (with, without) = (record_of(&spec), record_of(&Spec { probes: Probes::default(), ..spec.clone() }));
        assert_eq!(named(&with, &others), named(&without, &others), "{spec:?}");
        assert_eq!(without.events.len(), named(&without, &others).len());
        assert!(with.events.len() > without.events.len());
    }
}

#[test]
fn each_probe_alone_writes_its_event_at_each_evaluation() {
    let none = Probes::default();
    let alone = [
        ("gradients", Probes { gradients: true, ..none }),
        ("time", Probes { time: true, ..none }),
        ("moments", Probes { moments: true, ..none }),
        ("correlation", Probes { correlation: 4, ..none }),
        ("activations", Probes { activations: 20, ..none }),
        ("dynamics", Probes { dynamics: true, ..none }),
        ("geometry", Probes { geometry: 20, ..none }),
        ("shift", Probes { shift: true, ..none }),
        ("weights", Probes { weights: true, ..none }),
    ];
    for (name, probes) in alone {
        let mlp_only = probes.shift || probes.weights;
        let spec = Spec { probes, ..if mlp_only { mlp(Norm::Layer) } else { lstm(Norm::Layer) } };
        let record = record_of(&spec);
        let names: Vec<&str> = record.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, [[name, "evaluate"].repeat(4), vec!["test"]].concat());
        let steps: Vec<u64> = record.named(name).map(|data| data["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, [0, 2, 4, 7], "{name}");
    }
}

#[test]
fn gradients_are_of_every_layer_and_every_time_step() {
    for spec in probed() {
        let record = record_of(&spec);
        let layers: Vec<Gradients> = read(&record, "gradients");
        let expected = match &spec.arch {
            Arch::Mlp { .. } => vec!["layer 1", "layer 2", "logits"],
            Arch::Rnn(size) | Arch::Gru(size) | Arch::Lstm(size) if size.layers == 1 => {
                vec!["input", "recurrent", "logits"]
            }
            Arch::Rnn(_) | Arch::Gru(_) | Arch::Lstm(_) => {
                vec!["input 1", "recurrent 1", "input 2", "recurrent 2", "logits"]
            }
            Arch::Cnn { .. } => vec!["convolution 1", "convolution 2", "logits"],
            Arch::Transformer { .. } => vec!["rows", "values 1", "out 1", "wide 1", "narrow 1", "logits"],
        };
        assert_eq!(layers.len(), 4);
        for gradients in &layers {
            assert_eq!(gradients.places, expected, "{spec:?}");
            assert!(gradients.norms.iter().all(|norm| norm.is_some_and(|norm| norm > 0.0)), "{spec:?}: {gradients:?}");
        }
        let times: Vec<Gradients> = read(&record, "time");
        let has_time = spec.arch.as_recurrent().is_some();
        assert_eq!(times.len(), if has_time { 4 } else { 0 }, "{spec:?}");
        for gradients in times {
            assert_eq!(gradients.places, (1..=14).map(|step| step.to_string()).collect::<Vec<_>>());
            assert!(gradients.norms.iter().all(|norm| norm.is_some_and(|norm| norm > 0.0)), "{spec:?}: {gradients:?}");
        }
    }
}

#[test]
fn moments_are_those_that_the_norm_makes() {
    for norm in [Norm::Layer, Norm::Batch] {
        let record = record_of(&Spec { probes: ALL, ..mlp(norm) });
        let moments: Vec<Moments> = read(&record, "moments");
        assert_eq!(moments.len(), 4 * 2);
        assert_eq!((moments[0].layer.as_str(), moments[1].layer.as_str()), ("layer 1", "layer 2"));
        for Moments { before, after, .. } in &moments[..2] {
            let [before, after] = [before, after].map(|pair| pair.map(Option::unwrap));
            // At the start γ = 1 and β = 0: mean 0, to rounding; variance v/(v + ε), at most 10⁻³ less than 1 where v > 10⁻².
            assert!(before[1] > 1e-2 && after[0].abs() < 1e-6 && (after[1] - 1.0).abs() < 1e-3, "{norm}: {after:?}");
        }
    }
    let plain: Vec<Moments> = read(&record_of(&Spec { probes: ALL, ..mlp(Norm::None) }), "moments");
    assert!(plain.iter().all(|moments| moments.before == moments.after));
}

#[test]
fn correlations_and_places_have_the_sizes_asked_for() {
    for spec in probed() {
        let record = record_of(&spec);
        for correlation in read::<Correlation>(&record, "correlation") {
            assert_eq!((correlation.units, correlation.before.len(), correlation.after.len()), (4, 16, 16));
            for matrix in [&correlation.before, &correlation.after] {
                for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                    assert_eq!(matrix[4 * a + b], matrix[4 * b + a], "{spec:?}");
                    // 0 for a constant unit.
                    assert!(a != b || matrix[4 * a + a] == 1.0 || matrix[4 * a + a] == 0.0, "{spec:?}");
                    assert!(matrix[4 * a + b].abs() <= 1.0, "{spec:?}");
                }
            }
        }
        for activations in read::<Activations>(&record, "activations") {
            assert_eq!(activations.points.len(), 20);
            // Each share is rounded to three digits.
            let [first, second, third] = activations.shares;
            assert!(first >= second && second >= third && first + second + third <= 1.0015, "{activations:?}");
            let classes: Vec<f64> = activations.points.iter().map(|point| point[3]).collect();
            let expected: Vec<f64> = data().train.labels()[250..270].iter().map(|&class| f64::from(class)).collect();
            assert_eq!(classes, expected);
        }
    }
}

#[test]
fn layer_norm_puts_every_image_on_a_sphere() {
    let spec = Spec { probes: ALL, start: Start { affine: false, ..Start::new(5) }, ..mlp(Norm::Layer) };
    for geometry in read::<Geometry>(&record_of(&spec), "geometry") {
        assert_eq!((geometry.layer.as_str(), geometry.units, geometry.after.radius.len()), ("layer 2", 16, 20));
        // Radius √(v/(v + ε)), at most 10⁻³ less than 1 where v > 10⁻².
        assert!(geometry.after.radius.iter().all(|radius| (radius.unwrap() - 1.0).abs() < 1e-3), "{geometry:?}");
        assert!(geometry.after.mean.iter().all(|mean| mean.unwrap().abs() < 1e-6), "{geometry:?}");
        assert!(geometry.before.mean.iter().any(|mean| mean.unwrap().abs() > 1e-3), "{geometry:?}");
        assert!(geometry.after.points.is_empty(), "16 units are not a point in space");
    }
}

#[test]
fn gains_and_biases_are_named_by_layer_and_start_at_one_and_zero() {
    let layers = |spec: Spec| {
        let all: Vec<Affine> = read(&record_of(&Spec { probes: ALL, ..spec }), "affine");
        let start: Vec<&Affine> = all.iter().filter(|affine| affine.step == 0).collect();
        for Affine { gain, bias, .. } in &start {
            assert!(!gain.is_empty() && gain.iter().all(|&gain| gain == 1.0) && bias.iter().all(|&bias| bias == 0.0));
        }
        assert!(all.iter().any(|affine| affine.gain.iter().any(|&gain| gain != 1.0)), "γ is trained");
        start.iter().map(|affine| affine.layer.clone()).collect::<Vec<_>>()
    };
    assert_eq!(layers(mlp(Norm::Layer)), ["layer 1", "layer 2"]);
    assert_eq!(layers(mlp(Norm::Batch)), ["layer 1", "layer 2"]);
    assert_eq!(layers(lstm(Norm::Layer)), ["input norm", "recurrent norm", "cell norm"]);
    let stacked = Arch::Rnn(RecurrentSize { hidden: 10, reads: Reads::Rows, layers: 2 });
    assert_eq!(layers(small(stacked, Norm::Layer)), ["sum norm 1", "sum norm 2"]);
    let plain = record_of(&Spec { probes: ALL, ..mlp(Norm::None) });
    assert_eq!(plain.named("affine").count(), 0, "a network without norms has no γ");
}

#[test]
fn gradients_are_orthogonal_to_weights_whose_scale_does_not_matter() {
    let of = |norm| {
        // A small ε, so that only rounding errors remain.
        let start = Start { epsilon: 1e-10, ..Start::new(5) };
        let spec = Spec { probes: ALL, start, optimizer: Optimizer::Sgd, learning_rate: 0.5, ..mlp(norm) };
        read::<Weights>(&record_of(&spec), "weights")
    };
    for norm in [Norm::Layer, Norm::Batch, Norm::Weight] {
        let all = of(norm);
        for weights in &all {
            assert_eq!(weights.layers, ["layer 1", "layer 2", "logits"]);
            let angles = if norm == Norm::Layer { &weights.with_bias } else { &weights.weight };
            // Sums of 196·24 products with relative errors of 6·10⁻⁸.
            assert!(angles[..2].iter().all(|angle| angle.cosine.unwrap().abs() < 1e-4), "{norm}: {weights:?}");
        }
        let length = |weights: &Weights| weights.weight[0].length.unwrap();
        assert!(all.windows(2).all(|pair| length(&pair[0]) < length(&pair[1])), "{norm}: the weights grow");
    }
    assert!(of(Norm::None).iter().any(|weights| weights.with_bias[0].cosine.unwrap().abs() > 1e-2));
}

#[test]
fn the_next_step_shifts_the_inputs_of_every_layer_but_the_first() {
    let of = |learning_rate| {
        let spec = Spec { probes: ALL, learning_rate, ..mlp(Norm::Layer) };
        read::<Shift>(&record_of(&spec), "shift")
    };
    let (slow, fast) = (of(1e-5), of(1e-2));
    assert_eq!(slow.len(), 4);
    for (slow, fast) in slow.iter().zip(&fast) {
        assert_eq!(slow.layers, ["layer 1", "layer 2", "logits"]);
        let there = |values: &[Option<f64>]| values.iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!((there(&slow.input), there(&slow.cosine)), (vec![false, true, true], vec![false, true, true]));
        assert_eq!((there(&slow.before), there(&slow.after)), (vec![true, true, false], vec![true, true, false]));
        for (slow, fast) in [(&slow.input, &fast.input), (&slow.before, &fast.before)] {
            assert!(slow[1] > Some(0.0) && slow[1] < Some(0.1) && fast[1] > slow[1].map(|x| 10.0 * x), "{slow:?}");
        }
        assert!(slow.cosine[1] > Some(0.99) && fast.cosine[1] < slow.cosine[1], "{slow:?} {fast:?}");
    }
}

#[test]
fn dynamics_of_recurrent_networks_have_every_step_and_gate() {
    for spec in probed() {
        let found: Vec<Dynamics> = read(&record_of(&spec), "dynamics");
        let gates: &[&str] = match spec.arch {
            Arch::Lstm(_) => &["input", "forget", "candidate", "output"],
            Arch::Gru(_) => &["reset", "update", "candidate"],
            Arch::Rnn(_) => &["candidate"],
            _ => {
                assert!(found.is_empty(), "{spec:?}");
                continue;
            }
        };
        assert_eq!(found.len(), 4, "{spec:?}");
        for Dynamics { hidden, cell, gates: found, .. } in found {
            // With batch norm, h is 0 in blank rows, where c does not vary.
            assert!(hidden.len() == 14 && hidden.iter().all(Option::is_some), "{spec:?}");
            assert!(hidden[13].is_some_and(|norm| norm > 0.0), "{spec:?}");
            assert_eq!(cell.len(), if gates.len() == 4 { 14 } else { 0 });
            assert_eq!(found.iter().map(|gate| gate.gate.as_str()).collect::<Vec<_>>(), gates);
            for gate in found {
                assert!(gate.deviation.iter().all(|deviation| deviation.is_some_and(|deviation| deviation > 0.0)));
                assert!(gate.saturated.iter().all(|share| share.is_some_and(|share| (0.0..=1.0).contains(&share))));
                assert_eq!([gate.mean.len(), gate.deviation.len(), gate.saturated.len()], [14; 3]);
            }
        }
    }
}

#[test]
fn statistics_of_batch_norm_are_written_once() {
    let probes = Probes { statistics: true, ..Probes::default() };
    for (norm, of) in [(Norm::Batch, &["W x", "U h", "c"][..]), (Norm::Layer, &[])] {
        let found: Vec<Statistics> = read(&record_of(&Spec { probes, ..lstm(norm) }), "statistics");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].norms.iter().map(|norm| norm.of.as_str()).collect::<Vec<_>>(), of);
        for norm in &found[0].norms {
            assert_eq!([norm.mean_size.len(), norm.variance.len(), norm.units.len()], [14, 14, 4]);
            assert!(norm.variance.iter().all(|variance| variance.is_some_and(|variance| variance >= 0.0)));
        }
        // h is 0 before the first step, so U h does not vary there, and later it does.
        if let Some(of_state) = found[0].norms.get(1) {
            assert!(of_state.variance[0] == Some(0.0) && of_state.variance[13].unwrap() > 0.0, "{of_state:?}");
        }
    }
}

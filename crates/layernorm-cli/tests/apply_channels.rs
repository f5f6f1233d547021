//! `layernorm apply batch-norm`, `group-norm` and `instance-norm`: forward and backward against the oracle.

mod apply_common;

use apply_common::case::{Case, Number};
use apply_common::oracle::Kind;
use apply_common::{Folder, Random, wide};
use layernorm::f16;

/// [N, C], [N, C, L] and [N, C, H, W], with one position per sample and with many.
const SHAPES: [&[usize]; 4] = [&[7, 6], &[3, 6, 11], &[2, 6, 3, 5], &[70, 6, 2]];

fn instance(shape: &[usize]) -> Case {
    Case::new("instance-norm", shape, &[0, 1], &[1])
}

fn batch(shape: &[usize]) -> Case {
    Case::new("batch-norm", shape, &[1], &[1])
}

fn group(shape: &[usize], groups: usize) -> Case {
    let per_group = shape[1] / groups;
    let case = Case::new("group-norm", shape, &[0, 1], &[1]).options(&format!("--groups {groups}"));
    let set = case.set.iter().map(|channel| channel / per_group).collect();
    Case { set, stats_shape: vec![shape[0], groups], ..case }
}

/// Checks f32 with and without γ, β and other options, and the other types with all of them.
fn every_choice(case: Case) {
    for choice in 0..4u64 {
        let (weight, bias) = (choice & 1 == 0, choice & 2 == 0);
        let (zero_centered, eps) = (choice == 2, [1e-5, 0.25][choice as usize % 2]);
        Case { weight, bias, zero_centered, eps, ..case.clone() }.check::<f32, f32>(choice);
    }
    case.check::<f16, f16>(4);
    case.check::<f16, f32>(5);
    case.check::<f64, f64>(6);
}

#[test]
fn instance_norm_is_what_the_formula_gives() {
    // With one position per sample y is β for any x; the other shapes have more positions.
    SHAPES[1..].iter().for_each(|shape| every_choice(instance(shape)));
}

#[test]
fn batch_norm_is_what_the_formula_gives() {
    SHAPES.iter().for_each(|shape| every_choice(batch(shape)));
}

#[test]
fn group_norm_is_what_the_formula_gives() {
    for groups in [1, 2, 3] {
        SHAPES.iter().for_each(|shape| every_choice(group(shape, groups)));
    }
}

/// With running statistics of type `R`.
fn inference<T: Number, R: Number>(shape: &[usize]) {
    let (mut random, channels) = (Random::new(21), shape[1]);
    let (mean, var): (Vec<R>, Vec<R>) = (random.numbers(channels, 1.5), random.numbers(channels, 1.25));
    let kind = Kind::Fixed { mean: wide(&mean), var: wide(&var) };
    let case = Case { kind, ..batch(shape).options("--running-mean rm.npy --running-var rv.npy") };
    case.check_with::<T, T>(22, |folder: &Folder| {
        folder.save("rm.npy", &[channels], &mean);
        folder.save("rv.npy", &[channels], &var);
    });
}

#[test]
fn batch_norm_with_running_statistics_is_what_the_formula_gives() {
    for shape in SHAPES {
        inference::<f32, f32>(shape);
        inference::<f64, f64>(shape);
        inference::<f16, f16>(shape);
        inference::<f16, f32>(shape);
    }
}

#[test]
fn running_mean_is_written_unchanged() {
    let folder = Folder::new();
    folder.save("x.npy", &[1, 3], &[1.0f32, 2.0, 3.0]);
    folder.save("rm.npy", &[3], &[-0.0f32, 0.1, 1e-40]);
    folder.save("rv.npy", &[3], &[1.0f32, 4.0, 0.0625]);
    folder.apply(
        "batch-norm --input x.npy --running-mean rm.npy --running-var rv.npy --eps 0 --output y.npy \
         --mean-output m.npy --rstd-output s.npy",
    );
    assert_eq!(folder.bytes("m.npy"), folder.bytes("rm.npy"));
    assert_eq!(folder.load::<f32>("s.npy", &[3]), [1.0, 0.5, 4.0]);
    assert_eq!(folder.load::<f32>("y.npy", &[1, 3]), [1.0, (2.0 - 0.1f32) * 0.5, (3.0 - 1e-40) * 4.0]);
}

#[test]
fn empty_tensors_give_empty_results() {
    let folder = Folder::new();
    let running = "batch-norm --running-mean rm.npy --running-var rm.npy";
    for shape in [[0, 4, 3], [2, 4, 0]] {
        folder.save::<f32>("x.npy", &shape, &[]);
        folder.save("rm.npy", &[4], &[0.0f32; 4]);
        for op in ["group-norm --groups 2", "instance-norm", "batch-norm", running] {
            folder.apply(&format!("{op} --input x.npy --output y.npy --grad-output x.npy --grad-bias db.npy"));
            assert!(folder.load::<f32>("y.npy", &shape).is_empty());
            assert_eq!(folder.load::<f32>("db.npy", &[4]), [0.0; 4]);
        }
    }
}

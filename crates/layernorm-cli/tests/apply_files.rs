//! `layernorm apply` and its files: order, paths, types, and the same bits for all threads and instruction sets.

mod apply_common;

use apply_common::case::{BACKWARD, Case, FORWARD, Number};
use apply_common::{Folder, Random};
use layernorm::{Context, Isa, NormConfig, Saved, View, ViewMut, f16, layer_norm};

const FILES: [&str; 5] = ["y.npy", "s.npy", "dx.npy", "dw.npy", "db.npy"];
/// One case of each operation, on a tensor of three dimensions.
fn operations(shape: &[usize; 3]) -> [Case; 6] {
    [
        Case::new("layer-norm", shape, &[0, 1], &[2]),
        Case::new("layer-norm", shape, &[0], &[1, 2]).options("--axes 1,2"),
        Case::new("rms-norm", shape, &[2], &[0, 1]).options("--axes 0,1"),
        Case::new("batch-norm", shape, &[1], &[1]),
        Case::new("group-norm", shape, &[0, 1], &[1]).options("--groups 3"),
        Case::new("instance-norm", shape, &[0, 1], &[1]),
    ]
}

fn fortran<T: Number>() {
    for case in operations(&[4, 6, 10]) {
        let folder = Folder::new();
        case.prepare::<T, T>(&folder, 31);
        folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
        let expected = FILES.map(|name| folder.bytes(name));
        for (name, shape) in [("x.npy", &case.shape), ("dy.npy", &case.shape), ("w.npy", &case.parameter_shape)] {
            let values: Vec<T> = folder.load(name, shape);
            folder.save_fortran(name, shape, &values);
        }
        assert!(folder.bytes("x.npy").windows(21).any(|text| text == b"'fortran_order': True"));
        folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
        assert!(expected == FILES.map(|name| folder.bytes(name)), "{} {}", case.command(), T::NAME);
    }
}

#[test]
fn fortran_order_gives_the_bits_of_c_order() {
    fortran::<f32>();
    fortran::<f16>();
    fortran::<f64>();
}

#[test]
fn threads_and_instruction_sets_change_no_bit() {
    // Large enough to use several threads.
    for case in operations(&[64, 24, 100]) {
        let folder = Folder::new();
        case.prepare::<f32, f32>(&folder, 32);
        folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
        let expected = FILES.map(|name| folder.bytes(name));
        for isa in Isa::available() {
            for threads in [1, 3] {
                let how = format!("--isa {isa} --threads {threads}");
                folder.apply(&format!("{} {FORWARD} {BACKWARD} {how}", case.command()));
                assert!(expected == FILES.map(|name| folder.bytes(name)), "{} {how}", case.command());
            }
        }
    }
}

#[test]
fn forward_and_backward_may_be_run_separately() {
    for case in operations(&[4, 6, 10]) {
        let folder = Folder::new();
        case.prepare::<f32, f32>(&folder, 36);
        folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
        let together = FILES.map(|name| folder.bytes(name));
        FILES.iter().for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
        folder.apply(&format!("{} {FORWARD}", case.command()));
        folder.apply(&format!("{} {BACKWARD}", case.command()));
        assert!(together == FILES.map(|name| folder.bytes(name)), "{}", case.command());
    }
}

#[test]
fn a_result_may_replace_the_input() {
    let folder = Folder::new();
    let case = Case::new("layer-norm", &[3, 8], &[0], &[1]);
    case.prepare::<f32, f32>(&folder, 33);
    folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
    let (y, dx) = (folder.bytes("y.npy"), folder.bytes("dx.npy"));
    folder.apply(&format!("{} --output x.npy --grad-output dy.npy --grad-input dy.npy", case.command()));
    assert!(folder.bytes("x.npy") == y && folder.bytes("dy.npy") == dx);
}

/// m alone is not the mean if the long sum has a rounding error.
#[test]
fn the_mean_is_the_sum_of_both_parts() {
    let (folder, shape) = (Folder::new(), [8, 5000]);
    let x: Vec<f32> = Random::new(37).numbers(8 * 5000, 1000.0);
    folder.save("x.npy", &shape, &x);
    folder.apply("layer-norm --input x.npy --output y.npy --mean-output m.npy --rstd-output s.npy");
    let (mut saved, mut y) = (Saved::new(8), vec![0.0; x.len()]);
    let out = ViewMut::new(&mut y, &shape).unwrap();
    let (x, stats) = (View::new(&x, &shape).unwrap(), Some(saved.as_mut()));
    layer_norm::forward(x, out, stats, &NormConfig::new(), &mut Context::new()).unwrap();
    assert!(saved.mean() != saved.m, "this input has to have a δ");
    assert_eq!(folder.load::<f32>("m.npy", &[8]), saved.mean());
    assert_eq!(folder.load::<f32>("s.npy", &[8]), saved.rstd);
    assert_eq!(folder.load::<f32>("y.npy", &shape), y);
}

#[test]
fn gradients_of_absent_parameters_have_the_inputs_type() {
    let folder = Folder::new();
    let case = Case { weight: false, bias: false, ..Case::new("rms-norm", &[3, 8], &[0], &[1]) };
    case.prepare::<f16, f32>(&folder, 34);
    folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
    folder.load::<f16>("dw.npy", &[8]);
    folder.load::<f16>("db.npy", &[8]);
}

/// Each output option works alone.
#[test]
fn any_single_result_can_be_requested() {
    let folder = Folder::new();
    let case = Case::new("layer-norm", &[3, 8], &[0], &[1]);
    case.prepare::<f32, f32>(&folder, 35);
    folder.apply(&format!("{} {FORWARD} {BACKWARD}", case.command()));
    for (option, all) in [("--grad-input", "dx.npy"), ("--grad-weight", "dw.npy"), ("--grad-bias", "db.npy")] {
        folder.apply(&format!("{} --grad-output dy.npy {option} one.npy", case.command()));
        assert!(folder.bytes("one.npy") == folder.bytes(all), "{option}");
    }
    folder.apply(&format!("{} --grad-output dy.npy --grad-input dx.npy --output one.npy", case.command()));
    assert!(folder.bytes("one.npy") == folder.bytes("y.npy"));
}

#[test]
fn help_shows_an_example() {
    let folder = Folder::new();
    let output = folder.run("--help");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in
        ["layernorm apply layer-norm --input x.npy", "instance-norm", "--grad-residual-output", "[default: 1e-5]"]
    {
        assert!(said.contains(word), "expected {word:?} in {said}");
    }
}

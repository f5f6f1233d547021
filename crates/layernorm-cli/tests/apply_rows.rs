//! `layernorm apply layer-norm` and `rms-norm`: forward and backward against the oracle, with residuals, over any axes.

mod apply_common;

use apply_common::case::{Case, Number};
use apply_common::{Folder, Random};
use layernorm::f16;

const OPS: [&str; 2] = ["layer-norm", "rms-norm"];

fn every_choice<T: Number, P: Number>() {
    for op in OPS {
        every_choice_of::<T, P>(op);
    }
}

fn every_choice_of<T: Number, P: Number>(op: &'static str) {
    for choice in 0..8u64 {
        let (weight, bias, zero_centered) = (choice & 1 == 0, choice & 2 == 0, choice & 4 == 4);
        let eps = [1e-5, 0.25][choice as usize % 2];
        let case = Case::new(op, &[4, 3, 37], &[0, 1], &[2]);
        Case { weight, bias, zero_centered, eps, ..case }.check::<T, P>(choice);
    }
}

#[test]
fn f32_is_what_the_formula_gives() {
    every_choice::<f32, f32>();
}

#[test]
fn f64_is_what_the_formula_gives() {
    every_choice::<f64, f64>();
}

#[test]
fn f16_is_what_the_formula_gives() {
    every_choice::<f16, f16>();
}

#[test]
fn parameters_may_be_float32_whatever_the_input_is() {
    every_choice::<f16, f32>();
    every_choice::<f64, f32>();
}

#[test]
fn any_axes_make_a_row() {
    let shape = [3, 4, 5, 2];
    for (axes, rest, row) in [
        ("-1", &[0, 1, 2][..], &[3][..]),
        ("3", &[0, 1, 2], &[3]),
        ("-2,-1", &[0, 1], &[2, 3]),
        ("-1,-2", &[0, 1], &[2, 3]),
        ("0", &[1, 2, 3], &[0]),
        ("1,-1", &[0, 2], &[1, 3]),
        ("2,0,1,3", &[], &[0, 1, 2, 3]),
    ] {
        for op in OPS {
            Case::new(op, &shape, rest, row).options(&format!("--axes {axes}")).check::<f32, f32>(7);
        }
    }
}

#[test]
fn many_rows_and_long_rows() {
    for op in OPS {
        Case::new(op, &[300, 10], &[0], &[1]).check::<f32, f32>(8);
        Case::new(op, &[2, 1000], &[0], &[1]).check::<f32, f32>(9);
        Case::new(op, &[11], &[], &[0]).check::<f32, f32>(10);
    }
}

/// Compares with the bits of x + r, rounded, followed by the norm of that file.
fn residual<T: Number>(op: &'static str) {
    let folder = Folder::new();
    let case = Case::new(op, &[5, 33], &[0], &[1]);
    let command = case.command();
    case.prepare::<T, T>(&folder, 11);
    let mut random = Random::new(12);
    let r: Vec<T> = random.numbers(5 * 33, 0.5);
    folder.save("r.npy", &case.shape, &r);
    let backward = "--grad-output dy.npy --grad-weight dw.npy --grad-bias db.npy --grad-input";
    folder.apply(&format!("{command} --residual r.npy --residual-output h.npy --output y.npy --rstd-output s.npy"));
    folder.apply(&format!("{command} --residual r.npy {backward} dx.npy"));

    let x: Vec<T> = folder.load("x.npy", &case.shape);
    let h: Vec<T> = x.iter().zip(&r).map(|(x, r)| T::narrow(x.widen() + r.widen())).collect();
    assert!(h == folder.load::<T>("h.npy", &case.shape), "{op}: h");
    let fused = ["y.npy", "s.npy", "dx.npy", "dw.npy", "db.npy"].map(|name| folder.bytes(name));
    let plain = command.replace("x.npy", "h.npy");
    folder.apply(&format!("{plain} --output y2.npy --rstd-output s2.npy {backward} dx2.npy"));
    let apart = ["y2.npy", "s2.npy", "dx2.npy", "dw.npy", "db.npy"].map(|name| folder.bytes(name));
    assert!(fused == apart, "{op}: fused is not as apart");

    // The gradient of h from its other uses is added to the rounded one.
    let dh: Vec<T> = random.numbers(5 * 33, 0.0);
    folder.save("dh.npy", &case.shape, &dh);
    folder.apply(&format!("{command} --residual r.npy --grad-residual-output dh.npy {backward} dx3.npy"));
    let dx: Vec<T> = folder.load("dx.npy", &case.shape);
    let sum: Vec<T> = dx.iter().zip(&dh).map(|(dx, dh)| T::narrow(dh.widen() + dx.widen())).collect();
    assert!(sum == folder.load::<T>("dx3.npy", &case.shape), "{op}: dh");
}

#[test]
fn residual_gives_the_bits_of_the_two_steps() {
    for op in OPS {
        residual::<f32>(op);
        residual::<f16>(op);
        residual::<f64>(op);
    }
}

#[test]
fn empty_tensors_give_empty_results() {
    let folder = Folder::new();
    folder.save::<f32>("x.npy", &[0, 3], &[]);
    folder.save::<f32>("z.npy", &[2, 0], &[]);
    for op in OPS {
        let grads = "--grad-input dx.npy --grad-weight dw.npy";
        folder.apply(&format!("{op} --input x.npy --output y.npy --rstd-output s.npy --grad-output x.npy {grads}"));
        assert!(folder.load::<f32>("y.npy", &[0, 3]).is_empty());
        assert!(folder.load::<f32>("s.npy", &[0]).is_empty());
        assert!(folder.load::<f32>("dx.npy", &[0, 3]).is_empty());
        assert_eq!(folder.load::<f32>("dw.npy", &[3]), [0.0; 3]);
        folder.apply(&format!("{op} --input z.npy --output y.npy --rstd-output s.npy"));
        assert!(folder.load::<f32>("y.npy", &[2, 0]).is_empty());
        assert!(folder.load::<f32>("s.npy", &[2]).iter().all(|r| r.is_nan()));
    }
}

//! Rule 7: the fused residual gives the bits of the addition and the norm one after the other.

mod common;

use common::{Random, assert_same_bits, contexts, name};
use layernorm::{Affine, Element, Gradients, NormConfig, Saved, View, ViewMut, bf16, f16, layer_norm, rms_norm};

fn view<'a, T>(data: &'a [T], shape: &[usize]) -> View<'a, T> {
    View::new(data, shape).unwrap()
}

fn input<'a, T>(dx: &'a mut [T], shape: &[usize]) -> Gradients<'a, T> {
    Gradients { input: Some(ViewMut::new(dx, shape).unwrap()), ..Gradients::default() }
}

fn check<T: Element>(seed: u64) {
    let mut random = Random::new(seed);
    for (rows, n) in [(1, 1), (3, 7), (20, 64), (5, 1000), (3, 1025), (70, 33)] {
        let count = rows * n;
        let [x, r, dy, dh]: [Vec<T>; 4] = std::array::from_fn(|_| random.normals(count));
        let (gain, bias): (Vec<T>, Vec<T>) = (random.normals(n), random.normals(n));
        let affine = Affine::new(View::new(&gain, &[n]).unwrap(), View::new(&bias, &[n]).unwrap());
        let config = NormConfig::new().affine(affine);
        let sum: Vec<T> = x.iter().zip(&r).map(|(x, r)| T::narrow(x.widen() + r.widen())).collect();
        let shape = [rows, n];
        for cx in &mut contexts() {
            for centered in [true, false] {
                let what = |of: &str| format!("{of}, {rows}×{n} {} on {}", T::NAME, name(cx));
                let labels = ["h", "y", "dx", "dx without dh"].map(what);
                let [mut h, mut fused, mut apart, mut dx, mut dx_fused] = [(); 5].map(|()| vec![T::default(); count]);
                let (mut saved, mut saved_apart) = (Saved::new(rows), Saved::new(rows));
                let residual = if centered { layer_norm::forward_residual } else { rms_norm::forward_residual };
                let forward = if centered { layer_norm::forward } else { rms_norm::forward };
                let backward_residual =
                    if centered { layer_norm::backward_residual } else { rms_norm::backward_residual };
                let backward = if centered { layer_norm::backward } else { rms_norm::backward };
                let to = ViewMut::new(&mut fused, &shape).unwrap();
                let h_to = ViewMut::new(&mut h, &shape).unwrap();
                residual(view(&x, &shape), view(&r, &shape), h_to, to, Some(saved.as_mut()), &config, cx).unwrap();
                let to = ViewMut::new(&mut apart, &shape).unwrap();
                forward(view(&sum, &shape), to, Some(saved_apart.as_mut()), &config, cx).unwrap();
                assert_same_bits(&h, &sum, || labels[0].clone());
                assert_same_bits(&fused, &apart, || labels[1].clone());

                backward(
                    view(&h, &shape),
                    view(&dy, &shape),
                    saved_apart.as_ref(),
                    input(&mut dx, &shape),
                    &config,
                    cx,
                )
                .unwrap();
                let dh_view = Some(view(&dh, &shape));
                backward_residual(
                    view(&h, &shape),
                    view(&dy, &shape),
                    dh_view,
                    saved.as_ref(),
                    input(&mut dx_fused, &shape),
                    &config,
                    cx,
                )
                .unwrap();
                let expected: Vec<T> = dx.iter().zip(&dh).map(|(a, b)| T::narrow(a.widen() + b.widen())).collect();
                assert_same_bits(&dx_fused, &expected, || labels[2].clone());
                backward_residual(
                    view(&h, &shape),
                    view(&dy, &shape),
                    None,
                    saved.as_ref(),
                    input(&mut dx_fused, &shape),
                    &config,
                    cx,
                )
                .unwrap();
                assert_same_bits(&dx_fused, &dx, || labels[3].clone());
            }
        }
    }
}

#[test]
fn f32_fused_is_the_two_in_turn() {
    check::<f32>(1);
}

#[test]
fn f64_fused_is_the_two_in_turn() {
    check::<f64>(2);
}

#[test]
fn f16_fused_is_the_two_in_turn() {
    check::<f16>(3);
}

#[test]
fn bf16_fused_is_the_two_in_turn() {
    check::<bf16>(4);
}

#[test]
fn the_sum_is_rounded_before_it_is_normalized() {
    // 1 + 2⁻⁹ has no bf16: h is 1, and the row is constant.
    let (x, r) = ([bf16::ONE; 2], [bf16::ZERO, bf16::from_f32(2f32.powi(-9))]);
    let (mut h, mut y) = ([bf16::ZERO; 2], [bf16::ONE; 2]);
    let shape = [1, 2];
    layer_norm::forward_residual(
        View::new(&x, &shape).unwrap(),
        View::new(&r, &shape).unwrap(),
        ViewMut::new(&mut h, &shape).unwrap(),
        ViewMut::new(&mut y, &shape).unwrap(),
        None,
        &NormConfig::new(),
        &mut layernorm::Context::new(),
    )
    .unwrap();
    assert_eq!((h, y), ([bf16::ONE; 2], [bf16::ZERO; 2]));
}

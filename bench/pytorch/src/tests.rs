use super::*;
use std::ptr::{null, null_mut};

fn last_error() -> String {
    let mut text = [0 as c_char; 200];
    // SAFETY: the text has as many bytes as it says.
    assert_eq!(unsafe { layernorm_bench_error(text.as_mut_ptr(), text.len()) }, OK);
    text.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
}

/// A context that is destroyed at the end.
struct Owned(*mut Context);

impl Owned {
    fn new(threads: usize) -> Owned {
        let mut context = null_mut();
        // SAFETY: `context` can be written.
        assert_eq!(unsafe { layernorm_bench_create(threads, 0, &mut context) }, OK);
        Owned(context)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it came from `layernorm_bench_create`.
        assert_eq!(unsafe { layernorm_bench_destroy(self.0) }, OK);
    }
}

#[test]
fn forward_and_backward_of_a_row_of_two() {
    let context = Owned::new(2);
    let (x, gain, bias, dy) = ([1.0f32, 3.0], [2.0f32, 2.0], [0.5f32, 0.5], [1.0f32, 0.0]);
    let (mut y, mut m, mut delta, mut rstd) = ([f32::NAN; 2], [0.0f32], [0.0f32], [0.0f32]);
    let forward = Forward {
        dtype: F32,
        rows: 1,
        n: 2,
        x: x.as_ptr().cast(),
        gain: gain.as_ptr().cast(),
        bias: bias.as_ptr().cast(),
        y: y.as_mut_ptr().cast(),
        m: m.as_mut_ptr(),
        delta: delta.as_mut_ptr(),
        rstd: rstd.as_mut_ptr(),
        eps: 0.0,
    };
    // SAFETY: the arrays have the lengths that the call says.
    assert_eq!(unsafe { layernorm_bench_forward(context.0, &forward) }, OK);
    assert_eq!((y, m, delta, rstd), ([-1.5, 2.5], [2.0], [0.0], [1.0]));

    let (mut dx, mut dgain, mut dbias) = ([f32::NAN; 2], [f32::NAN; 2], [f32::NAN; 2]);
    let backward = Backward {
        dtype: F32,
        rows: 1,
        n: 2,
        x: x.as_ptr().cast(),
        dy: dy.as_ptr().cast(),
        gain: gain.as_ptr().cast(),
        m: m.as_ptr(),
        delta: delta.as_ptr(),
        rstd: rstd.as_ptr(),
        dx: dx.as_mut_ptr().cast(),
        dgain: dgain.as_mut_ptr().cast(),
        dbias: dbias.as_mut_ptr().cast(),
    };
    // SAFETY: as above.
    assert_eq!(unsafe { layernorm_bench_backward(context.0, &backward) }, OK);
    assert_eq!((dx, dgain, dbias), ([0.0, 0.0], [-1.0, 0.0], [1.0, 0.0]), "two values have nowhere to go");

    let wrong = Forward { eps: f64::NAN, ..forward };
    // SAFETY: as above.
    assert_eq!(unsafe { layernorm_bench_forward(context.0, &wrong) }, REFUSED);
    assert!(last_error().contains("NaN"), "{}", last_error());
    let wrong = Forward { dtype: 7, ..forward };
    // SAFETY: as above.
    assert_eq!(unsafe { layernorm_bench_forward(context.0, &wrong) }, REFUSED);
    assert!(last_error().contains("found 7"), "{}", last_error());
    let wrong = Backward { dy: null(), ..backward };
    // SAFETY: as above.
    assert_eq!(unsafe { layernorm_bench_backward(context.0, &wrong) }, REFUSED);
    assert!(last_error().contains("dy"), "{}", last_error());
}

#[test]
fn contexts_are_refused_with_words() {
    let mut context = null_mut();
    // SAFETY: `context` can be written.
    assert_eq!(unsafe { layernorm_bench_create(0, 0, &mut context) }, REFUSED);
    assert!(context.is_null() && last_error().contains("thread"), "{}", last_error());
    // SAFETY: null is allowed everywhere here.
    unsafe {
        assert_eq!(layernorm_bench_create(1, 0, null_mut()), REFUSED);
        assert_eq!(layernorm_bench_forward(null_mut(), null()), REFUSED);
        assert_eq!(layernorm_bench_error(null_mut(), 0), REFUSED);
        assert_eq!(layernorm_bench_destroy(null_mut()), OK);
    }
}

#[test]
fn texts_are_cut_and_closed() {
    let context = Owned::new(1);
    let mut text = [1 as c_char; 3];
    // SAFETY: the text has as many bytes as it says.
    assert_eq!(unsafe { layernorm_bench_isa(context.0, text.as_mut_ptr(), text.len()) }, OK);
    assert!(text[0] != 0 && text[2] == 0);
}

#[test]
fn a_panic_becomes_a_code() {
    assert_eq!(guarded(|| panic!("on purpose")), PANICKED);
    assert_eq!(last_error(), "panicked: on purpose");
}

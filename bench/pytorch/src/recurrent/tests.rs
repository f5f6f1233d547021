use super::*;
use crate::{OK, REFUSED};
use std::ptr::{null, null_mut};

const STEPS: usize = 5;
const INPUT: usize = 3;
const HIDDEN: usize = 4;

/// A network that is destroyed at the end.
struct Owned(*mut Recurrent);

impl Owned {
    fn new(kind: i32, variant: i32) -> Owned {
        let mut made = null_mut();
        // SAFETY: `made` can be written.
        assert_eq!(unsafe { layernorm_bench_recurrent_create(kind, variant, INPUT, HIDDEN, 1, &mut made) }, OK);
        Owned(made)
    }

    fn read(&self, what: i32, count: usize) -> Vec<f32> {
        let mut to = vec![f32::NAN; count];
        // SAFETY: there is room for the numbers.
        assert_eq!(unsafe { layernorm_bench_recurrent_read(self.0, what, to.as_mut_ptr(), count) }, OK);
        to
    }

    fn parameters(&self) -> usize {
        let mut text = [0 as c_char; 1000];
        // SAFETY: the text has as many bytes as it says.
        assert_eq!(unsafe { layernorm_bench_recurrent_layout(self.0, text.as_mut_ptr(), text.len()) }, OK);
        let text: String = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect();
        text.split_whitespace().last().unwrap().parse().unwrap()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it came from `layernorm_bench_recurrent_create`.
        assert_eq!(unsafe { layernorm_bench_recurrent_destroy(self.0) }, OK);
    }
}

fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.7).sin()).collect()
}

#[test]
fn every_way_gives_the_same_bits() {
    for (kind, variant) in [(LSTM, NONE), (LSTM, PAPER), (GRU, NONE), (GRU, PAPER)] {
        let owned = Owned::new(kind, variant);
        let (x, dy, mut y) = (ramp(STEPS * INPUT), ramp(STEPS * HIDDEN), vec![f32::NAN; STEPS * HIDDEN]);
        let given = Pass { steps: STEPS, batch: 1, x: x.as_ptr(), dy: dy.as_ptr(), y: y.as_mut_ptr() };
        let allocating = Pass { y: null_mut(), ..given };
        let count = owned.parameters();
        // SAFETY: the memory has the lengths that the calls say.
        unsafe {
            assert_eq!(layernorm_bench_recurrent_forward(owned.0, &given), OK);
            assert_eq!(layernorm_bench_recurrent_forward(owned.0, &allocating), OK);
            assert_eq!(owned.read(Y, y.len()), y);
            for (x, y) in x.chunks(INPUT).zip(y.chunks(HIDDEN)) {
                let mut step = vec![f32::NAN; HIDDEN];
                assert_eq!(layernorm_bench_recurrent_step(owned.0, x.as_ptr(), step.as_mut_ptr()), OK);
                assert_eq!(step, y);
            }
            for _ in 0..2 {
                assert_eq!(layernorm_bench_recurrent_train(owned.0, &given), OK);
            }
            let (dx, dparams) = (owned.read(DX, x.len()), owned.read(DPARAMS, count));
            assert_eq!(layernorm_bench_recurrent_train(owned.0, &allocating), OK);
            assert_eq!((owned.read(DX, x.len()), owned.read(DPARAMS, count)), (dx, dparams));
        }
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let owned = Owned::new(LSTM, PAPER);
    let mut made = null_mut();
    // SAFETY: null is allowed everywhere here, and lengths are checked first.
    unsafe {
        assert_eq!(layernorm_bench_recurrent_create(7, PAPER, 1, 1, 1, &mut made), REFUSED);
        assert_eq!(layernorm_bench_recurrent_create(LSTM, 7, 1, 1, 1, &mut made), REFUSED);
        assert_eq!(layernorm_bench_recurrent_create(LSTM, PAPER, 0, 1, 1, &mut made), REFUSED);
        assert_eq!(layernorm_bench_recurrent_create(LSTM, PAPER, 1, 1, 1, null_mut()), REFUSED);
        assert!(made.is_null());
        assert_eq!(layernorm_bench_recurrent_load(owned.0, null(), 1), REFUSED);
        assert_eq!(layernorm_bench_recurrent_read(owned.0, 7, null_mut(), 0), REFUSED);
        assert_eq!(layernorm_bench_recurrent_read(owned.0, DX, null_mut(), 1), REFUSED);
        assert_eq!(layernorm_bench_recurrent_forward(owned.0, null()), REFUSED);
        assert_eq!(layernorm_bench_recurrent_train(null_mut(), null()), REFUSED);
        assert_eq!(layernorm_bench_recurrent_step(owned.0, null(), null_mut()), REFUSED);
        assert_eq!(layernorm_bench_recurrent_reset(null_mut()), REFUSED);
        assert_eq!(layernorm_bench_recurrent_destroy(null_mut()), OK);
    }
}

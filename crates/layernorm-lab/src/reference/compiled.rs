//! The [`textbook`] norms over all rows, compiled for several instruction sets; the machine's is picked at run time, as
//! if the program had been compiled for this machine.

use super::textbook;
use layernorm::Error;
use layernorm::parts::{MachineIsa, Plain, compiled_for};

/// A textbook implementation of layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Textbook {
    /// [`textbook::three_loops`].
    ThreeLoops,
    /// [`textbook::two_pass`].
    TwoPass,
    /// [`textbook::squares`].
    Squares,
    /// [`textbook::welford`].
    Welford,
    /// [`textbook::columns`].
    Columns,
}

impl Textbook {
    /// All of them.
    pub const ALL: [Textbook; 5] =
        [Textbook::TwoPass, Textbook::Squares, Textbook::Welford, Textbook::Columns, Textbook::ThreeLoops];

    /// y = (x − mean)/sqrt(variance + ε) for each row of `n` elements.
    ///
    /// # Errors
    /// If the user has chosen an instruction set that the machine lacks.
    pub fn run(self, x: &[f32], n: usize, eps: f32, y: &mut [f32]) -> Result<(), Error> {
        compiled_for(MachineIsa::detect()?, Rows { which: self, x, n, eps, y });
        Ok(())
    }
}

struct Rows<'a> {
    which: Textbook,
    x: &'a [f32],
    n: usize,
    eps: f32,
    y: &'a mut [f32],
}

impl Plain for Rows<'_> {
    #[inline(always)]
    fn run(self) {
        let Rows { which, x, n, eps, y } = self;
        // A loop with the match outside: closures are not sure to be inlined, and then not compiled for the instruction set.
        macro_rules! rows {
            ($norm:path) => {
                for (x, y) in x.chunks(n).zip(y.chunks_mut(n)) {
                    $norm(x, eps, y);
                }
            };
        }
        match which {
            Textbook::ThreeLoops => rows!(textbook::three_loops),
            Textbook::TwoPass => rows!(textbook::two_pass),
            Textbook::Squares => rows!(textbook::squares),
            Textbook::Welford => rows!(textbook::welford),
            Textbook::Columns => textbook::columns(x, n, eps, y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_set_does_not_change_a_bit() {
        for n in [1, 5, 16, 33, 100, 300, 1024] {
            let x: Vec<f32> = (0..3 * n).map(|i| ((i * i) as f32 * 0.37).sin() + 3.0).collect();
            for which in Textbook::ALL {
                let (mut compiled, mut baseline) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
                which.run(&x, n, 1e-5, &mut compiled).unwrap();
                Rows { which, x: &x, n, eps: 1e-5, y: &mut baseline }.run();
                let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&compiled), bits(&baseline), "{which:?}, N = {n}");
            }
        }
    }
}

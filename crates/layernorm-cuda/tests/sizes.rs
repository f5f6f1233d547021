//! Sizes beyond any memory: the required workspace saturates instead of wrapping around to a small number.
use layernorm_cuda::{Affine, BatchNorm, Gradients, GroupNorm, Param, RowNorm, Type};

const HUGE: [usize; 3] = [1 << 40, 1 << 62, usize::MAX];

fn gradients() -> Gradients {
    let place = Some(Param { address: 16, f32: true });
    Gradients { gain: place, bias: place }
}

#[test]
fn a_workspace_is_at_least_what_its_parts_need() {
    let affine = Affine::default();
    for element in Type::ALL {
        for a in HUGE {
            for b in HUGE {
                let rows = RowNorm { element, rows: a, n: b, centered: true, eps: 1e-5, affine };
                assert_eq!(rows.workspace(&gradients()), usize::MAX, "{rows:?}");
                let (eps, groups) = (1e-5, 1);
                let group = GroupNorm { element, samples: a, channels: b, space: a, groups, eps, affine };
                assert_eq!(group.workspace(&gradients()), usize::MAX, "{group:?}");
                let batch = BatchNorm { element, samples: a, channels: b, space: a, eps, affine };
                assert_eq!(batch.workspace(), usize::MAX, "{batch:?}");
            }
        }
    }
}

#[test]
fn what_can_be_counted_is_counted() {
    let norm = RowNorm { element: Type::F32, rows: 130, n: 100, centered: true, eps: 1e-5, affine: Affine::default() };
    assert_eq!(norm.workspace(&Gradients::default()), 0);
    assert!((2 * 3 * 100 * 4..100_000).contains(&norm.workspace(&gradients())));
    // Rows without elements need only their statistics.
    assert!(RowNorm { n: 0, ..norm }.workspace(&gradients()) < 10_000);
}

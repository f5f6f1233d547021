//! More elements than 32 bits count. It needs gigabytes: where they are not free, the test is reported as ignored.

use layernorm::{Context, NormConfig, ViewMut, bf16, layer_norm};
use libtest_mimic::{Arguments, Trial};

#[path = "common/mod.rs"]
mod common;
use common::{Random, assert_same_bits};

const N: usize = 4096;
const ROWS: usize = (1 << 31) / N + 3;

fn main() {
    let needed = 2 * ROWS * N * size_of::<bf16>();
    let trial = Trial::test("more_than_two_to_the_thirty_one_elements", || {
        more_than_two_to_the_thirty_one_elements();
        Ok(())
    });
    let trial = match available() {
        Some(available) if available < needed => {
            let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
            let reason = format!("needs {:.1} GiB of free memory, {:.1} GiB are free", gib(needed), gib(available));
            trial.with_ignored_flag(true).with_kind(reason)
        }
        _ => trial,
    };
    // Without the memory the test stays ignored, whatever the command line says.
    let arguments = Arguments { ignored: false, include_ignored: false, ..Arguments::from_args() };
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

/// Bytes that are free, where the system says so.
fn available() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? * 1024)
}

fn more_than_two_to_the_thirty_one_elements() {
    let pattern: Vec<bf16> = Random::new(12).normals(N + 8);
    let mut x = Vec::with_capacity(ROWS * N);
    for row in 0..ROWS {
        x.extend_from_slice(&pattern[row % 8..row % 8 + N]);
    }
    let mut cx = Context::new();
    layer_norm::forward_in_place(ViewMut::new(&mut x, &[ROWS, N]).unwrap(), None, &NormConfig::new(), &mut cx).unwrap();
    for row in [0, ROWS / 2, ROWS - 3, ROWS - 2, ROWS - 1] {
        let mut alone = pattern[row % 8..row % 8 + N].to_vec();
        let view = ViewMut::new(&mut alone, &[1, N]).unwrap();
        layer_norm::forward_in_place(view, None, &NormConfig::new(), &mut cx).unwrap();
        assert_same_bits(&x[row * N..(row + 1) * N], &alone, || format!("row {row} of {ROWS}"));
    }
}

//! Runs the time loops of recurrent layers on the CPU: their source, compiled by the system's C++ compiler, with every
//! thread of every block as a fiber and with warps, messages and copies in random order, compared with the cells in
//! double precision. A layer gives the same bits in every order, and its first sequences give the same bits in every
//! batch and wherever the matrix is kept. Without a compiler, all tests are ignored.
#[path = "host/compiler.rs"]
mod compiler;
mod harness;
#[path = "host/layouts.rs"]
mod layouts;
#[path = "host/without.rs"]
mod without;

use compiler::{NO_COMPILER, compiler};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use without::without;

/// A layer, and the configurations in which it runs: its first sequences have the same bits in all of them.
struct Case {
    name: &'static str,
    back: bool,
    lstm: bool,
    norms: Norms,
    /// 0: f32. 2: bf16.
    element: usize,
    tf32: bool,
    hidden: usize,
    units: usize,
    split: usize,
    ways: &'static [Way],
}

/// The norms of a cell: of the recurrent product or of the sum, of the input, of an LSTM's cell, and whether the
/// normalized cell is carried; rows of the norms of the gates.
#[derive(Clone, Copy)]
struct Norms {
    recurrent: bool,
    sum: bool,
    input: bool,
    cell: bool,
    carried: bool,
    rows: usize,
}
const PAPER: Norms = Norms { recurrent: true, sum: false, input: true, cell: true, carried: false, rows: 1 };
const CANDIDATE: Norms = Norms { cell: false, rows: 2, ..PAPER };
const PER_GATE: Norms = Norms { carried: true, rows: 4, ..PAPER };
const SUM: Norms = Norms { recurrent: false, sum: true, input: false, carried: true, ..PAPER };
const NONE: Norms = Norms { recurrent: false, input: false, cell: false, ..PAPER };

/// A batch, and how it is divided (kernels/recurrent/product.cuh).
struct Way {
    batch: usize,
    columns: usize,
    tiles: usize,
    in_registers: usize,
    in_shared: usize,
    folded: usize,
    turns: usize,
}

const fn way(batch: usize, columns: usize, tiles: usize, matrix: (usize, usize), fold: (usize, usize)) -> Way {
    Way { batch, columns, tiles, in_registers: matrix.0, in_shared: matrix.1, folded: fold.0, turns: fold.1 }
}
const FEW: Way = way(2, 8, 1, (9, 0), (8, 1));
/// Three chunks; two chunks, with neighbors added first and only registers and L2; two groups; wide chunks.
const THREE: Way = way(18, 24, 1, (1, 1), (8, 2));
const TWO: Way = way(18, 24, 2, (1, 0), (4, 1));
const GROUPS: Way = way(18, 16, 2, (0, 1), (8, 1));
const WIDE: Way = way(34, 40, 4, (0, 1), (4, 1));

const F32: Case = Case {
    name: "forward_f32",
    back: false,
    lstm: true,
    norms: PAPER,
    element: 0,
    tf32: false,
    hidden: 150,
    units: 16,
    split: 1,
    ways: &[FEW, THREE, TWO],
};
const BACK: Case = Case { back: true, hidden: 60, ..F32 };

static CASES: [Case; 14] = [
    F32,
    Case { name: "forward_tf32", tf32: true, hidden: 60, units: 8, ways: &[FEW, GROUPS, WIDE], ..F32 },
    Case { name: "forward_bf16", element: 2, hidden: 128, ways: &[FEW, TWO], ..F32 },
    Case { name: "forward_gru_bf16", element: 2, lstm: false, norms: CANDIDATE, units: 32, ways: &[FEW, THREE], ..F32 },
    Case { name: "backward_f32_in_teams_of_four", units: 8, split: 4, ways: &[FEW, TWO, WIDE], ..BACK },
    Case { name: "backward_f32_in_teams_of_two", hidden: 150, split: 2, ways: &[FEW, GROUPS], ..BACK },
    Case { name: "backward_f32_alone", ways: &[FEW, TWO], ..BACK },
    Case { name: "backward_bf16", element: 2, hidden: 120, split: 4, ways: &[FEW, TWO], ..BACK },
    Case { name: "backward_gru", lstm: false, norms: CANDIDATE, split: 2, ways: &[FEW, TWO], ..BACK },
    Case { name: "backward_gru_without_norms", lstm: false, norms: NONE, split: 4, ways: &[FEW, TWO], ..BACK },
    Case { name: "forward_norm_of_the_sum", norms: SUM, hidden: 60, ways: &[FEW, TWO], ..F32 },
    Case { name: "backward_norm_of_the_sum", norms: SUM, split: 2, ways: &[FEW, TWO], ..BACK },
    Case { name: "backward_norms_of_each_gate", norms: PER_GATE, split: 2, ways: &[FEW, TWO], ..BACK },
    Case { name: "backward_without_norms", norms: NONE, ways: &[FEW, TWO], ..BACK },
];

/// Cases that are also run with a silent block, whose messages are lost: messages of h, of dzh and within a team.
const SILENT: [&str; 3] = ["forward_tf32", "backward_f32_in_teams_of_four", "backward_without_norms"];

/// Functions with inline PTX; `host/grid_ptx.h` replaces those that are needed by functions of the same names.
const PTX: [&str; 23] = [
    "tell_host",
    "narrow",
    "mma_tf32",
    "split",
    "mma_16",
    "peek4",
    "peek2",
    "message",
    "send1",
    "send2",
    "send4",
    "peek_tagged",
    "send_tagged",
    "shared_address",
    "copy_aside",
    "end_group",
    "await_groups",
    "load_shared",
    "sync_neighbours",
    "exp2_of",
    "inverse_of",
    "prefetch",
    "idle",
];

/// Other code that only a GPU compiler accepts: file, original and replacement.
const WORDS: [(&str, &str, &str); 4] = [
    ("common.cuh", "__device__ __forceinline__ float widen(", "#include \"grid_ptx.h\"\ninline float widen("),
    ("prepare.cu", "#include \"common.cuh\"\n", ""),
    ("forward.cu", SHARED.0, SHARED.1),
    ("backward.cu", SHARED.0, SHARED.1),
];
const SHARED: (&str, &str) =
    ("extern __shared__ __align__(16) float shared[];", "float *shared = (float *)grid::shared[grid::self().block];");

const FILES: [&str; 9] = [
    "common.cuh",
    "cell.cuh",
    "product.cuh",
    "block.cuh",
    "tape.cuh",
    "team.cuh",
    "forward.cu",
    "backward.cu",
    "prepare.cu",
];

/// Writes the kernels to a folder, with CPU functions in place of the GPU's.
fn write_kernels(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in FILES {
        let mut text = std::fs::read_to_string(root.join("kernels/recurrent").join(file)).expect("the kernel's text");
        if file == "common.cuh" {
            text = PTX.iter().fold(text, |text, function| without(&text, function));
        }
        for (_, from, to) in WORDS.iter().filter(|word| word.0 == file) {
            assert!(text.contains(from), "{file} no longer contains {from}");
            text = text.replace(from, to);
        }
        let text = layouts::checked(&format!("recurrent/{file}"), text);
        std::fs::write(folder.join(file), text).expect("a file in our own folder");
    }
    for file in ["bits.h", "fiber.h", "grid.h", "grid_ptx.h", "rnn.cpp"] {
        std::fs::copy(root.join("tests/host").join(file), folder.join(file)).expect("a file in our own folder");
    }
}

/// Definitions of a kernel, as in geometry.rs, and of the program around it.
fn defines(case: &Case, way: &Way) -> Vec<(&'static str, usize)> {
    const STEPS: usize = 3;
    let gates = if case.lstm { 4 } else { 3 };
    let padded = case.hidden.next_multiple_of(32);
    let (rows, k) = if case.back { (case.units * case.split, gates * padded) } else { (case.units * gates, padded) };
    let (row_tiles, columns) = (rows.div_ceil(16), 8 * way.tiles);
    let pairs = (if case.element == 0 { k } else { k / 2 }).div_ceil(16).div_ceil(8 * case.split);
    let in_registers = way.in_registers.min(pairs);
    let in_shared = way.in_shared.min(pairs - in_registers);
    let ring = if in_registers + in_shared < pairs { 4 } else { 0 };
    let chunks = way.columns.div_ceil(columns);
    let shares = chunks * columns.div_ceil(256 / case.units);
    let (kept, passed) = if case.back { (3 * gates + 3, 5) } else { (4, 2 * gates) };
    let alone = if case.back { kept } else { 0 };
    let own = if shares == 1 { alone } else { shares * (kept + passed) };
    let (folded, turns) = if chunks == 1 { (8, 1) } else { (way.folded, way.turns) };
    let shared = turns * folded * columns * (16 * row_tiles + 4) * 4
        + ((4 * gates + 2) * case.units + own * 256) * 4
        + (in_shared * 1024 + ring * 512) * 8 * row_tiles;
    let norms = &case.norms;
    vec![
        ("TYPE", case.element),
        ("PARAM", case.element),
        ("TF32", usize::from(case.tf32)),
        ("TRAIN", 1),
        ("G", gates),
        ("LSTM", usize::from(case.lstm)),
        ("RNORM", usize::from(norms.recurrent)),
        ("SNORM", usize::from(norms.sum)),
        ("XNORM", usize::from(norms.input)),
        ("CNORM", usize::from(norms.cell)),
        ("NGRP", norms.rows),
        ("XGRP", norms.rows),
        ("CARRIED", usize::from(norms.carried)),
        ("KEEPS", 1),
        ("DEV_R", 0),
        ("DEV_C", 0),
        ("H", case.hidden),
        ("HP", padded),
        ("UNITS", case.units),
        ("GS", padded / case.units),
        ("NT", way.tiles),
        ("ITEM", chunks),
        ("PAIRS", pairs),
        ("PR", in_registers),
        ("PS", in_shared),
        ("RING", ring),
        ("SPLIT", case.split),
        ("FOLDED", folded),
        ("TURNS", turns),
        ("PAUSE", 100),
        ("SHARED", shared),
        ("STEPS", STEPS),
        ("BATCH", way.batch),
        ("COLUMNS", way.columns),
    ]
}

/// Builds the program of a case in one configuration, or returns the compiler's output.
fn build(case: &Case, way: &Way, compiler: &str, folder: &Path, suffix: &str) -> Result<PathBuf, String> {
    let program = folder.join(format!("{}-{suffix}", case.name));
    let mut build = Command::new(compiler);
    build.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-DEPS_R=1e-5f", "-DEPS_C=1e-5f", "-o"]);
    build.arg(&program).arg(folder.join("rnn.cpp")).args(case.back.then_some("-DBACK"));
    build.args(defines(case, way).iter().map(|(name, value)| format!("-D{name}={value}")));
    let built = build.output().expect("the compiler was there");
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    Ok(program)
}

/// The bits of the first two sequences in one configuration, or the output of the program or its compiler.
fn bits(case: &Case, way: &Way, compiler: &str, folder: &Path) -> Result<String, String> {
    let program = build(case, way, compiler, folder, "bits")?;
    let mut first = None;
    for seed in if way.batch > FEW.batch { &["1", "2"][..] } else { &["1"] } {
        let ran = Command::new(&program).args([*seed, "2"]).output().expect("the program was built");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() {
            return Err(format!("{said} ({})", ran.status));
        }
        let found = said.split_whitespace().next().unwrap_or_default().to_owned();
        if *first.get_or_insert_with(|| found.clone()) != found {
            return Err(format!("{} of {} sequences: the bits depend on the order", case.name, way.batch));
        }
    }
    Ok(first.unwrap_or_default())
}

/// With a silent block, the others give up instead of waiting forever, and tell the host.
fn silence(case: &Case, compiler: &str, folder: &Path) -> Result<(), String> {
    let program = build(case, &FEW, compiler, folder, "silent")?;
    for block in ["0", "1"] {
        let ran = Command::new(&program).args(["1", "0", block]).output().expect("the program was built");
        if !ran.status.success() {
            return Err(format!("{} ({})", String::from_utf8_lossy(&ran.stdout), ran.status));
        }
    }
    Ok(())
}

/// Kernel structures that differ from the host's: another order, an additional field, another type.
const DRIFTS: [(&str, &str); 3] = [
    ("int steps, batch,", "int batch, steps,"),
    ("int reverse;", "int reverse, more, less;"),
    ("u32 patience;", "u64 patience;"),
];

/// A structure that has drifted must not compile, and the compiler must name it.
fn drift(compiler: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder of our own");
    for (from, to) in DRIFTS {
        write_kernels(folder.path());
        let file = folder.path().join("forward.cu");
        let text = std::fs::read_to_string(&file).expect("the kernel's text");
        assert!(text.contains(from), "forward.cu no longer contains {from}");
        std::fs::write(file, text.replacen(from, to, 1)).expect("a file in our own folder");
        match build(&F32, &FEW, compiler, folder.path(), "drifted") {
            Err(said) if said.contains("the host") && said.contains("Forward") => {}
            Err(said) => return Err(format!("{to}: rejected for another reason: {said}")),
            Ok(_) => return Err(format!("{to}: it compiled")),
        }
    }
    Ok(())
}

fn failure(case: &Case, compiler: &str, folder: &Path) -> Option<String> {
    let mut first = None;
    for way in case.ways {
        match bits(case, way, compiler, folder) {
            Ok(found) if *first.get_or_insert_with(|| found.clone()) == found => {}
            Ok(_) => {
                return Some(format!("the first sequences of {}: bits differ from the first configuration", way.batch));
            }
            Err(said) => return Some(said),
        }
    }
    None
}

fn main() {
    let compiler = compiler();
    let folder = tempfile::tempdir().expect("a folder of our own");
    write_kernels(folder.path());
    let folder = Arc::new(folder);
    let trial = |case: &'static Case| {
        let folder = folder.clone();
        harness::test(case.name, compiler.is_none().then_some(NO_COMPILER), move || {
            failure(case, compiler.unwrap_or_default(), folder.path()).map_or(Ok(()), Err)
        })
    };
    let mut tests: Vec<_> = CASES.iter().map(trial).collect();
    for case in CASES.iter().filter(|case| SILENT.contains(&case.name)) {
        let (folder, name) = (folder.clone(), format!("{}_gives_up_and_tells_the_host", case.name));
        tests.push(harness::test(name, compiler.is_none().then_some(NO_COMPILER), move || {
            silence(case, compiler.unwrap_or_default(), folder.path())
        }));
    }
    let missing = compiler.is_none().then_some(NO_COMPILER);
    tests.push(harness::test("a_structure_that_is_not_the_hosts_does_not_compile", missing, move || {
        drift(compiler.unwrap_or_default())
    }));
    // The process exits without unwinding, so the folder must be deleted when the last test has run.
    drop(folder);
    harness::run(tests, false)
}

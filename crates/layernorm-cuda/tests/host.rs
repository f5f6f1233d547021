//! Runs the row kernels on the CPU: their source, compiled by the system's C++ compiler, with every thread as a fiber
//! and with warps, copies and messages in random order, bit for bit against the contract. Without a compiler, all tests
//! are reported as ignored.
#[path = "host/cases.rs"]
mod cases;
#[path = "host/compiler.rs"]
mod compiler;
mod harness;
#[path = "host/layouts.rs"]
mod layouts;
#[path = "host/without.rs"]
mod without;

use cases::{CASES, Case, Kind};
use compiler::{NO_COMPILER, compiler};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use without::without;

/// Functions with inline PTX in each file; `host/ptx.h` replaces them by functions of the same names.
const PTX: [(&str, &[&str]); 5] = [
    ("messages.cuh", &["leave_message", "look_at_message"]),
    ("down.cuh", &["block_rank", "blocks_started", "blocks_meet", "put"]),
    (
        "rows.cuh",
        &[
            "cluster_rank",
            "cluster_sync",
            "cluster_arrive",
            "cluster_wait",
            "barrier_init",
            "barrier_expect",
            "barrier_wait",
            "send",
            "team_sync",
            "copy_async",
            "commit_async",
            "wait_async",
        ],
    ),
    (
        "bulk.cuh",
        &[
            "shared_address",
            "own_init",
            "own_arrive",
            "own_expect",
            "own_wait",
            "bulk_load",
            "read_once",
            "barriers_made",
            "from_slot",
            "to_slot",
            "before_copies",
            "bulk_store",
            "stores_read",
        ],
    ),
    ("stream.cuh", &["count_one", "made"]),
];

/// Other code that only a GPU compiler accepts, and its replacement.
const WORDS: [(&str, &str); 8] = [
    ("asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits));", "simt::fail(\"f16\");"),
    ("asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y.bits) : \"f\"(x));", "simt::fail(\"f16\");"),
    ("asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y.bits) : \"f\"(x));", "y.bits = bf16_of(x);"),
    (
        "asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(to) : \"f\"(high), \"f\"(low));",
        "to = u32(bf16_of(high)) << 16 | bf16_of(low);",
    ),
    (
        "extern __shared__ __align__(128) Words memory[];",
        "Words* memory = (Words*)(simt::shared[simt::self().block].data() + simt::STATIC);",
    ),
    (
        "extern __shared__ Words ring_memory[];",
        "Words* ring_memory = (Words*)(simt::shared[simt::self().block].data() + simt::STATIC);",
    ),
    ("__shared__ Exchange exchange;", "Exchange& exchange = *(Exchange*)simt::shared[simt::self().block].data();"),
    ("__shared__ Pipe pipe;", "Pipe& pipe = *(Pipe*)simt::shared[simt::self().block].data();"),
];

const FILES: [&str; 20] = [
    "number.cuh",
    "terms.cuh",
    "params.cuh",
    "messages.cuh",
    "bulk.cuh",
    "rows.cuh",
    "stats.cuh",
    "stream.cuh",
    "stream_forward.cu",
    "stream_backward.cu",
    "each_forward.cu",
    "lanes.cuh",
    "lanes_forward.cu",
    "lanes_backward.cu",
    "columns.cuh",
    "forward.cu",
    "backward.cu",
    "down.cuh",
    "down.cu",
    "down_chunk.cu",
];

/// Writes the kernels to a folder, with CPU functions in place of the GPU's.
fn write_kernels(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = [false; WORDS.len()];
    for file in FILES {
        let mut text = std::fs::read_to_string(root.join("kernels").join(file)).expect("the kernel's text");
        for (_, functions) in PTX.iter().filter(|(name, _)| *name == file) {
            text = functions.iter().fold(text, |text, function| without(&text, function));
        }
        for ((from, to), found) in WORDS.iter().zip(&mut found) {
            *found |= text.contains(from);
            text = text.replace(from, to);
        }
        // Include the replacements where the first of the functions was.
        for (file_with, include) in [("bulk.cuh", "#include \"number.cuh\""), ("down.cuh", "#include \"columns.cuh\"")]
        {
            if file == file_with {
                text = text.replace(include, &format!("{include}\n#include \"ptx.h\""));
            }
        }
        let text = layouts::checked(file, text);
        std::fs::write(folder.join(file), text).expect("a file in our own folder");
    }
    for ((from, _), found) in WORDS.iter().zip(found) {
        assert!(found, "the kernels no longer contain {from}");
    }
    for file in ["bits.h", "fiber.h", "simt.h", "ptx.h", "main.cpp"] {
        std::fs::copy(root.join("tests/host").join(file), folder.join(file)).expect("a file in our own folder");
    }
}

/// Output of the program or the compiler if a test fails.
fn failure(case: &Case, compiler: &str, folder: &Path) -> Option<String> {
    let per = match (case.kind, case.element) {
        (Kind::Stream | Kind::Four, _) | (_, 0) => 4,
        _ => 8,
    };
    let alone = case.warps == 1 && case.cluster == 1;
    let vectors = match (case.team, alone) {
        (..32, _) => case.n.div_ceil(case.team * per),
        (_, true) if case.n.is_multiple_of(32 * per) => case.n / 32 / per,
        (_, true) => case.n.div_ceil(256) * 256 / 32 / per,
        _ => 32 / per,
    };
    let held = if case.kind == Kind::Lanes { 128 } else { vectors * case.team * per };
    let full = held * case.warps * case.cluster == case.n;
    let threads = if case.team < 32 { 64 } else { 32 * case.warps * case.teams };
    let (wide, each, height) = match case.kind {
        Kind::Down { wide, each } => (wide, each, 64),
        Kind::Chunk { wide, height } => (wide, 1, height),
        _ => (1, 1, 64),
    };
    let affine = usize::from(case.affine);
    let defines = [
        ("ELEM", case.element),
        ("WORD_BYTES", per * if case.element == 0 { 4 } else { 2 }),
        ("CENTERED", usize::from(case.centered)),
        ("ONE_PLUS", 0),
        ("GAIN", affine),
        ("BIAS", affine),
        ("TEAM", case.team),
        ("WARPS", case.warps),
        ("CLUSTER", case.cluster),
        ("TALKING", usize::from(case.across)),
        ("VECS", vectors),
        ("RING", case.ring),
        ("THREADS", threads),
        ("MIN_BLOCKS", 1),
        ("PER_CHANNEL", 0),
        ("ALIGNED", 1),
        ("FULL", usize::from(full)),
        ("RESIDUAL", 0),
        ("PIECES", case.pieces),
        ("HINT", 0),
        ("DX", 1),
        ("SUMS", usize::from(case.team < 32)),
        ("OVERLAPS", 1),
        ("SHARED_BYTES", 400_000),
        ("WIDE", wide),
        ("HEIGHT", height),
        ("CHUNKS", each),
        ("LEVELS", each.ilog2().max(1) as usize),
    ];
    let program = folder.join(case.name);
    let mut build = Command::new(compiler);
    build.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-o"]).arg(&program).arg(folder.join("main.cpp"));
    build.args(defines.map(|(name, value)| format!("-D{name}={value}"))).args(case.back.then_some("-DBACK"));
    match case.kind {
        Kind::Stream => {}
        Kind::Each => drop(build.arg("-DEACH")),
        Kind::Four => drop(build.arg("-DHELD").arg("-DKEEP=0")),
        Kind::Held { keep } => drop(build.arg("-DHELD").arg(format!("-DKEEP={}", usize::from(keep)))),
        Kind::Lanes => drop(build.arg("-DLANES").arg(format!("-DBLOCKS={}", case.warps / 8))),
        Kind::Down { .. } => drop(build.arg("-DDOWN").arg("-UWARPS")),
        Kind::Chunk { .. } => drop(build.arg("-DDOWN").arg("-DCHUNK_A_BLOCK").arg("-UWARPS")),
    }
    if case.kind == Kind::Stream && !full {
        let end = (case.n - 1) % 1024 + 1;
        build.args([format!("-DLAST={}", end / 128), format!("-DMORE={}", usize::from(!end.is_multiple_of(128)))]);
    }
    let built = build.output().expect("the compiler was there");
    if !built.status.success() {
        return Some(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    // f32 gets small rows with the smallest ε, bf16 without ε.
    let hard = if matches!(case.kind, Kind::Down { .. } | Kind::Chunk { .. }) { 2 } else { 1 };
    let small = if case.element == 0 { 3 } else { 4 };
    for (overflow, seed) in [(0, 1), (1, 2), (hard, 3), (small, 4)] {
        let words = [case.n, case.rows, 2, overflow, seed].map(|word| word.to_string());
        let ran = Command::new(&program).args(words).output().expect("the program was built");
        if !ran.status.success() {
            return Some(format!("{} ({})", String::from_utf8_lossy(&ran.stdout), ran.status));
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
    let tests = CASES.iter().map(trial).collect();
    // The process exits without unwinding, so the folder must be deleted when the last test has run.
    drop(folder);
    harness::run(tests, false)
}

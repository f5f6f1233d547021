//! Runs the recurrent loops in clusters on the CPU: their source, compiled by the system's C++ compiler, with every
//! thread as a fiber and with warps, copies and messages in random order, compared with the equations. Without a
//! compiler, the test is reported as ignored.
#[path = "host/compiler.rs"]
mod compiler;
mod harness;
#[path = "host/layouts.rs"]
mod layouts;

use compiler::{NO_COMPILER, compiler, end_of};
use layernorm_cuda::Variant;
use layernorm_cuda::recurrent::all_variants;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The files of the loops, starting with common.cuh.
const FILES: [&str; 7] = [
    "common.cuh",
    "cell.cuh",
    "cluster.cuh",
    "cluster_dh.cuh",
    "cluster_forward.cu",
    "cluster_backward.cu",
    "prepare.cu",
];

/// Functions that use PTX only for other types.
const KEPT: [&str; 3] = ["widen", "narrow", "value"];

/// Other code that only a GPU compiler accepts, and its replacement.
const WORDS: [(&str, &str); 2] = [
    ("asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));", "y = bf16_of(x);"),
    (
        "extern __shared__ __align__(16) unsigned char memory[];",
        "unsigned char *memory = (unsigned char *)simt::shared[simt::self().block].data();",
    ),
];

/// Removes the functions with inline PTX; `host/recurrent_ptx.h` replaces those that are needed by functions of the
/// same names.
fn without_ptx(text: &str) -> String {
    const MARK: &str = "__device__ __forceinline__ ";
    let (mut out, mut left) = (String::new(), text);
    while let Some(at) = left.find(MARK) {
        let start = left[..at].rfind('\n').map_or(0, |at| at + 1);
        let end = at + end_of(&left[at..]);
        let head = left[at + MARK.len()..].split('(').next().unwrap_or_default();
        let name = head.rsplit([' ', '*']).next().unwrap_or_default();
        let ptx = left[at..end].contains("asm") || left[at..end].contains("__cvta");
        let kept = !ptx || KEPT.contains(&name);
        out.push_str(&left[..if kept { end } else { start }]);
        left = &left[end..];
    }
    out + left
}

/// Writes the kernels to a folder, with CPU functions in place of the GPU's.
fn write_kernels(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = [false; WORDS.len()];
    for file in FILES {
        let text = std::fs::read_to_string(root.join("kernels/recurrent").join(file)).expect("the kernel's text");
        let mut text = without_ptx(&text);
        for ((from, to), found) in WORDS.iter().zip(&mut found) {
            *found |= text.contains(from);
            text = text.replace(from, to);
        }
        let text = layouts::checked(&format!("recurrent/{file}"), text);
        std::fs::write(folder.join(file), text).expect("a file in our own folder");
    }
    assert!(found.iter().all(|found| *found), "the kernels no longer contain one of {WORDS:?}");
    for file in ["bits.h", "fiber.h", "simt.h", "recurrent_ptx.h", "recurrent.cpp"] {
        std::fs::copy(root.join("tests/host").join(file), folder.join(file)).expect("a file in our own folder");
    }
}

fn get<'a>(variant: &'a Variant, name: &str) -> Option<&'a str> {
    variant.defines.iter().find_map(|define| define.strip_prefix(name)?.strip_prefix('='))
}

/// The definitions of each bf16 backward loop that is small enough, and of the matching forward loop.
fn layers() -> Vec<Vec<String>> {
    let variants = all_variants(90).unwrap();
    let common = |variant: &Variant| {
        let own = |define: &&String| !define.starts_with("SHARED=") && !define.starts_with("TRAIN=");
        variant.defines.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    let small = |variant: &&Variant| {
        variant.entry == "rnn_cluster_backward" && get(variant, "TYPE") == Some("2") && get(variant, "H") != Some("512")
    };
    let pair = |back: &Variant| {
        let fits = |there: &&Variant| {
            there.entry == "rnn_cluster_forward" && get(there, "TRAIN") == Some("1") && common(there) == common(back)
        };
        let there = variants.iter().find(fits).expect("a forward loop");
        let mut defines = common(back);
        defines.extend(["TRAIN=1".into(), "PARAM=2".into()]);
        defines.push(format!("SHARED_FORWARD={}", there.shared));
        defines.push(format!("SHARED_BACKWARD={}", back.shared));
        defines
    };
    variants.iter().filter(small).map(pair).collect()
}

/// Output of the program or the compiler if a test fails.
fn failure(defines: &[String], index: usize, compiler: &str, folder: &Path) -> Option<String> {
    let program = folder.join(format!("layer{index}"));
    let mut build = Command::new(compiler);
    build.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-o"]).arg(&program).arg(folder.join("recurrent.cpp"));
    let built =
        build.args(defines.iter().map(|define| format!("-D{define}"))).output().expect("the compiler was there");
    if !built.status.success() {
        return Some(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    // Steps, sequences (a cluster has 8 or 16), whether reversed, seed.
    let runs = [["4", "3", "0", "1"], ["3", "11", "1", "2"]];
    // Both for the first few cases, then alternating: each takes seconds.
    for words in if index < 3 { &runs[..] } else { &runs[index % 2..][..1] } {
        let ran = Command::new(&program).args(words).output().expect("the program was built");
        if !ran.status.success() {
            return Some(format!("{defines:?} {words:?}: {} ({})", String::from_utf8_lossy(&ran.stdout), ran.status));
        }
    }
    None
}

/// All failures.
fn failures(compiler: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder of our own");
    write_kernels(folder.path());
    let (layers, next) = (layers(), AtomicUsize::new(0));
    assert!(layers.len() > 8, "{} layers", layers.len());
    let work = || {
        let mut wrong = Vec::new();
        while let Some((index, defines)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, layers.get(i)?)))
        {
            wrong.extend(failure(defines, index, compiler, folder.path()));
        }
        wrong
    };
    let wrong = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect::<Vec<_>>()
    });
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

fn main() {
    let compiler = compiler();
    let missing = compiler.is_none().then_some(NO_COMPILER);
    let test = move || failures(compiler.unwrap_or_default()).map_or(Ok(()), Err);
    harness::run(vec![harness::test("clusters_follow_the_equations", missing, test)], true)
}

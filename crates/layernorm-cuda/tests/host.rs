//! The kernels of streaming rows on the CPU: their own text, compiled by the machine's C++ compiler, every thread a fiber, warps,
//! copies and messages in random order, bit for bit against the contract. Without a compiler, all is reported as ignored.
use compiler::compiler;
use std::path::Path;
use std::process::Command;

#[path = "host/compiler.rs"]
mod compiler;

/// One way to spread rows, and rows to spread.
struct Case {
    name: &'static str,
    back: bool,
    /// 0: f32. 2: bf16.
    element: usize,
    warps: usize,
    cluster: usize,
    ring: usize,
    pieces: usize,
    params: usize,
    n: usize,
    rows: usize,
    centered: bool,
    skew: bool,
    affine: bool,
}

const BASE: Case = Case {
    name: "",
    back: false,
    element: 0,
    warps: 2,
    cluster: 1,
    ring: 3,
    pieces: 1,
    params: 2,
    n: 2048,
    rows: 13,
    centered: true,
    skew: true,
    affine: true,
};

const CASES: [Case; 10] = [
    Case { name: "forward_in_a_cluster", cluster: 4, params: 1, n: 8192, ..BASE },
    Case { name: "forward_in_pieces", warps: 4, cluster: 2, ring: 7, pieces: 2, n: 7000, ..BASE },
    Case { name: "forward_bf16_five_warps", element: 2, warps: 5, ring: 5, params: 3, n: 5000, ..BASE },
    Case {
        name: "forward_rms",
        element: 2,
        cluster: 2,
        ring: 9,
        pieces: 4,
        params: 0,
        n: 3800,
        centered: false,
        ..BASE
    },
    Case { name: "forward_a_warp_a_row", warps: 1, n: 768, rows: 30, ..BASE },
    Case { name: "backward", back: true, rows: 70, ..BASE },
    Case {
        name: "backward_in_a_cluster",
        back: true,
        element: 2,
        cluster: 4,
        ring: 5,
        pieces: 2,
        n: 8000,
        rows: 67,
        ..BASE
    },
    Case {
        name: "backward_rms",
        back: true,
        element: 2,
        warps: 3,
        params: 1,
        n: 3000,
        rows: 66,
        centered: false,
        ..BASE
    },
    Case {
        name: "backward_without_skew",
        back: true,
        cluster: 2,
        ring: 6,
        pieces: 4,
        params: 0,
        n: 4096,
        skew: false,
        ..BASE
    },
    Case {
        name: "backward_a_warp_a_chunk",
        back: true,
        warps: 1,
        n: 1000,
        rows: 200,
        skew: false,
        affine: false,
        ..BASE
    },
];

/// Functions of inline PTX in each file; `host/ptx.h` has others of the same names.
const PTX: [(&str, &[&str]); 2] = [
    (
        "rows.cuh",
        &[
            "cluster_rank",
            "cluster_sync",
            "shared_address",
            "barrier_init",
            "barrier_expect",
            "barrier_wait",
            "send",
            "copy_async",
            "commit_async",
            "wait_async",
        ],
    ),
    (
        "stream.cuh",
        &[
            "own_init",
            "own_arrive",
            "own_expect",
            "own_wait",
            "count_one",
            "bulk_load",
            "read_once",
            "made",
            "barriers_made",
        ],
    ),
];

/// What else only a GPU's compiler knows, and what stands for it.
const WORDS: [(&str, &str); 7] = [
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
    ("__shared__ Exchange exchange;", "Exchange& exchange = *(Exchange*)simt::shared[simt::self().block].data();"),
    ("__shared__ Pipe pipe;", "Pipe& pipe = *(Pipe*)(simt::shared[simt::self().block].data() + 8192);"),
];

const FILES: [&str; 6] =
    ["number.cuh", "rows.cuh", "stats.cuh", "stream.cuh", "stream_forward.cu", "stream_backward.cu"];

/// The text without the function of this name.
fn without(text: &str, function: &str) -> String {
    let name = text.find(&format!(" {function}(")).unwrap_or_else(|| panic!("no function {function}"));
    let start = text[..name].rfind('\n').map_or(0, |at| at + 1);
    let mut depth = 0;
    for (at, letter) in text[name..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return format!("{}{}", &text[..start], &text[name + at + 1..]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    panic!("function {function} has no end")
}

/// The kernels with the CPU's functions in place of the GPU's, in a folder.
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
        // Where the first of them was.
        if file == "rows.cuh" {
            text = text.replace("#include \"number.cuh\"", "#include \"number.cuh\"\n#include \"ptx.h\"");
        }
        std::fs::write(folder.join(file), text).expect("a file in our own folder");
    }
    for ((from, _), found) in WORDS.iter().zip(found) {
        assert!(found, "the kernels no longer say {from}");
    }
    for file in ["simt.h", "ptx.h", "main.cpp"] {
        std::fs::copy(root.join("tests/host").join(file), folder.join(file)).expect("a file in our own folder");
    }
}

/// What the program or its compiler said, if not that all is well.
fn failure(case: &Case, compiler: &str, folder: &Path) -> Option<String> {
    let per = if case.element == 0 { 4 } else { 8 };
    let alone = case.warps == 1 && case.cluster == 1;
    let vectors = if alone { (case.n.div_ceil(256) * 256) / 32 / per } else { 32 / per };
    let full = vectors * 32 * per * case.warps * case.cluster == case.n;
    let threads = if alone { 64 } else { 32 * case.warps };
    let affine = usize::from(case.affine);
    let defines = [
        ("ELEM", case.element),
        ("CENTERED", usize::from(case.centered)),
        ("ONE_PLUS", 0),
        ("GAIN", affine),
        ("BIAS", affine),
        ("TEAM", 32),
        ("WARPS", case.warps),
        ("CLUSTER", case.cluster),
        ("VECS", vectors),
        ("RING", case.ring),
        ("THREADS", threads),
        ("MIN_BLOCKS", 1),
        ("PER_CHANNEL", 0),
        ("ALIGNED", 1),
        ("FULL", usize::from(full)),
        ("RESIDUAL", 0),
        ("PIECES", case.pieces),
        ("PARAMS", case.params),
        ("SKEW", usize::from(case.skew)),
        ("HINT", 0),
    ];
    let program = folder.join(case.name);
    let mut build = Command::new(compiler);
    build.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-o"]).arg(&program).arg(folder.join("main.cpp"));
    build.args(defines.map(|(name, value)| format!("-D{name}={value}"))).args(case.back.then_some("-DBACK"));
    let built = build.output().expect("the compiler was there");
    if !built.status.success() {
        return Some(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    for (overflow, seed) in [(0, 1), (1, 2), (1, 3)] {
        let words = [case.n, case.rows, 2, overflow, seed].map(|word| word.to_string());
        let ran = Command::new(&program).args(words).output().expect("the program was built");
        if !ran.status.success() {
            return Some(format!("{} ({})", String::from_utf8_lossy(&ran.stdout), ran.status));
        }
    }
    None
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let list = std::env::args().any(|word| word == "--list");
    let compiler = compiler();
    let folder = tempfile::tempdir().expect("a folder of our own");
    write_kernels(folder.path());
    let (mut passed, mut ignored, mut failed) = (0, 0, 0);
    for case in CASES.iter().filter(|case| words.is_empty() || words.iter().any(|word| case.name.contains(word))) {
        let name = case.name;
        if list {
            println!("{name}: test");
            continue;
        }
        let Some(compiler) = compiler else {
            println!("test {name} ... ignored, skipped: no C++ compiler for Linux");
            ignored += 1;
            continue;
        };
        match failure(case, compiler, folder.path()) {
            None => {
                println!("test {name} ... ok");
                passed += 1;
            }
            Some(words) => {
                println!("{words}\ntest {name} ... FAILED");
                failed += 1;
            }
        }
    }
    if !list {
        println!("\ntest result: {passed} passed; {failed} failed; {ignored} ignored\n");
    }
    std::process::exit(i32::from(failed > 0));
}

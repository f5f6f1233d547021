//! What the tests of kernels on the CPU share.
use std::process::Command;

pub const NO_COMPILER: &str = "no C++ compiler for Linux";

/// The machine's C++ compiler. Fibers are glibc's, so only on Linux.
pub fn compiler() -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if cfg!(target_os = "linux") { ["c++", "g++", "clang++"].into_iter().find(there) } else { None }
}

/// Where the braces that open first close again.
pub fn end_of(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    panic!("a function has no end: {text}")
}

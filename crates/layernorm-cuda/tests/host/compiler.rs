//! Shared by the tests that run kernels on the CPU.
use std::process::Command;

pub const NO_COMPILER: &str = "no C++ compiler for Linux";

/// The system's C++ compiler. Only on Linux, because the fibers use glibc.
pub fn compiler() -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if cfg!(target_os = "linux") { ["c++", "g++", "clang++"].into_iter().find(there) } else { None }
}

/// The end of the first pair of braces, including those nested in it.
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
    panic!("unbalanced braces: {text}")
}

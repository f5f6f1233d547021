//! What the tests of kernels on the CPU share.
use std::process::Command;

pub const NO_COMPILER: &str = "no C++ compiler for Linux";

/// The machine's C++ compiler. Fibers are glibc's, so only on Linux.
pub fn compiler() -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if cfg!(target_os = "linux") { ["c++", "g++", "clang++"].into_iter().find(there) } else { None }
}

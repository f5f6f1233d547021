//! What the tests of kernels on the CPU share.
use std::process::Command;

/// The machine's C++ compiler. Fibers are glibc's, so only on Linux.
pub fn compiler() -> Option<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if cfg!(target_os = "linux") { ["c++", "g++", "clang++"].into_iter().find(there) } else { None }
}

/// The text without the function of this name.
pub fn without(text: &str, function: &str) -> String {
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

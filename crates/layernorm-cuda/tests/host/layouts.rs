//! Layout assertions for kernel sources that are compiled for the CPU.
use layernorm_cuda::{Source, recurrent, variants};

/// Every source, once.
pub fn sources() -> Vec<&'static Source> {
    let mut all: Vec<&'static Source> = Vec::new();
    let recurrent = recurrent::all_variants(90).expect("layers that every device has room for");
    for variant in variants(90).into_iter().chain(recurrent) {
        if !all.contains(&variant.source) {
            all.push(variant.source);
        }
    }
    all
}

/// The kernel source followed by the assertions about its structures; files that are not kernels of their own are
/// returned unchanged.
#[allow(dead_code, reason = "not every test compiles kernels")]
pub fn checked(file: &str, text: String) -> String {
    let source = sources().into_iter().find(|source| source.name == file);
    assert!(source.is_some() || !file.ends_with(".cu"), "no source has the name {file}");
    source.map_or(text.clone(), |source| text + "\n" + &source.assertions())
}

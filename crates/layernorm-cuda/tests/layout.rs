//! The structures shared by the host and the kernels have the same fields, by name and in order. Their offsets are
//! asserted when a kernel is compiled: by NVRTC, and by the C++ compiler in `host.rs`, `loops_host.rs` and
//! `recurrent_host.rs`.
#[path = "host/layouts.rs"]
mod layouts;

use layernorm_cuda::Source;
use std::collections::BTreeMap;

/// The fields of every structure about which the host makes assertions.
fn asserted(source: &Source) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for rest in (source.layout)().split("OFFSET_OF(").skip(1) {
        let (name, rest) = rest.split_once(", ").expect("a structure and a field");
        let field = rest.split(')').next().expect("the field's name").to_owned();
        let fields = found.entry(name.to_owned()).or_default();
        // Each field appears once per arithmetic type.
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    found
}

/// The fields of a C++ structure: the last word of each declarator, without comments.
fn declared(text: &str, name: &str) -> Option<Vec<String>> {
    let body = text.split_once(&format!("struct {name} {{"))?.1.split_once('}')?.0;
    let code: String = body.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + " ").collect();
    let word = |part: &str| part.rsplit([' ', '*']).find(|word| !word.is_empty()).map(str::to_owned);
    Some(code.split(';').flat_map(|declaration| declaration.split(',').filter_map(word)).collect())
}

#[test]
fn both_sides_have_the_same_fields_in_the_same_order() {
    let mut structures = 0;
    for source in layouts::sources() {
        let asserted = asserted(source);
        assert!(!asserted.is_empty(), "{} asserts nothing about its parameters", source.name);
        for (name, host) in asserted {
            let texts = [source.text].into_iter().chain(source.headers.iter().map(|header| header.1));
            let found: Vec<_> = texts.filter_map(|text| declared(text, &name)).collect();
            assert_eq!(found, [host], "{}: {name}", source.name);
            structures += 1;
        }
    }
    assert!(structures > 40, "{structures} structures");
}

#[test]
fn a_field_more_or_in_another_place_is_seen() {
    let text = "struct Args {\n    const float *x, *y;  // two, of one type\n    int n;\n};";
    assert_eq!(declared(text, "Args").unwrap(), ["x", "y", "n"]);
    assert_eq!(declared(text, "Other"), None);
}

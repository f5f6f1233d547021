//! What two headers differ in, field by field.

use super::Header;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Differences that are listed at most.
const LISTED: usize = 8;
/// Characters of a value that are shown at most.
const SHOWN: usize = 60;

/// The fields that differ, such as `spec.start.seed: expected 2, found 1`.
pub(crate) struct Differences(Vec<String>);

impl Differences {
    /// Compares the headers of runs.
    pub(crate) fn new(expected: &Header, found: &Header) -> Differences {
        let (expected, found) = (fields(expected), fields(found));
        let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
        names.sort();
        names.dedup();
        let line = |name: &String| {
            let (expected, found) = (expected.get(name), found.get(name));
            let [expected_text, found_text] = around_difference([expected, found].map(text));
            (expected != found).then(|| format!("{name}: expected {expected_text}, found {found_text}"))
        };
        Differences(names.into_iter().filter_map(line).collect())
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = self.0.len().min(LISTED);
        f.write_str(&self.0[..listed].join("; "))?;
        match self.0.len() - listed {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// All fields of a header's settings by their paths, and its names.
fn fields(header: &Header) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    collect("", &header.settings, &mut fields);
    fields.insert("run".to_owned(), header.run.as_str().into());
    fields.insert("study".to_owned(), header.study.as_str().into());
    fields
}

/// Adds the fields of a value, each with its path.
fn collect(path: &str, value: &Value, fields: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, value, fields);
            }
        }
        value => {
            fields.insert(path.to_owned(), value.clone());
        }
    }
}

/// A value as JSON.
fn text(value: Option<&Value>) -> String {
    value.map_or("nothing".to_owned(), Value::to_string)
}

/// Two texts, shortened to the part where they differ if one of them is long.
fn around_difference(texts: [String; 2]) -> [String; 2] {
    let chars = texts.map(|text| text.chars().collect::<Vec<char>>());
    let same = chars[0].iter().zip(&chars[1]).take_while(|(a, b)| a == b).count();
    let long = chars.iter().any(|text| text.len() > SHOWN);
    let start = if long { same.saturating_sub(SHOWN / 3) } else { 0 };
    chars.map(|text| {
        let end = text.len().min(start + SHOWN);
        let part: String = text[start..end].iter().collect();
        format!("{}{part}{}", if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differences(expected: Value, found: Value) -> String {
        let [expected, found] = [expected, found].map(|settings| Header::new("study", "run", settings));
        Differences::new(&expected, &found).to_string()
    }

    #[test]
    fn only_the_fields_that_differ_are_listed() {
        let of =
            |seed: u32, norm: &str| json!({"case": "a", "spec": {"norm": norm, "start": {"seed": seed, "gain": 1.0}}});
        assert_eq!(
            differences(of(2, "layer"), of(1, "none")),
            "spec.norm: expected \"layer\", found \"none\"; spec.start.seed: expected 2, found 1"
        );
        assert_eq!(differences(json!({"a": {"b": true}}), json!({"a": {}})), "a.b: expected true, found nothing");
        let [one, other] = ["one", "other"].map(|run| Header::new("s", run, json!({})));
        assert_eq!(Differences::new(&one, &other).to_string(), "run: expected \"one\", found \"other\"");
    }

    #[test]
    fn long_lists_and_values_are_shortened() {
        let many = |value: usize| (0..12).map(|n| (format!("field-{n:02}"), json!(value))).collect::<Value>();
        let text = differences(many(1), many(2));
        assert!(text.ends_with("field-07: expected 1, found 2; and 4 more"), "{text}");
        let long = |middle: &str| json!({"list": format!("{}{middle}{}", "x".repeat(100), "y".repeat(100))});
        let expected = format!("list: expected …{}a{}…, found …{0}b{1}…", "x".repeat(20), "y".repeat(39));
        assert_eq!(differences(long("a"), long("b")), expected);
    }
}

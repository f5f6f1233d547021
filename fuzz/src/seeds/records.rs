//! Records: finished, truncated, and as studies and training write them.

use crate::formats::records::with_sums;

/// Returns all seeds.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let start = |run: &str, settings: &str| {
        format!(
            "{{\"record\":\"start\",\"version\":2,\"study\":\"epsilon\",\"run\":\"{run}\",\"settings\":{settings}}}"
        )
    };
    let event = |name: &str, data: &str| format!("{{\"record\":\"event\",\"name\":\"{name}\",\"data\":{data}}}");
    let end = || "{\"record\":\"end\"}".to_owned();
    let file = |lines: &[String]| with_sums(&lines.iter().map(|line| line.clone().into_bytes()).collect::<Vec<_>>());
    let settings = "{\"seed\":1,\"rate\":0.002,\"arch\":{\"lstm\":{\"hidden\":128}},\"trials\":[],\"text\":\"ε\"}";
    let evaluate = "{\"step\":10,\"train\":{\"loss\":0.25,\"accuracy\":0.5},\"validation\":null,\"norms\":[1.5,-2e-9]}";
    let whole = [start("a-run", settings), event("evaluate", evaluate), event("test", "[[],{}]"), end()];
    let cut_off = file(&whole[..3]);
    vec![
        ("finished".into(), file(&whole)),
        ("unfinished".into(), file(&whole[..2])),
        ("start".into(), file(&whole[..1])),
        ("cut-off".into(), cut_off[..cut_off.len() - 9].to_vec()),
        ("other-version".into(), file(&[start("b", "{}").replace(":2", ":1"), end()])),
        ("nested".into(), file(&[start("c", &format!("{}{}", "[".repeat(100), "]".repeat(100))), end()])),
        ("no-name".into(), file(&[start("", "null")])),
    ]
}

use super::*;
use serde_json::json;

fn header() -> Header {
    Header::new("test", "a-run", json!({"seed": 1}))
}

fn whole(folder: &Path) -> Vec<u8> {
    let mut run = RunFile::open(folder, header()).unwrap();
    for step in run.record().events.len()..5 {
        run.event("loss", json!({"step": step, "loss": 1.0 / (step + 1) as f64})).unwrap();
    }
    run.finish().unwrap();
    std::fs::read(run.path()).unwrap()
}

#[test]
fn a_run_killed_at_any_byte_ends_like_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = whole(folder.path());
    for cut in 0..bytes.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a-run.jsonl"), &bytes[..cut]).unwrap();
        assert_eq!(whole(folder.path()), bytes, "cut at byte {cut}");
    }
}

#[test]
fn rewinding_removes_later_events() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = whole(folder.path());
    for events in 0..=5 {
        let mut run = RunFile::open(folder.path(), header()).unwrap();
        run.rewind(events).unwrap();
        assert_eq!((run.record().events.len(), run.record().finished), (events, false));
        drop(run);
        assert_eq!(whole(folder.path()), bytes, "after rewinding to {events}");
    }
}

#[test]
fn other_settings_other_versions_and_broken_lines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    whole(folder.path());
    let other = Header::new("test", "a-run", json!({"seed": 2}));
    let error = RunFile::open(folder.path(), other).unwrap_err().to_string();
    assert!(error.ends_with("a-run.jsonl: a run with other settings: seed: expected 2, found 1"), "{error}");
    let path = folder.path().join("b.jsonl");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Record::read(&path).unwrap_err().to_string()
    };
    assert!(refused("{\"record\":\"start\",\"version\":9,\"new\":true}\n").contains("version 2, found version 9"));
    let old = refused("{\"record\":\"start\",\"version\":1,\"study\":\"s\",\"run\":\"b\",\"settings\":{}}\n");
    assert!(old.ends_with("version 2, found version 1, which has no checksums"), "{old}");
    assert!(refused("no JSON\n").contains("line 1"));
    std::fs::write(&path, "").unwrap();
    assert_eq!(Record::read(&path).unwrap(), None);
    for name in ["", "..", "a/b", ".hidden"] {
        let header = Header::new("test", name, json!({}));
        assert!(RunFile::open(folder.path(), header).is_err(), "{name}");
    }
}

/// Writes bytes as the run's file; both ways to read it must fail with these words and leave the file unchanged.
#[track_caller]
fn refused(bytes: &[u8], words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a-run.jsonl");
    std::fs::write(&path, bytes).unwrap();
    let errors = [Record::read(&path).unwrap_err(), RunFile::open(folder.path(), header()).unwrap_err()];
    for error in errors {
        assert!(error.to_string().contains(words), "expected {words:?} in {error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file is unchanged");
}

#[test]
fn removed_duplicated_moved_or_changed_lines_are_detected() {
    let bytes = whole(tempfile::tempdir().unwrap().path());
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
    assert_eq!(lines.len(), 7);
    for line in 1..6 {
        let joined = |lines: &[&[u8]]| lines.concat();
        let (before, after) = lines.split_at(line);
        refused(&joined(&[&joined(before), &joined(&after[1..])]), "changed, removed, duplicated or moved");
        refused(&joined(&[&joined(before), after[0], &joined(after)]), "changed, removed, duplicated or moved");
        let mut moved = lines.clone();
        moved.swap(line - 1, line);
        refused(&joined(&moved), "expected a record");
    }
    // A changed digit anywhere: in the header, in an event, in the last line of an unfinished run.
    let cut = lines[..4].concat();
    for bytes in [&bytes[..], &cut[..]] {
        for place in (0..bytes.len()).filter(|&place| bytes[place].is_ascii_digit()) {
            let mut changed = bytes.to_vec();
            changed[place] = if changed[place] == b'9' { b'0' } else { changed[place] + 1 };
            refused(&changed, "expected");
        }
    }
    let ended = [&cut[..], b"{\"record\":\"end\"}\n"].concat();
    refused(&ended, "line 5: expected a record, found a line without a checksum");
    refused(&[&cut[..], b"\n"].concat(), "line 5");
}

#[test]
fn files_of_other_programs_are_unchanged() {
    for foreign in ["hello", "{\"record\":\"stop", "x\ny", "\n", " "] {
        refused(foreign.as_bytes(), "expected a record, found");
    }
    let bytes = whole(tempfile::tempdir().unwrap().path());
    let start = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    refused(&[&bytes[..start], b"notes of mine"].concat(), "line 2: expected a record, found \"notes of mine\"");
}

#[test]
fn a_folder_is_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for run in ["b", "a"] {
        RunFile::open(folder.path(), Header::new("s", run, json!({}))).unwrap().event("x", json!(1)).unwrap();
    }
    let records = read_all(folder.path()).unwrap();
    assert_eq!(records.iter().map(|r| r.header.run.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(records[0].named("x").count(), 1);
}

proptest::proptest! {
    #[test]
    fn any_bytes_give_a_record_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = lines::parse(&bytes);
        let _ = lines::parse(&[b"{\"record\":\"start\",", &bytes[..], b"\n"].concat());
    }
}

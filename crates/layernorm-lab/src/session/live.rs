//! What the records of a folder say about its runs while they are executed, by this process or another one. Takes no
//! lock and reads only the beginning and the end of files that changed, so it can be repeated several times a second.
//!
//! For display only: checksums are verified when the report is made.

use super::Error;
use super::folder::{paths, runs_of};
use crate::records::Header;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes read from the end of a file. Most events have fewer; while none fits, the last known progress stays.
const TAIL: u64 = 256 << 10;
/// The maximum length of a header.
const HEAD: u64 = 256 << 10;

/// A run, as far as its records tell.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRun {
    /// Its study.
    pub study: String,
    /// Its name.
    pub run: String,
    /// Whether it is finished.
    pub finished: bool,
    /// The completed fraction, from 0 to 1; `None` if the records do not tell.
    pub done: Option<f64>,
    /// The latest results in a few words; empty if there are none.
    pub words: String,
    /// When its records last changed.
    pub changed: SystemTime,
}

/// The runs of a folder.
#[derive(Debug)]
pub struct Live {
    runs: PathBuf,
    /// By file, with its length. `None` if it holds no header, or another run's.
    seen: BTreeMap<PathBuf, (u64, SystemTime, Option<LiveRun>)>,
}

impl Live {
    /// Watches a folder, which need not exist yet.
    pub fn new(folder: &Path) -> Live {
        Live { runs: runs_of(folder), seen: BTreeMap::new() }
    }

    /// Reads what has changed; returns whether anything has.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read. Files that cannot be read are left out.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let paths = paths(&self.runs)?;
        let before = self.seen.len();
        self.seen.retain(|path, _| paths.binary_search(path).is_ok());
        let mut changed = self.seen.len() != before;
        for path in paths {
            let Ok(file) = path.metadata() else { continue };
            let now = (file.len(), file.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let old = self.seen.get(&path);
            if !file.is_file() || old.is_some_and(|(bytes, time, _)| (*bytes, *time) == now) {
                continue;
            }
            let run = read(&path, now, old.and_then(|(_, _, run)| run.as_ref())).ok().flatten();
            self.seen.insert(path, (now.0, now.1, run));
            changed = true;
        }
        Ok(changed)
    }

    /// The runs, by name.
    pub fn runs(&self) -> impl Iterator<Item = &LiveRun> {
        self.seen.values().filter_map(|(_, _, run)| run.as_ref())
    }
}

/// Reads a file of this length; `old` is what it said before.
fn read(path: &Path, (bytes, changed): (u64, SystemTime), old: Option<&LiveRun>) -> io::Result<Option<LiveRun>> {
    let mut file = File::open(path)?;
    let Some(header) = header(&mut file)? else { return Ok(None) };
    if path.file_stem().is_none_or(|stem| stem != header.run.as_str()) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    let lines = tail[..whole].split(|&b| b == b'\n').rev().filter(|line| !line.is_empty());
    let finished = lines.clone().next().is_some_and(|line| line.starts_with(b"{\"record\":\"end\","));
    let evaluation = lines.filter(|line| line.starts_with(EVALUATION)).find_map(evaluation);
    let (done, words) = match (&evaluation, old) {
        (Some(evaluation), _) => (evaluation.done(&header.settings), evaluation.words()),
        (None, Some(old)) => (old.done, old.words.clone()),
        (None, None) => (None, String::new()),
    };
    let done = if finished { Some(1.0) } else { done };
    Ok(Some(LiveRun { study: header.study, run: header.run, finished, done, words, changed }))
}

/// The first line of a file; `None` if it is not complete.
fn header(file: &mut File) -> io::Result<Option<Header>> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.contains(&b'\n') && (head.len() as u64) < HEAD {
        match file.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let line = head.iter().position(|&b| b == b'\n').map(|end| &head[..end]);
    Ok(line.and_then(|line| serde_json::from_slice(line).ok()))
}

const EVALUATION: &[u8] = b"{\"record\":\"event\",\"name\":\"evaluate\",";

fn evaluation(line: &[u8]) -> Option<Evaluation> {
    #[derive(Deserialize)]
    struct Line {
        data: Evaluation,
    }
    serde_json::from_slice::<Line>(line).ok().map(|line| line.data)
}

/// What the `evaluate` events of all kinds of training have in common.
#[derive(Deserialize)]
struct Evaluation {
    step: usize,
    /// Of an image classifier.
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    accuracy: Option<f64>,
    /// Of a language model.
    #[serde(default)]
    bits: Option<f64>,
    /// Of DRAW.
    #[serde(default)]
    validation: Option<crate::draw::events::Bound>,
}

impl Evaluation {
    fn done(&self, settings: &Value) -> Option<f64> {
        let steps = ["spec", "draw"].into_iter().find_map(|spec| settings[spec]["steps"].as_u64())?;
        (steps > 0).then(|| (self.step as f64 / steps as f64).min(1.0))
    }

    fn words(&self) -> String {
        let nats = self.validation.and_then(|bound| bound.total());
        let parts = [
            self.loss.map(|loss| format!("validation loss {loss:.3}")),
            self.accuracy.map(|accuracy| format!("accuracy {:.1} %", 100.0 * accuracy)),
            self.bits.map(|bits| format!("{bits:.3} bits per character")),
            nats.map(|nats| format!("bound {nats:.1} nats")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RunFile;
    use serde_json::json;

    fn only(live: &mut Live) -> LiveRun {
        assert!(live.refresh().unwrap());
        assert!(!live.refresh().unwrap(), "nothing has changed since");
        let runs: Vec<&LiveRun> = live.runs().collect();
        assert_eq!(runs.len(), 1);
        runs[0].clone()
    }

    #[test]
    fn a_run_is_followed_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut live = Live::new(folder.path());
        assert!(!live.refresh().unwrap(), "a folder that does not exist has no runs");
        let settings = json!({"case": "a", "spec": {"steps": 200}});
        let mut file =
            RunFile::open(&folder.path().join("runs"), Header::new("compare", "compare-a-1", settings)).unwrap();
        let run = only(&mut live);
        assert_eq!(
            (&*run.study, &*run.run, run.finished, run.done, &*run.words),
            ("compare", "compare-a-1", false, None, "")
        );
        file.event("evaluate", json!({"step": 50, "train_loss": null, "loss": 0.51234, "accuracy": 0.875})).unwrap();
        let run = only(&mut live);
        assert_eq!((run.done, &*run.words), (Some(0.25), "validation loss 0.512, accuracy 87.5 %"));
        // An event that fills the end of the file hides the evaluation, but not what it said.
        file.event("correlation", json!({"before": vec![0.125; 100_000]})).unwrap();
        assert_eq!(only(&mut live).done, Some(0.25));
        file.finish().unwrap();
        let run = only(&mut live);
        assert_eq!((run.finished, run.done), (true, Some(1.0)));
        std::fs::remove_file(file.path()).unwrap();
        assert!(live.refresh().unwrap() && live.runs().next().is_none());
    }

    #[test]
    fn what_is_not_a_record_of_its_name_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        std::fs::create_dir_all(runs.join("folder.jsonl")).unwrap();
        RunFile::open(&runs, Header::new("s", "one", json!({}))).unwrap().finish().unwrap();
        std::fs::rename(runs.join("one.jsonl"), runs.join("copy.jsonl")).unwrap();
        std::fs::write(runs.join("empty.jsonl"), "").unwrap();
        std::fs::write(runs.join("half.jsonl"), "{\"record\":\"start\",\"ver").unwrap();
        std::fs::write(runs.join("noise.jsonl"), [0xff, b'\n', 0, b'\n']).unwrap();
        let mut live = Live::new(folder.path());
        live.refresh().unwrap();
        assert_eq!(live.runs().count(), 0);
    }

    #[test]
    fn every_kind_of_training_has_words() {
        for (data, words) in [
            (json!({"step": 1, "bits": 2.03111, "train_bits": null}), "2.031 bits per character"),
            (json!({"step": 1, "validation": {"reconstruction": 100.0, "kl": 20.25}}), "bound 120.2 nats"),
            (json!({"step": 1, "loss": null, "accuracy": null}), ""),
        ] {
            let line = json!({"record": "event", "name": "evaluate", "data": data, "sum": "0"}).to_string();
            assert_eq!(evaluation(line.as_bytes()).unwrap().words(), words);
        }
    }
}

//! Shared by the tests of `layernorm study`: a folder to run the program in, and access to its records.
#![allow(dead_code, reason = "each test file uses a part of this")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with the files of one test.
pub struct Place(tempfile::TempDir);

/// The output and exit status of a command.
pub struct Said {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Said { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command `layernorm` with these arguments, separated by blanks, in the folder.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_layernorm"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &str) -> Said {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn succeed(&self, arguments: &str) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.status, Some(0), "{arguments}: {}", said.err);
        said
    }

    /// Runs a command that must exit with status 2, write nothing to stdout and each of `words` to stderr.
    #[track_caller]
    pub fn refuse(&self, arguments: &str, words: &[&str]) {
        let said = self.run(arguments);
        assert_eq!((said.status, &*said.out), (Some(2), ""), "{arguments}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{arguments}: expected {word:?} in {:?}", said.err);
        }
    }
}

/// The bytes of every record in a folder of `layernorm study`, by name. Files with times are left out.
pub fn records(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.join("runs").read_dir().map(|entries| entries.map(|entry| entry.unwrap()));
    let records =
        entries.into_iter().flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"));
    records.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// Whether a record has its last line.
pub fn is_finished(record: &[u8]) -> bool {
    record.ends_with(b"\n") && record.split(|&b| b == b'\n').any(|line| line.starts_with(b"{\"record\":\"end\","))
}

/// The data of a report page, as JSON: the page holds them as Base64 of gzip.
#[track_caller]
pub fn report_data(page: &str) -> String {
    let (_, rest) = page.split_once(r#"id="report">"#).expect("a report page");
    let packed = STANDARD.decode(rest.split_once("</script>").expect("the end of the data").0).unwrap();
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text
}

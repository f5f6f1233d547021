//! The parent process: starts children, two at a time, and keeps the files that terminated them.

use super::arguments::Arguments;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

/// Runs all formats and prints one line for each.
pub fn run(arguments: &Arguments) -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts/mutate");
    std::fs::create_dir_all(&folder).expect("cannot create the folder for findings");
    let work: Mutex<Vec<&'static str>> = Mutex::new(arguments.formats().map(|format| format.name).collect());
    let (inputs, findings) = (Mutex::new(0), Mutex::new(0));
    let next = || work.lock().expect("no thread panics").pop();
    let worker = || {
        while let Some(format) = next() {
            let (accepted, found) = run_format(arguments, format, &folder);
            println!("{format:<8} {:>8} files, {accepted} accepted, {found} findings", arguments.count);
            *inputs.lock().expect("no thread panics") += arguments.count;
            *findings.lock().expect("no thread panics") += found;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(worker);
        }
    });
    let (inputs, findings) = (inputs.into_inner().unwrap_or(0), findings.into_inner().unwrap_or(0));
    println!("{inputs} mutated files, {findings} findings");
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks the files of a format. Returns how many the last child accepted, and how many terminated a child.
fn run_format(arguments: &Arguments, format: &str, folder: &Path) -> (u64, u64) {
    let current = folder.join(format!("{format}.current"));
    let (mut first, end) = (arguments.first, arguments.first + arguments.count);
    let (mut accepted, mut findings) = (0, 0);
    while first < end {
        let number = |number: u64| number.to_string();
        let child = Command::new(std::env::current_exe().expect("cannot find this program"))
            .args(["--format", format, "--first", &number(first), "--count", &number(end - first), "--child"])
            .arg(&current)
            .arg("--seeds")
            .arg(&arguments.seeds)
            .stdin(Stdio::null())
            .output()
            .expect("cannot start a child");
        if child.status.success() {
            accepted = String::from_utf8_lossy(&child.stdout).trim().parse().unwrap_or(0);
            break;
        }
        let file = std::fs::read(&current).unwrap_or_default();
        let Some((at, bytes)) = file.split_first_chunk() else { panic!("{format}: a child did not start") };
        let at = u64::from_le_bytes(*at);
        let kept: PathBuf = folder.join(format!("{format}-{at}"));
        std::fs::write(&kept, bytes).expect("cannot keep a finding");
        let words = String::from_utf8_lossy(&child.stderr);
        let last: Vec<&str> = words.lines().filter(|line| !line.starts_with("note:")).collect();
        println!("{}: {}: {}", kept.display(), child.status, last.join(" "));
        findings += 1;
        first = at + 1;
    }
    // The last one is not a finding.
    let _ = std::fs::remove_file(current);
    (accepted, findings)
}

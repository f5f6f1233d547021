//! A signal ends `layernorm apply` without leaving temporary files, and outputs are replaced together.
#![cfg(unix)]

mod apply_common;

use apply_common::Folder;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The second output is a FIFO that nobody reads: the program waits there while the first output is complete, not yet renamed.
#[test]
fn signals_leave_no_temporary_file() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let folder = Folder::new();
        folder.save("x.npy", &[2, 3], &[1.0f32, 2.0, 4.0, 3.0, 5.0, 9.0]);
        std::fs::write(folder.path().join("y.npy"), "old").unwrap();
        assert!(Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap().success());
        let mut program = Command::new(env!("CARGO_BIN_EXE_layernorm"))
            .args("apply layer-norm --input x.npy --output y.npy --mean-output fifo".split(' '))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let temporary = || folder.names().iter().any(|name| name.starts_with(".layernorm-"));
        let start = Instant::now();
        while !temporary() {
            assert!(start.elapsed() < Duration::from_secs(60), "no temporary file in {:?}", folder.names());
            std::thread::sleep(Duration::from_millis(5));
        }
        let kill = Command::new("kill").arg(format!("-{name}")).arg(program.id().to_string()).status().unwrap();
        assert!(kill.success());
        assert_eq!(program.wait().unwrap().signal(), Some(number), "{name}");
        assert_eq!(folder.names(), ["fifo", "x.npy", "y.npy"], "{name}");
        assert_eq!(folder.bytes("y.npy"), b"old", "{name}");
    }
}

/// The last output cannot be written, so the ones before it are unchanged.
#[cfg(target_os = "linux")]
#[test]
fn outputs_are_replaced_together_or_not_at_all() {
    let folder = Folder::new();
    folder.save("x.npy", &[2, 3], &[1.0f32, 2.0, 4.0, 3.0, 5.0, 9.0]);
    std::fs::write(folder.path().join("y.npy"), "old").unwrap();
    folder.refuse(
        "layer-norm --input x.npy --output y.npy --rstd-output /dev/full",
        &["/dev/full: cannot write: No space"],
    );
    assert_eq!(folder.bytes("y.npy"), b"old");
    folder.apply("layer-norm --input x.npy --output y.npy --mean-output m.npy --rstd-output /dev/null");
    assert_ne!(folder.bytes("y.npy"), b"old");
    assert_eq!(folder.names(), ["m.npy", "x.npy", "y.npy"]);
}

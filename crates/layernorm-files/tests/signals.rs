//! What a signal handler removes. Alone in its process, because it removes every unfinished file of the process.

use layernorm_files::{Replacement, commit_all, remove_unfinished};
use std::fs;
use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn unfinished_files_are_removed_and_others_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (done, path) = (directory.path().join("done"), directory.path().join("a"));
    fs::write(&path, "old").unwrap();
    Replacement::new(&done).unwrap().commit().unwrap();
    let mut unfinished = Replacement::new(&path).unwrap();
    unfinished.write_all(b"new").unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);

    let halted = remove_unfinished();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    assert_eq!(fs::read(&path).unwrap(), b"old");

    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || send.send(commit_all([unfinished])));
        assert!(receive.recv_timeout(Duration::from_millis(50)).is_err(), "a commit continued after the halt");
        drop(halted);
        let error = receive.recv().unwrap().unwrap_err();
        assert_eq!(error.action(), "rename into place");
    });
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

//! Files with fixed names: only regular ones are opened.

use layernorm_files::{open_regular, publish};
use std::fs::{self, OpenOptions};
use std::io::Write;

#[test]
fn regular_files_are_opened_as_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let error = open_regular(&path, OpenOptions::new().read(true)).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: cannot open: ", path.display())), "{error}");

    let append = OpenOptions::new().append(true).create(true).clone();
    for text in ["one ", "two"] {
        open_regular(&path, &append).unwrap().write_all(text.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
    open_regular(&path, OpenOptions::new().write(true).truncate(true)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");

    let error = open_regular(directory.path(), OpenOptions::new().read(true)).unwrap_err();
    assert!(error.to_string().ends_with("expected a regular file, found a directory"), "{error}");
}

#[test]
fn a_part_takes_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (part, path) = (directory.path().join("a.part"), directory.path().join("a"));
    fs::write(&path, "old").unwrap();
    let mut file = open_regular(&part, OpenOptions::new().append(true).create(true)).unwrap();
    file.write_all(b"new").unwrap();
    publish(file, &part, &path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert!(!part.exists());

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let file = open_regular(&part, OpenOptions::new().append(true).create(true)).unwrap();
    let error = publish(file, &part, &path).unwrap_err();
    assert!(error.to_string().ends_with("cannot replace: expected a regular file, found a directory"), "{error}");
    assert!(part.exists());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn every_way() -> [OpenOptions; 5] {
        let mut ways = std::array::from_fn(|_| OpenOptions::new());
        ways[0].read(true);
        ways[1].append(true).create(true);
        ways[2].write(true).create(true).truncate(true);
        ways[3].read(true).write(true).create(true);
        ways[4].write(true);
        ways
    }

    #[test]
    fn the_target_of_a_link_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join(".lock"));
        symlink("target", &link).unwrap();
        for way in every_way() {
            open_regular(&link, &way).unwrap_err();
            assert!(!target.exists());
        }
        fs::write(&target, "precious").unwrap();
        for way in every_way() {
            let error = open_regular(&link, &way).unwrap_err();
            let expected = format!("{}: cannot open: expected a regular file, found a link", link.display());
            assert_eq!(error.to_string(), expected);
            assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        }
    }

    #[test]
    fn a_fifo_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for way in every_way() {
            let error = open_regular(&path, &way).unwrap_err();
            assert!(error.to_string().ends_with("expected a regular file, found a FIFO"), "{error}");
        }
    }

    #[test]
    fn a_device_is_an_error() {
        let error = open_regular("/dev/null", OpenOptions::new().write(true)).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null: cannot open: expected a regular file, found a device");
    }
}

//! What happens on disk: files are replaced whole or not at all, alone and together.

use layernorm_files::{Error, Replacement, commit_all, replace, replace_own};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    replace(path, |file| file.write_all(text.as_bytes()))
}

#[test]
fn a_file_is_made_then_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    put(&path, "a long first text").unwrap();
    put(&path, "second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(names(directory.path()), ["a"]);
}

#[test]
fn nothing_is_at_the_path_before_the_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let mut replacement = Replacement::new(&path).unwrap();
    assert_eq!((replacement.path(), replacement.is_stream()), (&*path, false));
    replacement.write_all(b"text").unwrap();
    replacement.flush().unwrap();
    assert!(!path.exists());
    let temporary = names(directory.path()).remove(0);
    assert!(temporary.starts_with(".layernorm-") && temporary.ends_with(".tmp"), "{temporary}");
    replacement.commit().unwrap();
    assert_eq!(names(directory.path()), ["a"]);
}

/// If writing fails, for example on a full disk, the old file stays and no temporary file is left.
#[test]
fn failure_halfway_leaves_everything_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let fail = |file: &mut Replacement| -> io::Result<()> {
        file.write_all(b"half of")?;
        Err(io::ErrorKind::StorageFull.into())
    };
    assert_eq!(replace(&path, fail).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(names(directory.path()).is_empty());

    fs::write(&path, "old").unwrap();
    replace(&path, fail).unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(directory.path()), ["a"]);
}

/// The target becomes a directory after it was checked.
#[test]
fn failed_rename_removes_the_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let replacement = Replacement::new(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = replacement.commit().unwrap_err();
    assert_eq!((error.path(), error.action()), (&*path, "rename into place"));
    assert_eq!(names(directory.path()), ["a"]);
}

#[test]
fn several_are_replaced_together() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a", "b", "c"].map(|name| directory.path().join(name));
    let make = || paths.clone().map(|path| Replacement::new(path).unwrap());
    let mut all = make();
    for replacement in &mut all {
        replacement.write_all(b"new").unwrap();
    }
    assert!(paths.iter().all(|path| !path.exists()));
    commit_all(all).unwrap();
    assert!(paths.iter().all(|path| fs::read(path).unwrap() == b"new"));

    let mut dropped = make();
    dropped[0].write_all(b"newer").unwrap();
    drop(dropped);
    assert!(paths.iter().all(|path| fs::read(path).unwrap() == b"new"));
    assert_eq!(names(directory.path()), ["a", "b", "c"]);
}

#[test]
fn errors_name_the_path_and_what_was_tried() {
    let directory = tempfile::tempdir().unwrap();
    let inside_missing = directory.path().join("missing").join("a");
    let error = Replacement::new(&inside_missing).unwrap_err();
    let expected = format!("{}: cannot create a temporary file next to it: ", inside_missing.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);

    let error = Replacement::new(directory.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: cannot write: is a directory", directory.path().display()));
    let converted = io::Error::from(error);
    assert_eq!(converted.kind(), io::ErrorKind::IsADirectory);
    assert_eq!(converted.to_string(), format!("{}: cannot write: is a directory", directory.path().display()));

    let error = Replacement::new("").unwrap_err();
    assert_eq!(error.to_string(), ": cannot write: expected a file name, found none");
}

#[test]
fn control_characters_in_a_path_are_escaped() {
    let error: Error = Replacement::new("missing\x1b[2J/\u{202e}a\n").unwrap_err();
    let expected = r"missing\u{1b}[2J/\u{202e}a\n: cannot create a temporary file next to it: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::process::Command;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_has_the_permissions_of_any_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, plain) = (directory.path().join("a"), directory.path().join("plain"));
        fs::write(&plain, "").unwrap();
        put(&ours, "").unwrap();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[test]
    fn permissions_are_kept_and_never_wider_while_writing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for bits in [0o600, 0o640, 0o400, 0o666, 0o777] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            let replacement = Replacement::new(&path).unwrap();
            let temporary = names(directory.path()).remove(0);
            assert_eq!(mode(&directory.path().join(temporary)), bits);
            replacement.commit().unwrap();
            assert_eq!(mode(&path), bits);
        }
    }

    /// Links are kept, whether they point to a file, to nothing, or to another link.
    #[test]
    fn a_link_is_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let far = directory.path().join("far");
        fs::create_dir(&far).unwrap();
        let (target, link, second) =
            (far.join("target"), directory.path().join("link"), directory.path().join("second"));
        symlink("far/target", &link).unwrap();
        symlink("link", &second).unwrap();
        for text in ["made", "replaced"] {
            put(&second, text).unwrap();
            assert!(link.is_symlink() && second.is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
        assert_eq!(names(&far), ["target"]);
        assert_eq!(names(directory.path()), ["far", "link", "second"]);

        let circle = directory.path().join("circle");
        symlink("circle", &circle).unwrap();
        Replacement::new(&circle).unwrap_err();
    }

    /// A link at a name that a temporary file might have is neither followed nor replaced: names are random and exclusive.
    #[test]
    fn temporary_names_differ() {
        let directory = tempfile::tempdir().unwrap();
        let all: Vec<_> = (0..20).map(|_| Replacement::new(directory.path().join("a")).unwrap()).collect();
        assert_eq!(names(directory.path()).len(), 20);
        drop(all);
    }

    /// Names chosen by the program: no link is followed, not even one that appears while the file is written.
    #[test]
    fn a_link_at_an_own_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, target) = (directory.path().join("own"), directory.path().join("target"));
        fs::write(&target, "mine").unwrap();
        symlink(&target, &path).unwrap();
        let error = Replacement::own(&path).unwrap_err();
        assert!(error.to_string().contains("own: cannot write: expected a regular file, found a link"), "{error}");
        fs::remove_file(&path).unwrap();
        let mut late = Replacement::own(&path).unwrap();
        late.write_all(b"new").unwrap();
        symlink(&target, &path).unwrap();
        late.commit().unwrap();
        assert_eq!([&path, &target].map(|path| fs::read_to_string(path).unwrap()), ["new", "mine"]);
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        replace_own(&path, |file| file.write_all(b"again")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again");
    }

    #[test]
    fn a_fifo_is_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read_to_string(&path).unwrap());
            put(&path, "through").unwrap();
            assert_eq!(reader.join().unwrap(), "through");
        });
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(names(directory.path()), ["fifo"]);
    }

    /// A device is written to and not replaced; the error of a full one names it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_through() {
        let full = Replacement::new("/dev/full").unwrap();
        // Checked first, so that a bug cannot replace the device if the user has permission to.
        assert!(full.is_stream());
        full.commit().unwrap();
        let error = put(Path::new("/dev/full"), "text").unwrap_err();
        assert!(error.to_string().starts_with("/dev/full: cannot write: "), "{error}");
        put(Path::new("/dev/null"), "text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}

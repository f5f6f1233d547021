//! What happens on disk: files are replaced whole or not at all.

use std::fs;
use std::path::Path;

use layernorm_npy::{Array, Error, read, write};

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    write(&path, &[1000], &[1_i64; 1000]).unwrap();
    write(&path, &[2], &[1_u8, 2]).unwrap();
    assert_eq!(read(&path).unwrap(), Array::new([2], vec![1_u8, 2]).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), 130);
    assert_eq!(names(directory.path()), ["a.npy"]);
}

/// A process that has the old file open can continue to read it.
#[test]
fn an_open_file_stays_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    write(&path, &[3], &[1.0_f32, 2.0, 3.0]).unwrap();
    let open = fs::File::open(&path).unwrap();
    write(&path, &[1], &[4.0_f32]).unwrap();
    if cfg!(unix) {
        let old = Array::from_reader(open).unwrap();
        assert_eq!(old.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn wrong_shape_leaves_the_file_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    write(&path, &[1], &[9_u8]).unwrap();
    let error = write(&path, &[3], &[1_u8, 2]).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: shape [3] has 3 elements, found 2", path.display()));
    assert_eq!(read(&path).unwrap().as_slice::<u8>().unwrap(), [9]);
    assert_eq!(names(directory.path()), ["a.npy"]);
}

#[test]
fn errors_name_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.npy");
    let error = read(&missing).unwrap_err();
    assert_eq!(error.path(), Some(&*missing));
    assert!(matches!(error.cause(), Error::Io { action: "open", .. }));
    let message = error.to_string();
    assert!(message.starts_with(&format!("{}: cannot open: ", missing.display())), "{message}");

    let text = directory.path().join("text.npy");
    fs::write(&text, "not an array").unwrap();
    let error = read(&text).unwrap_err();
    assert_eq!(error.path(), Some(&*text));
    assert!(matches!(error.cause(), Error::NotNpy { found: [b'n', b'o', b't', b' ', b'a', b'n'] }));

    assert!(read(directory.path()).is_err());
}

#[test]
fn places_that_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let inside_missing = directory.path().join("missing").join("a.npy");
    let error = write(&inside_missing, &[1], &[0_u8]).unwrap_err();
    assert_eq!(error.path(), Some(&*inside_missing));
    assert!(matches!(error.cause(), Error::Io { action: "create a temporary file next to it", .. }));

    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    let error = write(file.join("a.npy"), &[1], &[0_u8]).unwrap_err();
    assert!(matches!(error.cause(), Error::Io { .. }));

    let folder = directory.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let error = write(&folder, &[1], &[0_u8]).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: cannot write: is a directory", folder.display()));

    assert!(names(&folder).is_empty());
    assert_eq!(names(directory.path()), ["file", "folder"]);
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// `/proc` rejects new files even from a user who may write to every other directory.
    #[cfg(target_os = "linux")]
    #[test]
    fn unwritable_directory() {
        let error = write("/proc/a.npy", &[1], &[0_u8]).unwrap_err();
        assert!(matches!(error.cause(), Error::Io { action: "create a temporary file next to it", .. }), "{error}");
        assert!(error.to_string().starts_with("/proc/a.npy: cannot create a temporary file next to it: "), "{error}");
    }

    /// The error of a full device names it, once.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_device() {
        let error = write("/dev/full", &[1], &[0_u8]).unwrap_err();
        assert!(matches!(error.cause(), Error::Io { action: "write", .. }), "{error}");
        assert!(error.to_string().starts_with("/dev/full: cannot write: No space"), "{error}");
    }

    /// Not the 0600 of a temporary file.
    #[test]
    fn a_new_file_has_the_permissions_of_any_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, plain) = (directory.path().join("a.npy"), directory.path().join("plain"));
        fs::write(&plain, "").unwrap();
        write(&ours, &[1], &[0_u8]).unwrap();
        assert_eq!(mode(&ours), mode(&plain));
    }

    /// A private file does not become readable to others because it is written again.
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.npy");
        for bits in [0o600, 0o640, 0o666, 0o777] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            write(&path, &[1], &[0_u8]).unwrap();
            assert_eq!(mode(&path), bits);
        }
    }

    #[test]
    fn a_link_stays() {
        let directory = tempfile::tempdir().unwrap();
        let far = directory.path().join("far");
        fs::create_dir(&far).unwrap();
        let (target, link) = (far.join("target.npy"), directory.path().join("link.npy"));
        fs::write(&target, "old").unwrap();
        symlink("far/target.npy", &link).unwrap();
        write(&link, &[1], &[5_u8]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(&target).unwrap().as_slice::<u8>().unwrap(), [5]);
        assert_eq!(names(&far), ["target.npy"]);
        assert_eq!(names(directory.path()), ["far", "link.npy"]);
    }
}

//! Compiled kernels on disk: damaged entries, races, unusable folders. Needs neither a GPU nor a compiler.
use layernorm_cuda::{Cache, Key};
use std::cell::Cell;
use std::convert::Infallible;

fn made(count: &Cell<usize>, code: &[u8]) -> impl FnOnce() -> Result<Vec<u8>, Infallible> {
    count.set(count.get() + 1);
    let code = code.to_vec();
    move || Ok(code)
}

/// Gets the code and counts in `makes` how often it was made.
fn get(cache: &Cache, key: &Key, makes: &mut usize, code: &[u8]) -> Vec<u8> {
    let make = || -> Result<Vec<u8>, Infallible> {
        *makes += 1;
        Ok(code.to_vec())
    };
    cache.get(key, make).unwrap_or_else(|never| match never {})
}

fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "one entry and nothing else: {files:?}");
    files[0].clone()
}

#[test]
fn the_second_call_reads_what_the_first_made() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, key, mut makes) = (Cache::at(folder.path()), Key::new(["source", "sm_90"]), 0);
    assert_eq!(get(&cache, &key, &mut makes, b"code"), b"code");
    assert_eq!(get(&cache, &key, &mut makes, b"other"), b"code", "the first code");
    assert_eq!(makes, 1);
    assert_eq!(get(&cache, &Key::new(["source", "sm_80"]), &mut makes, b"other"), b"other", "another key");
}

#[test]
fn parts_of_a_key_do_not_run_into_each_other() {
    assert_ne!(Key::new(["ab", "c"]), Key::new(["a", "bc"]));
    assert_eq!(Key::new(["ab", "c"]), Key::new(["ab", "c"]));
}

#[test]
fn a_damaged_entry_is_made_again() {
    let damages: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.truncate(3),
        |bytes| bytes.clear(),
        |bytes| *bytes.last_mut().unwrap() ^= 1,
        |bytes| bytes[0] ^= 1,
        |bytes| bytes.push(0),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let (cache, key, mut makes) = (Cache::at(folder.path()), Key::new(["source"]), 0);
        get(&cache, &key, &mut makes, b"code");
        let file = only_file(folder.path());
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(get(&cache, &key, &mut makes, b"fresh"), b"fresh");
        assert_eq!(makes, 2, "the damaged entry was not used");
        assert_eq!(get(&cache, &key, &mut makes, b"never"), b"fresh", "and was replaced");
    }
}

#[test]
fn many_writers_of_one_entry_leave_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, key) = (Cache::at(folder.path()), Key::new(["raced"]));
    let code = vec![7u8; 1 << 20];
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let found = cache.get(&key, || Ok::<_, Infallible>(code.clone())).unwrap();
                assert_eq!(found, code);
            });
        }
    });
    only_file(folder.path());
}

#[test]
fn a_folder_that_cannot_be_used_is_no_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let count = Cell::new(0);
    for cache in [Cache::at(file.path().join("below a file")), Cache::none()] {
        assert_eq!(cache.get(&Key::new(["x"]), made(&count, b"code")).unwrap(), b"code");
    }
    assert_eq!(count.get(), 2);
}

#[cfg(unix)]
mod on_unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_in_place_of_an_entry_is_not_followed() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (cache, key, mut makes) = (Cache::at(folder.path()), Key::new(["linked"]), 0);
        get(&cache, &key, &mut makes, b"code");
        // A link to a valid entry: following it would return the code.
        let (entry, target) = (only_file(folder.path()), elsewhere.path().join("target"));
        std::fs::rename(&entry, &target).unwrap();
        symlink(&target, &entry).unwrap();
        let before = std::fs::read(&target).unwrap();
        assert_eq!(get(&cache, &key, &mut makes, b"fresh"), b"fresh", "made, not read through the link");
        assert_eq!(std::fs::read(&target).unwrap(), before, "and not written through it");
        assert!(entry.symlink_metadata().unwrap().is_symlink(), "the link stays");
    }

    #[test]
    fn a_folder_is_for_its_user_alone_and_one_for_all_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, key, mut makes) = (parent.path().join("new"), Key::new(["mine"]), 0);
        let cache = Cache::at(&folder);
        get(&cache, &key, &mut makes, b"code");
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(get(&cache, &key, &mut makes, b"fresh"), b"fresh", "any user could have written the entry");
        assert_eq!(makes, 2);
    }

    #[test]
    fn a_fifo_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, key, mut makes) = (Cache::at(folder.path()), Key::new(["fifo"]), 0);
        get(&cache, &key, &mut makes, b"code");
        let entry = only_file(folder.path());
        std::fs::remove_file(&entry).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&entry).status().unwrap().success());
        assert_eq!(get(&cache, &key, &mut makes, b"fresh"), b"fresh");
    }
}

#[test]
fn an_error_is_handed_on_and_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    assert_eq!(cache.get(&Key::new(["x"]), || Err("did not compile")), Err("did not compile"));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

//! All reads of environment variables. Values are paths, so any bytes are allowed. An empty value counts as unset,
//! except for the cache folder, where it disables the cache.

use std::ffi::OsString;
use std::path::PathBuf;

/// The environment variable with the path of the NVRTC library, if the loader does not find it by itself.
pub const LIBRARY_VARIABLE: &str = "LAYERNORM_NVRTC";

/// The environment variable with the folder for compiled kernels. Empty: no cache.
pub const FOLDER_VARIABLE: &str = "LAYERNORM_CUDA_CACHE";

/// Path of the NVRTC library.
pub(crate) fn nvrtc() -> Option<PathBuf> {
    nvrtc_from(&|name| std::env::var_os(name))
}

fn nvrtc_from(get: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    get(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder for compiled kernels: the one from the environment, or else one in the user's cache folder.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    cache_folder_from(&|name| std::env::var_os(name))
}

fn cache_folder_from(get: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(folder) = get(FOLDER_VARIABLE) {
        return (!folder.is_empty()).then(|| folder.into());
    }
    // Relative paths are ignored: the folder would depend on the working directory.
    let user =
        |name: &str, rest: &str| get(name).map(PathBuf::from).filter(|at| at.is_absolute()).map(|at| at.join(rest));
    user("XDG_CACHE_HOME", "layernorm/cuda")
        .or_else(|| user("LOCALAPPDATA", "layernorm/cuda"))
        .or_else(|| user("HOME", ".cache/layernorm/cuda"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::path::Path;

    fn folder(set: &[(&str, &[u8])]) -> Option<PathBuf> {
        let get = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, to)| OsString::from_vec(to.to_vec()));
        cache_folder_from(&get)
    }

    #[test]
    fn the_folder_that_is_named_goes_first() {
        let home: (&str, &[u8]) = ("HOME", b"/home/me");
        assert_eq!(folder(&[home]).as_deref(), Some(Path::new("/home/me/.cache/layernorm/cuda")));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", b"/c")]).as_deref(), Some(Path::new("/c/layernorm/cuda")));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", b"")]), folder(&[home]), "an empty value counts as unset");
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", b"here")]), folder(&[home]), "relative paths are ignored");
        assert_eq!(folder(&[home, (FOLDER_VARIABLE, b"")]), None, "an empty value disables the cache");
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn a_path_may_have_any_bytes() {
        let odd = folder(&[(FOLDER_VARIABLE, b"/tmp/\xff\xfe")]).unwrap();
        assert_eq!(odd.into_os_string().into_vec(), b"/tmp/\xff\xfe");
        let get = |_: &str| Some(OsString::new());
        assert_eq!(nvrtc_from(&get), None, "an empty value counts as unset");
    }
}

//! Signals that end the program: SIGINT (Ctrl-C), SIGTERM and SIGHUP. Temporary files are removed first. Outputs that are
//! replaced together are either all replaced or all left unchanged.

use crate::failure::Failure;

/// Installs handlers that remove temporary files before a signal ends the program. The exit status is the signal's own.
#[cfg(unix)]
pub fn clean_up() -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let cannot = |error: std::io::Error| Failure::bad_input(format!("cannot install signal handlers: {error}"));
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let ours = [SIGINT, SIGTERM].into_iter().chain(hang_up);
    let mut signals = signal_hook::iterator::Signals::new(ours).map_err(cannot)?;
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            let _halted = layernorm_files::remove_unfinished();
            // Returns only if it fails.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(end).map(drop).map_err(cannot)
}

/// Whether the parent process has set the signal to be ignored, as `nohup` does with SIGHUP; it then stays ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// On other systems only Ctrl-C is handled.
#[cfg(not(unix))]
pub fn clean_up() -> Result<(), Failure> {
    let end = || {
        let _halted = layernorm_files::remove_unfinished();
        std::process::exit(i32::from(crate::failure::STOPPED));
    };
    ctrlc::set_handler(end).map_err(|error| Failure::bad_input(format!("cannot install a handler for Ctrl-C: {error}")))
}

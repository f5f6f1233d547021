//! Signals that end the program: SIGINT (Ctrl-C), SIGTERM and SIGHUP. Temporary files are removed first. Outputs that are
//! replaced together are either all replaced or all left unchanged. Commands that can be resumed handle Ctrl-C
//! themselves, with [`on_ctrl_c`].
//!
//! ```text
//! signal → signal thread (Unix: signal-hook, elsewhere: ctrlc) → the action for Ctrl-C, or clean up and exit
//! ```
//!
//! Two crates, one per system: signal-hook reports which signal arrived, so that the exit status is right, but on
//! Windows its handler is removed while it runs; ctrlc uses the console's own handler there.

use crate::failure::Failure;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

type Action = Box<dyn FnMut() + Send>;

/// What Ctrl-C does instead of ending the program.
static ON_CTRL_C: Mutex<Option<Action>> = Mutex::new(None);

/// Sets what Ctrl-C does from now on. The action runs on a separate thread.
pub fn on_ctrl_c(action: impl FnMut() + Send + 'static) {
    *ON_CTRL_C.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
}

/// Runs the action for Ctrl-C; returns whether there is one.
fn ctrl_c() -> bool {
    let mut action = ON_CTRL_C.lock().unwrap_or_else(PoisonError::into_inner);
    action.as_mut().map(|action| action()).is_some()
}

/// Ends the program after Ctrl-C, with its status.
pub fn quit() -> ! {
    let _halted = layernorm_files::remove_unfinished();
    std::process::exit(i32::from(crate::failure::STOPPED));
}

fn cannot(error: impl Display) -> Failure {
    Failure::bad_input(format!("cannot install signal handlers: {error}"))
}

/// Installs the handlers; called once. A signal that ends the program also determines the exit status.
#[cfg(unix)]
pub fn install() -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let ours = [SIGINT, SIGTERM].into_iter().chain(hang_up);
    let mut signals = signal_hook::iterator::Signals::new(ours).map_err(cannot)?;
    let wait = move || {
        for signal in signals.forever() {
            if signal == SIGINT && ctrl_c() {
                continue;
            }
            let _halted = layernorm_files::remove_unfinished();
            // Returns only if it fails.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(cannot)
}

/// Whether the parent process has set the signal to be ignored, as `nohup` does with SIGHUP; it then stays ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Installs the handler; called once. On other systems only Ctrl-C is handled.
#[cfg(not(unix))]
pub fn install() -> Result<(), Failure> {
    let heard = || {
        if !ctrl_c() {
            quit();
        }
    };
    ctrlc::set_handler(heard).map_err(cannot)
}

//! Ctrl-C. The first one asks the runs to stop at their next step; the second one quits immediately.

use super::view::View;
use crate::failure::{Failure, STOPPED};
use std::sync::Arc;

/// Installs the handler for Ctrl-C.
pub fn listen(view: &Arc<View>) -> Result<(), Failure> {
    let view = Arc::clone(view);
    let heard = move || {
        if view.ask_to_stop() {
            let _halted = layernorm_files::remove_unfinished();
            std::process::exit(i32::from(STOPPED));
        }
        view.say("stopping after this step; press Ctrl-C again to quit now");
    };
    ctrlc::set_handler(heard)
        .map_err(|error| Failure::bad_input(format!("cannot install a handler for Ctrl-C: {error}")))
}

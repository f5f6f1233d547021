//! Ctrl-C. The first one asks the runs to stop, which they do at their next step; the second one does not wait.

use super::view::View;
use crate::failure::{Failure, STOPPED};
use std::sync::Arc;

/// Hears Ctrl-C from now on.
pub fn listen(view: &Arc<View>) -> Result<(), Failure> {
    let view = Arc::clone(view);
    let heard = move || {
        if view.ask_to_stop() {
            let _halted = layernorm_files::remove_unfinished();
            std::process::exit(i32::from(STOPPED));
        }
        view.say("stopping after this step; Ctrl-C again ends at once");
    };
    ctrlc::set_handler(heard).map_err(|error| Failure::bad_input(format!("Ctrl-C cannot be heard: {error}")))
}

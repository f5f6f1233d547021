//! Ctrl-C: the first asks the runs to stop at their next step, the second quits immediately.

use super::view::View;
use crate::signals;
use std::sync::Arc;

/// Installs this Ctrl-C handler.
pub fn listen(view: &Arc<View>) {
    let view = Arc::clone(view);
    signals::on_ctrl_c(move || {
        if view.ask_to_stop() {
            signals::quit();
        }
        view.say("stopping after this step; press Ctrl-C again to quit immediately");
    });
}

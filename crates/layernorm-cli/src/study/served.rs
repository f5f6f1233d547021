//! `layernorm study --serve`: the runs in this process, and a server that shows them.

use super::view::View;
use super::{Args, finish, open, work};
use crate::failure::Failure;
use crate::serve::control::Request;
use crate::{serve, show};
use layernorm_lab::data::Dataset;
use layernorm_lab::session::{Options, Watcher};
use std::sync::Arc;

/// Runs the studies with their report at a local address, which stays after the runs until Ctrl-C.
pub fn run(args: &Args, options: Options, data: Dataset, names: &[&str]) -> Result<(), Failure> {
    let (folders, workers) = (vec![args.out.clone()], args.jobs);
    let request = Request { folder: 0, options: options.clone() };
    let session = open(args, options, data)?;
    let settings = serve::Settings { folders, data: args.data.clone(), workers, ..serve::Settings::default() };
    let server = serve::Running::start(settings)?;
    let view = Arc::new(View::new());
    let watch = server.control().attach(&request, &session, Arc::clone(&view)).map_err(Failure::failed)?;
    let outcome = work(&session, &args.out, Some((&view, &*watch)))?;
    drop(session);
    let finished = finish(args, names, &outcome);
    server.control().ended(&outcome, None);
    // Ctrl-C, and not the page's button.
    if view.stop() {
        return finished;
    }
    if let Err(failure) = &finished {
        show::say(&failure.message);
    }
    show::say("the studies have ended; their report is still served");
    server.wait()?;
    finished.map_err(|failure| Failure { message: "the server has ended".to_owned(), ..failure })
}

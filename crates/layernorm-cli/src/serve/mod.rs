//! `layernorm serve`: the report of folders on a local address, live, with controls.
//!
//! ```text
//! connection (limits) → guard (Host, Origin, token) → page, report: reports.rs      ← records
//!                                                     events:       hub.rs          ← watch.rs ← records, job
//!                                                     start, stop:  control.rs      → session → records
//! ```
//!
//! The server has one thread, which never computes: reports and studies have threads of their own.

mod address;
mod connection;
pub mod control;
mod events;
mod guard;
mod hub;
mod page;
mod reports;
mod state;
mod watch;

use crate::failure::Failure;
use crate::{show, signals, study};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use control::Control;
use hub::Hub;
use reports::Reports;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use tokio::sync::oneshot;

const EXAMPLES: &str = "\
Examples:
  layernorm serve                            the folder lab-out; start a study from the page
  layernorm serve lab-out lab-out/old-1      compare two folders
  layernorm study compare --out eps &        another process runs studies,
  layernorm serve eps --open                 and the page shows them as they run

Security:
  The address contains a random token. Whoever knows it may see the folders and start studies in them, so treat it like a
  password; --open passes it to the browser on a command line, which other users of this machine may see. The server
  listens on 127.0.0.1 alone unless --host is given, and rejects requests that other web pages cause. Files are never
  served by path.";

/// Show the report of one or more folders live in a browser, and start, stop and resume studies there.
///
/// Runs of any process appear as soon as they are in DIR/runs. The report follows when runs finish. Several folders can be
/// compared, finding by finding. Ctrl-C ends the server; studies that it runs stop at their next step and can be resumed.
///
/// Exit status: 0 after Ctrl-C, 130 if Ctrl-C stopped a study, 2 if the arguments are invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders of `layernorm study`; they need not exist yet [default: lab-out]
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Listen on this address of the machine instead of 127.0.0.1; other machines may reach it, without encryption
    #[arg(long, value_name = "ADDR")]
    host: Option<IpAddr>,
    /// Listen on this port [default: any free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let folders = if args.folders.is_empty() { vec![study::OUT.into()] } else { args.folders };
    let running = Running::start(Settings { folders, host: args.host, port: args.port, ..Settings::default() })?;
    if args.open
        && let Err(message) = address::open(&running.url)
    {
        show::say(&message);
    }
    running.wait()
}

/// Where and what to serve.
#[derive(Default)]
pub struct Settings {
    pub folders: Vec<PathBuf>,
    pub host: Option<IpAddr>,
    pub port: u16,
    /// The folder with the data of studies that are started from the page; `None` for the embedded digits.
    pub data: Option<PathBuf>,
    /// The number of parallel runs; `None` for that of the cores.
    pub workers: Option<NonZeroUsize>,
}

/// What requests are answered from.
struct Server {
    token: address::Token,
    folders: Vec<PathBuf>,
    workers: Option<NonZeroUsize>,
    hub: Arc<Hub>,
    control: Arc<Control>,
    reports: Reports,
}

/// The server's thread and the others run until these are dropped.
type Ends = (oneshot::Sender<()>, Vec<mpsc::Sender<()>>);

/// A server that runs in the background.
pub struct Running {
    url: String,
    server: Arc<Server>,
    /// Dropped to end the threads.
    ends: Ends,
}

impl Running {
    /// Starts a server and prints its address.
    ///
    /// # Errors
    /// If the folders or the address cannot be used.
    pub fn start(settings: Settings) -> Result<Running, Failure> {
        let Settings { mut folders, host, port, data, workers } = settings;
        let mut seen = Vec::new();
        folders.retain(|folder| {
            !seen.contains(folder) && {
                seen.push(folder.clone());
                true
            }
        });
        if let Some(file) = folders.iter().find(|folder| folder.exists() && !folder.is_dir()) {
            return Err(Failure::bad_input(format!("{}: expected a folder, found a file", file.display())));
        }
        let listener = address::listen(host, port)?;
        let cannot = |error: io::Error| Failure::bad_input(format!("cannot serve: {error}"));
        let bound = listener.local_addr().map_err(cannot)?;
        let reports = Reports::new(&folders)?;
        let (token, hub, control) = (address::Token::new()?, Arc::new(Hub::new()), Arc::new(Control::new(data)));
        let server = Arc::new(Server { token, folders, workers, hub, control, reports });
        let ends = spawn(listener, &server).map_err(cannot)?;
        let url = address::url(bound, &server.token);
        if let Some(warning) = address::warning(bound) {
            show::say(&warning);
        }
        let names: Vec<String> = server.folders.iter().map(|folder| folder.display().to_string()).collect();
        show::print(&format!("Serving {} at {url}\n", names.join(", ")))?;
        Ok(Running { url, server, ends })
    }

    /// Runs and stops jobs.
    pub fn control(&self) -> &Arc<Control> {
        &self.server.control
    }

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// If Ctrl-C stopped a study.
    pub fn wait(self) -> Result<(), Failure> {
        show::say("press Ctrl-C to end the server");
        let (pressed, is_pressed) = mpsc::channel::<()>();
        let pressed = Mutex::new(Some(pressed));
        signals::on_ctrl_c(move || {
            // The second time, the studies are not waited for.
            match pressed.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(first) => drop(first),
                None => signals::quit(),
            }
        });
        // Nothing is sent: the sender is dropped.
        let _ = is_pressed.recv();
        let stopped = self.control().stop();
        if stopped {
            show::say("stopping the studies after this step; press Ctrl-C again to quit immediately");
            self.control().join();
        }
        drop(self.ends);
        if stopped && self.server.control.job().phase == state::Phase::Stopped {
            return Err(Failure::stopped(
                "stopped; unfinished runs are kept, and `layernorm study --resume` continues them",
            ));
        }
        Ok(())
    }
}

/// Starts the threads of a server; returns what ends them when it is dropped.
fn spawn(listener: std::net::TcpListener, server: &Arc<Server>) -> io::Result<Ends> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let (end, ended) = oneshot::channel();
    let router = router(Arc::clone(server));
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serve = move || {
        runtime.block_on(async {
            tokio::spawn(connection::accept(listener, router));
            // Nothing is sent: the sender is dropped.
            let _ = ended.await;
        });
        // A report that is being made is not waited for.
        runtime.shutdown_background();
    };
    thread::Builder::new().name("server".into()).spawn(serve)?;
    let background = |name: &str, work: fn(&Arc<Server>, &mpsc::Receiver<()>)| {
        let (end, ended) = mpsc::channel();
        let server = Arc::clone(server);
        thread::Builder::new().name(name.to_owned()).spawn(move || work(&server, &ended)).map(|_| end)
    };
    let ends = vec![background("watch", watch::watch)?, background("reports", watch::report)?];
    Ok((end, ends))
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/{token}/", get(page::page))
        .route("/{token}/report", get(page::report))
        .route("/{token}/events", get(events::events))
        .route("/{token}/start", post(page::start))
        .route("/{token}/stop", post(page::stop))
        .route("/{token}/resume", post(page::resume))
        .layer(from_fn_with_state(Arc::clone(&server), guard::guard))
        .with_state(server)
}

//! Downloads datasets. A file appears under its name only after its checksum has been verified.
//!
//! ```text
//! complete already? → NAME.part (resumed if it exists) → all bytes → SHA-256 → on disk → renamed to NAME
//! ```
//!
//! URLs are tried in order. An interrupted connection is resumed as long as it makes progress; the bytes so far stay in
//! `NAME.part` for the next attempt. Downloads with a wrong checksum are removed. Servers that do not respond or are too
//! slow are skipped. Symbolic links and special files are neither read nor written. Passwords in URLs are sent but
//! never shown.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use ureq::http::{Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use super::address::{redacted, userinfo};
use super::catalog::{Remote, Source};
use super::error::{Attempt, Error, Fault, Problem};
use super::part::{Part, sha256};

/// Maximum number of interruptions per URL.
const MAX_RESUMES: u32 = 5;

/// Download options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Base URL of the files, instead of the known mirrors.
    pub from: Option<String>,
    /// Timeout for connecting.
    pub connect: Duration,
    /// Timeout for receiving data.
    pub silence: Duration,
    /// Minimum rate in bytes per second, checked at intervals of `silence`.
    pub slowest: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { from: None, connect: Duration::from_secs(15), silence: Duration::from_secs(30), slowest: 1000 }
    }
}

/// Result for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was already complete; the network was not used.
    Kept,
    /// It was downloaded.
    Fetched,
    /// It replaced another file of this name.
    Replaced,
}

/// Progress of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A server has responded, and data follow.
    Started {
        /// The file.
        file: &'a Remote,
        /// The URL, without the password.
        url: &'a str,
        /// Number of bytes already present.
        from: u64,
    },
    /// More bytes have arrived.
    Progress {
        /// The file.
        file: &'a Remote,
        /// Number of bytes present now.
        done: u64,
    },
    /// The file is complete.
    Finished {
        /// The file.
        file: &'a Remote,
        /// The result.
        outcome: Outcome,
    },
}

/// Downloads all files of a dataset into a folder, which is created if it does not exist. The outcomes are in the order
/// of the files. Fails at the first file that cannot be downloaded and keeps those before it.
pub fn get(
    dataset: &Source,
    to: &Path,
    options: &Options,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Outcome>, Error> {
    fs::create_dir_all(to).map_err(|source| Problem::Io { action: "create the folder", source }.of(to))?;
    let mirrors = match &options.from {
        Some(base) => vec![base.as_str()],
        None => dataset.mirrors.to_vec(),
    };
    let agent = agent(options, &mirrors);
    let fetch = |file| -> Result<Outcome, Error> {
        let outcome =
            Fetch { file, agent: &agent, options, report: &mut *report }.one(&mirrors, &to.join(file.name))?;
        report(Event::Finished { file, outcome });
        Ok(outcome)
    };
    dataset.files.iter().map(fetch).collect()
}

fn agent(options: &Options, mirrors: &[&str]) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("layernorm/", env!("CARGO_PKG_VERSION")))
        // The files are already compressed, and ranges must refer to the file itself.
        .accept_encoding("identity")
        .timeout_resolve(Some(options.connect))
        .timeout_connect(Some(options.connect))
        .timeout_recv_response(Some(options.silence))
        .timeout_per_read(Some(options.silence));
    if mirrors.iter().all(|base| is_local(base)) {
        config = config.proxy(None);
    }
    config.build().new_agent()
}

/// Whether a URL points to this machine, for which no proxy is used.
fn is_local(base: &str) -> bool {
    let uri = base.parse::<Uri>().ok();
    uri.as_ref().and_then(Uri::host).is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"))
}

/// One file being downloaded.
struct Fetch<'a> {
    file: &'a Remote,
    agent: &'a Agent,
    options: &'a Options,
    report: &'a mut dyn FnMut(Event<'_>),
}

impl Fetch<'_> {
    fn one(mut self, mirrors: &[&str], target: &Path) -> Result<Outcome, Error> {
        if self.is_right(target)? {
            return Ok(Outcome::Kept);
        }
        let mut part = Part::open(target)?;
        // Another process may have finished between the check and the lock.
        if self.is_right(target)? {
            part.leave()?;
            return Ok(Outcome::Kept);
        }
        let mut attempts = Vec::new();
        for base in mirrors {
            let url = format!("{}/{}", base.trim_end_matches('/'), self.file.name);
            match self.fill(&url, &mut part)? {
                Ok(()) => {
                    let outcome = if target.exists() { Outcome::Replaced } else { Outcome::Fetched };
                    part.finish()?;
                    return Ok(outcome);
                }
                Err(fault) => attempts.push(Attempt { url: redacted(&url), fault }),
            }
        }
        part.leave()?;
        Err(Error::Download { path: target.to_path_buf(), attempts })
    }

    fn is_right(&self, path: &Path) -> Result<bool, Error> {
        let look = || -> io::Result<bool> {
            // Checked before opening, because opening a FIFO would block.
            let metadata = fs::metadata(path)?;
            if !metadata.is_file() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "expected a regular file, found something else",
                ));
            }
            Ok(metadata.len() == self.file.bytes && sha256(File::open(path)?)? == self.file.sha256)
        };
        match look() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            result => result.map_err(|source| Problem::Io { action: "read", source }.of(path)),
        }
    }

    /// Downloads the rest from one URL. The outer error is local, the inner one comes from the URL.
    fn fill(&mut self, url: &str, part: &mut Part) -> Result<Result<(), Fault>, Error> {
        part.inherited = part.len() > 0;
        let mut resumes = 0;
        loop {
            if part.len() > self.file.bytes {
                part.restart()?;
            }
            let before = part.len();
            if before < self.file.bytes
                && let Err(fault) = self.receive(url, part)?
            {
                if matches!(fault, Fault::Cut { .. }) && part.len() > before && resumes < MAX_RESUMES {
                    resumes += 1;
                    continue;
                }
                return Ok(Err(fault));
            }
            let found = part.sha256()?;
            if found == self.file.sha256 {
                return Ok(Ok(()));
            }
            // The wrong bytes may be from an earlier download, so the URL is tried again.
            let again = part.inherited;
            part.restart()?;
            if !again {
                return Ok(Err(Fault::Checksum { expected: self.file.sha256.to_string(), found }));
            }
        }
    }

    /// One request and its response.
    fn receive(&mut self, url: &str, part: &mut Part) -> Result<Result<(), Fault>, Error> {
        let mut request = self.agent.get(url);
        if part.len() > 0 {
            request = request.header(header::RANGE, format!("bytes={}-", part.len()));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => {
                let reason = match error {
                    ureq::Error::Io(error) => error.to_string(),
                    error => error.to_string(),
                };
                let reason = userinfo(url).map_or(reason.clone(), |secret| reason.replace(secret, "***"));
                return Ok(Err(Fault::Unreachable { reason }));
            }
        };
        let start = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if part.len() > 0 && range_start(&response) == Some(part.len()) => part.len(),
            // The server sent a different range than requested, or none: retry without a range.
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if part.len() > 0 => {
                part.restart()?;
                return self.receive(url, part);
            }
            status => return Ok(Err(Fault::Status { code: status.as_u16() })),
        };
        // Checked before anything is discarded, because a captive portal may send its own page.
        let (expected, rest) = (self.file.bytes, response.body().content_length());
        if let Some(found) = rest.map(|rest| start.saturating_add(rest)).filter(|&found| found != expected) {
            return Ok(Err(Fault::Length { expected, found }));
        }
        if start == 0 {
            part.restart()?;
        }
        (self.report)(Event::Started { file: self.file, url: &redacted(url), from: start });
        self.copy(response.into_body(), part)
    }

    fn copy(&mut self, body: Body, part: &mut Part) -> Result<Result<(), Fault>, Error> {
        let expected = self.file.bytes;
        let mut reader = body.into_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut window = (Instant::now(), part.len());
        let reason = loop {
            match reader.read(&mut buffer) {
                Ok(0) => break "the connection was closed".to_string(),
                Ok(count) if part.len() + count as u64 > expected => {
                    let found = part.len() + count as u64;
                    part.restart()?;
                    return Ok(Err(Fault::Length { expected, found }));
                }
                Ok(count) => part.append(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break error.to_string(),
            }
            (self.report)(Event::Progress { file: self.file, done: part.len() });
            let (time, bytes) = (window.0.elapsed(), part.len() - window.1);
            if time >= self.options.silence && part.len() < expected {
                if (bytes as f64) < self.options.slowest as f64 * time.as_secs_f64() {
                    let (found, slowest) = (part.len(), self.options.slowest);
                    return Ok(Err(Fault::Slow { expected, found, bytes, time, slowest }));
                }
                window = (Instant::now(), part.len());
            }
        };
        let found = part.len();
        Ok(if found == expected { Ok(()) } else { Err(Fault::Cut { expected, found, reason }) })
    }
}

/// Start of the range of a response: `Content-Range: bytes 100-199/200`.
fn range_start(response: &Response<Body>) -> Option<u64> {
    let value = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

//! The page and its data, and the requests that start, stop and resume studies. No path of a request names a file.

use super::Server;
use super::control::{Request as Job, cores};
use super::reports::Built;
use crate::study::MAX_SEEDS;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use layernorm_lab::session::{self, Options};
use layernorm_lab::studies::Settings;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Bytes of a request's body; a list of all studies has about 500.
const MOST_BYTES: usize = 16 << 10;
/// Time for a request's body.
const BODY_TIME: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";

/// `GET .`: the page.
pub async fn page(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    send(server, &uri, "text/html; charset=utf-8", |built| built.page).await
}

/// `GET report`: the page's data.
pub async fn report(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    send(server, &uri, JSON, |built| built.data).await
}

async fn send(server: Arc<Server>, uri: &Uri, kind: &'static str, part: fn(Built) -> Bytes) -> Response {
    let Some(folder) = folder(uri.query()).filter(|&folder| folder < server.folders.len()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match spawn_blocking(move || server.reports.latest(folder)).await {
        Ok(built) => ([(header::CONTENT_TYPE, kind)], part(built)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The folder of `?folder=N`; the first without a query, none for another one.
fn folder(query: Option<&str>) -> Option<usize> {
    match query.unwrap_or_default() {
        "" => Some(0),
        query => query.strip_prefix("folder=").filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok(),
    }
}

/// What to start.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    folder: usize,
    /// Names; none means all.
    studies: Vec<String>,
    full: bool,
    /// The number of seeds per comparison; `None` means the studies' own.
    seeds: Option<usize>,
}

/// `POST start`.
pub async fn start(State(server): State<Arc<Server>>, request: Request) -> Response {
    let start: Start = match body(request).await {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(start) => start,
            Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("expected what to start, found {error}")),
        },
        Err(status) => return status.into_response(),
    };
    let job = match job(&server, start) {
        Ok(job) => job,
        Err(message) => return refuse(StatusCode::BAD_REQUEST, &message),
    };
    answer(spawn_blocking(move || server.control.start(job)).await)
}

/// `POST stop`.
pub async fn stop(State(server): State<Arc<Server>>, request: Request) -> Response {
    if let Err(status) = body(request).await {
        return status.into_response();
    }
    match server.control.stop() {
        true => answer(Ok(Ok(()))),
        false => refuse(StatusCode::CONFLICT, "no study is running here"),
    }
}

/// `POST resume`.
pub async fn resume(State(server): State<Arc<Server>>, request: Request) -> Response {
    if let Err(status) = body(request).await {
        return status.into_response();
    }
    answer(spawn_blocking(move || server.control.resume()).await)
}

/// Checks what to start.
fn job(server: &Server, Start { folder, studies, full, seeds }: Start) -> Result<Job, String> {
    let folders = server.folders.len();
    let path =
        server.folders.get(folder).ok_or_else(|| format!("expected a folder below {folders}, found {folder}"))?;
    if let Some(seeds) = seeds.filter(|seeds| !(1..=MAX_SEEDS).contains(seeds)) {
        return Err(format!("expected from 1 to {MAX_SEEDS} seeds, found {seeds}"));
    }
    let options = Options {
        folder: path.clone(),
        studies: session::choose(&studies).map_err(|error| error.to_string())?,
        settings: Settings { full, seeds, ..Settings::default() },
        workers: server.workers.unwrap_or_else(cores),
        resume: false,
        shard: None,
        shared: false,
        tensorboard: None,
    };
    Ok(Job { folder, options })
}

/// The body of a POST, which has to be JSON: a form of another page cannot send that.
async fn body(request: Request) -> Result<Bytes, StatusCode> {
    let (head, body) = request.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|bytes| bytes > MOST_BYTES as u64) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    if head.headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != JSON) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let bytes = timeout(BODY_TIME, to_bytes(body, MOST_BYTES)).await;
    bytes.map_err(|_| StatusCode::REQUEST_TIMEOUT)?.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)
}

fn answer(done: Result<Result<(), String>, tokio::task::JoinError>) -> Response {
    match done {
        Ok(Ok(())) => with_json(StatusCode::ACCEPTED, &json!({})),
        Ok(Err(message)) => refuse(StatusCode::CONFLICT, &message),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    with_json(status, &json!({ "error": message }))
}

fn with_json(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], Body::from(value.to_string())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_number() {
        for (query, expected) in [
            (None, Some(0)),
            (Some(""), Some(0)),
            (Some("folder=2"), Some(2)),
            (Some("folder="), None),
            (Some("folder=-1"), None),
            (Some("folder=+1"), None),
            (Some("folder=../x"), None),
            (Some("folder=99999999999999999999999"), None),
            (Some("file=report.html"), None),
        ] {
            assert_eq!(folder(query), expected, "{query:?}");
        }
    }
}

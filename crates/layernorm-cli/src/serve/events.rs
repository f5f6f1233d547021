//! The event stream: a viewer's cursor over the hub, as server-sent events.

use super::Server;
use super::hub::{Hub, Message};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Without an event for this long, a comment is sent, so that broken connections are noticed.
const QUIET: Duration = Duration::from_secs(15);
/// The first line: how many milliseconds a browser waits before it connects again.
const START: &str = "retry: 1000\n\n";
const COMMENT: &str = ": nothing new\n\n";

struct Viewer {
    hub: Arc<Hub>,
    newest: watch::Receiver<u64>,
    cursor: u64,
    started: bool,
}

/// `GET events`: what was missed since `Last-Event-ID`, or everything, and then what happens.
pub async fn events(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let hub = Arc::clone(&server.hub);
    let cursor = hub.resume(last.unwrap_or(0));
    let viewer = Viewer { newest: hub.subscribe(), hub, cursor, started: false };
    let parts = stream::unfold(viewer, |mut viewer| async {
        let part = viewer.next().await?;
        Some((Ok::<_, Infallible>(part), viewer))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(parts)).into_response()
}

impl Viewer {
    /// The next part of the stream. It is asked for only when the connection has taken the part before.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.started, true) {
            return Some(Bytes::from_static(START.as_bytes()));
        }
        loop {
            self.newest.mark_unchanged();
            if let Some(message) = self.hub.after(self.cursor) {
                self.cursor = message.id;
                return Some(text(&message).into());
            }
            match timeout(QUIET, self.newest.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(COMMENT.as_bytes())),
            }
        }
    }
}

/// A message in the format of an event stream.
fn text(Message { id, event, data }: &Message) -> String {
    format!("id: {id}\nevent: {event}\ndata: {data}\n\n")
}

//! Accepts connections, with limits: how many there are, how long a request's header may take and be, and how long a
//! client may take nothing of what it is sent.

use super::guard::Reached;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};

/// Connections at the same time. A browser opens up to six.
const MOST_CONNECTIONS: usize = 256;
/// Time for the header of a request, from the start of the connection or the end of the request before.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Bytes of a header, and of what is buffered for a client.
const BUFFER: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Time after which a client that takes nothing is cut off. A viewer then connects again, and continues.
const STALL_TIME: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, for example because there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections for ever.
pub async fn accept(listener: TcpListener, router: Router) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(permit);
                });
            }
            // Best effort: a client that takes nothing gets nothing.
            Err(_) => drop(
                stream.try_write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
            ),
        }
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, router: Router) {
    let Ok(reached) = stream.local_addr() else { return };
    // Only delays small messages if it fails.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.layer(Extension(Reached(reached))));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(BUFFER).max_headers(MOST_HEADERS);
    // An error is a broken connection, or a request that was refused.
    let _ = builder.serve_connection(TokioIo::new(Timely { stream, stalled: None }), service).await;
}

/// A stream whose writes fail if the other side takes nothing for [`STALL_TIME`].
struct Timely {
    stream: TcpStream,
    /// Set while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    fn timed<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let deadline = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIME)));
        deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timely {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Timely {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.timed(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

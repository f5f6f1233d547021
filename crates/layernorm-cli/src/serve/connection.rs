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
    let _ =
        builder.serve_connection(TokioIo::new(Timely { stream, patience: STALL_TIME, stalled: None }), service).await;
}

/// A stream whose writes fail if the other side takes nothing for a time.
struct Timely {
    stream: TcpStream,
    patience: Duration,
    /// Set while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    fn timed<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let patience = self.patience;
        let deadline = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::Read;

    /// Writes until the other side takes no more; returns the number of bytes and the error.
    async fn write(stream: TcpStream) -> (usize, io::Error) {
        let mut timely = Timely { stream, patience: Duration::from_millis(200), stalled: None };
        let mut written = 0;
        loop {
            match poll_fn(|cx| Pin::new(&mut timely).poll_write(cx, &[0; 4096])).await {
                Ok(bytes) => written += bytes,
                Err(error) => return (written, error),
            }
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_off_and_a_slow_one_is_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            // Takes something, more slowly than it is sent, for longer than the patience; then nothing.
            let slow = std::thread::spawn(move || {
                let mut taken = 0;
                for _ in 0..40 {
                    taken += client.read(&mut [0; 1 << 20]).unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                }
                (client, taken)
            });
            let start = std::time::Instant::now();
            let (written, error) = write(stream).await;
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
            let (_client, taken) = slow.join().unwrap();
            assert!(written > taken && taken > 0, "{written}, {taken}");
        });
    }
}

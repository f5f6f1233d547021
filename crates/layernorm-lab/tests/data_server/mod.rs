//! A server of one file over plain sockets: each connection gets the next response of a list.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// How long a silent server waits: longer than any client's timeout. No test waits for it.
pub const SILENCE: Duration = Duration::from_secs(20);

/// The response to a connection.
#[derive(Clone)]
pub enum Answer {
    /// The file, or the requested range.
    Ranges,
    /// As `Ranges`, but the connection is closed after this many bytes of the body.
    Cut(usize),
    /// As `Cut`, but the connection stays open and silent.
    Stall(usize),
    /// The whole file, whatever the requested range.
    NoRanges,
    /// The range starting one byte after the requested one.
    OtherRange,
    /// These bytes instead of the file.
    Other(Vec<u8>),
    /// These bytes without a length; the end of the connection ends them.
    NoLength(Vec<u8>),
    /// This status.
    Status(u16),
    /// The file, very slowly.
    Trickle,
    /// No response for [`SILENCE`].
    Silent,
}

/// A running server.
pub struct Server {
    /// The URL of its folder, without a trailing slash.
    pub url: String,
    ranges: Arc<Mutex<Vec<Option<usize>>>>,
}

/// The file: 300,000 bytes without repeated sections.
pub fn content() -> Vec<u8> {
    (0..300_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// The SHA-256 of bytes in hexadecimal digits.
pub fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Server {
    /// Starts a server that serves one connection per response.
    pub fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/files", listener.local_addr().unwrap());
        let answers: Vec<Answer> = answers.into_iter().collect();
        let ranges = Arc::new(Mutex::new(Vec::new()));
        let seen = ranges.clone();
        thread::spawn(move || {
            for answer in answers {
                let Ok((stream, _)) = listener.accept() else { return };
                // A client may close the connection early.
                let _ = serve(stream, answer, &seen);
            }
        });
        Self { url, ranges }
    }

    /// Starts of the ranges requested so far.
    pub fn ranges(&self) -> Vec<Option<usize>> {
        self.ranges.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: Answer, seen: &Mutex<Vec<Option<usize>>>) -> std::io::Result<()> {
    let mut range = None;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("range: bytes=") {
            range = Some(value.trim_end_matches('-').parse().expect("a range without an end"));
        }
        if line.is_empty() {
            break;
        }
    }
    seen.lock().unwrap().push(range);
    let content = content();
    match answer {
        Answer::Ranges => send(&mut stream, &content, range, usize::MAX),
        Answer::Cut(count) => send(&mut stream, &content, range, count),
        Answer::Stall(count) => {
            send(&mut stream, &content, range, count)?;
            thread::sleep(SILENCE);
            Ok(())
        }
        Answer::NoRanges => send(&mut stream, &content, None, usize::MAX),
        Answer::OtherRange => send(&mut stream, &content, range.map(|start| start + 1), usize::MAX),
        Answer::Other(bytes) => send(&mut stream, &bytes, None, usize::MAX),
        Answer::NoLength(bytes) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            stream.write_all(&bytes)
        }
        Answer::Status(code) => {
            write!(stream, "HTTP/1.1 {code} No\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry")
        }
        Answer::Trickle => {
            send(&mut stream, &content, range, 0)?;
            content[range.unwrap_or(0)..].iter().try_for_each(|&byte| {
                thread::sleep(Duration::from_millis(20));
                stream.write_all(&[byte])
            })
        }
        Answer::Silent => {
            thread::sleep(SILENCE);
            Ok(())
        }
    }
}

/// The head of the full response, and at most `limit` bytes of its body.
fn send(stream: &mut TcpStream, content: &[u8], range: Option<usize>, limit: usize) -> std::io::Result<()> {
    let (start, total) = (range.unwrap_or(0), content.len());
    match range {
        Some(_) => {
            write!(stream, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}\r\n", total - 1)?
        }
        None => stream.write_all(b"HTTP/1.1 200 OK\r\n")?,
    }
    write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", total - start)?;
    let body = &content[start..];
    stream.write_all(&body[..limit.min(body.len())])
}

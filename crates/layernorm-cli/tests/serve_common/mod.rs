//! Shared by the tests of `layernorm serve`: a server in a folder of its own, and a client that sends any bytes.
#![allow(dead_code, reason = "each test file uses a part of this")]

use crate::study_common::Place;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Server {
    pub child: Child,
    pub port: u16,
    pub token: String,
    /// What it prints after its address.
    pub out: BufReader<std::process::ChildStdout>,
}

/// Another process, which ends with the test at the latest.
pub struct Process(Child);

impl Process {
    pub fn start(place: &Place, command: &str) -> Process {
        Process(place.command(command).spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn succeed(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: String,
}

impl Server {
    /// Starts a command that serves, and reads its address.
    pub fn start(place: &Place, command: &str) -> Server {
        let mut child = place.command(command).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let Some((_, url)) = line.split_once("http://127.0.0.1:") else { panic!("{command}: {line:?}") };
        let (port, rest) = url.split_once('/').unwrap();
        let token = rest.split_once('/').unwrap().0.to_owned();
        assert!(token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
        Server { child, port: port.parse().unwrap(), token, out }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Sends bytes on a new connection, in which `HOST` and `TOKEN` are replaced.
    pub fn send(&self, request: &str) -> Response {
        let host = format!("127.0.0.1:{}", self.port);
        let mut stream = self.connect();
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(request.replace("HOST", &host).replace("TOKEN", &self.token).as_bytes());
        read_response(stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Response {
        self.send(&format!("GET /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"))
    }

    /// Sends JSON, as the page does.
    pub fn post(&self, path: &str, body: &str) -> Response {
        self.send(&format!(
            "POST /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// A viewer that has seen everything up to `last`.
    pub fn view(&self, last: u64) -> Viewer {
        let mut stream = self.connect();
        let last = if last == 0 { String::new() } else { format!("Last-Event-ID: {last}\r\n") };
        let (port, token) = (self.port, &self.token);
        let head = format!("GET /{token}/events HTTP/1.1\r\nHost: localhost:{port}\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Viewer::new(stream)
    }

    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Sends Ctrl-C; returns the exit status.
    pub fn end(mut self) -> (Option<i32>, String) {
        self.signal("-INT");
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failed test; fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end; a connection that is reset after the response is an end too.
fn read_response(mut stream: TcpStream) -> Response {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
        // Without a body, a connection may stay open.
        if bytes.ends_with(b"\r\n\r\n") && String::from_utf8_lossy(&bytes).to_lowercase().contains("content-length: 0")
        {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Response { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: u64,
    pub name: String,
    pub data: Value,
}

/// A client of the event stream.
pub struct Viewer {
    lines: BufReader<TcpStream>,
    /// The runs and findings it was told of, in order.
    pub runs: Vec<String>,
    pub findings: Vec<Value>,
    pub state: Value,
    pub last: u64,
}

impl Viewer {
    fn new(stream: TcpStream) -> Viewer {
        // A small buffer, so that a slow reader is one.
        let lines = BufReader::with_capacity(512, stream);
        Viewer { lines, runs: Vec::new(), findings: Vec::new(), state: Value::Null, last: 0 }
    }

    /// The next event; `pause` after every line makes a slow reader.
    pub fn next(&mut self, pause: Duration) -> Event {
        let mut event = Event { id: 0, name: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream ended");
            sleep(pause);
            // Sizes of chunks and comments have none of these.
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.parse().unwrap(),
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if event.data != Value::Null => break,
                _ => {}
            }
        }
        assert!(event.id > self.last, "{} after {}", event.id, self.last);
        self.last = event.id;
        match &*event.name {
            "state" => self.state = event.data.clone(),
            "changes" => event.data.as_array().unwrap().iter().for_each(|entry| self.add(entry)),
            other => panic!("{other}"),
        }
        event
    }

    fn add(&mut self, entry: &Value) {
        match entry["kind"].as_str().unwrap() {
            "run" => self.runs.push(format!("{}/{}", entry["folder"], entry["run"].as_str().unwrap())),
            "finding" => self.findings.push(entry.clone()),
            other => panic!("{other}"),
        }
    }

    /// Reads until the state is as wanted.
    #[track_caller]
    pub fn until(&mut self, what: &str, pause: Duration, wanted: impl Fn(&Viewer) -> bool) {
        let start = Instant::now();
        while !wanted(self) {
            assert!(start.elapsed() < PATIENCE, "never {what}: {}", self.state);
            self.next(pause);
        }
    }

    pub fn phase(&self) -> &str {
        self.state["job"]["phase"].as_str().unwrap_or("")
    }

    pub fn finished(&self, folder: usize) -> u64 {
        self.state["folders"][folder]["finished"].as_u64().unwrap_or(0)
    }
}

//! What `layernorm serve` refuses, and what it says then.
#![cfg(unix)]

mod serve_common;
mod study_common;

use serve_common::Server;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use study_common::Place;

#[test]
fn hostile_requests_are_refused_without_information() {
    let place = Place::new();
    std::fs::create_dir(place.path("lab")).unwrap();
    std::fs::write(place.path("lab/secret.txt"), "secret").unwrap();
    let server = Server::start(&place, "serve lab");
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: HOST\r\n{more}\r\n");
    let host = |host: &str| format!("GET /TOKEN/ HTTP/1.1\r\n{host}\r\n");
    let post = |more: &str| format!("POST /TOKEN/stop HTTP/1.1\r\nHost: HOST\r\n{more}\r\n");
    let origin = "Origin: http://HOST\r\nContent-Type: application/json\r\n";
    let wrong = "0".repeat(32);
    let upper = server.token.to_uppercase() + "x";
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    let chunks = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let port = server.port;
    let cases = [
        // The name of another site that points here, another port, none, two, and one in the target.
        (host("Host: evil.example\r\n"), 403),
        (host(&format!("Host: evil.example:{port}\r\n")), 403),
        (host(&format!("Host: 127.0.0.1:{port}.evil.example\r\n")), 403),
        (host("Host: 127.0.0.1\r\n"), 403),
        (host("Host: localhost:1\r\n"), 403),
        (host(&format!("Host: 127.0.0.2:{port}\r\n")), 403),
        (host(&format!("Host: [::1]:{port}\r\n")), 403),
        (host("Host: \r\n"), 403),
        (host(""), 403),
        (host("Host: HOST\r\nHost: evil.example\r\n"), 400),
        ("GET /TOKEN/ HTTP/1.0\r\n\r\n".to_owned(), 403),
        (format!("GET http://evil.example:{port}/TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n"), 403),
        // The origin of another page.
        (get("/TOKEN/", "Origin: http://evil.example\r\n"), 403),
        (get("/TOKEN/events", "Origin: null\r\n"), 403),
        (get("/TOKEN/events", "Origin: https://HOST\r\n"), 403),
        (get("/TOKEN/report", &format!("Origin: http://localhost:{port}\r\n")), 403),
        (get("/TOKEN/", "Origin: http://HOST\r\nOrigin: http://HOST\r\n"), 400),
        (post("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), 403),
        (post("Origin: http://evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), 403),
        // A form of another page cannot send JSON.
        (post("Origin: http://HOST\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"), 415),
        (post("Origin: http://HOST\r\nContent-Length: 0\r\n"), 415),
        // No token, a part of it, another one; and then the path does not matter.
        (get("/", ""), 404),
        (get("/events", ""), 404),
        (get("/TOKEN", ""), 404),
        (get(&format!("/{}/", &server.token[..31]), ""), 404),
        (get("/TOKEN0/", ""), 404),
        (get(&format!("/{wrong}/"), ""), 404),
        (get(&format!("/{upper}/"), ""), 404),
        (get("//TOKEN/", ""), 404),
        (format!("DELETE /{wrong}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"), 404),
        (format!("POST /{wrong}/start HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n"), 404),
        // Paths of files.
        (get("/TOKEN/secret.txt", ""), 404),
        (get("/TOKEN/../lab/secret.txt", ""), 404),
        (get("/TOKEN/%2e%2e/secret.txt", ""), 404),
        (get("/TOKEN/..%2fsecret.txt", ""), 404),
        (get("/TOKEN//etc/passwd", ""), 404),
        (get("/TOKEN/report.html", ""), 404),
        (get("/TOKEN/runs/", ""), 404),
        (get("/TOKEN/?folder=1", ""), 404),
        (get("/TOKEN/report?folder=../..", ""), 404),
        (get("/TOKEN/%00", ""), 404),
        // Methods.
        (get("/TOKEN/start", ""), 405),
        (get("/TOKEN/stop", ""), 405),
        ("DELETE /TOKEN/ HTTP/1.1\r\nHost: HOST\r\n\r\n".to_owned(), 405),
        ("OPTIONS /TOKEN/start HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n\r\n".to_owned(), 405),
        ("POST /TOKEN/ HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nContent-Length: 0\r\n\r\n".to_owned(), 405),
        // Too much.
        (get("/TOKEN/", &format!("X: {}\r\n", "x".repeat(64 << 10))), 431),
        (get("/TOKEN/", &many), 431),
        (get(&format!("/{}", "x".repeat(64 << 10)), ""), 431),
        (post(&format!("{origin}Content-Length: 10000000\r\n\r\n{}", "x".repeat(100_000))), 413),
        (post(&format!("{origin}Transfer-Encoding: chunked\r\n\r\n{chunks}")), 413),
        // Not HTTP.
        ("\x16\x03\x01\x02\r\n\r\n".to_owned(), 400),
    ];
    for (request, status) in cases {
        let shown: String = request.chars().take(160).collect();
        let response = server.send(&request);
        let text = response.head.clone() + &response.body;
        assert_eq!(response.status, status, "{shown:?}: {text}");
        assert_eq!(response.body, "", "{shown:?}");
        assert!(!text.contains(&server.token) && !text.contains("lab") && !text.contains("secret"), "{text}");
    }
    // And what is wanted works, under both names.
    for name in ["HOST".to_owned(), format!("localhost:{port}"), format!("LocalHost:{port}")] {
        let page = server.send(&format!("GET /TOKEN/ HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"));
        assert_eq!((page.status, page.body.contains("<title>")), (200, true));
    }
}

#[test]
fn every_response_has_the_headers_and_the_pages_own_policy() {
    let place = Place::new();
    let server = Server::start(&place, "serve lab");
    let page = server.get("");
    // Its scripts, a worker from a blob, pictures that it makes itself, the font that it has; it may connect to its server and nothing else.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; \
                  img-src blob: data:; font-src data:; connect-src 'self'";
    assert!(page.body.contains(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")));
    for response in [
        page,
        server.get("report"),
        server.get("nothing"),
        server.post("stop", "{}"),
        server.send("GET / HTTP/1.0\r\n\r\n"),
    ] {
        for header in [
            &*format!("content-security-policy: {policy}"),
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
            "x-frame-options: deny",
        ] {
            assert!(response.head.lines().any(|line| line == header), "{header} in {}", response.head);
        }
        assert!(
            !response.head.contains("access-control") && !response.head.contains("set-cookie"),
            "{}",
            response.head
        );
    }
    // The file that `study` writes may connect to nothing.
    place.succeed("study worked-example --out lab");
    let file = std::fs::read_to_string(place.path("lab/report.html")).unwrap();
    assert!(file.contains("default-src 'none'") && !file.contains("connect-src") && !file.contains("EventSource"));
}

#[test]
fn connections_are_limited_in_time_and_number() {
    let place = Place::new();
    let server = Server::start(&place, "serve lab");
    // Requests that never end are cut off after ten seconds.
    let mut slow: Vec<_> = (0..3).map(|_| server.connect()).collect();
    slow[1].write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let body = format!(
        "POST /{}/stop HTTP/1.1\r\nHost: 127.0.0.1:{1}\r\nOrigin: http://127.0.0.1:{1}\r\n\
        Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
        server.token, server.port
    );
    slow[2].write_all(body.as_bytes()).unwrap();
    let start = Instant::now();
    let many: Vec<_> = (0..300).map(|_| server.connect()).collect();
    let refused = many.iter().filter(|stream| {
        let mut stream: &TcpStream = stream;
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 503 ")
    });
    assert_eq!(refused.count(), 300 + 3 - 256);
    drop(many);
    for (number, stream) in slow.iter_mut().enumerate() {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(start.elapsed() < Duration::from_secs(15), "{number}: {:?}", start.elapsed());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert_eq!(server.get("").status, 200);
}

#[test]
fn addresses_that_cannot_be_used_are_explained() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let words = format!("127.0.0.1:{port}: expected a free port");
    place.refuse(&format!("serve lab --port {port}"), &[&words, "another program is using it", "--port"]);
    place.refuse("serve lab --port 70000", &["70000"]);
    place.refuse("serve lab --host 192.0.2.1", &["192.0.2.1:0: expected an address of this machine"]);
    place.refuse("serve lab --host evil.example", &["evil.example"]);
    std::fs::write(place.path("file"), "").unwrap();
    place.refuse("serve file", &["file: expected a folder, found a file"]);
    place.refuse("study epsilon --serve --engine slurm", &["--serve does not work with --engine slurm"]);
    place.refuse("study epsilon --serve --estimate", &["--estimate"]);
    // An address that others can reach is warned about, and has no other name.
    let server = Server::start(&place, "serve lab --host 0.0.0.0");
    assert_eq!(server.get("").status, 200);
    assert_eq!(server.send("GET /TOKEN/ HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
    let other = format!("GET /TOKEN/ HTTP/1.1\r\nHost: 192.0.2.1:{}\r\n\r\n", server.port);
    assert_eq!(server.send(&other).status, 403);
    let (status, said) = server.end();
    assert_eq!(status, Some(0));
    assert!(said.contains("warning: 0.0.0.0:") && said.contains("not encrypted"), "{said}");
}

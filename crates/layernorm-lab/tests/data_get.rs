//! Downloads from a local server with scripted responses.

mod data_server;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data_server::{Answer, Server, content, sum};
use layernorm_lab::data::catalog::{self, Remote, Source};
use layernorm_lab::data::get::{Event, Options, Outcome, get};
use layernorm_lab::data::{Error, Fault};

const NAME: &str = "digits.gz";

/// A dataset with the server's one file, downloaded into a temporary folder.
struct Case {
    source: Source,
    dir: tempfile::TempDir,
    silence: Duration,
}

impl Case {
    fn new() -> Self {
        let file = Remote { name: NAME, bytes: content().len() as u64, sha256: Box::leak(sum(&content()).into()) };
        let files = Box::leak(Box::new([file]));
        let dir = tempfile::tempdir().unwrap();
        Self {
            source: Source { name: "test", licence: "", mirrors: &[], files, fingerprint: "-" },
            dir,
            silence: Options::default().silence,
        }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join(NAME)
    }

    fn part(&self) -> PathBuf {
        self.dir.path().join("digits.gz.part")
    }

    fn get(&self, url: &str) -> Result<Outcome, Error> {
        let options = Options { from: Some(url.to_string()), silence: self.silence, ..Options::default() };
        get(&self.source, self.dir.path(), &options, &mut |_| {}).map(|outcomes| outcomes[0])
    }

    /// Downloads the file; must succeed and leave no other file.
    fn fetches(&self, url: &str) -> Outcome {
        let outcome = self.get(url).unwrap();
        assert_eq!(fs::read(self.target()).unwrap(), content());
        assert!(!self.part().exists());
        outcome
    }

    /// Downloads the file; must fail without leaving the file. Returns the only fault.
    fn fails(&self, url: &str) -> Fault {
        let error = self.get(url).unwrap_err();
        assert!(error.to_string().contains(NAME), "{error}");
        assert!(!self.target().exists());
        let Error::Download { mut attempts, .. } = error else { panic!("{error}") };
        assert_eq!((attempts.len(), attempts[0].url.clone()), (1, format!("{url}/{NAME}")));
        attempts.remove(0).fault
    }
}

#[test]
fn a_whole_file() {
    let (case, server) = (Case::new(), Server::start([Answer::Ranges]));
    assert_eq!(case.fetches(&server.url), Outcome::Fetched);
    assert_eq!(server.ranges(), [None]);
}

#[test]
fn events_report_progress() {
    let (case, server) = (Case::new(), Server::start([Answer::Cut(100_000), Answer::Ranges]));
    let options = Options { from: Some(format!("{}/", server.url)), ..Options::default() };
    let (mut starts, mut dones, mut finished) = (Vec::new(), Vec::new(), 0);
    get(&case.source, case.dir.path(), &options, &mut |event| match event {
        Event::Started { from, .. } => starts.push(from),
        Event::Progress { done, .. } => dones.push(done),
        Event::Finished { outcome, .. } => {
            assert_eq!(outcome, Outcome::Fetched);
            finished += 1;
        }
    })
    .unwrap();
    assert_eq!((starts, finished), (vec![0, 100_000], 1));
    assert!(dones.is_sorted() && dones.last() == Some(&(content().len() as u64)));
}

#[test]
fn an_interrupted_connection_is_resumed() {
    let (case, server) = (Case::new(), Server::start([Answer::Cut(100_000), Answer::Cut(50_000), Answer::Ranges]));
    case.fetches(&server.url);
    assert_eq!(server.ranges(), [None, Some(100_000), Some(150_000)]);
}

#[test]
fn the_next_run_resumes_the_download() {
    let case = Case::new();
    let server = Server::start([Answer::Cut(1_000), Answer::Status(503)]);
    assert!(matches!(case.fails(&server.url), Fault::Status { code: 503 }));
    assert_eq!(fs::read(case.part()).unwrap(), &content()[..1_000]);

    let server = Server::start([Answer::Ranges]);
    case.fetches(&server.url);
    assert_eq!(server.ranges(), [Some(1_000)]);
}

#[test]
fn endless_interruptions_end() {
    let (case, server) = (Case::new(), Server::start(vec![Answer::Cut(10); 20]));
    let fault = case.fails(&server.url);
    assert!(matches!(fault, Fault::Cut { found: 60, .. }), "{fault}");
    assert_eq!(fs::metadata(case.part()).unwrap().len(), 60);
}

#[test]
fn a_server_without_ranges_starts_over() {
    let (case, server) = (Case::new(), Server::start([Answer::Cut(1_000), Answer::NoRanges]));
    case.fetches(&server.url);
    assert_eq!(server.ranges(), [None, Some(1_000)]);
}

#[test]
fn a_server_that_sends_another_range_starts_over() {
    for odd in [Answer::OtherRange, Answer::Status(416)] {
        let (case, server) = (Case::new(), Server::start([Answer::Cut(1_000), odd, Answer::Ranges]));
        case.fetches(&server.url);
        assert_eq!(server.ranges(), [None, Some(1_000), None]);
    }
}

#[test]
fn a_response_without_a_length_is_read_to_its_end() {
    let (case, server) = (Case::new(), Server::start([Answer::NoLength(content())]));
    case.fetches(&server.url);

    let (case, server) = (Case::new(), Server::start([Answer::NoLength([content(), vec![0]].concat())]));
    let (expected, fault) = (content().len() as u64, case.fails(&server.url));
    assert!(matches!(fault, Fault::Length { found, .. } if found > expected), "{fault}");
    assert!(!case.part().exists());
}

#[test]
fn a_wrong_checksum_names_both_and_leaves_no_file() {
    let mut wrong = content();
    wrong[12_345] ^= 1;
    let (case, server) = (Case::new(), Server::start([Answer::Other(wrong.clone())]));
    let Fault::Checksum { expected, found } = case.fails(&server.url) else { panic!() };
    assert_eq!((expected, found), (sum(&content()), sum(&wrong)));
    assert!(!case.part().exists());
}

#[test]
fn a_wrong_start_is_downloaded_again() {
    let case = Case::new();
    fs::write(case.part(), vec![1; 5_000]).unwrap();
    let server = Server::start([Answer::Ranges, Answer::Ranges]);
    case.fetches(&server.url);
    assert_eq!(server.ranges(), [Some(5_000), None]);

    // All bytes present, and more bytes than expected.
    for (length, asked) in [(content().len(), 1), (content().len() + 1, 1)] {
        let case = Case::new();
        fs::write(case.part(), vec![1; length]).unwrap();
        let server = Server::start([Answer::Ranges]);
        case.fetches(&server.url);
        assert_eq!(server.ranges(), vec![None; asked]);
    }
}

#[test]
fn a_complete_part_needs_no_network() {
    let case = Case::new();
    fs::write(case.part(), content()).unwrap();
    assert_eq!(case.fetches(&closed_port()), Outcome::Fetched);
}

#[test]
fn not_found() {
    let (case, server) = (Case::new(), Server::start([Answer::Status(404)]));
    let error = case.get(&server.url).unwrap_err().to_string();
    assert!(error.contains(&format!("{}/{NAME}: expected the file, found HTTP status 404", server.url)), "{error}");
    assert!(!case.part().exists());
}

#[test]
fn a_page_instead_of_the_file_keeps_earlier_bytes() {
    let case = Case::new();
    fs::write(case.part(), &content()[..777]).unwrap();
    let server = Server::start([Answer::Other(b"<html>please log in</html>".to_vec())]);
    assert!(matches!(case.fails(&server.url), Fault::Length { found: 26, .. }));
    assert_eq!(fs::metadata(case.part()).unwrap().len(), 777);
}

#[test]
fn a_correct_file_is_kept() {
    let case = Case::new();
    fs::write(case.target(), content()).unwrap();
    assert_eq!(case.fetches(&closed_port()), Outcome::Kept);
}

#[test]
fn a_wrong_file_is_replaced_once_the_correct_one_is_complete() {
    let case = Case::new();
    fs::write(case.target(), b"something else").unwrap();
    case.get(&closed_port()).unwrap_err();
    assert_eq!(fs::read(case.target()).unwrap(), b"something else");
    let server = Server::start([Answer::Ranges]);
    assert_eq!(case.fetches(&server.url), Outcome::Replaced);
}

#[test]
fn an_unreachable_server() {
    assert!(matches!(Case::new().fails(&closed_port()), Fault::Unreachable { .. }));
    assert!(
        Case::new()
            .get(&closed_port())
            .unwrap_err()
            .to_string()
            .ends_with("check the network connection and the proxy settings")
    );
    assert!(matches!(Case::new().fails("not an address"), Fault::Unreachable { .. }));
}

#[test]
fn a_silent_server_times_out() {
    for silent in [Answer::Silent, Answer::Stall(1_000)] {
        let case = Case { silence: Duration::from_millis(300), ..Case::new() };
        let (server, start) = (Server::start([silent, Answer::Silent]), Instant::now());
        let fault = case.fails(&server.url);
        assert!(matches!(fault, Fault::Unreachable { .. }), "{fault}");
        assert!(start.elapsed() < data_server::SILENCE);
    }
}

#[test]
fn the_next_url_resumes_the_download() {
    let (cut, whole) = (Server::start([Answer::Cut(4_000), Answer::Status(500)]), Server::start([Answer::Ranges]));
    let mut case = Case::new();
    case.source.mirrors = Box::leak(Box::new([&*cut.url.clone().leak(), &*whole.url.clone().leak()]));
    get(&case.source, case.dir.path(), &Options::default(), &mut |_| {}).unwrap();
    assert_eq!(fs::read(case.target()).unwrap(), content());
    assert_eq!(whole.ranges(), [Some(4_000)]);
}

#[test]
fn two_at_the_same_time_do_not_mix() {
    let case = Case::new();
    let other = fs::File::create(case.part()).unwrap();
    other.lock().unwrap();
    assert!(matches!(case.get(&closed_port()), Err(Error::Busy { .. })));
}

#[test]
fn an_invalid_folder_is_named() {
    let case = Case::new();
    fs::write(case.dir.path().join("file"), b"").unwrap();
    let error = get(&case.source, &case.dir.path().join("file/below"), &Options::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("cannot create the folder"), "{error}");
}

#[test]
fn the_catalogue_is_sound() {
    for source in &catalog::SOURCES {
        assert_eq!(catalog::find(source.name).unwrap().name, source.name);
        assert!(source.mirrors.iter().all(|url| url.starts_with("http") && url.ends_with('/')));
        assert_eq!(source.files.len(), 4);
        let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_sum(source.fingerprint) && source.files.iter().all(|file| is_sum(file.sha256)));
        assert!(source.files.iter().all(|file| Path::new(file.name).components().count() == 1));
    }
    assert!(catalog::find("imagenet").is_none());
}

/// A URL without a server.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_server_that_is_too_slow_is_skipped() {
    let mut case = Case::new();
    case.silence = Duration::from_millis(200);
    let server = Server::start([Answer::Trickle, Answer::Ranges]);
    let begun = Instant::now();
    let fault = case.fails(&server.url);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let words = fault.to_string();
    assert!(words.starts_with("too slow: expected 1000 bytes per second or more, found "), "{words}");
    // The bytes received so far are kept.
    assert!(case.part().metadata().unwrap().len() > 0);
    case.fetches(&server.url);
}

#[test]
fn passwords_are_sent_and_not_shown() {
    let case = Case::new();
    let server = Server::start([Answer::Status(404), Answer::Ranges]);
    let url = server.url.replace("http://", "http://me:secret@");
    let error = case.get(&url).unwrap_err().to_string();
    assert!(error.contains("http://***@127.0.0.1") && !error.contains("secret"), "{error}");
    let mut shown = Vec::new();
    let options = Options { from: Some(url), ..Options::default() };
    let mut see = |event: Event<'_>| {
        if let Event::Started { url, .. } = event {
            shown.push(url.to_owned());
        }
    };
    get(&case.source, case.dir.path(), &options, &mut see).unwrap();
    assert!(shown.len() == 1 && shown[0].contains("***@") && !shown[0].contains("secret"), "{shown:?}");
    // Nor if the URL is invalid.
    for url in ["http://me:secret@[::1/files", "http://me:secret@no such host/", "ftp://me:secret@127.0.0.1/"] {
        let error = Case::new().get(url).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_rejected() {
    let fifo = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let link = |path: &Path| std::os::unix::fs::symlink(path.with_file_name("other"), path).unwrap();
    let make = [(&fifo as &dyn Fn(&Path), "found a FIFO"), (&link, "found a link")];
    for (make, words) in make {
        let case = Case::new();
        fs::write(case.dir.path().join("other"), "mine").unwrap();
        make(&case.part());
        let server = Server::start([Answer::Ranges]);
        let error = case.get(&server.url).unwrap_err().to_string();
        assert!(error.contains("digits.gz.part") && error.contains(words), "{error}");
        assert_eq!(fs::read(case.dir.path().join("other")).unwrap(), b"mine");
    }
    let case = Case::new();
    fifo(&case.target());
    let error = case.get("http://127.0.0.1:1/").unwrap_err().to_string();
    assert!(error.contains("digits.gz: cannot read: expected a regular file, found something else"), "{error}");
}

//! The server's address: where it listens, the token in its path, and which names a request may use for it.

use crate::failure::Failure;
use std::fmt::Write;
use std::hint::black_box;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// A random secret of 128 bits, in hexadecimal digits. Whoever knows it may see the folders and start studies.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new token from the system's random numbers.
    pub fn new() -> Result<Token, Failure> {
        let mut bytes = [0; 16];
        let failed = |error| Failure::bad_input(format!("cannot get random numbers from the system: {error}"));
        getrandom::fill(&mut bytes).map_err(failed)?;
        Ok(Token(bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token. Takes the same time wherever the first difference is.
    pub fn is(&self, text: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), text.as_bytes());
        a.len() == b.len() && black_box(a.iter().zip(b).fold(0, |all, (a, b)| black_box(all | (a ^ b)))) == 0
    }
}

/// Listens on an address, by default of this machine alone; port 0 means any free one.
pub fn listen(host: Option<IpAddr>, port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::new(host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port);
    TcpListener::bind(address).map_err(|error| {
        Failure::bad_input(match error.kind() {
            ErrorKind::AddrInUse => format!("{address}: expected a free port, but another program is using it; choose another --port, or leave it out"),
            ErrorKind::PermissionDenied => format!("{address}: this system does not allow this port; choose one above 1023, or leave --port out"),
            ErrorKind::AddrNotAvailable => format!("{address}: expected an address of this machine, but it has no such one"),
            _ => format!("{address}: cannot listen: {error}"),
        })
    })
}

/// The warning for an address that others can reach.
pub fn warning(address: SocketAddr) -> Option<String> {
    (!address.ip().is_loopback()).then(|| {
        format!(
            "warning: {address} can be reached from other machines. Connections are not encrypted: whoever can read them \
             learns the token, and can then see the folders and start studies on this machine"
        )
    })
}

/// The names under which a request may address a connection: the address that it reached, and `localhost`. A name that
/// someone else's DNS points here is none of them, nor is another address.
pub fn names(reached: SocketAddr) -> Vec<String> {
    let reached = SocketAddr::new(reached.ip().to_canonical(), reached.port());
    let mut names = vec![reached.to_string()];
    if reached.ip().is_loopback() {
        names.push(format!("localhost:{}", reached.port()));
    }
    // Browsers leave out HTTP's own port.
    let without = |name: &String| name.strip_suffix(":80").map(str::to_owned);
    let short: Vec<String> = names.iter().filter_map(without).filter(|_| reached.port() == 80).collect();
    names.extend(short);
    names
}

/// The page's address. For an unspecified address, such as 0.0.0.0, that of this machine.
pub fn url(bound: SocketAddr, token: &Token) -> String {
    let ip = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}/{}/", SocketAddr::new(ip, bound.port()), token.as_str())
}

/// Opens the address in the user's browser.
pub fn open(url: &str) -> Result<(), String> {
    let (program, arguments): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let mut command = std::process::Command::new(program);
    command.args(arguments).arg(url).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot open a browser with {program}: {error}"))?;
    // Some openers stay as long as the browser does.
    let wait = move || child.wait().map(drop);
    std::thread::Builder::new().spawn(wait).map(drop).map_err(|error| format!("cannot wait for {program}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_compared_whole() {
        let [token, other] = [Token::new().unwrap(), Token::new().unwrap()];
        assert_eq!(token.as_str().len(), 32);
        assert!(token.is(token.as_str()) && !token.is(other.as_str()));
        for wrong in [
            "",
            &token.as_str()[..31],
            &format!("{}0", token.as_str()),
            &token.as_str().to_uppercase().replace(char::is_numeric, "x"),
        ] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_connection_has_the_names_of_the_address_it_reached() {
        for (reached, expected) in [
            ("127.0.0.1:4000", &["127.0.0.1:4000", "localhost:4000"][..]),
            ("127.0.0.1:80", &["127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"]),
            ("[::1]:4000", &["[::1]:4000", "localhost:4000"]),
            ("[::ffff:10.0.0.7]:4000", &["10.0.0.7:4000"]),
            ("10.0.0.7:4000", &["10.0.0.7:4000"]),
        ] {
            assert_eq!(names(reached.parse().unwrap()), expected);
        }
    }

    #[test]
    fn only_other_machines_need_a_warning() {
        for (address, warned) in [("127.0.0.1:1", false), ("[::1]:1", false), ("0.0.0.0:1", true), ("10.0.0.7:1", true)]
        {
            assert_eq!(warning(address.parse().unwrap()).is_some(), warned, "{address}");
        }
    }
}

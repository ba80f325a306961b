//! Questions to an admin port: one request, one answer, within bounds of time and bytes whatever is at that address.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A daemon whose thread is busy answers after 2 s; one that is stopped never does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Far more than a page of 1,000 clients has, or the ledger of 1,024 services.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The address of an admin port as the command line has it: a port alone is one of this host.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host =
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/');
    (is_port && is_host)
        .then(|| format!("{host}:{port}"))
        .ok_or_else(|| "HOST:PORT of an admin port, or a port of this host, 1 to 65535".to_owned())
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nobody is reached, or the connection broke.
    Io(io::Error),
    /// The answer took too long.
    Late,
    /// What came is no answer of an admin port.
    Strange(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Io(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    f.write_str("connection refused: no admin port is open there")
                }
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => NoAnswer::Late.fmt(f),
                _ => error.fmt(f),
            },
            NoAnswer::Late => write!(f, "no answer within {} s", PATIENCE.as_secs()),
            NoAnswer::Strange(what) => write!(f, "{what}: no admin port of Tickcast"),
        }
    }
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> NoAnswer {
        NoAnswer::Io(error)
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Asks `HOST:PORT` for a path.
pub(crate) fn ask(address: &str, method: &str, path: &str) -> Result<Answer, NoAnswer> {
    let until = Instant::now() + PATIENCE;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(NoAnswer::Late),
        left => Ok(left),
    };
    let mut last = NoAnswer::Io(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for known in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&known, left()?) {
            Ok(mut stream) => {
                stream.set_write_timeout(Some(left()?))?;
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                );
                stream.write_all(request.as_bytes())?;
                return read(|buffer| {
                    stream.set_read_timeout(Some(left()?))?;
                    Ok(stream.read(buffer)?)
                });
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Reads an answer to its end.
fn read(mut next: impl FnMut(&mut [u8]) -> Result<usize, NoAnswer>) -> Result<Answer, NoAnswer> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = match next(&mut buffer) {
            Err(NoAnswer::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(answer) = parse(&bytes, count == 0)? {
            return Ok(answer);
        }
    }
}

/// The answer, if it is whole. `has_ended`: no more comes.
fn parse(bytes: &[u8], has_ended: bool) -> Result<Option<Answer>, NoAnswer> {
    let strange = |what: &str| Err(NoAnswer::Strange(what.to_owned()));
    let begin = b"HTTP/1.";
    let common = begin.len().min(bytes.len());
    if bytes[..common] != begin[..common] {
        return strange("it does not speak HTTP");
    }
    let Some(head_len) = bytes.windows(4).take(HEAD_BYTES_MAX).position(|four| four == b"\r\n\r\n") else {
        return match () {
            () if bytes.len() > HEAD_BYTES_MAX => strange("its HTTP headers do not end"),
            () if has_ended && bytes.is_empty() => strange("it closes the connection without an answer"),
            () if has_ended => strange("its answer ends before it is whole"),
            () => Ok(None),
        };
    };
    let Ok(head) = std::str::from_utf8(&bytes[..head_len]) else {
        return strange("its HTTP headers are not text");
    };
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let Some(status) = status else { return strange("its answer has no HTTP status") };
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return strange("its answer has an encoding");
        }
        if name.eq_ignore_ascii_case("content-length") {
            let Ok(known) = value.trim().parse::<usize>() else { return strange("its answer has no length") };
            length = Some(known);
        }
    }
    let body = &bytes[head_len + 4..];
    if length.unwrap_or(body.len()) > ANSWER_BYTES_MAX {
        return strange("its answer is too long");
    }
    match length {
        Some(length) if body.len() >= length => Ok(Some(Answer { status, body: body[..length].to_vec() })),
        None if has_ended => Ok(Some(Answer { status, body: body.to_vec() })),
        _ if has_ended => strange("its answer ends before it is whole"),
        _ => Ok(None),
    }
}

/// A text as a value of a URL's parameter.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/*".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports_or_ports() {
        assert_eq!(address("hostb:14082").as_deref(), Ok("hostb:14082"));
        assert_eq!(address("14082").as_deref(), Ok("localhost:14082"));
        assert_eq!(address("[::1]:14082").as_deref(), Ok("[::1]:14082"));
        for wrong in ["", "host", "host:", ":14082", "host:0", "host:65536", "http://host:14082", "a b:1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    /// What becomes of an answer that comes in pieces of so many bytes.
    fn taken(bytes: &[u8], piece: usize) -> Result<Answer, String> {
        let mut pieces = bytes.chunks(piece);
        read(|buffer| {
            let piece = pieces.next().unwrap_or_default();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        })
        .map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_read_however_they_come() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        let until_end = b"HTTP/1.0 503 Busy\r\n\r\nask again\n";
        for piece in [1, 2, 7, 1000] {
            assert_eq!(taken(whole, piece), Ok(Answer { status: 200, body: b"{}".to_vec() }));
            assert_eq!(taken(until_end, piece), Ok(Answer { status: 503, body: b"ask again\n".to_vec() }));
        }
    }

    #[test]
    fn whatever_else_answers_is_named_and_never_more_than_the_bounds_is_read() {
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"x: y\r\n".repeat(10_000)].concat();
        let long = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; ANSWER_BYTES_MAX + 1]].concat();
        let cases: [(&[u8], &str); 10] = [
            (b"SSH-2.0-OpenSSH_9.6\r\n", "it does not speak HTTP"),
            (b"\x00\x0a\x05\x04", "it does not speak HTTP"),
            (b"", "it closes the connection without an answer"),
            (b"HTTP/1.1 200 OK\r\n", "its answer ends before it is whole"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", "its answer ends before it is whole"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}", "its answer has no length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}", "its answer is too long"),
            (b"HTTP/1.1 OK\r\n\r\n", "its answer has no HTTP status"),
            (&endless, "its HTTP headers do not end"),
            (&long, "its answer is too long"),
        ];
        for (bytes, why) in cases {
            assert_eq!(taken(bytes, 4096).expect_err(why), format!("{why}: no admin port of Tickcast"));
        }
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        assert!(taken(chunked, 9).expect_err("not taken").starts_with("its answer has an encoding"));
    }

    #[test]
    fn values_of_parameters_are_encoded() {
        assert_eq!(encoded("desk-1*"), "desk-1*");
        assert_eq!(encoded("a b&c=\u{e9}"), "a%20b%26c%3D%C3%A9");
    }
}

//! A document of an admin port.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// A daemon answers within this time, or says that it is busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// No ledger is longer: 1,024 services with the losses of all their streams.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Gets a path as JSON. The error names address and path, and what the daemon has said.
pub(super) fn get(address: &str, path: &str) -> Result<Value, String> {
    let named = |error: &dyn std::fmt::Display| format!("http://{address}{path}: {error}");
    let answer = exchange(address, path).map_err(|error| named(&error))?;
    let (head, body) = split(&answer).ok_or_else(|| named(&"this is no answer of an admin port"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let why = if status == "404" { "an admin port without a ledger" } else { body.trim() };
        return Err(named(&format!("{status}, {why}")));
    }
    serde_json::from_str(body).map_err(|error| named(&error))
}

fn exchange(address: &str, path: &str) -> std::io::Result<String> {
    let mut last = std::io::Error::other("the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
                let mut answer = String::new();
                stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
                return Ok(answer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The head of an answer, and its body if that is whole.
fn split(answer: &str) -> Option<(&str, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_length = |line: &&str| line.to_ascii_lowercase().starts_with("content-length:");
    let length = head.lines().find(is_length).and_then(|line| line.split(':').nth(1));
    let is_whole = length.is_none_or(|length| length.trim().parse() == Ok(body.len()));
    (head.starts_with("HTTP/1.") && is_whole).then_some((head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_whole_is_none() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(split(whole).map(|(_, body)| body), Some("{}"));
        assert_eq!(split(&whole[..whole.len() - 1]), None);
        assert_eq!(split("SSH-2.0\r\n\r\n"), None);
    }

    #[test]
    fn who_cannot_be_asked_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = free.local_addr().expect("it is bound").to_string();
        drop(free);
        let error = get(&address, "/ledger").expect_err("nobody listens");
        assert!(error.starts_with(&format!("http://{address}/ledger: ")), "{error}");
    }
}

use crate::UpgradeError;
use crate::upgrade::{
    ACCEPT, EXTENSIONS, Head, Headers, KEY, PROTOCOL, VERSION, VERSION_HEADER, accept_key, extension, key,
};

use super::extension::Deflate;

/// An upgrade request that can be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The path, query included.
    pub path: &'a str,
    /// The first sub-protocol of the client's list that is spoken here, as the client spells it.
    pub protocol: &'a str,
    /// What was agreed about compression.
    pub deflate: Option<Deflate>,
    /// All headers: cookies, origin, user agent.
    pub headers: Headers<'a>,
    key: &'a str,
}

/// Why a request is refused, and with which HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400: a header, or the start line, is not acceptable.
    Malformed(UpgradeError),
    /// 404: a path that nothing is served under.
    Path,
    /// 405: another method than GET.
    Method,
    /// 426: another version of the protocol.
    Version,
    /// 400: no sub-protocol in common.
    Protocol,
    /// 403: a login by cookie from a page of another origin.
    Origin,
    /// 503: too many connections.
    Full,
}

impl Refusal {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) | Refusal::Protocol => 400,
            Refusal::Path => 404,
            Refusal::Method => 405,
            Refusal::Version => 426,
            Refusal::Origin => 403,
            Refusal::Full => 503,
        }
    }

    /// Appends the answer.
    pub fn emit(&self, into: &mut Vec<u8>) {
        let (reason, extra, text) = match self {
            Refusal::Malformed(error) => ("Bad Request", "", error.to_string()),
            Refusal::Protocol => ("Bad Request", "", "no sub-protocol that is spoken here".to_owned()),
            Refusal::Path => ("Not Found", "", "try /WebSocket".to_owned()),
            Refusal::Method => ("Method Not Allowed", "Allow: GET\r\n", "GET is wanted".to_owned()),
            Refusal::Version => {
                ("Upgrade Required", "Sec-WebSocket-Version: 13\r\n", "version 13 is spoken here".to_owned())
            }
            Refusal::Origin => ("Forbidden", "", "pages of this origin may not log in by cookie".to_owned()),
            Refusal::Full => ("Service Unavailable", "", "too many connections".to_owned()),
        };
        let (status, length) = (self.status(), text.len() + 1);
        let answer = format!(
            "HTTP/1.1 {status} {reason}\r\n{extra}Connection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n{text}\n"
        );
        into.extend_from_slice(answer.as_bytes());
    }
}

impl<'a> Request<'a> {
    /// Reads a head, without the empty line. `protocols` are those spoken here; a path is served if it has
    /// `path_word` in it, in any case.
    ///
    /// # Errors
    /// Why it is to be refused.
    pub fn parse(head: &'a [u8], path_word: &str, protocols: &[&str]) -> Result<Request<'a>, Refusal> {
        let Head { start, headers } = Head::parse(head).map_err(Refusal::Malformed)?;
        let path = path_of(start)?;
        if !path.to_ascii_lowercase().contains(path_word) {
            return Err(Refusal::Path);
        }
        let malformed = |name| Err(Refusal::Malformed(UpgradeError::Header(name)));
        if headers.all("Host").count() != 1 {
            return malformed("Host");
        }
        if !headers.has("Upgrade", "websocket") {
            return malformed("Upgrade");
        }
        if !headers.has("Connection", "upgrade") {
            return malformed("Connection");
        }
        if headers.one(VERSION_HEADER).map_err(Refusal::Malformed)? != VERSION {
            return Err(Refusal::Version);
        }
        let key = headers.one(KEY).map_err(Refusal::Malformed)?;
        if !key::is_key(key) {
            return malformed(KEY);
        }
        let protocol = headers.list(PROTOCOL).find(|offered| protocols.contains(offered));
        let protocol = protocol.ok_or(Refusal::Protocol)?;
        Ok(Request { path, protocol, deflate: extension::agree(headers), headers, key })
    }

    /// Appends the answer that accepts it.
    pub(crate) fn accept(&self, deflate: Option<Deflate>, into: &mut Vec<u8>) {
        let (accept, protocol) = (accept_key(self.key), self.protocol);
        let mut answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             {ACCEPT}: {accept}\r\n{PROTOCOL}: {protocol}\r\n"
        );
        if let Some(deflate) = deflate {
            answer.push_str(&format!("{EXTENSIONS}: {}\r\n", deflate.answer()));
        }
        answer.push_str("\r\n");
        into.extend_from_slice(answer.as_bytes());
    }
}

/// The path of `GET path HTTP/1.1`.
fn path_of(start: &str) -> Result<&str, Refusal> {
    let mut parts = start.split(' ');
    let (method, path, version) = (parts.next(), parts.next(), parts.next());
    let (Some(method), Some(path), Some(version), None) = (method, path, version, parts.next()) else {
        return Err(Refusal::Malformed(UpgradeError::StartLine));
    };
    if !version.starts_with("HTTP/1.") || version == "HTTP/1.0" {
        return Err(Refusal::Malformed(UpgradeError::StartLine));
    }
    if method != "GET" {
        return Err(Refusal::Method);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_LINE: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    const GOOD: &str = "GET /WebSocket HTTP/1.1\r\nHost: h:15000\r\nupgrade: WebSocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                        Sec-WebSocket-Protocol: rssl.rwf, tr_json2";
    const SPOKEN: [&str; 2] = ["tr_json2", "rssl.json.v2"];

    fn parse(head: &str) -> Result<Request<'_>, Refusal> {
        Request::parse(head.as_bytes(), "websocket", &SPOKEN)
    }

    #[test]
    fn a_good_request_is_accepted_with_the_protocol_as_offered() {
        let request = parse(GOOD).expect("it is good");
        assert_eq!((request.path, request.protocol, request.deflate), ("/WebSocket", "tr_json2", None));
        let mut answer = Vec::new();
        request.accept(None, &mut answer);
        let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                        Sec-WebSocket-Protocol: tr_json2\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }

    #[test]
    fn every_bad_request_has_its_status() {
        let malformed = |name| Refusal::Malformed(UpgradeError::Header(name));
        for (from, to, refusal) in [
            ("GET", "POST", Refusal::Method),
            ("/WebSocket", "/", Refusal::Path),
            ("HTTP/1.1", "HTTP/1.0", Refusal::Malformed(UpgradeError::StartLine)),
            ("HTTP/1.1", "HTTP/2 x", Refusal::Malformed(UpgradeError::StartLine)),
            ("Host: h:15000\r\n", "", malformed("Host")),
            ("upgrade: WebSocket", "upgrade: h2c", malformed("Upgrade")),
            ("Connection: Upgrade", "Connection: close", malformed("Connection")),
            ("Version: 13", "Version: 8", Refusal::Version),
            (KEY_LINE, "Sec-WebSocket-Key: short", malformed(KEY)),
            (KEY_LINE, "X: y", malformed(KEY)),
            ("Protocol: rssl.rwf, tr_json2", "Protocol: chat, TR_JSON2", Refusal::Protocol),
            ("Sec-WebSocket-Protocol: rssl.rwf, tr_json2", "X: y", Refusal::Protocol),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let bad = GOOD.replace(from, to);
            assert_eq!(parse(&bad).err(), Some(refusal), "{to}");
            let mut answer = Vec::new();
            refusal.emit(&mut answer);
            let answer = String::from_utf8(answer).expect("it is text");
            assert!(answer.starts_with(&format!("HTTP/1.1 {} ", refusal.status())), "{answer}");
            let (head, body) = answer.split_once("\r\n\r\n").expect("it has a body");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
        }
    }
}

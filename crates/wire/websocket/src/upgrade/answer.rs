use crate::UpgradeError;
use crate::upgrade::extension::{self, Deflate, OFFER};
use crate::upgrade::{ACCEPT, EXTENSIONS, Head, Headers, KEY, PROTOCOL, VERSION, VERSION_HEADER, accept_key};

/// The answer to this side's own upgrade request.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// 101.
    Accepted {
        /// The sub-protocol that the server has chosen; empty if none was offered.
        protocol: &'a str,
        /// What was agreed about compression.
        deflate: Option<Deflate>,
        /// All headers.
        headers: Headers<'a>,
    },
    /// Any other status.
    Refused {
        /// The status.
        status: u16,
        /// The words behind it.
        reason: &'a str,
    },
}

/// Appends the request of a client.
pub(crate) fn emit_request(
    host: &str,
    path: &str,
    key: &str,
    protocols: &[String],
    offers_deflate: bool,
    into: &mut Vec<u8>,
) {
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         {VERSION_HEADER}: {VERSION}\r\n{KEY}: {key}\r\n"
    );
    if !protocols.is_empty() {
        request.push_str(&format!("{PROTOCOL}: {}\r\n", protocols.join(", ")));
    }
    if offers_deflate {
        request.push_str(&format!("{EXTENSIONS}: {OFFER}\r\n"));
    }
    request.push_str("\r\n");
    into.extend_from_slice(request.as_bytes());
}

impl<'a> Answer<'a> {
    /// Reads a head, without the empty line, that answers a request with this key, these sub-protocols and,
    /// perhaps, an offer of compression.
    ///
    /// # Errors
    /// It is not HTTP, or accepts something else than was asked for.
    pub fn parse(
        head: &'a [u8],
        key: &str,
        protocols: &[String],
        offers_deflate: bool,
    ) -> Result<Answer<'a>, UpgradeError> {
        let Head { start, headers } = Head::parse(head)?;
        let mut parts = start.splitn(3, ' ');
        let (version, status) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let status: u16 = status.parse().map_err(|_| UpgradeError::StartLine)?;
        if !version.starts_with("HTTP/1.") || !(100..600).contains(&status) {
            return Err(UpgradeError::StartLine);
        }
        if status != 101 {
            return Ok(Answer::Refused { status, reason: parts.next().unwrap_or("") });
        }
        if !headers.has("Upgrade", "websocket") {
            return Err(UpgradeError::Header("Upgrade"));
        }
        if !headers.has("Connection", "upgrade") {
            return Err(UpgradeError::Header("Connection"));
        }
        if headers.one(ACCEPT)? != accept_key(key) {
            return Err(UpgradeError::Header(ACCEPT));
        }
        let protocol = chosen(headers, protocols)?;
        let deflate = extension::accepted(headers, offers_deflate)?;
        Ok(Answer::Accepted { protocol, deflate, headers })
    }
}

/// The sub-protocol of an answer: one of those offered, and none (RFC 6455, 4.1) where none was.
fn chosen<'a>(headers: Headers<'a>, offered: &[String]) -> Result<&'a str, UpgradeError> {
    if offered.is_empty() && headers.all(PROTOCOL).next().is_none() {
        return Ok("");
    }
    let protocol = headers.one(PROTOCOL).map_err(|_| UpgradeError::Protocol)?;
    let is_offered = offered.iter().any(|offered| offered == protocol);
    if is_offered { Ok(protocol) } else { Err(UpgradeError::Protocol) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
                        Sec-WebSocket-Protocol: tr_json2";

    fn parse(head: &str) -> Result<Answer<'_>, UpgradeError> {
        let protocols = ["tr_json2".to_owned(), "rssl.rwf".to_owned()];
        Answer::parse(head.as_bytes(), "dGhlIHNhbXBsZSBub25jZQ==", &protocols, false)
    }

    #[test]
    fn an_answer_that_accepts_or_refuses_is_understood() {
        assert!(matches!(parse(GOOD), Ok(Answer::Accepted { protocol: "tr_json2", deflate: None, .. })));
        let refusal = parse("HTTP/1.1 404 Not Found\r\nServer: x");
        assert!(matches!(refusal, Ok(Answer::Refused { status: 404, reason: "Not Found" })));
        assert!(matches!(parse("HTTP/1.1 503"), Ok(Answer::Refused { status: 503, reason: "" })));
    }

    #[test]
    fn who_offers_no_sub_protocol_asks_for_none_and_is_answered_without() {
        let mut request = Vec::new();
        emit_request("host", "/", "key", &[], false, &mut request);
        assert!(!String::from_utf8_lossy(&request).contains(PROTOCOL), "{request:?}");
        let answer =
            |head: &str| Answer::parse(head.as_bytes(), "dGhlIHNhbXBsZSBub25jZQ==", &[], false).err();
        assert_eq!(answer(&GOOD.replace("\r\nSec-WebSocket-Protocol: tr_json2", "")), None);
        assert_eq!(answer(GOOD), Some(UpgradeError::Protocol));
    }

    #[test]
    fn an_answer_to_something_else_has_its_error() {
        for (from, to, error) in [
            ("HTTP/1.1 101", "SMTP 101", UpgradeError::StartLine),
            ("HTTP/1.1 101", "HTTP/1.1 x", UpgradeError::StartLine),
            ("Upgrade: websocket\r\n", "", UpgradeError::Header("Upgrade")),
            ("Connection: upgrade", "Connection: close", UpgradeError::Header("Connection")),
            ("s3pP", "S3pP", UpgradeError::Header(ACCEPT)),
            ("tr_json2", "chat", UpgradeError::Protocol),
            ("Sec-WebSocket-Protocol", "X", UpgradeError::Protocol),
            ("tr_json2", "tr_json2\r\nSec-WebSocket-Extensions: permessage-deflate", UpgradeError::Extension),
        ] {
            assert_eq!(parse(&GOOD.replace(from, to)).err(), Some(error), "{to}");
        }
    }
}

use super::record::{SourceRecord, TransportSession};
use crate::rm::SessionKey;
use crate::wire::lbtrm::SessionHeader;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

/// Why a text is no source string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStringError(Box<str>);

impl fmt::Display for SourceStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceStringError {}

/// Reads the field's source strings, with the topic index: `LBTRM:ip:port:session_id:group:port[index]`,
/// `LBT-RU:ip:port:session_id[index]`, `TCP:ip:port:session_id[index]`. Session ids are hexadecimal; those of
/// LBT-RU and TCP may be left out. A shared memory session is known by its advertisement alone.
impl FromStr for SourceRecord {
    type Err = SourceStringError;

    fn from_str(text: &str) -> Result<SourceRecord, SourceStringError> {
        let wrong = |what: &str| {
            let shapes = "LBTRM:ip:port:session_id:group:port[index], LBT-RU:ip:port:session_id[index] or \
                          TCP:ip:port:session_id[index]";
            SourceStringError(format!("{text:?} is no source string: {what}; it reads {shapes}").into())
        };
        let (session, index) = text
            .strip_suffix(']')
            .and_then(|text| text.rsplit_once('['))
            .ok_or_else(|| wrong("the topic index in brackets is missing"))?;
        let topic_index = index.parse().map_err(|_| wrong("the topic index is no number of 32 bits"))?;
        let parts: Vec<&str> = session.split(':').collect();
        let address = |at: usize| {
            let ip: Option<Ipv4Addr> = parts.get(at).and_then(|ip| ip.parse().ok());
            let port: Option<u16> = parts.get(at + 1).and_then(|port| port.parse().ok());
            match (ip, port.filter(|&port| port != 0)) {
                (Some(ip), Some(port)) => Ok(SocketAddrV4::new(ip, port)),
                _ => Err(wrong("address or port is none")),
            }
        };
        let session_id = |at: usize| {
            u32::from_str_radix(parts[at], 16).map_err(|_| wrong("the session id is not hexadecimal"))
        };
        let optional_id = || if parts.len() > 3 { session_id(3).map(Some) } else { Ok(None) };
        let session = match (parts[0], parts.len()) {
            ("LBTRM", 6) => {
                let source = address(1)?;
                let group = address(4)?;
                if !group.ip().is_multicast() {
                    return Err(wrong("the group is none"));
                }
                let session = SessionHeader { ucast_port: source.port(), session_id: session_id(3)? };
                TransportSession::LbtRm { key: SessionKey { source: *source.ip(), session }, group }
            }
            ("LBT-RU", 3 | 4) => TransportSession::LbtRu { address: address(1)?, session_id: optional_id()? },
            ("TCP", 3 | 4) => TransportSession::Tcp { address: address(1)?, session_id: optional_id()? },
            _ => return Err(wrong("the transport is not known, or its parts are too many or too few")),
        };
        Ok(SourceRecord { topic_index, session, request: None, late_join: None, origin: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_strings_read_back_as_they_print() {
        for text in [
            "LBTRM:10.29.3.1:14391:5eed1234:224.10.10.10:14400[168939009]",
            "LBT-RU:10.29.3.1:14380:77aa55cc[0]",
            "LBT-RU:10.29.3.1:14380[1]",
            "TCP:10.29.3.1:14371:1001[4294967295]",
            "TCP:10.29.3.1:14371[2]",
        ] {
            let record: SourceRecord = text.parse().expect(text);
            assert_eq!(format!("{}[{}]", record.session, record.topic_index), text);
        }
    }

    #[test]
    fn what_is_no_source_string_is_refused_with_what_is_wrong() {
        for (text, what) in [
            ("TCP:10.29.3.1:14371", "brackets"),
            ("TCP:10.29.3.1:14371[x]", "32 bits"),
            ("TCP:10.29.3.1:0[1]", "port is none"),
            ("TCP:10.29.3:14371[1]", "address"),
            ("TCP:10.29.3.1:14371:xyz[1]", "hexadecimal"),
            ("LBTRM:10.29.3.1:14391:5eed1234:10.10.10.10:14400[1]", "group"),
            ("LBTRM:10.29.3.1:14391[1]", "too few"),
            ("LBT-IPC:abc:20001[1]", "not known"),
            ("", "brackets"),
        ] {
            let error = text.parse::<SourceRecord>().expect_err(text).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}

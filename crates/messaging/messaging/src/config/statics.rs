use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use lbt::resolution::{Origin, SourceRecord, TransportSession};

/// A topic and where one source of it is: `px = LBTRM:10.29.4.1:14390:5eed1234:224.10.10.10:14400[7]`, the
/// field's source strings with the topic index, or those of LBT-RU and TCP. An LBT-RM session on two networks
/// has its source's address on network B behind that: `...[7]+10.30.4.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticSource {
    /// The topic.
    pub topic: String,
    /// Transport session and topic index.
    pub record: SourceRecord,
    /// The source's address on network B.
    pub second: Option<Ipv4Addr>,
}

impl StaticSource {
    /// The session as it is known on each network.
    pub(crate) fn records(&self) -> impl Iterator<Item = SourceRecord> {
        let StaticSource { record, second, .. } = self;
        let first = match (record.session, second) {
            // There is no other session at this address: no drawn number needs to tell it from one.
            (TransportSession::LbtRm { key, .. }, Some(_)) => {
                SourceRecord { origin: Some(Origin { source: key.source, context: [0; 8] }), ..*record }
            }
            _ => *record,
        };
        let second = second.map(|address| first.on_network(address));
        std::iter::once(first).chain(second)
    }
}

impl FromStr for StaticSource {
    type Err = String;

    fn from_str(text: &str) -> Result<StaticSource, String> {
        let (topic, place) = text.rsplit_once('=').ok_or("has no `=`")?;
        let topic = topic.trim();
        if topic.is_empty() {
            return Err("has no topic before the `=`".to_owned());
        }
        let (place, second) = match place.rsplit_once('+') {
            Some((place, second)) => (place, Some(second.trim())),
            None => (place, None),
        };
        let record: SourceRecord =
            place.trim().parse().map_err(|e: lbt::resolution::SourceStringError| e.to_string())?;
        let not_an_address = |second| format!("`{second}` is not the IPv4 address of a source on network B");
        let second = second.map(|second| second.parse().map_err(|_| not_an_address(second))).transpose()?;
        match (record.session, second) {
            (TransportSession::LbtRm { key, .. }, Some(second)) if key.source == second => {
                return Err(format!("has the address {second} on both networks"));
            }
            (TransportSession::LbtRm { .. }, _) | (_, None) => {}
            (_, Some(_)) => return Err("has two networks, which are for LBTRM alone".to_owned()),
        }
        Ok(StaticSource { topic: topic.to_owned(), record, second })
    }
}

impl fmt::Display for StaticSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}[{}]", self.topic, self.record.session, self.record.topic_index)?;
        self.second.map_or(Ok(()), |second| write!(f, "+{second}"))
    }
}

config::text_type!(
    StaticSource,
    "a topic and a source string",
    "topic = source string",
    example "px = TCP:10.29.4.1:14371:5eed1234[7]"
);

/// Two sources that a process cannot have both: receivers could not tell them apart.
pub(super) fn check(sources: &[StaticSource]) -> Option<config::Complaint> {
    let same = |a: &StaticSource, b: &StaticSource| {
        a.record.session == b.record.session && a.record.topic_index == b.record.topic_index
    };
    let twice = sources.iter().enumerate().find_map(|(at, a)| {
        sources[..at].iter().find(|b| same(a, b)).map(|b| format!("`{b}` and `{a}` are one source"))
    });
    twice.map(|what| config::Complaint::new(["source_static_session"], what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_and_a_source_string_read_back_as_they_print() {
        for text in [
            "px.eq = LBTRM:10.29.3.1:14391:5eed1234:224.10.10.10:14400[7]",
            "px.eq = LBTRM:10.29.3.1:14391:5eed1234:224.10.10.10:14400[7]+10.30.3.1",
            "a = b = TCP:10.29.3.1:14371:1001[0]",
            "px = LBT-RU:10.29.3.1:14380[1]",
        ] {
            let source: StaticSource = text.parse().expect(text);
            assert_eq!(source.to_string(), text);
        }
        let two = "px = LBTRM:10.29.3.1:14391:5eed1234:224.10.10.10:14400[7]+";
        for bad in [
            "px",
            "= TCP:10.29.3.1:14371[1]",
            "px = TCP:10.29.3.1:14371",
            "px = pigeon[1]",
            "px = TCP:10.29.3.1:14371[1]+10.30.3.1",
            two,
            &format!("{two}10.29.3.1"),
            &format!("{two}eth1"),
        ] {
            assert!(bad.parse::<StaticSource>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_index_of_a_session_is_one_source() {
        let sources = |texts: [&str; 2]| texts.map(|text| text.parse().expect(text));
        let twice = ["px = TCP:10.29.3.1:14371[1]", "py = TCP:10.29.3.1:14371[1]"];
        assert!(check(&sources(twice)).is_some());
        assert!(check(&sources([twice[0], "py = TCP:10.29.3.1:14371[2]"])).is_none());
    }
}

use crate::wire::extension::{SUBTYPE_PRESENCE, SUBTYPE_QUERY, emit_extension, find_extension};
use std::time::Duration;

/// Version of both layouts; others are not read.
const VERSION: u8 = 1;
/// Most topics of a [`Query`].
pub const TOPICS_MAX: usize = 32;
/// Bytes of a [`Query`] without its topics.
const QUERY_HEADER_LEN: usize = 8;
/// Most bytes of a [`Query`].
pub const QUERY_LEN_MAX: usize = QUERY_HEADER_LEN + 4 * TOPICS_MAX;
/// Bytes of an [`Answer`].
pub const ANSWER_LEN: usize = 20;
/// One receiver in 2 to the power of this answers, at least.
const SHARE_MAX: u8 = 31;

/// What a source asks.
///
/// `version u8 = 1, share u8, window u16 ms, number u32, topic indexes u32 each`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// What answers name it by.
    pub number: u32,
    /// Of 2 to the power of this one receiver answers, by chance.
    pub share: u8,
    /// Answers wait at random within this time, milliseconds.
    pub window_ms: u16,
    topics: [u32; TOPICS_MAX],
    count: u8,
}

impl Query {
    /// Asks for the first [`TOPICS_MAX`] of `topics`, by their indexes in the session; for none to take back what was
    /// asked before.
    #[must_use]
    pub fn new(number: u32, share: u8, window_ms: u16, topics: &[u32]) -> Query {
        let (mut all, count) = ([0; TOPICS_MAX], topics.len().min(TOPICS_MAX));
        all[..count].copy_from_slice(&topics[..count]);
        Query { number, share: share.min(SHARE_MAX), window_ms, topics: all, count: count as u8 }
    }

    /// The topics, by their indexes in the session.
    #[must_use]
    pub fn topics(&self) -> &[u32] {
        &self.topics[..usize::from(self.count)]
    }

    /// Within this time receivers answer.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms.into())
    }

    /// Appends the control message that carries it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut data = [0; QUERY_LEN_MAX];
        data[..2].copy_from_slice(&[VERSION, self.share]);
        data[2..4].copy_from_slice(&self.window_ms.to_be_bytes());
        data[4..8].copy_from_slice(&self.number.to_be_bytes());
        let places = data[QUERY_HEADER_LEN..].as_chunks_mut::<4>().0;
        for (place, topic) in places.iter_mut().zip(self.topics()) {
            *place = topic.to_be_bytes();
        }
        let len = QUERY_HEADER_LEN + 4 * self.topics().len();
        emit_extension(out, SUBTYPE_QUERY, &data[..len]);
    }

    /// Reads the data of the extension; `None` for another version or a length that none has.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Query> {
        let (&[VERSION, share, w0, w1, n0, n1, n2, n3], rest) =
            data.split_first_chunk::<QUERY_HEADER_LEN>()?
        else {
            return None;
        };
        let (topics, []) = rest.as_chunks::<4>() else { return None };
        if topics.len() > TOPICS_MAX || share > SHARE_MAX {
            return None;
        }
        let mut query =
            Query::new(u32::from_be_bytes([n0, n1, n2, n3]), share, u16::from_be_bytes([w0, w1]), &[]);
        query.count = topics.len() as u8;
        for (place, topic) in query.topics.iter_mut().zip(topics) {
            *place = u32::from_be_bytes(*topic);
        }
        Some(query)
    }

    /// The query in a trailer, if there is one.
    #[must_use]
    pub fn find(trailer: &[u8]) -> Option<Query> {
        find_extension(trailer, SUBTYPE_QUERY).and_then(Query::parse)
    }
}

/// What a receiver answers.
///
/// `version u8 = 1, three times 0, number u32, receiver u64, topics u32: bit n for the topic n of the query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The query.
    pub number: u32,
    /// The receiver, drawn at random by it; not 0.
    pub receiver: u64,
    /// A bit for each topic of the query that it receives, the lowest for the first.
    pub topics: u32,
}

impl Answer {
    /// Appends the control message that carries it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut data = [0; ANSWER_LEN];
        data[0] = VERSION;
        data[4..8].copy_from_slice(&self.number.to_be_bytes());
        data[8..16].copy_from_slice(&self.receiver.to_be_bytes());
        data[16..].copy_from_slice(&self.topics.to_be_bytes());
        emit_extension(out, SUBTYPE_PRESENCE, &data);
    }

    /// Reads the data of the extension; `None` for another version or length, no receiver or no topic.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Answer> {
        let data: &[u8; ANSWER_LEN] = data.try_into().ok()?;
        let &[VERSION, _, _, _, n0, n1, n2, n3, r0, r1, r2, r3, r4, r5, r6, r7, t0, t1, t2, t3] = data else {
            return None;
        };
        let answer = Answer {
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            receiver: u64::from_be_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
            topics: u32::from_be_bytes([t0, t1, t2, t3]),
        };
        (answer.receiver != 0 && answer.topics != 0).then_some(answer)
    }

    /// The answer in a trailer, if there is one.
    #[must_use]
    pub fn find(trailer: &[u8]) -> Option<Answer> {
        find_extension(trailer, SUBTYPE_PRESENCE).and_then(Answer::parse)
    }
}

//! What was sent, and whether what a node hears agrees with it.

use std::collections::BTreeMap;
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};

/// The messages of a session: last number and length, by topic and first number.
#[derive(Default)]
pub(crate) struct Sent {
    messages: BTreeMap<(u32, u32), (u32, usize)>,
    next: BTreeMap<u32, u32>,
}

impl Sent {
    pub(crate) fn note(&mut self, topic: u32, first: u32, last: u32, len: usize) {
        self.messages.insert((topic, first), (last, len));
        self.next.insert(topic, last.wrapping_add(1));
    }

    pub(crate) fn next(&self, topic: u32) -> Option<u32> {
        self.next.get(&topic).copied()
    }
}

/// Content that tells topic, number and place in the message apart.
pub(crate) fn content(topic: u32, first: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (topic as usize * 31 + first as usize * 7 + at * (1 + first as usize % 3)) as u8)
        .collect()
}

/// One topic at one node.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) first: Option<u32>,
    pub(crate) expected: u32,
    pub(crate) lost: u64,
    pub(crate) end: Option<EndOfStream>,
}

/// Checks what a node hears, event by event.
pub(crate) struct Oracle<'a> {
    pub(crate) sent: &'a Sent,
    pub(crate) streams: &'a mut BTreeMap<u32, Stream>,
}

impl Oracle<'_> {
    fn begun(&mut self, topic: u32, token: u64) -> &mut Stream {
        assert_eq!(token, u64::from(topic) * 10, "the token is the one subscribed with");
        let stream = self.streams.get_mut(&topic).expect("only what was subscribed is heard");
        assert!(stream.first.is_some(), "topic {topic}: the begin comes first");
        assert!(stream.end.is_none(), "topic {topic}: nothing comes after the end");
        stream
    }
}

impl DeliverySink for Oracle<'_> {
    fn deliver(&mut self, m: Delivered<'_>) {
        let (topic, first) = (m.topic_index, m.first_sqn.0);
        let sent = self.sent.messages.get(&(topic, first)).copied();
        let (last, len) = sent.unwrap_or_else(|| panic!("topic {topic} number {first} was never sent"));
        assert_eq!(last, m.sqn.0, "topic {topic} number {first}: its last fragment");
        assert!(m.payload == content(topic, first, len), "topic {topic} number {first}: content");
        let stream = self.begun(topic, m.token);
        assert_eq!(stream.expected, first, "topic {topic}: in order, once, without a hole");
        stream.expected = last.wrapping_add(1);
    }

    fn lost(&mut self, lost: Lost) {
        let stream = self.begun(lost.topic_index, lost.token);
        assert_eq!(stream.expected, lost.first.0, "topic {}: loss in its place", lost.topic_index);
        assert!(lost.count > 0);
        stream.expected = lost.first.0.wrapping_add(lost.count);
        stream.lost += u64::from(lost.count);
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        let stream = self.streams.get_mut(&begin.topic_index).expect("it was subscribed");
        assert!(stream.first.is_none(), "topic {}: begins once", begin.topic_index);
        (stream.first, stream.expected) = (Some(begin.first.0), begin.first.0);
    }

    fn end_of_stream(&mut self, end: EndOfStream) {
        let next = self.sent.next(end.topic_index);
        let stream = self.begun(end.topic_index, end.token);
        assert_eq!(stream.expected, end.next.0, "topic {}: it ends where it is", end.topic_index);
        // of what a source sent last before it died nobody may have heard
        let may_lack = end.tail_unknown || end.reason == EndReason::TimedOut;
        let is_whole = Some(stream.expected) == next || may_lack;
        assert!(is_whole, "topic {}: a tail is missing in silence", end.topic_index);
        stream.end = Some(end);
    }
}

//! What was sent, and whether what is delivered agrees with it.

use std::collections::{BTreeMap, BTreeSet};
use tickcast_lbt::config::Order;
use tickcast_lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};

/// The messages of one session: by topic index and first number.
#[derive(Default)]
pub(crate) struct Sent {
    messages: BTreeMap<(u32, u32), Message>,
    next: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy)]
struct Message {
    last: u32,
    len: usize,
}

impl Sent {
    pub(crate) fn note(&mut self, topic: u32, first: u32, last: u32, len: usize) {
        self.messages.insert((topic, first), Message { last, len });
        self.next.insert(topic, last.wrapping_add(1));
    }

    /// The number after the topic's last; `None` if nothing was sent on it.
    pub(crate) fn next(&self, topic: u32) -> Option<u32> {
        self.next.get(&topic).copied()
    }
}

/// Content that tells session, topic, number and place in the message apart.
pub(crate) fn content(session: u32, topic: u32, first: u32, len: usize) -> Vec<u8> {
    let mut state = (u64::from(session) << 32 | u64::from(first)) ^ (u64::from(topic) << 20);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// One topic of one session at one receiver: the promise, checked event by event.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) order: Order,
    pub(crate) begun: Option<u32>,
    /// The number that must come next; in topic order only.
    pub(crate) expected: u32,
    /// Numbers delivered and lost; in order of arrival only.
    delivered: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    pub(crate) messages: u64,
    pub(crate) lost_count: u64,
    pub(crate) end: Option<EndOfStream>,
}

impl Stream {
    pub(crate) fn new(order: Order) -> Stream {
        Stream {
            order,
            begun: None,
            expected: 0,
            delivered: BTreeSet::new(),
            lost: BTreeSet::new(),
            messages: 0,
            lost_count: 0,
            end: None,
        }
    }

    /// The session ended and everything sent up to `next` must be accounted for.
    pub(crate) fn check_complete(&self, sent: &Sent, topic: u32) {
        let Some(next) = sent.next(topic) else { return };
        let Some(first) = self.begun else { return };
        if self.end.is_some_and(|e| e.tail_unknown) {
            return;
        }
        if self.order == Order::Topic {
            assert_eq!(self.expected, next, "topic {topic}: all numbers are delivered or lost");
            return;
        }
        let mut number = first;
        while number != next {
            let known = self.delivered.contains(&number) || self.lost.contains(&number);
            assert!(known || self.lacks_a_piece(sent, topic, number), "topic {topic}: number {number}");
            number = number.wrapping_add(1);
        }
    }

    /// Whether the number is a fragment of a message of which another fragment is lost.
    fn lacks_a_piece(&self, sent: &Sent, topic: u32, number: u32) -> bool {
        let message = sent.messages.iter().find(|((t, first), m)| {
            *t == topic && number.wrapping_sub(*first) <= m.last.wrapping_sub(*first)
        });
        let Some(((_, first), m)) = message else { return false };
        (0..=m.last.wrapping_sub(*first)).any(|i| self.lost.contains(&first.wrapping_add(i)))
    }
}

/// Checks what one session delivers at one receiver.
pub(crate) struct Oracle<'a> {
    pub(crate) session: u32,
    pub(crate) sent: &'a Sent,
    pub(crate) streams: &'a mut BTreeMap<u32, Stream>,
}

impl Oracle<'_> {
    fn stream(&mut self, topic: u32, token: u64) -> &mut Stream {
        assert_eq!(token, u64::from(topic) * 10, "the token is the one subscribed with");
        let stream = self.streams.get_mut(&topic).expect("only what was subscribed is delivered");
        assert!(stream.end.is_none(), "nothing comes after the end");
        stream
    }

    fn begun_stream(&mut self, topic: u32, token: u64) -> &mut Stream {
        let stream = self.stream(topic, token);
        assert!(stream.begun.is_some(), "the begin comes first");
        stream
    }
}

impl DeliverySink for Oracle<'_> {
    fn deliver(&mut self, m: Delivered<'_>) {
        let (first, last) = (m.first_sqn.0, m.sqn.0);
        let sent = self.sent.messages.get(&(m.topic_index, first)).copied();
        let sent = sent.unwrap_or_else(|| panic!("topic {} number {first} was never sent", m.topic_index));
        assert_eq!(sent.last, last, "topic {} number {first}", m.topic_index);
        let expected = content(self.session, m.topic_index, first, sent.len);
        assert!(m.payload == expected, "topic {} number {first}: content", m.topic_index);
        let stream = self.begun_stream(m.topic_index, m.token);
        stream.messages += 1;
        if stream.order == Order::Topic {
            assert_eq!(stream.expected, first, "topic {}: in order, once, without a hole", m.topic_index);
            stream.expected = last.wrapping_add(1);
            return;
        }
        for i in 0..=last.wrapping_sub(first) {
            let number = first.wrapping_add(i);
            assert!(stream.delivered.insert(number), "topic {} number {number}: twice", m.topic_index);
            assert!(!stream.lost.contains(&number), "topic {} number {number}: lost before", m.topic_index);
        }
    }

    fn lost(&mut self, lost: Lost) {
        let stream = self.begun_stream(lost.topic_index, lost.token);
        assert!(lost.count > 0);
        stream.lost_count += u64::from(lost.count);
        if stream.order == Order::Topic {
            assert_eq!(stream.expected, lost.first.0, "topic {}: loss in its place", lost.topic_index);
            stream.expected = lost.first.0.wrapping_add(lost.count);
            return;
        }
        for i in 0..lost.count {
            let number = lost.first.0.wrapping_add(i);
            assert!(!stream.delivered.contains(&number), "number {number} was delivered");
            assert!(stream.lost.insert(number), "number {number} was reported lost before");
        }
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        let stream = self.stream(begin.topic_index, begin.token);
        assert_eq!(stream.begun.replace(begin.first.0), None, "a stream begins once");
        stream.expected = begin.first.0;
    }

    fn end_of_stream(&mut self, end: EndOfStream) {
        let topic = end.topic_index;
        let sent_next = self.sent.next(topic);
        let stream = self.begun_stream(topic, end.token);
        if stream.order == Order::Topic {
            // numbers that were not the session's may have told losses that were none: it goes on before them
            let goes_on = end.reason == EndReason::Restarted && end.next.0 < stream.expected;
            assert!(
                end.next.0 == stream.expected || goes_on,
                "topic {topic}: the end is where the stream is"
            );
        }
        if end.reason == EndReason::Ended && stream.order == Order::Topic {
            let told = Some(stream.expected) == sent_next || end.tail_unknown;
            assert!(told, "topic {topic}: a tail is missing in silence");
        }
        stream.end = Some(end);
    }
}

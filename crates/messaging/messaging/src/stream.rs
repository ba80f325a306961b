//! The sources that receivers hear, and the way of their events to the handler.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, EndReason, Lost};
use lbt::resolution::{SourceRecord, TransportSession};
use slab::Slab;
use units::{Nanos, Sqn};

use crate::departed::Owed;
use crate::event::{End, Loss, SourceInfo};
use crate::failover::{Failovers, Part};
use crate::index::{Groups, Member, reserve_for_insert};
use crate::session::SessionRef;
use crate::{Handler, Message, Receiver, StreamId};

/// One topic of one transport session that receivers of this context hear. The transports know it by its
/// slot.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// The only receiver; with several, the first.
    receiver: Receiver,
    /// There are several receivers, or one with hot failover: they stand in `all`.
    is_shared: bool,
    all: Vec<Attached>,
    /// It is heard in topic order.
    pub(crate) is_ordered: bool,
    burst_min: u32,
    pub(crate) begun: Option<Sqn>,
    end: Option<End>,
    /// What would have come next, though nothing was heard.
    owed: Option<Sqn>,
    pub(crate) session: SessionRef,
    pub(crate) record: SourceRecord,
    topic: Box<str>,
    session_number: u64,
    /// Numbers told as lost, and how often.
    pub(crate) lost: u64,
    pub(crate) losses: u64,
}

#[derive(Clone, Copy)]
struct Attached {
    receiver: Receiver,
    /// It was told where the stream begins for it.
    begun: bool,
    /// What is below does not concern it, as it was not heard in order.
    from: Option<Sqn>,
    /// What the stream is of its merged one, if it is a hot failover receiver.
    part: Option<Part>,
}

impl Attached {
    fn new(receiver: Receiver, part: Option<Part>) -> Attached {
        Attached { receiver, begun: false, from: None, part }
    }

    /// Whether what ends with the number `last` comes before its first one.
    fn passes_over(&mut self, last: Sqn) -> bool {
        let is_before = self.from.is_some_and(|from| last.precedes(from));
        if !is_before {
            self.from = None;
        }
        is_before
    }
}

impl Stream {
    pub(crate) fn info(&self) -> SourceInfo<'_> {
        let SourceRecord { session: transport, request, .. } = self.record;
        SourceInfo { topic: &self.topic, session: self.session_number, transport, request }
    }

    fn receivers(&self) -> impl Iterator<Item = Receiver> + '_ {
        let only = (!self.is_shared).then_some(self.receiver);
        only.into_iter().chain(self.all.iter().map(|a| a.receiver))
    }
}

/// What a stream is made with.
pub(crate) struct NewStream<'a> {
    pub(crate) receiver: Receiver,
    pub(crate) session: SessionRef,
    pub(crate) session_number: u64,
    pub(crate) record: &'a SourceRecord,
    pub(crate) topic: &'a str,
    pub(crate) burst_min: u32,
    pub(crate) is_ordered: bool,
    /// Of the receiver's merged stream, if it has hot failover.
    pub(crate) part: Option<Part>,
}

/// A receiver that hears the next run of a stream's source.
pub(crate) struct Heir {
    pub(crate) receiver: Receiver,
    pub(crate) topic: Box<str>,
    pub(crate) record: SourceRecord,
}

impl Member for StreamId {
    const LEAST: StreamId = StreamId(0);
}

/// All streams of a context.
#[derive(Default)]
pub(crate) struct Streams {
    entries: Slab<Stream>,
    by_source: BTreeMap<(TransportSession, u32), usize>,
    /// In the order in which they were found.
    by_session: Groups<SessionRef, (StreamId, usize)>,
    by_receiver: Groups<Receiver, usize>,
    next: u32,
    pub(crate) failovers: Failovers,
    /// What the streams of each session have come to.
    pub(crate) tallies: BTreeMap<SessionRef, Tally>,
}

/// A session that has streams.
pub(crate) struct Tally {
    pub(crate) transport: TransportSession,
    pub(crate) number: u64,
    pub(crate) streams: usize,
    /// Numbers that its streams were told as lost, those that are gone too.
    pub(crate) lost: u64,
}

impl Streams {
    pub(crate) fn find(&self, record: &SourceRecord) -> Option<usize> {
        self.by_source.get(&(record.session, record.topic_index)).copied()
    }

    /// The slot that the next stream will have.
    pub(crate) fn next_slot(&self) -> usize {
        self.entries.vacant_key()
    }

    pub(crate) fn insert(&mut self, new: &NewStream<'_>) -> usize {
        let id = StreamId(self.next);
        self.next += 1;
        let key = (new.record.session, new.record.topic_index);
        let (receiver, part) = (new.receiver, new.part);
        reserve_for_insert(&mut self.entries);
        let slot = self.entries.insert(Stream {
            id,
            receiver,
            is_shared: part.is_some(),
            all: part.iter().map(|_| Attached::new(receiver, part)).collect(),
            is_ordered: new.is_ordered,
            burst_min: new.burst_min,
            begun: None,
            end: None,
            owed: None,
            session: new.session,
            record: *new.record,
            topic: new.topic.into(),
            session_number: new.session_number,
            lost: 0,
            losses: 0,
        });
        self.by_source.insert(key, slot);
        self.by_session.insert(new.session, (id, slot));
        let (transport, number) = (new.record.session, new.session_number);
        let tally = Tally { transport, number, streams: 0, lost: 0 };
        self.tallies.entry(new.session).or_insert(tally).streams += 1;
        self.by_receiver.insert(receiver, slot);
        slot
    }

    /// Whether a receiver hears a stream.
    pub(crate) fn hears(&self, slot: usize, receiver: Receiver) -> bool {
        self.entries.get(slot).is_some_and(|stream| stream.receivers().any(|r| r == receiver))
    }

    /// Adds a receiver to a stream that it does not hear yet. `from`, if any, is its first number at the earliest.
    pub(crate) fn attach(&mut self, slot: usize, receiver: Receiver, part: Option<Part>, from: Option<Sqn>) {
        let Some(stream) = self.entries.get_mut(slot) else { return };
        if !stream.is_shared {
            stream.is_shared = true;
            let begun = stream.begun.is_some();
            stream.all.push(Attached { begun, ..Attached::new(stream.receiver, None) });
        }
        stream.all.push(Attached { from, ..Attached::new(receiver, part) });
        self.by_receiver.insert(receiver, slot);
    }

    /// Takes a receiver off all streams; returns those that nobody hears any more, which are gone.
    pub(crate) fn detach(&mut self, receiver: Receiver) -> Vec<Stream> {
        let mut unheard = Vec::new();
        let heard: Vec<usize> = self.by_receiver.of(receiver).collect();
        for slot in heard {
            self.by_receiver.remove(receiver, slot);
            let Some(stream) = self.entries.get_mut(slot) else { continue };
            if stream.is_shared {
                stream.all.retain(|a| a.receiver != receiver);
                if let [last] = stream.all[..] {
                    stream.receiver = last.receiver;
                    // A receiver that was not told of the begin must still be.
                    if last.part.is_none() && (last.begun || stream.begun.is_none()) {
                        stream.is_shared = false;
                        stream.all.clear();
                    }
                } else if stream.all.is_empty() {
                    unheard.push(slot);
                }
            } else if stream.receiver == receiver {
                unheard.push(slot);
            }
        }
        self.failovers.forget(receiver);
        unheard.into_iter().map(|slot| self.remove(slot)).collect()
    }

    fn remove(&mut self, slot: usize) -> Stream {
        let stream = self.entries.remove(slot);
        self.by_source.remove(&(stream.record.session, stream.record.topic_index));
        self.by_session.remove(stream.session, (stream.id, slot));
        if let Entry::Occupied(mut tally) = self.tallies.entry(stream.session) {
            tally.get_mut().streams -= 1;
            if tally.get().streams == 0 {
                tally.remove();
            }
        }
        for receiver in stream.receivers() {
            self.by_receiver.remove(receiver, slot);
        }
        stream
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Stream> {
        self.entries.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Stream> {
        self.entries.get_mut(slot)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Slots are below it.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Whether any stream of a session is left.
    pub(crate) fn has_session(&self, session: SessionRef) -> bool {
        self.by_session.has(session)
    }

    /// Why a session ended, as its transport has told one of its streams.
    pub(crate) fn reason_of_end(&self, session: SessionRef) -> Option<EndReason> {
        self.by_session.of(session).find_map(|(_, slot)| Some(self.entries.get(slot)?.end?.reason))
    }

    /// Who hears the streams of a session.
    pub(crate) fn heirs(&self, session: SessionRef) -> Vec<Heir> {
        let streams = self.by_session.of(session).filter_map(|(_, slot)| self.entries.get(slot));
        let of_stream = |stream: &Stream| {
            let (topic, record) = (stream.topic.clone(), stream.record);
            let heir = |receiver| Heir { receiver, topic: topic.clone(), record };
            stream.receivers().map(heir).collect::<Vec<_>>()
        };
        streams.flat_map(of_stream).collect()
    }

    /// What the streams of a session that is over are owed, by topic index.
    pub(crate) fn owed(&self, session: SessionRef) -> impl Iterator<Item = (u32, Owed)> + '_ {
        self.by_session.of(session).filter_map(|(_, slot)| {
            let stream = self.entries.get(slot)?;
            let next = stream.end.and_then(|end| end.next).or(stream.owed)?;
            Some((stream.record.topic_index, Owed { next, receivers: stream.receivers().collect() }))
        })
    }

    /// A session is over: tells all receivers of its streams, in the order in which these were found.
    /// `reason` is for those of which nothing was heard.
    pub(crate) fn end_session(
        &mut self,
        now: Nanos,
        session: SessionRef,
        reason: EndReason,
        handler: &mut impl Handler,
    ) {
        let slots: Vec<(StreamId, usize)> = self.by_session.of(session).collect();
        let unheard = End { reason, next: None, tail_unknown: reason != EndReason::Ended };
        for (id, slot) in slots {
            let stream = self.remove(slot);
            let end = stream.end.unwrap_or(unheard);
            for part in stream.all.iter().filter_map(|a| a.part) {
                self.failovers.leave(now, part, handler);
            }
            stream.receivers().for_each(|receiver| handler.on_end(receiver, id, &end));
        }
    }
}

/// Hands a session's events on; tokens are slots of streams.
pub(crate) struct Bridge<'a, H> {
    pub(crate) streams: &'a mut Streams,
    pub(crate) handler: &'a mut H,
    pub(crate) now: Nanos,
}

impl<H: Handler> DeliverySink for Bridge<'_, H> {
    #[inline]
    fn deliver(&mut self, message: Delivered<'_>) {
        let Some(stream) = self.streams.entries.get(message.token as usize) else { return };
        if stream.is_shared {
            return self.deliver_shared(&message);
        }
        self.handler.on_message(&Message::of(stream.receiver, stream.id, &message));
    }

    fn lost(&mut self, lost: Lost) {
        let Streams { entries, failovers, tallies, .. } = &mut *self.streams;
        let Some(stream) = entries.get_mut(lost.token as usize) else { return };
        if let Some(tally) = tallies.get_mut(&stream.session) {
            tally.lost += u64::from(lost.count);
        }
        stream.lost += u64::from(lost.count);
        stream.losses += 1;
        let loss = Loss { first: lost.first, count: lost.count, is_burst: lost.count >= stream.burst_min };
        if !stream.is_shared {
            return self.handler.on_loss(stream.receiver, stream.id, loss);
        }
        for attached in &mut stream.all {
            if attached.passes_over(lost.first.plus(lost.count - 1)) {
                continue;
            }
            if !std::mem::replace(&mut attached.begun, true) {
                self.handler.on_begin(attached.receiver, stream.id, lost.first);
            }
            match attached.part {
                None => self.handler.on_loss(attached.receiver, stream.id, loss),
                Some(part) => failovers.on_lost(part),
            }
        }
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        let Some(stream) = self.streams.entries.get_mut(begin.token as usize) else { return };
        stream.begun = Some(begin.first);
        stream.all.iter_mut().for_each(|a| a.begun = true);
        let id = stream.id;
        stream.receivers().for_each(|receiver| self.handler.on_begin(receiver, id, begin.first));
    }

    fn unheard(&mut self, end: EndOfStream, is_known: bool) {
        if let Some(stream) = self.streams.entries.get_mut(end.token as usize).filter(|_| is_known) {
            stream.owed = Some(end.next);
        }
    }

    /// Told for all streams together when the session is dropped.
    fn end_of_stream(&mut self, end: EndOfStream) {
        if let Some(stream) = self.streams.entries.get_mut(end.token as usize) {
            let EndOfStream { reason, next, .. } = end;
            // Where the end itself was not heard, more may have been sent than anybody here knows of.
            let tail_unknown = end.tail_unknown || reason != EndReason::Ended;
            stream.end = Some(End { reason, next: Some(next), tail_unknown });
        }
    }
}

impl<H: Handler> Bridge<'_, H> {
    #[cold]
    #[inline(never)]
    fn deliver_shared(&mut self, message: &Delivered<'_>) {
        let Streams { entries, failovers, .. } = &mut *self.streams;
        let Some(stream) = entries.get_mut(message.token as usize) else { return };
        for attached in &mut stream.all {
            if attached.passes_over(message.sqn) {
                continue;
            }
            if !attached.begun {
                attached.begun = true;
                self.handler.on_begin(attached.receiver, stream.id, message.first_sqn);
            }
            match attached.part {
                None => self.handler.on_message(&Message::of(attached.receiver, stream.id, message)),
                Some(part) => {
                    // The stream may be gone when a message that was held is delivered: its id is not used
                    // again, its slot is.
                    let named = Delivered { token: stream.id.0.into(), ..*message };
                    failovers.on_message(self.now, part, &named, self.handler);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, SocketAddrV4};

    use units::Rng;

    use super::*;
    use crate::Message;

    #[derive(Default)]
    struct Ends(Vec<(Receiver, StreamId)>);

    impl Handler for Ends {
        fn on_message(&mut self, _: &Message<'_>) {}
        fn on_end(&mut self, receiver: Receiver, stream: StreamId, _: &End) {
            self.0.push((receiver, stream));
        }
    }

    fn receiver(number: u32) -> Receiver {
        Receiver { slot: number, number }
    }

    fn record(session: usize, topic_index: u32) -> SourceRecord {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, session as u16);
        let session = TransportSession::Tcp { address, session_id: None };
        SourceRecord { topic_index, session, request: None, late_join: None, origin: None }
    }

    #[test]
    fn sessions_and_receivers_find_their_streams_as_a_look_at_all_streams_does() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(1);
        let mut streams = Streams::default();
        // By session and topic index: the stream, and who hears it, in the order in which they came.
        let mut plain = BTreeMap::<(usize, u32), (StreamId, Vec<Receiver>)>::new();
        for _ in 0..20_000 {
            let (session, topic_index) = (rng.below(4) as usize, rng.below(6) as u32);
            let (receiver, record) = (receiver(rng.below(5) as u32), record(session, topic_index));
            match (rng.below(40), streams.find(&record)) {
                (0, _) => {
                    let mut ends = Ends::default();
                    let of_session = SessionRef::Tcp(session);
                    streams.end_session(Nanos::ZERO, of_session, EndReason::Broken, &mut ends);
                    let mut gone: Vec<_> = plain.extract_if(.., |key, _| key.0 == session).collect();
                    gone.sort_unstable_by_key(|(_, (id, _))| *id);
                    let told = gone.iter().flat_map(|(_, (id, all))| all.iter().map(|r| (*r, *id)));
                    assert!(ends.0.into_iter().eq(told));
                }
                (1, _) => {
                    plain.values_mut().for_each(|(_, all)| all.retain(|r| *r != receiver));
                    let mut gone: Vec<_> = plain.extract_if(.., |_, (_, all)| all.is_empty()).collect();
                    gone.sort_unstable_by_key(|(_, (id, _))| *id);
                    let mut unheard: Vec<_> = streams.detach(receiver).iter().map(|s| s.id).collect();
                    unheard.sort_unstable();
                    assert!(unheard.into_iter().eq(gone.iter().map(|(_, (id, _))| *id)));
                }
                (_, None) => {
                    let slot = streams.insert(&NewStream {
                        receiver,
                        session: SessionRef::Tcp(session),
                        session_number: 1,
                        record: &record,
                        topic: "px",
                        burst_min: 1,
                        is_ordered: true,
                        part: None,
                    });
                    let id = streams.get(slot).map(|s| s.id).expect("it was just made");
                    assert!(plain.insert((session, topic_index), (id, vec![receiver])).is_none());
                }
                (_, Some(slot)) => {
                    let (_, all) = plain.get_mut(&(session, topic_index)).expect("it is there");
                    assert_eq!(streams.hears(slot, receiver), all.contains(&receiver));
                    if !all.contains(&receiver) {
                        streams.attach(slot, receiver, None, None);
                        all.push(receiver);
                    }
                }
            }
            let has_some = plain.keys().any(|(of, _)| *of == session);
            assert_eq!(streams.has_session(SessionRef::Tcp(session)), has_some);
        }
    }
}

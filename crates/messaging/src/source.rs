//! Sources: topics that a context publishes.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbt::resolution::{AdvertisementId, SourceRecord};
use lbt::rm::{SendError, TopicId};
use lbt::wire::lbmc::{Chain, Header};
use units::{Nanos, Sqn};

use crate::closing::Stage;
use crate::context::Context;
use crate::error::ContextError;
use crate::event::{SourceEvent, batch_bits};
use crate::index::reserve_for_insert;
use crate::outgoing::{Claim, Place};
use crate::{Handler, SendFlags, Source, SourceOptions, Transport};

/// A topic of ours.
pub(crate) struct SourceEntry {
    /// As [`sealed`] where it was made.
    number: u32,
    pub(crate) session: usize,
    pub(crate) topic: TopicId,
    /// None if it is not advertised: receivers know of it by configuration.
    pub(crate) advertisement: Option<AdvertisementId>,
    /// Its number in `source_static_session`.
    pub(crate) static_place: Option<usize>,
    /// A send was refused and nobody has said yet that there is room.
    is_refused: bool,
    /// Between the first and the last message of an explicit batch.
    in_batch: bool,
    topic_index: u32,
    pub(crate) name: Box<str>,
    /// Sends refused.
    pub(crate) blocked: u64,
}

impl SourceEntry {
    /// As in its handle.
    pub(crate) fn number(&self) -> u32 {
        sealed(self.number)
    }
}

/// A source's number with the mark of this process, which a child made by `fork` has another of: so a parent's source is
/// none there, without a look of its own on the path of a message. Done twice it gives the number back.
#[inline]
fn sealed(number: u32) -> u32 {
    number ^ net::fork::mark()
}

/// The source that the last message was sent by: the next one is mostly its too, and need not be looked for.
///
/// Its session is the one that [`Turns::last`](crate::outgoing::Turns::last) looks at in each turn: whoever changes
/// that forgets this.
pub(crate) struct Current {
    /// Its number as [`sealed`], which no other handle of the context has, or [`NO_SOURCE`].
    number: u32,
    session: usize,
    topic: TopicId,
}

impl Default for Current {
    fn default() -> Current {
        Current { number: NO_SOURCE, session: 0, topic: TopicId::default() }
    }
}

/// No source is known by it.
const NO_SOURCE: u32 = u32::MAX;

impl Context {
    /// Begins to publish a topic: it is advertised, and its messages number from 0.
    ///
    /// Sources share a transport session where transport and place are the same: for LBT-RM the group. A
    /// topic of `source_static_session` is published there, whatever `options` ask for, and not advertised.
    ///
    /// # Errors
    /// [`ContextError::Io`] if the session cannot be opened, [`ContextError::Topic`] if the name cannot be
    /// sent, [`ContextError::Config`] if an option is out of range; each names what it is about.
    /// [`ContextError::PlainRetention`] if it is to retain encrypted messages and `request_tcp_tls` is off.
    /// [`ContextError::Closed`] after [`Context::end`] or [`Context::close`]. [`ContextError::Forked`] in a child made
    /// by `fork`.
    pub fn create_source(&mut self, topic: &str, options: &SourceOptions) -> Result<Source, ContextError> {
        self.check_open(Stage::Ended)?;
        self.refresh_clock();
        let fixed = self.static_place(topic)?;
        let place = fixed.map_or_else(|| self.place_of(topic, options), |(_, r)| Place::Fixed(r.session));
        let retains = self.retains(options.late_join, place);
        if retains && self.payload_keys.encrypts_at(place) && !self.config.request_tcp_tls {
            return Err(ContextError::PlainRetention);
        }
        if retains && self.direct.address().is_none() {
            self.listen()?;
        }
        let session = self.outgoing_at(place)?;
        self.stir(session);
        let request = self.direct.address();
        let outgoing = &mut self.outgoing[session];
        let (id, topic_index) = outgoing.add_topic(self.now, fixed.map(|(_, record)| record.topic_index));
        let late_join = retains.then_some(session as u32);
        let origin = outgoing.origin;
        let record = SourceRecord { topic_index, session: outgoing.transport, request, late_join, origin };
        let retained = if retains { self.retain_topic(session, topic_index) } else { Ok(()) };
        let advertised = retained.and_then(|()| match fixed {
            Some(_) => Ok(None),
            None => Ok(Some(self.resolver.advertise(self.now, topic, record)?)),
        });
        let advertisement = match advertised {
            Ok(advertisement) => advertisement,
            Err(error) => {
                self.outgoing[session].remove_topic(id);
                self.forget_retained(session, topic_index);
                return Err(error);
            }
        };
        let number = self.next_number();
        let static_place = fixed.map(|(number, _)| number);
        let entry = SourceEntry {
            number: sealed(number),
            session,
            topic: id,
            advertisement,
            static_place,
            is_refused: false,
            in_batch: false,
            topic_index,
            name: topic.into(),
            blocked: 0,
        };
        reserve_for_insert(&mut self.sources);
        let slot = self.sources.insert(entry) as u32;
        self.sources_of.insert(session, slot as usize);
        self.send_resolution();
        Ok(Source { slot, number })
    }

    /// Ends a topic. What was sent before still goes out and is repaired, but is no longer retained.
    pub fn delete_source(&mut self, source: Source) {
        if self.source_entry(source).is_none() {
            return;
        }
        self.mark_batch(source, false);
        self.current = Current::default();
        let gone = self.sources.remove(source.slot as usize);
        self.sources_of.remove(gone.session, source.slot as usize);
        self.outgoing[gone.session].remove_topic(gone.topic);
        self.forget_retained(gone.session, gone.topic_index);
        if let Some(advertisement) = gone.advertisement {
            self.resolver.withdraw(advertisement);
        }
    }

    /// Why there is no such source.
    #[cold]
    #[inline(never)]
    fn unknown(&self) -> SendError {
        if self.home.is_here() { SendError::UnknownTopic } else { SendError::Forked }
    }

    fn place_of(&self, topic: &str, options: &SourceOptions) -> Place {
        match options.transport.unwrap_or_else(|| self.config.transport_of(topic)) {
            Transport::LbtRm => Place::Rm(options.group.unwrap_or_else(|| self.config.group_of(topic))),
            Transport::Tcp => Place::Tcp,
            Transport::LbtIpc => Place::Ipc,
            Transport::LbtRu => Place::Ru,
        }
    }

    /// Where a source's messages go; its session is flushed from now on.
    #[inline]
    fn sending(&mut self, source: Source) -> Result<(usize, TopicId), SendError> {
        self.quiet_until = Nanos::ZERO;
        if self.current.number == sealed(source.number) {
            return Ok((self.current.session, self.current.topic));
        }
        self.change_source(source)
    }

    #[cold]
    #[inline(never)]
    fn change_source(&mut self, source: Source) -> Result<(usize, TopicId), SendError> {
        let Some(entry) = self.source_entry(source) else { return Err(self.unknown()) };
        let (session, topic) = (entry.session, entry.topic);
        self.stir(session);
        self.current = Current { number: sealed(source.number), session, topic };
        Ok((session, topic))
    }

    #[inline]
    fn source_entry(&self, source: Source) -> Option<&SourceEntry> {
        self.sources.get(source.slot as usize).filter(|entry| entry.number == sealed(source.number))
    }

    /// Appends a message, gathered from `parts`, and returns its topic number. It leaves when a datagram is
    /// full, or with [`Context::flush`] (which [`Context::poll`] does).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when more than the configured buffer waits for the rate limit, the socket
    /// or the slowest receiver: nothing was taken, and [`SourceEvent::WakeUp`] tells when there is room
    /// again. [`SendError::TooLong`] above `maximum_message_size`. [`SendError::UnknownTopic`] after
    /// [`Context::delete_source`]. [`SendError::Ended`] after [`Context::end`]. [`SendError::Forked`] in a child
    /// made by `fork`.
    #[inline]
    pub fn send(&mut self, source: Source, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        let (session, topic) = self.sending(source)?;
        match self.outgoing[session].send(self.now, topic, parts) {
            Err(SendError::WouldBlock) => self.send_again(source, None, parts),
            result => result,
        }
    }

    /// The same with flags.
    ///
    /// From a `batch_start` to its `batch_end` what is sent on the session stays together: no turn and no
    /// timer of implicit batching sends it, only a full datagram does (with TCP 64 KiB, in shared memory a
    /// segment), or an explicit flush. A batch that is refused at its start has not begun.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn send_flagged(
        &mut self,
        source: Source,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.send_marked(source, flags, |context| match batch_bits(flags) {
            0 => context.send(source, parts),
            bits => context.send_with_headers(source, &[Header::Batch { flags: bits }], parts),
        })
    }

    /// Sends by `send`, with what the flags ask for before and after that.
    pub(crate) fn send_marked(
        &mut self,
        source: Source,
        flags: SendFlags,
        send: impl FnOnce(&mut Context) -> Result<Sqn, SendError>,
    ) -> Result<Sqn, SendError> {
        let begins = flags.batch_start && self.mark_batch(source, true);
        let result = send(self);
        if if result.is_ok() { flags.batch_end } else { begins } {
            self.mark_batch(source, false);
        }
        if result.is_ok() && (flags.flush || flags.batch_end) {
            self.flush_source(source);
        }
        result
    }

    /// A source begins or ends an explicit batch; tells whether that is a change. What a session has is held
    /// as long as one of its sources is within a batch.
    fn mark_batch(&mut self, source: Source, in_batch: bool) -> bool {
        let Some(entry) =
            self.sources.get_mut(source.slot as usize).filter(|e| e.number == sealed(source.number))
        else {
            return false;
        };
        let changes = std::mem::replace(&mut entry.in_batch, in_batch) != in_batch;
        if changes {
            let session = entry.session;
            self.outgoing[session].count_batch(in_batch);
            self.stir(session);
        }
        changes
    }

    pub(crate) fn send_with_headers(
        &mut self,
        source: Source,
        headers: &[Header<'_>],
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        headers.iter().for_each(|header| chain.push(header));
        let result = self.send_chain(source, &chain, parts);
        self.chain = chain;
        result
    }

    fn send_chain(&mut self, source: Source, chain: &Chain, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        let (session, topic) = self.sending(source)?;
        match self.outgoing[session].send_with(self.now, topic, chain, parts) {
            Err(SendError::WouldBlock) => self.send_again(source, Some(chain), parts),
            result => result,
        }
    }

    /// What waits may be sent by now: tries that, and then once more.
    #[cold]
    #[inline(never)]
    fn send_again(
        &mut self,
        source: Source,
        chain: Option<&Chain>,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.refresh_clock();
        let (session, topic) =
            (self.sources[source.slot as usize].session, self.sources[source.slot as usize].topic);
        self.transmit(self.now, session);
        let outgoing = &mut self.outgoing[session];
        let result = match chain {
            None => outgoing.send(self.now, topic, parts),
            Some(chain) => outgoing.send_with(self.now, topic, chain, parts),
        };
        if result == Err(SendError::WouldBlock) {
            self.refuse(source);
        }
        result
    }

    fn refuse(&mut self, source: Source) {
        self.counters.context.sends_blocked.inc();
        let entry = &mut self.sources[source.slot as usize];
        entry.blocked += 1;
        if !std::mem::replace(&mut entry.is_refused, true) {
            self.outgoing[entry.session].refused.push(source);
        }
    }

    /// Reserves room for a message of exactly `len` bytes where it will be sent from.
    ///
    /// # Errors
    /// As [`Context::send`]; a claim cannot be longer than [`Context::claim_max`].
    #[inline]
    pub fn claim(&mut self, source: Source, len: usize) -> Result<Claim<'_>, SendError> {
        let (session, topic) = self.sending(source)?;
        if self.outgoing[session].is_blocked() {
            self.refresh_clock();
            self.transmit(self.now, session);
            if self.outgoing[session].is_blocked() {
                self.refuse(source);
                return Err(SendError::WouldBlock);
            }
        }
        self.outgoing[session].claim(self.now, topic, len)
    }

    /// The longest message that can be claimed: what fits one datagram of the source's transport.
    #[must_use]
    pub fn claim_max(&self, source: Source) -> usize {
        self.source_entry(source).map_or(0, |entry| self.outgoing[entry.session].claim_max())
    }

    /// Sends what waits of a source's session.
    pub fn flush_source(&mut self, source: Source) {
        if let Some(session) = self.source_entry(source).map(|entry| entry.session) {
            self.stir(session);
            self.flush_outgoing(self.now, session);
        }
    }

    /// The transport session that a source publishes on; prints as the field's source strings do.
    #[must_use]
    pub fn source_transport(&self, source: Source) -> Option<lbt::resolution::TransportSession> {
        self.source_entry(source).map(|entry| self.outgoing[entry.session].transport)
    }

    /// Tells every source of a session.
    pub(crate) fn tell_event(&self, session: usize, event: SourceEvent, handler: &mut impl Handler) {
        for slot in self.sources_of.of(session) {
            if let Some(entry) = self.sources.get(slot) {
                handler.on_source_event(Source::in_slot(slot, entry.number()), event);
            }
        }
    }

    /// Wakes the sources of a session of which sends were refused, if there is room now.
    pub(crate) fn tell_room(&mut self, session: usize, handler: &mut impl Handler) {
        let Some(outgoing) = self.outgoing.get_mut(session) else { return };
        if outgoing.refused.is_empty() || outgoing.is_blocked() {
            return;
        }
        let mut refused = std::mem::take(&mut outgoing.refused);
        for source in refused.drain(..) {
            let entry =
                self.sources.get_mut(source.slot as usize).filter(|e| e.number == sealed(source.number));
            if entry.is_some_and(|entry| std::mem::take(&mut entry.is_refused)) {
                handler.on_source_event(source, SourceEvent::WakeUp);
            }
        }
        // The room of the list is used again.
        self.outgoing[session].refused = refused;
    }
}

/// The multicast group of a topic among those from `low` to `high`: always the same for one name.
pub(crate) fn spread(topic: &str, low: Ipv4Addr, high: Ipv4Addr, port: u16) -> SocketAddrV4 {
    let count = u64::from(high.to_bits().saturating_sub(low.to_bits())) + 1;
    let hash = topic
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    // The low bits of this hash are its weakest.
    let offset = (hash ^ (hash >> 32)) % count;
    SocketAddrV4::new(Ipv4Addr::from_bits(low.to_bits() + offset as u32), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_spread_over_the_groups_of_a_range_and_stay_where_they_are() {
        let (low, high) = (Ipv4Addr::new(224, 10, 10, 10), Ipv4Addr::new(224, 10, 10, 14));
        let mut counts = [0; 5];
        for i in 0..1_000 {
            let topic = format!("px.{i}");
            let group = spread(&topic, low, high, 14_400);
            assert_eq!(group, spread(&topic, low, high, 14_400));
            counts[(group.ip().to_bits() - low.to_bits()) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > 120), "{counts:?}");
        assert_eq!(*spread("px", low, low, 1).ip(), low);
    }
}

//! Sources: topics that a context publishes.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbt::resolution::{AdvertisementId, SourceRecord};
use lbt::rm::{SendError, TopicId};
use lbt::wire::lbmc::{Chain, Header};
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::event::{SourceEvent, batch_bits};
use crate::index::reserve_for_insert;
use crate::outgoing::{Claim, Place};
use crate::publishing::Publishing;
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

impl Publishing {
    /// See [`Context::create_source`](crate::Context::create_source).
    pub(crate) fn create_source(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        topic: &str,
        options: &SourceOptions,
    ) -> Result<Source, ContextError> {
        base.check_home()?;
        base.refresh_clock();
        let fixed = self.static_place(base, topic)?;
        let place =
            fixed.map_or_else(|| self.place_of(base, topic, options), |(_, r)| Place::Fixed(r.session));
        let retains = self.retains(base, options.late_join, place);
        if retains && base.payload_keys.encrypts_at(place) && !base.config.request_tcp_tls {
            return Err(ContextError::PlainRetention);
        }
        if retains && direct.address().is_none() {
            direct.listen(base)?;
        }
        let session = self.outgoing_at(base, place)?;
        self.stir(session);
        let request = direct.address();
        let outgoing = &mut self.outgoing[session];
        let (id, topic_index) = outgoing.add_topic(base.now, fixed.map(|(_, record)| record.topic_index));
        let late_join = retains.then_some(session as u32);
        let origin = outgoing.origin;
        let record = SourceRecord { topic_index, session: outgoing.transport, request, late_join, origin };
        let retained = if retains { self.retain_topic(base, session, topic_index) } else { Ok(()) };
        let advertised = retained.and_then(|()| match fixed {
            Some(_) => Ok(None),
            None => Ok(Some(base.resolver.advertise(base.now, topic, record)?)),
        });
        let advertisement = match advertised {
            Ok(advertisement) => advertisement,
            Err(error) => {
                self.outgoing[session].remove_topic(id);
                base.forget_retained(session, topic_index);
                return Err(error);
            }
        };
        let number = base.next_number();
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
        base.send_resolution();
        Ok(Source { slot, number })
    }

    /// See [`Context::delete_source`](crate::Context::delete_source).
    pub(crate) fn delete_source(&mut self, base: &mut Base, source: Source) {
        if self.source_entry(source).is_none() {
            return;
        }
        self.mark_batch(source, false);
        self.current = Current::default();
        let gone = self.sources.remove(source.slot as usize);
        self.sources_of.remove(gone.session, source.slot as usize);
        self.outgoing[gone.session].remove_topic(gone.topic);
        base.forget_retained(gone.session, gone.topic_index);
        if let Some(advertisement) = gone.advertisement {
            base.resolver.withdraw(advertisement);
        }
    }

    /// Why there is no such source.
    #[cold]
    #[inline(never)]
    fn unknown(&self, base: &Base) -> SendError {
        if base.home.is_here() { SendError::UnknownTopic } else { SendError::Forked }
    }

    fn place_of(&self, base: &Base, topic: &str, options: &SourceOptions) -> Place {
        match options.transport.unwrap_or_else(|| base.config.transport_of(topic)) {
            Transport::LbtRm => Place::Rm(options.group.unwrap_or_else(|| base.config.group_of(topic))),
            Transport::Tcp => Place::Tcp,
            Transport::LbtIpc => Place::Ipc,
            Transport::LbtRu => Place::Ru,
        }
    }

    /// Where a source's messages go; its session is flushed from now on.
    #[inline]
    fn sending(&mut self, base: &mut Base, source: Source) -> Result<(usize, TopicId), SendError> {
        self.quiet_until = Nanos::ZERO;
        if self.current.number == sealed(source.number) {
            return Ok((self.current.session, self.current.topic));
        }
        self.change_source(base, source)
    }

    #[cold]
    #[inline(never)]
    fn change_source(&mut self, base: &mut Base, source: Source) -> Result<(usize, TopicId), SendError> {
        let Some(entry) = self.source_entry(source) else { return Err(self.unknown(base)) };
        let (session, topic) = (entry.session, entry.topic);
        self.stir(session);
        self.current = Current { number: sealed(source.number), session, topic };
        Ok((session, topic))
    }

    #[inline]
    fn source_entry(&self, source: Source) -> Option<&SourceEntry> {
        self.sources.get(source.slot as usize).filter(|entry| entry.number == sealed(source.number))
    }

    /// See [`Context::send`](crate::Context::send).
    #[inline]
    pub(crate) fn send(
        &mut self,
        base: &mut Base,
        source: Source,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let now = base.now;
        let (session, topic) = self.sending(base, source)?;
        match self.outgoing[session].send(now, topic, parts) {
            Err(SendError::WouldBlock) => self.send_again(base, source, None, parts),
            result => result,
        }
    }

    /// See [`Context::send_flagged`](crate::Context::send_flagged).
    pub(crate) fn send_flagged(
        &mut self,
        base: &mut Base,
        source: Source,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.send_marked(base, source, flags, |own, base| match batch_bits(flags) {
            0 => own.send(base, source, parts),
            bits => own.send_with_headers(base, source, &[Header::Batch { flags: bits }], parts),
        })
    }

    /// Sends by `send`, with what the flags ask for before and after that.
    pub(crate) fn send_marked(
        &mut self,
        base: &mut Base,
        source: Source,
        flags: SendFlags,
        send: impl FnOnce(&mut Publishing, &mut Base) -> Result<Sqn, SendError>,
    ) -> Result<Sqn, SendError> {
        let begins = flags.batch_start && self.mark_batch(source, true);
        let result = send(self, base);
        if if result.is_ok() { flags.batch_end } else { begins } {
            self.mark_batch(source, false);
        }
        if result.is_ok() && (flags.flush || flags.batch_end) {
            self.flush_source(base, source);
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
        base: &mut Base,
        source: Source,
        headers: &[Header<'_>],
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        headers.iter().for_each(|header| chain.push(header));
        let result = self.send_chain(base, source, &chain, parts);
        self.chain = chain;
        result
    }

    fn send_chain(
        &mut self,
        base: &mut Base,
        source: Source,
        chain: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let now = base.now;
        let (session, topic) = self.sending(base, source)?;
        match self.outgoing[session].send_with(now, topic, chain, parts) {
            Err(SendError::WouldBlock) => self.send_again(base, source, Some(chain), parts),
            result => result,
        }
    }

    /// What waits may be sent by now: tries that, and then once more.
    #[cold]
    #[inline(never)]
    fn send_again(
        &mut self,
        base: &mut Base,
        source: Source,
        chain: Option<&Chain>,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        base.refresh_clock();
        let (session, topic) =
            (self.sources[source.slot as usize].session, self.sources[source.slot as usize].topic);
        self.transmit(base, base.now, session);
        let outgoing = &mut self.outgoing[session];
        let result = match chain {
            None => outgoing.send(base.now, topic, parts),
            Some(chain) => outgoing.send_with(base.now, topic, chain, parts),
        };
        if result == Err(SendError::WouldBlock) {
            self.refuse(base, source);
        }
        result
    }

    fn refuse(&mut self, base: &mut Base, source: Source) {
        base.counters.context.sends_blocked.inc();
        let entry = &mut self.sources[source.slot as usize];
        entry.blocked += 1;
        if !std::mem::replace(&mut entry.is_refused, true) {
            self.outgoing[entry.session].refused.push(source);
        }
    }

    /// See [`Context::claim`](crate::Context::claim).
    #[inline]
    pub(crate) fn claim(
        &mut self,
        base: &mut Base,
        source: Source,
        len: usize,
    ) -> Result<Claim<'_>, SendError> {
        let (session, topic) = self.sending(base, source)?;
        if self.outgoing[session].is_blocked() {
            base.refresh_clock();
            self.transmit(base, base.now, session);
            if self.outgoing[session].is_blocked() {
                self.refuse(base, source);
                return Err(SendError::WouldBlock);
            }
        }
        self.outgoing[session].claim(base.now, topic, len)
    }

    /// See [`Context::claim_max`](crate::Context::claim_max).
    #[must_use]
    pub(crate) fn claim_max(&self, source: Source) -> usize {
        self.source_entry(source).map_or(0, |entry| self.outgoing[entry.session].claim_max())
    }

    /// See [`Context::flush_source`](crate::Context::flush_source).
    pub(crate) fn flush_source(&mut self, base: &mut Base, source: Source) {
        let now = base.now;
        if let Some(session) = self.source_entry(source).map(|entry| entry.session) {
            self.stir(session);
            self.flush_outgoing(base, now, session);
        }
    }

    /// See [`Context::source_transport`](crate::Context::source_transport).
    #[must_use]
    pub(crate) fn source_transport(&self, source: Source) -> Option<lbt::resolution::TransportSession> {
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

//! What a context publishes: its sources, and the transport sessions they publish on.

mod sessions;

use std::collections::HashMap;
use std::io;

use lbt::resolution::SourceRecord;
use lbt::rm::{SendError, TopicId};
use lbt::wire::lbmc::{Chain, FAILOVER_NUMBER_LEN, Header, failover_element};
use slab::Slab;
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::closing::Stage;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::event::batch_bits;
use crate::index::{Groups, reserve_for_insert};
use crate::outgoing::{Claim, Outgoing, SessionTarget, Turns};
use crate::ports::Ports;
use crate::source::{Current, SourceEntry, sealed};
use crate::{SendFlags, Source, SourceOptions, Transport};

/// The sources of a context and their sessions.
#[derive(Default)]
pub(crate) struct Publishing {
    sources: Slab<SourceEntry>,
    /// By session.
    sources_of: Groups<usize, usize>,
    outgoing: Slab<Outgoing>,
    by_target: HashMap<SessionTarget, usize>,
    ports: Ports,
    turns: Turns,
    /// Sessions of LBT-RU, which have sockets that the poller may not watch.
    with_lanes: Vec<usize>,
    /// Until then flushing has nothing to do, unless something is sent or comes: see [`Publishing::stir`].
    quiet_until: Nanos,
    current: Current,
    /// Headers being built.
    chain: Chain,
}

impl Publishing {
    /// Its sessions, to be looked at.
    pub(crate) fn sessions(&self) -> &Slab<Outgoing> {
        &self.outgoing
    }

    /// Its sources, to be looked at.
    pub(crate) fn sources(&self) -> &Slab<SourceEntry> {
        &self.sources
    }

    /// See [`Context::create_source`](crate::Context::create_source).
    pub(crate) fn create_source(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        topic: &str,
        options: &SourceOptions,
    ) -> Result<Source, ContextError> {
        base.check_open(Stage::Ended)?;
        base.refresh_clock();
        let fixed = self.static_place(base, topic)?;
        let target = fixed
            .map_or_else(|| self.target_of(base, topic, options), |(_, r)| SessionTarget::Fixed(r.session));
        let retains = self.retains(base, options.late_join, target);
        if retains && target.is_encrypted(&base.payload_keys) && !base.config.request_tcp_tls {
            return Err(ContextError::PlainRetention);
        }
        if retains && direct.address().is_none() {
            direct.listen(base)?;
        }
        let session = self.outgoing_at(base, target)?;
        self.stir(session);
        let request = direct.address();
        let outgoing = &mut self.outgoing[session];
        let (id, topic_index) = outgoing.add_topic(base.now, fixed.map(|(_, record)| record.topic_index));
        let late_join = retains.then_some(session as u32);
        let origin = outgoing.origin();
        let record = SourceRecord { topic_index, session: outgoing.transport(), request, late_join, origin };
        let retained = if retains { self.retain_topic(base, session, topic_index) } else { Ok(()) };
        let advertised = retained.and_then(|()| match fixed {
            Some(_) => Ok(None),
            None => Ok(Some(base.resolution.resolver.advertise(base.now, topic, record)?)),
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
        self.watch_receivers(base, source, false);
        let gone = self.sources.remove(source.slot as usize);
        self.sources_of.remove(gone.session, source.slot as usize);
        self.outgoing[gone.session].remove_topic(gone.topic);
        base.forget_retained(gone.session, gone.topic_index);
        if let Some(advertisement) = gone.advertisement {
            base.resolution.resolver.withdraw(advertisement);
        }
    }

    /// Why there is no such source.
    #[cold]
    #[inline(never)]
    fn unknown(&self, base: &Base) -> SendError {
        if base.home.is_here() { SendError::UnknownTopic } else { SendError::Forked }
    }

    fn target_of(&self, base: &Base, topic: &str, options: &SourceOptions) -> SessionTarget {
        match options.transport.unwrap_or_else(|| base.config.transport_of(topic)) {
            Transport::LbtRm => {
                SessionTarget::Rm(options.group.unwrap_or_else(|| base.config.group_of(topic)))
            }
            Transport::Tcp => SessionTarget::Tcp,
            Transport::LbtIpc => SessionTarget::Ipc,
            Transport::LbtRu => SessionTarget::Ru,
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
            self.outgoing[entry.session].refuse(source);
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
        self.source_entry(source).map(|entry| self.outgoing[entry.session].transport())
    }

    /// See [`Context::watch_receivers`](crate::Context::watch_receivers). Whether there is such a source.
    pub(crate) fn watch_receivers(&mut self, base: &mut Base, source: Source, watches: bool) -> bool {
        let Some((session, index)) =
            self.source_entry(source).map(|entry| (entry.session, entry.topic_index))
        else {
            return false;
        };
        self.stir(session);
        self.outgoing[session].watch_receivers(base, index, source, watches);
        true
    }

    /// See [`Context::receivers`](crate::Context::receivers).
    pub(crate) fn receivers(&self, source: Source) -> Option<usize> {
        let entry = self.source_entry(source)?;
        self.outgoing[entry.session].receivers(entry.topic_index)
    }

    /// Whether a source at `target` is to retain what it sends.
    fn retains(&self, base: &Base, asked: Option<bool>, target: SessionTarget) -> bool {
        // Who knows of a fixed one by configuration is not told where to ask.
        asked.unwrap_or(base.config.recovery.late_join) && !matches!(target, SessionTarget::Fixed(_))
    }

    /// Where the configuration wants the next source of a topic: the first of its places that is free, with
    /// its number in `source_static_session`.
    pub(crate) fn static_place(
        &self,
        base: &Base,
        topic: &str,
    ) -> Result<Option<(usize, SourceRecord)>, ContextError> {
        let all = base.config.source_static_session.iter().enumerate();
        let mut places = all.filter(|(_, place)| place.topic == topic).peekable();
        if places.peek().is_none() {
            return Ok(None);
        }
        let is_free = |number: usize| self.sources.iter().all(|(_, s)| s.static_place != Some(number));
        match places.find(|(number, _)| is_free(*number)) {
            Some((number, place)) => {
                base.check_second_network(place)?;
                Ok(Some((number, place.record)))
            }
            None => {
                let what = format!("source_static_session has no further place for topic {topic:?}");
                Err(io::Error::new(io::ErrorKind::AddrInUse, what).into())
            }
        }
    }
    /// See [`Context::send_hot_failover`](crate::Context::send_hot_failover).
    pub(crate) fn send_hot_failover(
        &mut self,
        base: &mut Base,
        source: Source,
        number: u64,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        let mut room = [0; FAILOVER_NUMBER_LEN];
        let numbered = Header::Chain { elements: failover_element(number, &mut room) };
        self.send_marked(base, source, flags, |own, base| match batch_bits(flags) {
            0 => own.send_with_headers(base, source, &[numbered], parts),
            bits => own.send_with_headers(base, source, &[Header::Batch { flags: bits }, numbered], parts),
        })
    }
}

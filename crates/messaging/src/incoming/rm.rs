//! LBT-RM: a socket for each group, a receiver for each session.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::config::{ConfigError, ReceiverConfig};
use lbt::delivery::EndReason;
use lbt::resolution::{Origin, SourceRecord, TransportSession};
use lbt::rm::{Receiver as RmReceiver, SessionKey};
use net::Registrar;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use slab::Slab;
use units::{Nanos, RecentMap};

use super::Look;
use super::reliable::Sessions;
use crate::Handler;
use crate::base::Base;
use crate::base::Port;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::receiving::Receiving;
use crate::recovery;
use crate::session::SessionRef;
use crate::stream::Bridge;
use crate::xdp::Xdp;

/// The LBT-RM sessions of a context.
#[derive(Default)]
pub(crate) struct RmIncoming {
    groups: Slab<Group>,
    joined: HashMap<SocketAddrV4, Joined>,
    /// Those groups that have a socket.
    with_socket: Vec<usize>,
    /// Each with its group.
    pub(crate) sessions: Sessions<RmReceiver, RmPlace>,
    /// A session that is heard on two networks stands here under its key on each.
    by_key: RecentMap<SessionKey, usize>,
    /// Of those sessions the second address, by the first one and their number.
    second_sources: BTreeMap<(Ipv4Addr, usize), Ipv4Addr>,
}

/// Where a session is heard, and what it calls itself.
pub(crate) struct RmPlace {
    group: SocketAddrV4,
    origin: Option<Origin>,
}

/// A multicast group that sessions use, on one network.
struct Group {
    /// None if it is received by AF_XDP.
    socket: Option<UdpSocket>,
    /// Its place among those that have a socket.
    place: usize,
}

/// A group that sessions are on.
#[derive(Default)]
struct Joined {
    session_count: usize,
    /// One on each network that has it.
    groups: Vec<usize>,
}

impl RmIncoming {
    /// Forgets a session, and leaves its group if no other session is on it.
    pub(super) fn close(
        &mut self,
        at: usize,
        registrar: &Registrar,
        xdp: &mut Xdp,
    ) -> Option<TransportSession> {
        let gone = self.sessions.remove(at)?;
        let (key, group) = (gone.receiver.key(), gone.place.group);
        let second = gone.receiver.second_source().map(|source| SessionKey { source, ..key });
        for key in [Some(key), second].into_iter().flatten() {
            if self.by_key.get(key) == Some(at) {
                self.by_key.remove(key);
            }
        }
        self.second_sources.remove(&(key.source, at));
        self.leave(group, registrar, xdp);
        Some(TransportSession::LbtRm { key, group })
    }

    /// A session less is on a group, which is left if it was the last.
    fn leave(&mut self, address: SocketAddrV4, registrar: &Registrar, xdp: &mut Xdp) {
        let Some(joined) = self.joined.get_mut(&address) else { return };
        joined.session_count -= 1;
        if joined.session_count > 0 {
            return;
        }
        for index in self.joined.remove(&address).into_iter().flat_map(|joined| joined.groups) {
            let Group { socket, place } = self.groups.remove(index);
            match socket {
                Some(socket) => {
                    self.with_socket.swap_remove(place);
                    if let Some(&moved) = self.with_socket.get(place) {
                        self.groups[moved].place = place;
                    }
                    // Closing the descriptor takes it out of the poller as well.
                    drop(registrar.remove(&socket));
                }
                None => xdp.leave(address),
            }
        }
    }

    pub(super) fn receives(&self, key: SessionKey) -> bool {
        self.by_key.get(key).is_some()
    }

    /// How many sessions are on a group.
    pub(super) fn sessions_on(&self, group: SocketAddrV4) -> usize {
        self.joined.get(&group).map_or(0, |joined| joined.session_count)
    }

    fn add_group(&mut self, socket: Option<UdpSocket>) -> usize {
        let place = self.with_socket.len();
        if socket.is_some() {
            self.with_socket.push(self.groups.vacant_key());
        }
        self.groups.insert(Group { socket, place })
    }

    /// How many sockets there are.
    pub(crate) fn descriptors(&self) -> usize {
        self.with_socket.len()
    }

    /// Each with its number.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (usize, &UdpSocket)> {
        self.groups.iter().filter_map(|(index, group)| Some((index, group.socket.as_ref()?)))
    }
}

impl Receiving {
    pub(super) fn open_rm(
        &mut self,
        base: &mut Base,
        key: SessionKey,
        group: SocketAddrV4,
        origin: Option<Origin>,
    ) -> Result<(SessionRef, u64), ContextError> {
        if let Some(at) = self.rm_in.by_key.get(key) {
            return Ok((SessionRef::Rm(at), self.rm_in.sessions[at].number));
        }
        let mut receiver = self.rm_in.new_rm(base, key, &base.config.receiver())?;
        if let Some(next) = self.departed.next_of(&(TransportSession::LbtRm { key, group }, None)) {
            receiver.resume(next);
        }
        if !base.is_fixed(&TransportSession::LbtRm { key, group }) {
            receiver.expect_one_run();
        }
        self.rm_in.join_group(base, group)?;
        self.next_session += 1;
        let number = self.next_session;
        let at = self.rm_in.sessions.insert(receiver, number, RmPlace { group, origin });
        self.rm_in.by_key.insert(key, at);
        Ok((SessionRef::Rm(at), number))
    }

    /// Takes what has arrived on a group's socket, up to one batch; false if that was nothing.
    pub(crate) fn on_group_ready(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        index: usize,
        look: Look,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(mut batch) = base.batch.take() else { return false };
        let worked = self.receive_group(base, direct, now, (index, look), &mut batch, handler);
        base.batch = Some(batch);
        if worked && look == Look::Told {
            self.rm_in.send_feedback(base, now);
        }
        worked
    }

    fn receive_group(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        (index, look): (usize, Look),
        batch: &mut ReceiveBatch,
        handler: &mut impl Handler,
    ) -> bool {
        let Some(Group { socket: Some(socket), .. }) = self.rm_in.groups.get(index) else { return false };
        let Ok(received) = look.at(socket, batch) else {
            base.counters.context.receives_failed.inc();
            return false;
        };
        if received.is_empty() {
            return false;
        }
        base.took_batch = received.is_full();
        for (from, datagram) in received.datagrams() {
            self.on_session_datagram(base, direct, now, from, datagram, handler);
        }
        true
    }

    /// Looks at every group's socket once.
    pub(crate) fn poll_groups(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) -> bool {
        let mut worked = false;
        let mut place = 0;
        // Sessions that end take groups with them.
        while let Some(&index) = self.rm_in.with_socket.get(place) {
            worked |= self.on_group_ready(base, direct, now, index, Look::Direct, handler);
            place += 1;
        }
        worked
    }

    #[inline]
    pub(crate) fn on_session_datagram(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let found = SessionKey::of(*from.ip(), datagram).and_then(|key| self.rm_in.by_key.find(key));
        let Some(at) = found else {
            base.counters.context.unknown_datagrams.inc();
            return;
        };
        let mut bridge = Bridge { streams: &mut self.streams, handler, now };
        if self.rm_in.sessions.on_datagram(at, now, from, datagram, &mut bridge) {
            self.look_at_rm(base, direct, at, from, datagram, handler);
        }
    }

    /// A datagram has ended a session. If it is the first that was heard of the next one in its place, it is taken.
    #[cold]
    #[inline(never)]
    fn end_rm_by(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        let now = base.now;
        let has_restarted = self.rm_in.sessions.end_reason(at) == EndReason::Restarted;
        if self.end_rm(base, direct, at, handler) && has_restarted {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now: base.now };
            if self.rm_in.sessions.on_datagram(at, now, from, datagram, &mut bridge)
                && self.has_ended_rm(base, at)
            {
                self.end_rm(base, direct, at, handler);
            }
        }
    }

    pub(super) fn wake_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        now: Nanos,
        handler: &mut impl Handler,
    ) {
        self.rm_in.send_feedback(base, now);
        let due = self.rm_in.sessions.take_due(now);
        for &at in &due {
            let mut bridge = Bridge { streams: &mut self.streams, handler, now };
            if self.rm_in.sessions.on_wakeup(at, now, &mut bridge) {
                self.end_rm(base, direct, at, handler);
            }
        }
        self.rm_in.sessions.give_back_due(due);
        self.rm_in.send_feedback(base, now);
    }

    /// The session goes on in its place, with the source's next run as a rule: its streams end, and begin with the
    /// oldest that the source has.
    #[cold]
    fn restart_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> Result<(), ConfigError> {
        let (run, reason) = (self.rm_in.sessions.run(at), self.rm_in.sessions.end_reason(at));
        let goes_on = self.rm_in.sessions.goes_on(at);
        // Of one that was never heard nothing is asked for.
        let late_start = self.rm_in.sessions.is_heard(at) || self.rm_in.sessions.knows_runs(at);
        let (key, second) =
            (self.rm_in.sessions[at].receiver.key(), self.rm_in.sessions[at].receiver.second_source());
        let mut receiver =
            self.rm_in.new_rm(base, key, &ReceiverConfig { late_start, ..base.config.receiver() })?;
        receiver.succeed(&self.rm_in.sessions[at].receiver);
        if let Some(second) = second {
            let silence = Duration::from_micros(base.config.transport_lbtrm_network_silence_timeout_us);
            receiver.add_network(second, silence, base.counters.networks.clone());
        }
        self.next_session += 1;
        self.rm_in.sessions.replace(at, receiver, self.next_session);
        self.begin_anew(base, direct, SessionRef::Rm(at), run, (reason, goes_on), handler);
        Ok(())
    }

    /// A session is over, or something is to be told of it.
    #[cold]
    #[inline(never)]
    fn look_at_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        from: SocketAddrV4,
        datagram: &[u8],
        handler: &mut impl Handler,
    ) {
        if self.has_ended_rm(base, at) {
            self.end_rm_by(base, direct, at, from, datagram, handler);
        }
    }

    /// Tells what is to be told of a session; whether it is over.
    fn has_ended_rm(&mut self, base: &mut Base, at: usize) -> bool {
        let session = &self.rm_in.sessions[at];
        let transport = TransportSession::LbtRm { key: session.receiver.key(), group: session.place.group };
        if let Some(error) = self.rm_in.sessions.take_unreadable() {
            base.security.unreadable(&transport, error);
        }
        self.rm_in.sessions.has_ended(at)
    }

    /// Ends a session, unless something of it is still asked for. Whether another one has taken its place.
    pub(super) fn end_rm(
        &mut self,
        base: &mut Base,
        direct: &mut Direct,
        at: usize,
        handler: &mut impl Handler,
    ) -> bool {
        let session = SessionRef::Rm(at);
        if self.stays_rm(base, at) && self.restart_rm(base, direct, at, handler).is_ok() {
            return true;
        }
        let recovery = recovery::of(recovery::incoming!(self), session);
        if recovery.is_some_and(|recovery| !recovery.requester.is_idle()) {
            return false;
        }
        self.forget_recovery(base, direct, session);
        let reason = self.rm_in.sessions.end_reason(at);
        let next = self.rm_in.sessions.next_number(at);
        if let Some(transport) = self.rm_in.close(at, &base.registrar, &mut base.xdp) {
            self.end_session(base, session, &transport, reason, handler);
            self.departed.set_next(&(transport, None), next);
        }
        false
    }

    /// Whether a session that has ended is listened for without a break: its source was started again, or may be at
    /// any moment, since its place is fixed.
    fn stays_rm(&self, base: &Base, at: usize) -> bool {
        let Some(receiver) = self.rm_in.sessions.get(at) else { return false };
        let transport =
            || TransportSession::LbtRm { key: receiver.key(), group: self.rm_in.sessions[at].place.group };
        receiver.end_reason() == Some(EndReason::Restarted)
            || (receiver.knows_runs() || !receiver.has_begun()) && base.is_fixed(&transport())
    }
}

impl RmIncoming {
    /// Sockets that a session on a group takes.
    pub(super) fn sockets_for(&self, base: &Base, group: SocketAddrV4) -> usize {
        let is_free = self.joined.contains_key(&group) || base.xdp.is_open();
        if is_free { 0 } else { 1 + usize::from(base.second.is_some()) }
    }

    fn join_group(&mut self, base: &mut Base, address: SocketAddrV4) -> Result<(), ContextError> {
        if !self.joined.contains_key(&address) {
            let groups = self.open_group(base, address)?;
            self.joined.insert(address, Joined { session_count: 0, groups });
        }
        self.joined.entry(address).or_default().session_count += 1;
        Ok(())
    }

    fn open_group(&mut self, base: &mut Base, address: SocketAddrV4) -> Result<Vec<usize>, ContextError> {
        if let Some(xdp) = base.xdp.socket() {
            xdp.join(address)?;
            return Ok(vec![self.add_group(None)]);
        }
        let first = self.open_group_on(base, address, base.multicast_options());
        let Some(options) = base.second_options() else { return Ok(vec![first?]) };
        // One network will do, and the other may have come back when the next session begins.
        match (first, self.open_group_on(base, address, options)) {
            (Err(error), Err(_)) => Err(error),
            (Ok(first), Ok(second)) => Ok(vec![first, second]),
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => {
                base.counters.context.joins_failed.inc();
                Ok(vec![only])
            }
        }
    }

    fn open_group_on(
        &mut self,
        base: &mut Base,
        address: SocketAddrV4,
        options: MulticastOptions,
    ) -> Result<usize, ContextError> {
        let socket = UdpSocket::multicast_receiver(address, options)?;
        base.register_data(&socket, Port::Group, self.groups.vacant_key())?;
        Ok(self.add_group(Some(socket)))
    }

    /// The record by which a source is known here. One of a session on two networks stands for the session on
    /// the first of them, if it is of the same origin: what only calls itself so is a session of its own.
    pub(super) fn known_as(&self, record: &SourceRecord) -> SourceRecord {
        let first = record.on_first_network();
        let TransportSession::LbtRm { key, .. } = first.session else { return *record };
        match self.by_key.get(key) {
            Some(at) if self.sessions[at].place.origin != record.origin => *record,
            _ => first,
        }
    }

    /// A session has been advertised, as `known`, under its address on a network: it is heard there as well.
    pub(super) fn add_network(&mut self, base: &mut Base, record: &SourceRecord, known: &SourceRecord) {
        let (TransportSession::LbtRm { key, .. }, TransportSession::LbtRm { key: first, .. }) =
            (record.session, known.session)
        else {
            return;
        };
        let Some(at) = self.by_key.get(first).filter(|_| key != first) else { return };
        let silence = Duration::from_micros(base.config.transport_lbtrm_network_silence_timeout_us);
        let counters = base.counters.networks.clone();
        if let Some(receiver) = self.sessions.receiver(at)
            && receiver.second_source().is_none()
        {
            receiver.add_network(key.source, silence, counters);
            let first = receiver.key().source;
            self.by_key.insert(key, at);
            self.second_sources.insert((first, at), key.source);
        }
    }

    /// Where a process that is at an address of the first network is on the second one, as a session of its
    /// that is heard tells.
    pub(crate) fn on_second_network(&self, address: SocketAddrV4) -> Option<SocketAddrV4> {
        let of_source = self.second_sources.range((*address.ip(), 0)..=(*address.ip(), usize::MAX));
        of_source.map(|(_, second)| SocketAddrV4::new(*second, address.port())).next()
    }

    /// A receiver of a session of which nothing was heard yet.
    fn new_rm(
        &mut self,
        base: &mut Base,
        key: SessionKey,
        config: &ReceiverConfig,
    ) -> Result<RmReceiver, ConfigError> {
        let counters = &base.counters;
        let (seed, now) = (base.rng.next_u64(), base.now);
        let (own, delivery) = (counters.receiver.clone(), counters.delivery.clone());
        let mut receiver = RmReceiver::new(config, key, seed, now, own, delivery)?;
        if let Some(keys) = &base.keys {
            receiver.authenticate(keys.clone());
        }
        if let Some(keys) = &base.payload_keys.rm {
            receiver.decrypt(keys.clone());
        }
        Ok(receiver)
    }

    /// Sends NAKs that are due for sessions to which something has happened.
    #[inline]
    pub(crate) fn send_feedback(&mut self, base: &Base, now: Nanos) {
        let Base { second, control, counters, .. } = base;
        self.sessions.settle(|receiver| {
            while let Some(feedback) = receiver.poll_transmit(now) {
                let second = second.as_ref().filter(|_| feedback.is_second);
                let socket = second.map_or(control, |second| &second.control);
                match socket.send_run(feedback.to, feedback.datagram, feedback.datagram.len()) {
                    Ok(Sent::Datagrams(_)) => {}
                    // The numbers are NAKed again.
                    Ok(Sent::WouldBlock) | Err(_) => counters.context.sends_failed.inc(),
                }
            }
        });
    }
}

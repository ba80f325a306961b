//! LBT-RM: a socket for each group, a receiver for each session.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lbt::config::{ConfigError, ReceiverConfig};
use lbt::delivery::EndReason;
use lbt::resolution::{Origin, SourceRecord, TransportSession};
use lbt::rm::{Listener, Receiver as RmReceiver, SessionKey};
use net::Registrar;
use net::udp::{MulticastOptions, Sent, UdpSocket};
use slab::Slab;
use units::{Nanos, RecentMap};

use super::reliable::{ReliableIncoming, Sessions};
use crate::base::Base;
use crate::base::Port;
use crate::error::ContextError;
use crate::xdp::Xdp;

/// The LBT-RM sessions of a context.
#[derive(Default)]
pub(crate) struct RmIncoming {
    groups: Slab<Group>,
    joined: HashMap<SocketAddrV4, Joined>,
    /// Those groups that have a socket.
    with_socket: Vec<usize>,
    /// Each with its group.
    pub(crate) sessions: Sessions<RmReceiver, RmDetails>,
    /// A session that is heard on two networks stands here under its key on each.
    by_key: RecentMap<SessionKey, usize>,
    /// Of those sessions the second address, by the first one and their number.
    second_sources: BTreeMap<(Ipv4Addr, usize), Ipv4Addr>,
}

/// Where a session is heard, and what it calls itself.
pub(crate) struct RmDetails {
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
    /// The session with a key.
    pub(crate) fn find(&self, key: SessionKey) -> Option<usize> {
        self.by_key.get(key)
    }

    pub(crate) fn insert(
        &mut self,
        receiver: RmReceiver,
        number: u64,
        group: SocketAddrV4,
        origin: Option<Origin>,
    ) -> usize {
        let key = receiver.key();
        let at = self.sessions.insert(receiver, number, RmDetails { group, origin });
        self.by_key.insert(key, at);
        at
    }

    /// The group that stands at a place among those with sockets.
    #[inline]
    pub(crate) fn with_socket(&self, place: usize) -> Option<usize> {
        self.with_socket.get(place).copied()
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

    pub(crate) fn receives(&self, key: SessionKey) -> bool {
        self.by_key.get(key).is_some()
    }

    /// How many sessions are on a group.
    pub(crate) fn sessions_on(&self, group: SocketAddrV4) -> usize {
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

impl RmIncoming {
    /// Sockets that a session on a group takes.
    pub(crate) fn sockets_for(&self, base: &Base, group: SocketAddrV4) -> usize {
        let is_free = self.joined.contains_key(&group) || base.xdp.is_open();
        if is_free { 0 } else { 1 + usize::from(base.second.is_some()) }
    }

    pub(crate) fn join_group(&mut self, base: &mut Base, address: SocketAddrV4) -> Result<(), ContextError> {
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
    pub(crate) fn known_as(&self, record: &SourceRecord) -> SourceRecord {
        let first = record.on_first_network();
        let TransportSession::LbtRm { key, .. } = first.session else { return *record };
        match self.by_key.get(key) {
            Some(at) if self.sessions[at].details.origin != record.origin => *record,
            _ => first,
        }
    }

    /// A session has been advertised, as `known`, under its address on a network: it is heard there as well.
    pub(crate) fn add_network(&mut self, base: &mut Base, record: &SourceRecord, known: &SourceRecord) {
        let (TransportSession::LbtRm { key, .. }, TransportSession::LbtRm { key: first, .. }) =
            (record.session, known.session)
        else {
            return;
        };
        let Some(at) = self.by_key.get(first).filter(|_| key != first) else { return };
        let silence = Duration::from_micros(base.config.lbtrm.network_silence_timeout_us);
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
    pub(crate) fn new_rm(
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
}

impl ReliableIncoming for RmIncoming {
    type Transport = Listener;
    type Details = RmDetails;

    const CONNECTS: bool = false;

    fn sessions(&self) -> &Sessions<RmReceiver, RmDetails> {
        &self.sessions
    }

    fn sessions_mut(&mut self) -> &mut Sessions<RmReceiver, RmDetails> {
        &mut self.sessions
    }

    /// That of a group, if it has one.
    #[inline]
    fn socket(&self, index: usize) -> Option<&UdpSocket> {
        self.groups.get(index)?.socket.as_ref()
    }

    #[inline]
    fn find_next(&mut self, from: SocketAddrV4, datagram: &[u8]) -> Option<usize> {
        self.by_key.find(SessionKey::of(*from.ip(), datagram)?)
    }

    fn transport(&self, at: usize) -> TransportSession {
        let session = &self.sessions[at];
        TransportSession::LbtRm { key: session.receiver.key(), group: session.details.group }
    }

    /// NAKs and reports.
    #[inline]
    fn send_feedback(&mut self, base: &Base, now: Nanos) {
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

    fn new_in_place(&mut self, base: &mut Base, at: usize) -> Result<RmReceiver, ConfigError> {
        // Of one that was never heard nothing is asked for.
        let late_start = self.sessions.is_heard(at) || self.sessions.knows_runs(at);
        let before = &self.sessions[at].receiver;
        let (key, second) = (before.key(), before.second_source());
        let mut receiver =
            self.new_rm(base, key, &ReceiverConfig { late_start, ..base.config.receiver() })?;
        if let Some(second) = second {
            let silence = Duration::from_micros(base.config.lbtrm.network_silence_timeout_us);
            receiver.add_network(second, silence, base.counters.networks.clone());
        }
        Ok(receiver)
    }

    fn stays(&self, base: &Base, at: usize) -> bool {
        let Some(receiver) = self.sessions.get(at) else { return false };
        receiver.end_reason() == Some(EndReason::Restarted)
            || (receiver.knows_runs() || !receiver.has_begun()) && base.is_fixed(&self.transport(at))
    }

    /// Its group is left if no other session is on it.
    fn close(&mut self, base: &mut Base, at: usize) -> Option<TransportSession> {
        let gone = self.sessions.remove(at)?;
        let (key, group) = (gone.receiver.key(), gone.details.group);
        let second = gone.receiver.second_source().map(|source| SessionKey { source, ..key });
        for key in [Some(key), second].into_iter().flatten() {
            if self.by_key.get(key) == Some(at) {
                self.by_key.remove(key);
            }
        }
        self.second_sources.remove(&(key.source, at));
        self.leave(group, &base.registrar, &mut base.xdp);
        Some(TransportSession::LbtRm { key, group })
    }
}

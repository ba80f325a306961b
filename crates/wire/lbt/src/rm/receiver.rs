use super::networks::Networks;
use crate::authentication::{Keys, SEAL_LEN, Sealer};
use crate::config::{ConfigError, ReceiverConfig};
use crate::delivery::{EndReason, Sink};
use crate::encryption::{PayloadKeys, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, Arrived, Feedback, NAK_NUMBERS_MAX, Phase, RunId, Standing, tally};
use crate::wire::lbtrm::{HEADER_LEN, Nak, Packet, SessionHeader};
use crate::wire::list::NcfReason;
use counters::table::{LbmDelivery, LbtrmNetworks, LbtrmReceiver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// The receiving side of one LBT-RM transport session.
pub type Receiver = session::Receiver<Listener>;

/// What tells transport sessions apart: the UDP source port of data is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// Address of the source.
    pub source: Ipv4Addr,
    /// Its unicast port and session id.
    pub session: SessionHeader,
}

impl SessionKey {
    /// The session a datagram from `source` belongs to, without looking further; `None` if it is too short.
    #[must_use]
    pub fn of(source: Ipv4Addr, datagram: &[u8]) -> Option<SessionKey> {
        let &[_, _, p0, p1, s0, s1, s2, s3] = datagram.first_chunk::<HEADER_LEN>()?;
        let ucast_port = u16::from_be_bytes([p0, p1]);
        let session = SessionHeader { ucast_port, session_id: u32::from_be_bytes([s0, s1, s2, s3]) };
        Some(SessionKey { source, session })
    }
}

/// What the receiver of an LBT-RM session has of its own.
pub struct Listener {
    key: SessionKey,
    preactivity: Duration,
    /// Checks what comes in and signs what goes out, where that is wanted.
    sealer: Option<Box<Sealer>>,
    /// A NAK, report or answer being handed out.
    out: Vec<u8>,
    /// A second network that carries the session.
    networks: Option<Box<Networks>>,
}

impl Receiver {
    /// A receiver that has heard nothing yet. `seed` is where its random waits come from.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &ReceiverConfig,
        key: SessionKey,
        seed: u64,
        now: Nanos,
        counters: Arc<LbtrmReceiver>,
        delivery_counters: Arc<LbmDelivery>,
    ) -> Result<Receiver, ConfigError> {
        let preactivity = match config.preactivity_timeout {
            Duration::ZERO => config.activity_timeout,
            span => span,
        };
        let out = Vec::with_capacity(HEADER_LEN + 4 + 4 * NAK_NUMBERS_MAX + SEAL_LEN);
        let transport = Listener { key, preactivity, sealer: None, out, networks: None };
        Receiver::with_transport(config, transport, seed, now, counters, delivery_counters)
    }

    /// Takes only what is signed from now on, and signs NAKs and reports.
    pub fn authenticate(&mut self, keys: Keys) {
        self.transport.sealer = Some(Box::new(Sealer::new(keys, self.transport.key.source)));
    }

    /// Goes on with other keys, if it has some at all: what is signed from now on is signed with the new one, and
    /// only what is signed with one of `keys` is taken.
    pub fn rekey(&mut self, keys: Keys) {
        Sealer::rekey(&mut self.transport.sealer, keys);
    }

    /// Takes only messages that are encrypted from now on.
    pub fn decrypt(&mut self, keys: PayloadKeys) {
        let SessionKey { source, session: SessionHeader { ucast_port, session_id } } = self.transport.key;
        self.decrypt_as(SessionName::rm(SocketAddrV4::new(source, ucast_port), session_id), keys);
    }

    /// From now on the session is heard on two networks: on the second the source's address is `second`.
    /// `silence` is how long one may bring nothing while the other does before it counts as silent.
    pub fn add_network(&mut self, second: Ipv4Addr, silence: Duration, counters: Arc<LbtrmNetworks>) {
        self.transport.networks = Some(Box::new(Networks::new(second, silence, counters)));
    }

    /// The source's address on the second network, if there is one.
    #[must_use]
    pub fn second_source(&self) -> Option<Ipv4Addr> {
        self.transport.networks.as_ref().map(|networks| networks.second())
    }

    /// Takes a datagram that arrived from the group.
    ///
    /// # Errors
    /// What is wrong with it; it was counted and dropped whole, and nothing of it was delivered.
    #[inline]
    pub fn on_datagram<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        match self.take(now, from, datagram, sink) {
            Ok(()) => Ok(()),
            Err(error) => {
                tally::dropped(&self.counters, &error);
                Err(error)
            }
        }
    }

    #[inline]
    fn take<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let packet = Packet::parse(datagram)?;
        let (source, session) = (*from.ip(), packet.session());
        let is_first = source == self.transport.key.source;
        let is_source = is_first || self.second_source() == Some(source);
        if !is_source || session != self.transport.key.session || self.has_ended() {
            let (found, limit) = (session.session_id, self.transport.key.session.session_id);
            return Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit });
        }
        let (mut bare, mut packet) = (datagram, packet);
        if let Some(sealer) = &self.transport.sealer {
            bare = sealer.open(datagram)?;
            packet = Packet::parse(bare)?;
        }
        if self.watches_runs() {
            let (rest, run) = RunId::split(bare);
            packet = Packet::parse(rest)?;
            let end = match packet {
                Packet::Data(data) if !data.is_retransmission() => Some(data.sqn.next()),
                Packet::SessionMessage(sm) => Some(sm.lead_sqn.next()),
                _ => None,
            };
            if !self.is_of_this_run(now, run, end, sink) {
                return Ok(());
            }
        }
        if let Some(networks) = self.transport.networks.take() {
            return self.take_of_two(now, networks, !is_first, packet, datagram, sink);
        }
        self.take_packet(now, packet, datagram, sink)
    }

    #[inline]
    fn take_packet<S: Sink>(
        &mut self,
        now: Nanos,
        packet: Packet<'_>,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        match packet {
            Packet::Data(data) => {
                let again = data.is_retransmission();
                let (sqn, trail, messages) = (data.sqn, data.trail_sqn, data.messages);
                let len = datagram.len();
                self.on_data(now, Arrived { sqn, trail, again, messages, len }, sink)?;
            }
            Packet::SessionMessage(sm) => {
                self.on_session_message(now, sm.lead_sqn, sm.trail_sqn, sink)?;
                self.on_pulse(now, sm.sm_sqn, sm.trailer);
            }
            Packet::Ncf(ncf) => self.on_ncf(now, ncf.reason, ncf.trail_sqn, ncf.numbers, sink),
            Packet::Nak(_) => {
                let (found, limit) = (u32::from(datagram[0]), 0);
                return Err(WireError::Unsupported { part: Part::LbtrmType, found, limit });
            }
        }
        self.heard = now;
        Ok(())
    }

    /// Takes a packet that another network brings as well.
    #[inline(never)]
    fn take_of_two<S: Sink>(
        &mut self,
        now: Nanos,
        mut networks: Box<Networks>,
        is_second: bool,
        packet: Packet<'_>,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        networks.hear(now, is_second);
        let taken = match packet {
            Packet::Data(data) => match self.standing(data.sqn) {
                Standing::Past => {
                    networks.on_second_copy();
                    self.heard = now;
                    if !data.is_retransmission() {
                        self.on_copy(now, data.sqn, sink);
                    }
                    Ok(())
                }
                standing => {
                    let again = data.is_retransmission();
                    let taken = self.take_packet(now, packet, datagram, sink);
                    if taken.is_ok() {
                        networks.on_first_copy(is_second, standing, again);
                    }
                    taken
                }
            },
            Packet::SessionMessage(sm) if !networks.is_new(sm.sm_sqn) => {
                // What congestion control says with it was taken.
                self.heard = now;
                self.on_session_message(now, sm.lead_sqn, sm.trail_sqn, sink)
            }
            // Put off once, not twice.
            Packet::Ncf(ncf) if ncf.reason != NcfReason::DoNotRetry && !networks.is_guide(is_second) => {
                Ok(())
            }
            _ => self.take_packet(now, packet, datagram, sink),
        };
        self.transport.networks = Some(networks);
        taken
    }

    /// Does what is due: gives up what is too old, ends a session that fell silent. NAKs come out of
    /// [`Receiver::poll_transmit`] afterwards.
    pub fn on_wakeup<S: Sink>(&mut self, now: Nanos, sink: &mut S) {
        match self.phase() {
            Phase::Live => self.age(now, sink),
            Phase::Waiting if now >= self.heard + self.transport.preactivity => {
                self.end(EndReason::TimedOut, sink);
            }
            Phase::Waiting | Phase::Ended => {}
        }
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile: nobody is given up for the
    /// silence of that time alone.
    pub fn after_pause(&mut self, now: Nanos) {
        let timeout = if self.phase() == Phase::Live { self.activity } else { self.transport.preactivity };
        self.pardon(now, timeout);
    }

    /// The next NAK, report or answer to send, if one is due; to be called until there is none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Feedback<'_>> {
        let said = if self.next_naks(now).is_empty() { Some(self.next_said(now)?) } else { None };
        let Listener { key, out, sealer, networks, .. } = &mut self.transport;
        out.clear();
        match said {
            None => Nak::emit(key.session, &self.naks, out),
            Some(said) => {
                Nak::emit_header(key.session, 0, 0, out);
                said.emit(out);
            }
        }
        if let Some(sealer) = sealer {
            sealer.append(out);
        }
        let second = networks.as_mut().and_then(|networks| networks.way_of_feedback());
        let to = SocketAddrV4::new(second.unwrap_or(key.source), key.session.ucast_port);
        Some(Feedback { to, datagram: out, is_second: second.is_some() })
    }

    /// When [`Receiver::on_wakeup`] and [`Receiver::poll_transmit`] are to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match self.phase() {
            Phase::Ended => Nanos::NEVER,
            Phase::Waiting => self.heard + self.transport.preactivity,
            Phase::Live => self.live_due(),
        }
    }

    /// The session.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.transport.key
    }

    /// Memory held: loss map, held datagrams, messages being put together, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.parts_memory_bytes() + self.transport.out.capacity()
    }
}

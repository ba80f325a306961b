use super::networks::Networks;
use crate::authentication::SEAL_LEN;
use crate::config::{ConfigError, ReceiverConfig};
use crate::delivery::{DeliverySink, EndReason};
use crate::encryption::{PayloadKeys, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, Arrived, NAK_NUMBERS_MAX, Phase, ReceiverTransport, RunId, Standing};
use crate::wire::lbtrm::{HEADER_LEN, Nak, Packet, SessionHeader};
use crate::wire::list::NcfReason;
use counters::table::{LbmDelivery, LbtrmNetworks, LbtrmReceiver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

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
        let transport = Listener { key, preactivity, networks: None };
        let out_max = HEADER_LEN + 4 + 4 * NAK_NUMBERS_MAX + SEAL_LEN;
        let own = counters.session.clone();
        Receiver::with_transport(config, (transport, out_max), seed, now, own, delivery_counters)
    }

    /// Takes only messages that are encrypted from now on.
    pub fn decrypt(&mut self, keys: PayloadKeys) {
        let SessionKey { source, session: SessionHeader { ucast_port, session_id } } = self.transport().key;
        self.decrypt_as(SessionName::rm(SocketAddrV4::new(source, ucast_port), session_id), keys);
    }

    /// From now on the session is heard on two networks: on the second the source's address is `second`.
    /// `silence` is how long one may bring nothing while the other does before it counts as silent.
    pub fn add_network(&mut self, second: Ipv4Addr, silence: Duration, counters: Arc<LbtrmNetworks>) {
        self.transport_mut().networks = Some(Box::new(Networks::new(second, silence, counters)));
    }

    /// The source's address on the second network, if there is one.
    #[must_use]
    pub fn second_source(&self) -> Option<Ipv4Addr> {
        self.transport().second_source()
    }

    /// The session.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.transport().key
    }
}

impl Listener {
    /// The source's address on the second network, if there is one.
    fn second_source(&self) -> Option<Ipv4Addr> {
        self.networks.as_ref().map(|networks| networks.second())
    }
}

impl ReceiverTransport for Listener {
    fn source(&self) -> Ipv4Addr {
        self.key.source
    }

    #[inline]
    fn take<S: DeliverySink>(
        session: &mut Receiver,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let mut packet = Packet::parse(datagram)?;
        let (source, header) = (*from.ip(), packet.session());
        let Listener { key, .. } = session.transport();
        let is_first = source == key.source;
        let is_source = is_first || session.transport().second_source() == Some(source);
        if !is_source || header != key.session || session.has_ended() {
            let (found, limit) = (header.session_id, key.session.session_id);
            return Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit });
        }
        let (bare, is_sealed) = session.open(datagram)?;
        if is_sealed {
            packet = Packet::parse(bare)?;
        }
        if session.watches_runs() {
            let (rest, run) = RunId::split(bare);
            packet = Packet::parse(rest)?;
            let end = match packet {
                Packet::Data(data) if !data.is_retransmission() => Some(data.sqn.next()),
                Packet::SessionMessage(sm) => Some(sm.lead_sqn.next()),
                _ => None,
            };
            if !session.is_of_this_run(now, run, end, sink) {
                return Ok(());
            }
        }
        if let Some(networks) = session.transport_mut().networks.take() {
            return take_of_two(session, now, networks, !is_first, packet, datagram, sink);
        }
        take_packet(session, now, packet, datagram, sink)
    }

    fn failure(&self, now: Nanos, phase: Phase, heard: Nanos) -> Option<EndReason> {
        (now >= self.due(phase, heard)).then_some(EndReason::TimedOut)
    }

    fn due(&self, phase: Phase, heard: Nanos) -> Nanos {
        if phase == Phase::Waiting { heard + self.preactivity } else { Nanos::NEVER }
    }

    fn after_pause(&mut self, _: Nanos, phase: Phase) -> Option<Duration> {
        (phase != Phase::Live).then_some(self.preactivity)
    }

    fn write_nak(&self, numbers: &[Sqn], out: &mut Vec<u8>) {
        Nak::emit(self.key.session, numbers, out);
    }

    fn write_empty_nak(&self, out: &mut Vec<u8>) {
        Nak::emit_header(self.key.session, 0, 0, out);
    }

    fn feedback_to(&mut self) -> (SocketAddrV4, bool) {
        let second = self.networks.as_mut().and_then(|networks| networks.network_of_feedback());
        let to = SocketAddrV4::new(second.unwrap_or(self.key.source), self.key.session.ucast_port);
        (to, second.is_some())
    }
}

#[inline]
fn take_packet<S: DeliverySink>(
    session: &mut Receiver,
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
            session.on_data(now, Arrived { sqn, trail, again, messages, len }, sink)?;
        }
        Packet::SessionMessage(sm) => {
            session.on_session_message(now, sm.lead_sqn, sm.trail_sqn, sink)?;
            session.on_pulse(now, sm.sm_sqn, sm.trailer);
        }
        Packet::Ncf(ncf) => session.on_ncf(now, ncf.reason, ncf.trail_sqn, ncf.numbers, sink),
        Packet::Nak(_) => {
            let (found, limit) = (u32::from(datagram[0]), 0);
            return Err(WireError::Unsupported { part: Part::LbtrmType, found, limit });
        }
    }
    session.hear(now);
    Ok(())
}

/// Takes a packet that another network brings as well.
#[inline(never)]
fn take_of_two<S: DeliverySink>(
    session: &mut Receiver,
    now: Nanos,
    mut networks: Box<Networks>,
    is_second: bool,
    packet: Packet<'_>,
    datagram: &[u8],
    sink: &mut S,
) -> Result<(), WireError> {
    networks.hear(now, is_second);
    let taken = match packet {
        Packet::Data(data) => match session.standing(data.sqn) {
            Standing::Past => {
                networks.on_second_copy();
                session.hear(now);
                if !data.is_retransmission() {
                    session.on_copy(now, data.sqn, sink);
                }
                Ok(())
            }
            standing => {
                let again = data.is_retransmission();
                let taken = take_packet(session, now, packet, datagram, sink);
                if taken.is_ok() {
                    networks.on_first_copy(is_second, standing, again);
                }
                taken
            }
        },
        Packet::SessionMessage(sm) if !networks.is_new(sm.sm_sqn) => {
            // What congestion control says with it was taken.
            session.hear(now);
            session.on_session_message(now, sm.lead_sqn, sm.trail_sqn, sink)
        }
        // Put off once, not twice.
        Packet::Ncf(ncf) if ncf.reason != NcfReason::DoNotRetry && !networks.is_guide(is_second) => Ok(()),
        _ => take_packet(session, now, packet, datagram, sink),
    };
    session.transport_mut().networks = Some(networks);
    taken
}

use super::connection::{Connection, SessionKey};
use crate::authentication::SEAL_LEN;
use crate::config::{ConfigError, LbtruReceiverConfig};
use crate::delivery::{DeliverySink, EndReason};
use crate::encryption::{PayloadKeys, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, Arrived, Feedback, NAK_NUMBERS_MAX, Phase, ReceiverTransport, RunId};
use crate::wire::lbtru::{self, Body, FLAG_SYN, HEADER_LEN, OPTION_LEN, Options, Packet};
use counters::table::{LbmDelivery, LbtruReceiver};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// The receiving side of one LBT-RU transport session.
pub type Receiver = session::Receiver<Subscriber>;

/// What the receiver of an LBT-RU session has of its own: the connection to the source.
pub struct Subscriber {
    connection: Connection,
    counters: Arc<LbtruReceiver>,
}

impl Receiver {
    /// A receiver that is going to connect. `client_id` is drawn anew for each; `seed` is where its random
    /// waits come from.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &LbtruReceiverConfig,
        key: SessionKey,
        client_id: u32,
        seed: u64,
        now: Nanos,
        counters: Arc<LbtruReceiver>,
        delivery_counters: Arc<LbmDelivery>,
    ) -> Result<Receiver, ConfigError> {
        config.check()?;
        let connection = Connection::new(config, key, client_id, now);
        let out_max = HEADER_LEN + 4 + 4 * NAK_NUMBERS_MAX + OPTION_LEN + SEAL_LEN;
        let session = counters.session.clone();
        let transport = (Subscriber { connection, counters }, out_max);
        Receiver::with_transport(&config.session, transport, seed, now, session, delivery_counters)
    }

    /// Takes only messages that are encrypted from now on.
    pub fn decrypt(&mut self, keys: PayloadKeys) {
        self.decrypt_as(self.transport().session_name(), keys);
    }

    /// What tells the source that this receiver leaves, since its session is over or it wants no more of it; once.
    /// The source forgets it then, and does not wait for it when it closes.
    pub fn leave(&mut self) -> Option<Feedback<'_>> {
        self.lend_written(|Subscriber { connection, counters }, highest, out| {
            connection.write_leave(highest, out, &counters.connection)
        })
    }

    /// The session.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.transport().connection.key
    }
}

impl Subscriber {
    fn session_name(&self) -> SessionName {
        let Connection { key, session_id, .. } = &self.connection;
        SessionName::ru(key.source, session_id.unwrap_or(0))
    }
}

impl ReceiverTransport for Subscriber {
    fn source(&self) -> Ipv4Addr {
        *self.connection.key.source.ip()
    }

    #[inline]
    fn take<S: DeliverySink>(
        session: &mut Receiver,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let len = datagram.len();
        let (bare, _) = session.open(datagram)?;
        let arrived = match usual(session, from, bare, len) {
            Some(arrived) => arrived,
            None => match take_any(session, now, from, bare, len, sink)? {
                Some(arrived) => arrived,
                None => return Ok(()),
            },
        };
        session.on_data(now, arrived, sink)?;
        session.transport_mut().connection.confirmed();
        note_heard(session, now);
        Ok(())
    }

    fn on_refused(&mut self, error: &WireError) -> bool {
        if matches!(error, WireError::Inconsistent { part: Part::LbtruSession, .. }) {
            self.counters.connection.dgrams_dropped_sid.inc();
            return false;
        }
        if *error == WireError::NoPayloadKeys {
            // It was of the session, and its number was taken.
            self.connection.confirmed();
            self.connection.heard();
        }
        true
    }

    fn failure(&self, now: Nanos, _: Phase, _: Nanos) -> Option<EndReason> {
        if self.connection.is_reset(now) {
            return Some(EndReason::Reset);
        }
        self.connection.has_failed(now).then_some(EndReason::TimedOut)
    }

    fn due(&self, _: Phase, _: Nanos) -> Nanos {
        self.connection.due()
    }

    fn after_pause(&mut self, now: Nanos, _: Phase) -> Option<Duration> {
        self.connection.after_pause(now);
        None
    }

    #[inline]
    fn write_due_at(&self) -> Nanos {
        self.connection.due()
    }

    /// A connect request or a sign of life.
    fn write_due(&mut self, now: Nanos, highest: Sqn, out: &mut Vec<u8>) -> bool {
        self.connection.write_due(now, highest, out, &self.counters.connection)
    }

    fn write_nak(&self, numbers: &[Sqn], out: &mut Vec<u8>) {
        lbtru::emit_nak(Options::session(self.connection.session_id), numbers, out);
    }

    fn write_empty_nak(&self, out: &mut Vec<u8>) {
        lbtru::emit_nak(Options::session(self.connection.session_id), &[], out);
    }

    fn feedback_to(&mut self) -> (SocketAddrV4, bool) {
        (self.connection.key.source, false)
    }
}

/// Data in the midst of a session without runs, which is nearly all that comes.
#[inline]
fn usual<'a>(session: &Receiver, from: SocketAddrV4, bare: &'a [u8], len: usize) -> Option<Arrived<'a>> {
    let (connection, packet) = (&session.transport().connection, Packet::usual(bare)?);
    let is_of_session = from == connection.key.source && packet.options.session_id == connection.session_id;
    if !is_of_session || session.phase() != Phase::Live || session.watches_runs() {
        return None;
    }
    arrived(&packet, len)
}

/// The session was heard.
#[inline]
fn note_heard(session: &mut Receiver, now: Nanos) {
    session.hear(now);
    let Subscriber { connection, counters } = session.transport_mut();
    if connection.heard() {
        counters.connection.rsts_outlived.inc();
    }
}

/// Takes whatever may come; data is returned, to be taken, if it is to be.
#[inline(never)]
fn take_any<'a, S: DeliverySink>(
    session: &mut Receiver,
    now: Nanos,
    from: SocketAddrV4,
    bare: &'a [u8],
    len: usize,
    sink: &mut S,
) -> Result<Option<Arrived<'a>>, WireError> {
    let (bare, run) = if session.watches_runs() { RunId::split(bare) } else { (bare, None) };
    let packet = Packet::parse(bare)?;
    let (source, phase) = (session.transport().connection.key.source, session.phase());
    if from != source || phase == Phase::Ended {
        let (found, limit) = (from.ip().to_bits(), source.ip().to_bits());
        return Err(WireError::Inconsistent { part: Part::LbtruHeader, found, limit });
    }
    let knows_runs = session.knows_runs();
    let Subscriber { connection, counters } = session.transport_mut();
    if packet.body == Body::Reset {
        counters.connection.rsts_rcved.inc();
        connection.doubt(now);
        return Ok(None);
    }
    let is_answer = matches!(packet.body, Body::SessionMessage { .. }) && packet.flags & FLAG_SYN != 0;
    let right = if is_answer {
        connection.is_answered_by(packet.options)
    } else {
        packet.options.session_id == connection.session_id
    };
    if !right {
        if is_answer && connection.is_answered_by_another(packet.options) {
            connection.doubt(now);
        }
        let (found, limit) = (packet.options.session_id, connection.session_id);
        let (found, limit) = (found.unwrap_or(0), limit.unwrap_or(0));
        return Err(WireError::Inconsistent { part: Part::LbtruSession, found, limit });
    }
    if phase == Phase::Waiting && !is_answer {
        // A source that was started again may take a receiver of its last run for connected, and rightly so.
        if run.is_none() || !knows_runs {
            counters.connection.dgrams_dropped_early.inc();
            return Ok(None);
        }
    }
    if session.watches_runs() {
        let end = match packet.body {
            Body::Data { sqn, .. } if !packet.is_retransmission() => Some(sqn.next()),
            Body::SessionMessage { lead_sqn, .. } => Some(lead_sqn.next()),
            _ => None,
        };
        if !session.is_of_this_run(now, run, end, sink) {
            return Ok(None);
        }
        if phase == Phase::Waiting && !is_answer {
            session.transport_mut().connection.answered(now);
        }
    }
    match packet.body {
        Body::Data { .. } => return Ok(arrived(&packet, len)),
        Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn } => {
            if is_answer {
                session.transport().counters.connection.syns_rcved.inc();
                session.transport_mut().connection.answered(now);
                session.name_session(session.transport().session_name());
            } else {
                session.transport_mut().connection.confirmed();
            }
            session.on_session_message(now, lead_sqn, trail_sqn, sink)?;
            session.on_pulse(now, sm_sqn, packet.rest);
        }
        Body::Ncf { trail_sqn, reason, numbers, .. } => session.on_ncf(now, reason, trail_sqn, numbers, sink),
        Body::Nak { .. } | Body::Ack { .. } | Body::ConnectRequest | Body::Reset => {
            return Err(WireError::Unsupported { part: Part::LbtruType, found: 0, limit: 0 });
        }
    }
    note_heard(session, now);
    Ok(None)
}

/// The data of a packet that is some, in a datagram of `len` bytes.
#[inline]
fn arrived<'a>(packet: &Packet<'a>, len: usize) -> Option<Arrived<'a>> {
    let Body::Data { sqn, trail_sqn: trail } = packet.body else { return None };
    Some(Arrived { sqn, trail, again: packet.is_retransmission(), messages: packet.rest, len })
}

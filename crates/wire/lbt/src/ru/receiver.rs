use super::connection::{Connection, SessionKey};
use crate::authentication::{Keys, SEAL_LEN, Sealer};
use crate::config::{ConfigError, LbtruReceiverConfig};
use crate::delivery::{EndReason, Sink};
use crate::encryption::{PayloadKeys, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, Arrived, Feedback, NAK_NUMBERS_MAX, Phase, RunId, tally};
use crate::wire::lbtru::{self, Body, FLAG_SYN, HEADER_LEN, OPTION_LEN, Options, Packet};
use counters::table::{LbmDelivery, LbtruReceiver};
use std::net::SocketAddrV4;
use std::sync::Arc;
use units::Nanos;

/// The receiving side of one LBT-RU transport session.
pub type Receiver = session::Receiver<Subscriber>;

/// What the receiver of an LBT-RU session has of its own: the connection to the source.
pub struct Subscriber {
    connection: Connection,
    /// Checks what comes in and signs what goes out, where that is wanted.
    sealer: Option<Box<Sealer>>,
    /// What is being handed out.
    out: Vec<u8>,
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
        let out = Vec::with_capacity(HEADER_LEN + 4 + 4 * NAK_NUMBERS_MAX + OPTION_LEN + SEAL_LEN);
        let session = counters.session.clone();
        let transport = Subscriber { connection, sealer: None, out, counters };
        Receiver::with_transport(&config.session, transport, seed, now, session, delivery_counters)
    }

    /// Takes only what is signed from now on, and signs what it sends.
    pub fn authenticate(&mut self, keys: Keys) {
        let source = *self.transport.connection.key.source.ip();
        self.transport.sealer = Some(Box::new(Sealer::new(keys, source)));
    }

    /// Goes on with other keys, if it has some at all: what is signed from now on is signed with the new one, and
    /// only what is signed with one of `keys` is taken.
    pub fn rekey(&mut self, keys: Keys) {
        Sealer::rekey(&mut self.transport.sealer, keys);
    }

    /// Takes only messages that are encrypted from now on.
    pub fn decrypt(&mut self, keys: PayloadKeys) {
        self.decrypt_as(self.session_name(), keys);
    }

    fn session_name(&self) -> SessionName {
        let Connection { key, session_id, .. } = &self.transport.connection;
        SessionName::ru(key.source, session_id.unwrap_or(0))
    }

    /// Takes a datagram that arrived at the receiver's port.
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
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// A datagram was not taken.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: WireError) -> WireError {
        if matches!(error, WireError::Inconsistent { part: Part::LbtruSession, .. }) {
            self.transport.counters.connection.dgrams_dropped_sid.inc();
            return error;
        }
        if error == WireError::NoPayloadKeys {
            // It was of the session, and its number was taken.
            self.transport.connection.confirmed();
            self.transport.connection.heard();
        }
        tally::dropped(&self.counters, &error);
        error
    }

    #[inline]
    fn take<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let len = datagram.len();
        let bare = match &self.transport.sealer {
            None => datagram,
            Some(sealer) => sealer.open(datagram)?,
        };
        let arrived = match self.usual(from, bare, len) {
            Some(arrived) => arrived,
            None => match self.take_any(now, from, bare, len, sink)? {
                Some(arrived) => arrived,
                None => return Ok(()),
            },
        };
        self.on_data(now, arrived, sink)?;
        self.transport.connection.confirmed();
        self.note_heard(now);
        Ok(())
    }

    /// Data in the midst of a session without runs, which is nearly all that comes.
    #[inline]
    fn usual<'a>(&self, from: SocketAddrV4, bare: &'a [u8], len: usize) -> Option<Arrived<'a>> {
        let (connection, packet) = (&self.transport.connection, Packet::usual(bare)?);
        let is_of_session =
            from == connection.key.source && packet.options.session_id == connection.session_id;
        if !is_of_session || self.phase() != Phase::Live || self.watches_runs() {
            return None;
        }
        arrived(&packet, len)
    }

    /// The session was heard.
    #[inline]
    fn note_heard(&mut self, now: Nanos) {
        self.heard = now;
        if self.transport.connection.heard() {
            self.transport.counters.connection.rsts_outlived.inc();
        }
    }

    /// Takes whatever may come; data is returned, to be taken, if it is to be.
    #[inline(never)]
    fn take_any<'a, S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        bare: &'a [u8],
        len: usize,
        sink: &mut S,
    ) -> Result<Option<Arrived<'a>>, WireError> {
        let (bare, run) = if self.watches_runs() { RunId::split(bare) } else { (bare, None) };
        let packet = Packet::parse(bare)?;
        let (source, phase) = (self.transport.connection.key.source, self.phase());
        if from != source || phase == Phase::Ended {
            let (found, limit) = (from.ip().to_bits(), source.ip().to_bits());
            return Err(WireError::Inconsistent { part: Part::LbtruHeader, found, limit });
        }
        let Subscriber { connection, counters, .. } = &mut self.transport;
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
            if run.is_none() || !self.knows_runs() {
                self.transport.counters.connection.dgrams_dropped_early.inc();
                return Ok(None);
            }
        }
        if self.watches_runs() {
            let end = match packet.body {
                Body::Data { sqn, .. } if !packet.is_retransmission() => Some(sqn.next()),
                Body::SessionMessage { lead_sqn, .. } => Some(lead_sqn.next()),
                _ => None,
            };
            if !self.is_of_this_run(now, run, end, sink) {
                return Ok(None);
            }
            if phase == Phase::Waiting && !is_answer {
                self.transport.connection.answered(now);
            }
        }
        match packet.body {
            Body::Data { .. } => return Ok(arrived(&packet, len)),
            Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn } => {
                if is_answer {
                    self.transport.counters.connection.syns_rcved.inc();
                    self.transport.connection.answered(now);
                    self.name_session(self.session_name());
                } else {
                    self.transport.connection.confirmed();
                }
                self.on_session_message(now, lead_sqn, trail_sqn, sink)?;
                self.on_pulse(now, sm_sqn, packet.rest);
            }
            Body::Ncf { trail_sqn, reason, numbers, .. } => {
                self.on_ncf(now, reason, trail_sqn, numbers, sink)
            }
            Body::Nak { .. } | Body::Ack { .. } | Body::ConnectRequest | Body::Reset => {
                return Err(WireError::Unsupported { part: Part::LbtruType, found: 0, limit: 0 });
            }
        }
        self.note_heard(now);
        Ok(None)
    }

    /// Does what is due: gives up what is too old; ends a session that nobody answers for, that fell silent,
    /// or that was reset. What is to be sent comes out of [`Receiver::poll_transmit`] afterwards.
    pub fn on_wakeup<S: Sink>(&mut self, now: Nanos, sink: &mut S) {
        if self.phase() == Phase::Live {
            self.age(now, sink);
        }
        if self.phase() == Phase::Ended {
            return;
        }
        if self.transport.connection.is_reset(now) {
            self.end(EndReason::Reset, sink);
        } else if self.transport.connection.has_failed(now) {
            self.end(EndReason::TimedOut, sink);
        }
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile: nobody is given up for the
    /// silence of that time alone.
    pub fn after_pause(&mut self, now: Nanos) {
        self.pardon(now, self.activity);
        self.transport.connection.after_pause(now);
    }

    /// The next connect request, sign of life, NAK, report or answer to send, if one is due; to be called until
    /// there is none.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Feedback<'_>> {
        if self.phase() == Phase::Ended || !(self.write_due(now) || self.write_nak(now)) {
            return None;
        }
        let Subscriber { sealer, out, .. } = &mut self.transport;
        if let Some(sealer) = sealer {
            sealer.append(out);
        }
        let to = self.transport.connection.key.source;
        Some(Feedback { to, datagram: &self.transport.out, is_second: false })
    }

    /// What tells the source that this receiver leaves, since its session is over or it wants no more of it; once.
    /// The source forgets it then, and does not wait for it when it closes.
    pub fn leave(&mut self) -> Option<Feedback<'_>> {
        let highest = self.highest();
        let Subscriber { connection, sealer, out, counters } = &mut self.transport;
        if !connection.write_leave(highest, out, &counters.connection) {
            return None;
        }
        if let Some(sealer) = sealer {
            sealer.append(out);
        }
        let to = connection.key.source;
        Some(Feedback { to, datagram: &self.transport.out, is_second: false })
    }

    fn write_due(&mut self, now: Nanos) -> bool {
        let highest = self.highest();
        let Subscriber { connection, out, counters, .. } = &mut self.transport;
        connection.write_due(now, highest, out, &counters.connection)
    }

    /// Writes a NAK; if there is none, what is said without.
    fn write_nak(&mut self, now: Nanos) -> bool {
        let has_naks = !self.next_naks(now).is_empty();
        let said = if has_naks { None } else { self.next_said(now) };
        if !has_naks && said.is_none() {
            return false;
        }
        let Subscriber { connection, out, .. } = &mut self.transport;
        out.clear();
        let naks = if has_naks { &self.naks[..] } else { &[] };
        lbtru::emit_nak(Options::session(connection.session_id), naks, out);
        if let Some(said) = said {
            said.emit(out);
        }
        true
    }

    /// When [`Receiver::on_wakeup`] and [`Receiver::poll_transmit`] are to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        match self.phase() {
            Phase::Ended => Nanos::NEVER,
            Phase::Waiting => self.transport.connection.due(),
            Phase::Live => self.live_due().min(self.transport.connection.due()),
        }
    }

    /// The session.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        self.transport.connection.key
    }

    /// Memory held: loss map, held datagrams, messages being put together, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.parts_memory_bytes() + self.transport.out.capacity()
    }
}

/// The data of a packet that is some, in a datagram of `len` bytes.
#[inline]
fn arrived<'a>(packet: &Packet<'a>, len: usize) -> Option<Arrived<'a>> {
    let Body::Data { sqn, trail_sqn: trail } = packet.body else { return None };
    Some(Arrived { sqn, trail, again: packet.is_retransmission(), messages: packet.rest, len })
}

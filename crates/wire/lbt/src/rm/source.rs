use super::crybaby::{AskedBy, Askers, SourceEvent};
use crate::config::{ConfigError, SourceConfig};
use crate::encryption::{PayloadKeys, Salt, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, Packer, Retransmitter, Share, SourceTransport, Transmit, Transmitter};
use crate::wire::lbtrm::{
    DATA_FLAGS_AT, DATA_HEADER_LEN, DATA_TRAIL_AT, Data, FLAG_RETRANSMISSION, NCF_HEADER_LEN, Ncf, Packet,
    SessionHeader, SessionMessage,
};
use crate::wire::list::SqnList;
use counters::table::LbtrmSource;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use units::{Nanos, Sqn};

/// The sending side of one LBT-RM transport session; what it sends goes to the session's group.
pub type Source = session::Source<Multicast>;

/// Room for one message of an LBT-RM session.
pub type Claim<'a> = session::Claim<'a, Multicast>;

/// What an LBT-RM session has of its own: one group, which hears every answer.
pub struct Multicast {
    session: SessionHeader,
    repeats: Retransmitter,
    askers: Askers,
    lent: Lent,
    /// A session message or NAK confirmation being handed out.
    control: Vec<u8>,
}

/// What [`Source::poll_transmit`] handed out last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    Nothing,
    Ncfs { count: usize },
    SessionMessage,
    Repeats { count: u32 },
    Data { count: u32 },
}

impl SourceTransport for Multicast {
    const DATA_HEADER_LEN: usize = DATA_HEADER_LEN;

    #[inline]
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]) {
        let out = out.first_chunk_mut().expect("as long as the header");
        Data::new(self.session, sqn, trail).emit_header(out);
    }

    fn mark_retransmission(trail: Sqn, datagram: &mut [u8]) {
        datagram[DATA_TRAIL_AT..DATA_TRAIL_AT + 4].copy_from_slice(&trail.0.to_be_bytes());
        datagram[DATA_FLAGS_AT] |= FLAG_RETRANSMISSION;
    }

    fn forget_lent(&mut self) {
        self.lent = Lent::Nothing;
    }

    fn prefault(&mut self) {
        self.repeats.prefault();
    }

    /// NAKs of other sessions and other types are counted and dropped.
    fn on_datagram(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        _: bool,
    ) -> Result<(), WireError> {
        let datagram = packer.end().open(datagram, transmitter.counters())?;
        let packet =
            Packet::parse(datagram).inspect_err(|_| transmitter.counters().nak_pckts_dropped.inc())?;
        match packet {
            Packet::Nak(nak) if nak.session == self.session && nak.numbers.is_empty() => {
                if !transmitter.on_answer(from, nak.trailer)
                    && transmitter.on_report(now, nak.trailer, packer.window().unsent())
                {
                    self.askers.tell(SourceEvent::TooSlow { address: from });
                }
                Ok(())
            }
            Packet::Nak(nak) if nak.session == self.session && nak.is_selective() => {
                self.on_nak(packer, transmitter, now, from, nak.numbers);
                Ok(())
            }
            Packet::Nak(nak) if nak.session != self.session => {
                transmitter.counters().nak_pckts_dropped.inc();
                let (found, limit) = (nak.session.session_id, self.session.session_id);
                Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit })
            }
            _ => {
                transmitter.counters().nak_pckts_dropped.inc();
                Ok(())
            }
        }
    }

    fn sent(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos, count: u32) {
        match std::mem::replace(&mut self.lent, Lent::Nothing) {
            _ if count == 0 => {}
            Lent::Data { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                let bytes = packer.mark_sent(now, count);
                transmitter.data_went_out(now, count, bytes);
                transmitter.show_window(packer.window());
                transmitter.note_sent(bytes, count);
            }
            Lent::Repeats { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                let bytes = (0..count).map(|_| self.repeats.mark_sent(now, packer.window())).sum();
                transmitter.counters().rctlr_rx_msgs.set(self.repeats.queued() as u64);
                transmitter.repeats_went_out(now, count, bytes);
                transmitter.note_sent(bytes, count);
            }
            Lent::Ncfs { count: numbers } => {
                self.repeats.drop_ncfs(numbers);
                transmitter.counters().ncfs_sent.add(numbers as u64);
                transmitter.begin_silence(now);
            }
            Lent::SessionMessage => {
                transmitter.counters().sms_sent.inc();
                transmitter.session_message_went_out(now, self.control.len() as u64);
            }
            Lent::Nothing => panic!("{count} datagrams were sent and none were handed out"),
        }
    }

    fn next_due(&self, packer: &Packer, transmitter: &Transmitter) -> Nanos {
        let transmit = if self.repeats.has_ncfs() {
            Nanos::ZERO
        } else {
            let repeat = self.repeats.front_len().map_or(Nanos::NEVER, |len| transmitter.repeat_due(len));
            repeat.min(transmitter.data_due(packer.window()))
        };
        transmit.min(transmitter.silence_due()).min(transmitter.pulse_due())
    }

    fn owes_answers(&self) -> bool {
        self.repeats.queued() > 0 || self.repeats.has_ncfs()
    }

    #[inline]
    fn is_idle(&self) -> bool {
        !self.owes_answers()
    }

    fn memory_bytes(&self) -> usize {
        self.repeats.memory_bytes() + self.askers.memory_bytes() + self.control.capacity()
    }
}

impl Multicast {
    fn on_nak(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        numbers: SqnList<'_>,
    ) {
        let Multicast { repeats, askers, .. } = self;
        repeats.set_round_trip(transmitter.on_nak(now, numbers.len()));
        let room = transmitter.repeat_room(now);
        let counters = transmitter.counters();
        counters.nak_pckts_rcved.inc();
        let (asker, evicted) = askers.enter(now, from, numbers.len() as u64);
        counters.nak_senders_evicted.add(u64::from(evicted));
        let mut asking = askers.share(now, asker);
        let share = asking.as_mut().map(|a| a as &mut dyn Share);
        repeats.on_nak(now, numbers, packer.window(), room, share, counters);
        counters.rctlr_rx_msgs.set(repeats.queued() as u64);
    }

    fn next_repeats(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
    ) -> Option<session::Run> {
        let (bytes_max, count_max) = (transmitter.repeat_bytes_max(now), transmitter.run_count_max());
        let (first, run) = self.repeats.next_run(packer.window(), count_max, bytes_max)?;
        packer.mark_retransmissions::<Multicast>(first, run.count);
        Some(run)
    }

    fn lend_ncfs(&mut self, packer: &Packer) -> Option<Transmit<'_>> {
        let count_max = packer.control_max(NCF_HEADER_LEN) / 4;
        let (reason, numbers) = self.repeats.first_ncfs(count_max)?;
        self.control.clear();
        Ncf::emit(self.session, packer.window().trail(), reason, numbers, &mut self.control);
        packer.end().append(&mut self.control);
        self.lent = Lent::Ncfs { count: numbers.len() };
        Some(Transmit::one(&self.control))
    }

    fn lend_session_message(
        &mut self,
        packer: &Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
    ) -> Transmit<'_> {
        let (lead, trail) = (packer.window().unsent().prev(), packer.window().trail());
        let sm_sqn = transmitter.sm_sqn();
        self.control.clear();
        SessionMessage::new(self.session, sm_sqn, lead, trail).emit(&mut self.control);
        transmitter.emit_pulse(now, sm_sqn, &mut self.control);
        packer.end().append(&mut self.control);
        self.lent = Lent::SessionMessage;
        Transmit::one(&self.control)
    }
}

impl Source {
    /// A session with no topics yet. `session` holds the port at which NAKs are received and an id that is
    /// drawn anew for each session.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &SourceConfig,
        session: SessionHeader,
        now: Nanos,
        counters: Arc<LbtrmSource>,
    ) -> Result<Source, ConfigError> {
        Source::starting_at(config, session, Sqn(0), now, counters)
    }

    /// The same with another number for the first datagram. Sessions begin at 0; a test of the wrap does not.
    ///
    /// # Errors
    /// As [`Source::new`].
    pub fn starting_at(
        config: &SourceConfig,
        session: SessionHeader,
        first: Sqn,
        now: Nanos,
        counters: Arc<LbtrmSource>,
    ) -> Result<Source, ConfigError> {
        config.check()?;
        let transport = Multicast {
            session,
            repeats: Retransmitter::new(config, session::window_slots(config)),
            askers: Askers::new(config),
            lent: Lent::Nothing,
            control: Vec::with_capacity(config.datagram_max_size as usize),
        };
        Source::with_transport(config, transport, first, now, counters.session.clone())
    }

    /// Encrypts all messages, from the first one on. `address` is the one that receivers see these datagrams come from
    /// (on the first of two networks); `salt` is drawn anew for each source, as [`Salt`] says.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn encrypt(&mut self, keys: &PayloadKeys, address: Ipv4Addr, salt: Salt) {
        let SessionHeader { ucast_port, session_id } = self.transport().session;
        self.encrypt_as(SessionName::rm(SocketAddrV4::new(address, ucast_port), session_id), keys, salt);
    }

    /// The receivers that ask for retransmissions: at most 256, in no order. One that was silent longest makes room for
    /// another.
    pub fn askers(&self) -> impl Iterator<Item = AskedBy> + '_ {
        self.transport().askers.all()
    }

    /// What there is to tell about receivers, one event after the other; to be asked now and then. At most 16
    /// wait.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.parts().0.askers.poll_event()
    }

    /// What to send to the group now: NAK confirmations first, then a session message that congestion control
    /// wants, retransmissions, new data, a session message after silence.
    ///
    /// After sending, in whole or in part, [`Source::sent`] says so; without it the same is handed out
    /// again. `None` until [`Source::next_wakeup`], a NAK, or a flush.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (transport, packer, transmitter) = self.parts();
        transport.lent = Lent::Nothing;
        if transport.repeats.has_ncfs() {
            return transport.lend_ncfs(packer);
        }
        if transmitter.pulse_due() <= now {
            return Some(transport.lend_session_message(packer, transmitter, now));
        }
        if transport.repeats.queued() > 0
            && let Some(run) = transport.next_repeats(packer, transmitter, now)
        {
            transport.lent = Lent::Repeats { count: run.count };
            return Some(packer.lend(run));
        }
        if let Some(run) = transmitter.next_data(now, packer.window()) {
            transport.lent = Lent::Data { count: run.count };
            return Some(packer.lend(run));
        }
        let is_silent = transmitter.silence_due() <= now;
        is_silent.then(|| transport.lend_session_message(packer, transmitter, now))
    }

    /// The session, as it stands in every datagram and in advertisements.
    #[must_use]
    pub fn session(&self) -> SessionHeader {
        self.transport().session
    }
}

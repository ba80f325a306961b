use super::crybaby::{AskedBy, Askers, SourceEvent};
use crate::authentication::{Keys, Sealer};
use crate::config::{ConfigError, SourceConfig};
use crate::encryption::{PayloadKeys, Salt, SessionName};
use crate::error::{Part, WireError};
use crate::session::{self, DatagramEnd, Framing, Retransmitter, RunId, Share, Transmit};
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
    pub(super) repeats: Retransmitter,
    pub(super) askers: Askers,
    /// Signs what goes out and checks what comes in, where that is wanted, and says the run.
    ending: DatagramEnd,
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

impl Framing for Multicast {
    const DATA_HEADER_LEN: usize = DATA_HEADER_LEN;

    #[inline]
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]) {
        let out = out.first_chunk_mut().expect("as long as the header");
        Data::new(self.session, sqn, trail).emit_header(out);
    }

    #[inline]
    fn seal_len(&self) -> usize {
        self.ending.len()
    }

    fn seal(&self, datagram: &mut [u8]) {
        self.ending.write(datagram);
    }

    fn mark_retransmission(trail: Sqn, datagram: &mut [u8]) {
        datagram[DATA_TRAIL_AT..DATA_TRAIL_AT + 4].copy_from_slice(&trail.0.to_be_bytes());
        datagram[DATA_FLAGS_AT] |= FLAG_RETRANSMISSION;
    }

    fn forget_lent(&mut self) {
        self.lent = Lent::Nothing;
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
            ending: DatagramEnd::default(),
            lent: Lent::Nothing,
            control: Vec::with_capacity(config.datagram_max_size as usize),
        };
        Source::with_transport(config, transport, first, now, counters)
    }

    /// Signs all datagrams from now on, and takes only NAKs and reports that are signed. `address` is the one
    /// that receivers see these datagrams come from.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn authenticate(&mut self, keys: Keys, address: Ipv4Addr) {
        assert!(self.is_untouched(), "a session is signed from its first datagram on");
        self.transport.ending.authenticate(Sealer::new(keys, address));
    }

    /// Says in every datagram which run of the source it is, so that receivers of a session that keeps its id know
    /// when it was started again. `run` is drawn anew at each start.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn set_run(&mut self, run: RunId) {
        assert!(self.is_untouched(), "a run is said from its first datagram on");
        self.transport.ending.set_run(run);
    }

    /// Goes on with other keys, if it has some at all: what is signed from now on is signed with the new one, and
    /// only what is signed with one of `keys` is taken.
    pub fn rekey(&mut self, keys: Keys) {
        Sealer::rekey(self.transport.ending.sealer_mut(), keys);
    }

    /// Encrypts all messages, from the first one on. `address` is the one that receivers see these datagrams come from
    /// (on the first of two networks); `salt` is drawn anew for each source, as [`Salt`] says.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn encrypt(&mut self, keys: &PayloadKeys, address: Ipv4Addr, salt: Salt) {
        let SessionHeader { ucast_port, session_id } = self.transport.session;
        self.encrypt_as(SessionName::rm(SocketAddrV4::new(address, ucast_port), session_id), keys, salt);
    }

    /// Writes the whole window once, so that no page of it is first touched while sending.
    pub fn prefault(&mut self) {
        if self.is_untouched() {
            self.window.prefault();
            self.transport.repeats.prefault();
        }
    }

    /// Takes a datagram that arrived at the unicast port, `from` whom.
    ///
    /// # Errors
    /// It is no LBT-RM datagram, or not signed as it must be. NAKs of other sessions and other types are
    /// counted and dropped.
    pub fn on_datagram(&mut self, now: Nanos, from: SocketAddrV4, datagram: &[u8]) -> Result<(), WireError> {
        let datagram = match self.transport.ending.sealer() {
            None => datagram,
            Some(sealer) => {
                sealer.open(datagram).inspect_err(|_| self.counters.nak_pckts_unauthentic.inc())?
            }
        };
        let packet = Packet::parse(datagram).inspect_err(|_| self.counters.nak_pckts_dropped.inc())?;
        match packet {
            Packet::Nak(nak) if nak.session == self.transport.session && nak.numbers.is_empty() => {
                if !self.on_answer(from, nak.trailer) && self.on_report(now, nak.trailer) {
                    self.transport.askers.tell(SourceEvent::TooSlow { address: from });
                }
                Ok(())
            }
            Packet::Nak(nak) if nak.session == self.transport.session && nak.is_selective() => {
                self.on_nak(now, from, nak.numbers);
                Ok(())
            }
            Packet::Nak(nak) if nak.session != self.transport.session => {
                self.counters.nak_pckts_dropped.inc();
                let (found, limit) = (nak.session.session_id, self.transport.session.session_id);
                Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit })
            }
            _ => {
                self.counters.nak_pckts_dropped.inc();
                Ok(())
            }
        }
    }

    fn on_nak(&mut self, now: Nanos, from: SocketAddrV4, numbers: SqnList<'_>) {
        self.counters.nak_pckts_rcved.inc();
        self.asked = now;
        self.note_naks(numbers.len());
        let repair_time = self.repair_time();
        let Multicast { repeats, askers, .. } = &mut self.transport;
        repeats.set_round_trip(repair_time);
        let (asker, evicted) = askers.enter(now, from, numbers.len() as u64);
        self.counters.nak_senders_evicted.add(u64::from(evicted));
        let mut asking = askers.share(now, asker);
        let share = asking.as_mut().map(|a| a as &mut dyn Share);
        repeats.on_nak(now, numbers, &self.window, &mut self.repeat_limit, share, &self.counters);
        self.counters.rctlr_rx_msgs.set(repeats.queued() as u64);
    }

    /// The receivers that ask for retransmissions: at most 256, in no order. One that was silent longest makes room for
    /// another.
    pub fn askers(&self) -> impl Iterator<Item = AskedBy> + '_ {
        self.transport.askers.all()
    }

    /// What there is to tell about receivers, one event after the other; to be asked now and then. At most 16
    /// wait.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.transport.askers.poll_event()
    }

    /// What to send to the group now: NAK confirmations first, then a session message that congestion control
    /// wants, retransmissions, new data, a session message after silence.
    ///
    /// After sending, in whole or in part, [`Source::sent`] says so; without it the same is handed out
    /// again. `None` until [`Source::next_wakeup`], a NAK, or a flush.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        self.transport.lent = Lent::Nothing;
        if self.transport.repeats.has_ncfs() {
            return self.lend_ncfs();
        }
        if self.pulse_due() <= now {
            return Some(self.lend_session_message(now));
        }
        if self.transport.repeats.queued() > 0
            && let Some(run) = self.next_repeats(now)
        {
            self.transport.lent = Lent::Repeats { count: run.count };
            return Some(self.lend(run));
        }
        if let Some(run) = self.next_data(now) {
            self.transport.lent = Lent::Data { count: run.count };
            return Some(self.lend(run));
        }
        if self.schedule.due() <= now { Some(self.lend_session_message(now)) } else { None }
    }

    /// Takes the first `count` datagrams of what was handed out last as sent.
    ///
    /// # Panics
    /// If more are named than were handed out.
    pub fn sent(&mut self, now: Nanos, count: u32) {
        match std::mem::replace(&mut self.transport.lent, Lent::Nothing) {
            _ if count == 0 => {}
            Lent::Data { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                let bytes = self.mark_sent(now, count);
                self.data_went_out(now, count, bytes);
                self.note_sent(bytes, count);
            }
            Lent::Repeats { count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                let repeats = &mut self.transport.repeats;
                let bytes = (0..count).map(|_| repeats.mark_sent(now, &self.window)).sum();
                self.counters.rctlr_rx_msgs.set(repeats.queued() as u64);
                self.repeats_went_out(now, count, bytes);
                self.note_sent(bytes, count);
            }
            Lent::Ncfs { count: numbers } => {
                self.transport.repeats.drop_ncfs(numbers);
                self.counters.ncfs_sent.add(numbers as u64);
                self.schedule.on_datagram(now);
            }
            Lent::SessionMessage => {
                self.schedule.on_session_message(now);
                self.counters.sms_sent.inc();
                let bytes = self.transport.control.len() as u64;
                self.pulse_sent(now, bytes);
            }
            Lent::Nothing => panic!("{count} datagrams were sent and none were handed out"),
        }
    }

    /// Does what is due: closes a datagram whose oldest message has waited long enough, announces silent
    /// topics, goes on with ending the session.
    pub fn on_wakeup(&mut self, now: Nanos) {
        self.wake(now);
    }

    /// When [`Source::on_wakeup`] and [`Source::poll_transmit`] are to be called at the latest; in the past
    /// if there is something to transmit now.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let transmit = if self.transport.repeats.has_ncfs() {
            Nanos::ZERO
        } else {
            let repeat = self.transport.repeats.front_len().map_or(Nanos::NEVER, |len| self.repeat_due(len));
            repeat.min(self.data_due())
        };
        transmit.min(self.wakeup_due()).min(self.schedule.due()).min(self.pulse_due())
    }

    /// The session, as it stands in every datagram and in advertisements.
    #[must_use]
    pub fn session(&self) -> SessionHeader {
        self.transport.session
    }

    /// Whether a retransmission or a NAK confirmation waits to be sent.
    #[must_use]
    pub fn owes_answers(&self) -> bool {
        self.transport.repeats.queued() > 0 || self.transport.repeats.has_ncfs()
    }

    /// Memory held: window, queues, topics.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let Multicast { repeats, askers, control, .. } = &self.transport;
        let own = repeats.memory_bytes() + askers.memory_bytes() + control.capacity();
        self.parts_memory_bytes() + own
    }

    fn next_repeats(&mut self, now: Nanos) -> Option<session::Run> {
        let (bytes_max, count_max) = (self.repeat_bytes_max(now), self.run_count_max);
        let (first, run) = self.transport.repeats.next_run(&self.window, count_max, bytes_max)?;
        self.mark_retransmissions(first, run.count);
        Some(run)
    }

    fn lend_ncfs(&mut self) -> Option<Transmit<'_>> {
        let count_max = (self.datagram_max - NCF_HEADER_LEN - self.transport.seal_len()) / 4;
        let Multicast { session, repeats, control, lent, ending, .. } = &mut self.transport;
        let (reason, numbers) = repeats.first_ncfs(count_max)?;
        control.clear();
        Ncf::emit(*session, self.window.trail(), reason, numbers, control);
        ending.append(control);
        *lent = Lent::Ncfs { count: numbers.len() };
        Some(Transmit::one(control))
    }

    fn lend_session_message(&mut self, now: Nanos) -> Transmit<'_> {
        let (lead, trail) = (self.window.unsent().prev(), self.window.trail());
        let sm_sqn = self.schedule.sm_sqn();
        let mut control = std::mem::take(&mut self.transport.control);
        control.clear();
        SessionMessage::new(self.transport.session, sm_sqn, lead, trail).emit(&mut control);
        self.emit_pulse(now, sm_sqn, &mut control);
        self.transport.ending.append(&mut control);
        self.transport.control = control;
        self.transport.lent = Lent::SessionMessage;
        Transmit::one(&self.transport.control)
    }
}

mod packets;

use super::clients::{Client, ClientEvent, Clients};
use super::fan::{Fan, What};
use super::greeter::{Greeter, Reply};
use crate::authentication::{Keys, Sealer};
use crate::config::{ConfigError, LbtruSourceConfig, SourceConfig};
use crate::encryption::{PayloadKeys, Salt, SessionName};
use crate::session::{self, DatagramEnd, Framing, Retransmitter, RunId};
use crate::wire::lbtru::{
    self, Body, DATA_HEADER_LEN, DATA_TRAIL_AT, FLAG_RETRANSMISSION, FLAG_SYN, FLAGS_AT, NCF_LEN, Options,
    Packet,
};
use counters::table::LbtruSource;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use units::{Nanos, Sqn};

/// The sending side of one LBT-RU transport session; what it sends goes to each of its clients.
pub type Source = session::Source<Unicast>;

/// Room for one message of an LBT-RU session.
pub type Claim<'a> = session::Claim<'a, Unicast>;

/// What an LBT-RU session has of its own: its clients, and those who want to be.
pub struct Unicast {
    session_id: u32,
    clients: Clients,
    greeter: Greeter,
    fan: Fan,
    /// Signs what goes out and checks what comes in, where that is wanted, and says the run.
    ending: DatagramEnd,
    lent: Lent,
    /// The one address of what is being handed out, where it is not for all clients.
    to: [SocketAddrV4; 1],
    /// A reply or NAK confirmation being handed out.
    control: Vec<u8>,
    /// The session message that is going to one client after the other.
    session_message: Vec<u8>,
    /// What a client's retransmissions are made from.
    config: SourceConfig,
    counters: Arc<LbtruSource>,
}

/// Datagrams to be sent to each of some addresses: the first address gets all of them, then the second, and
/// so on. To each of them they have the shape UDP segmentation offload takes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: &'a [SocketAddrV4],
    /// The datagrams for each address.
    pub run: session::Transmit<'a>,
}

impl Transmit<'_> {
    /// Datagrams for all addresses together.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.to.len() as u32 * self.run.count
    }
}

/// What [`Source::poll_transmit`] handed out last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    Nothing,
    Reply,
    Ncfs {
        client: usize,
        count: usize,
    },
    Repeats {
        client: usize,
        count: u32,
    },
    /// `bytes` of `count` datagrams to each of some clients.
    Fan {
        count: u32,
        bytes: u64,
        clients: u32,
    },
}

impl Framing for Unicast {
    const DATA_HEADER_LEN: usize = DATA_HEADER_LEN;

    #[inline]
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]) {
        let out = out.first_chunk_mut().expect("as long as the header");
        lbtru::emit_data_header(self.session_id, sqn, trail, out);
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
        datagram[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&FLAG_RETRANSMISSION.to_be_bytes());
    }

    fn forget_lent(&mut self) {
        (self.lent, self.fan) = (Lent::Nothing, Fan::IDLE);
    }
}

impl Source {
    /// A session with no topics and no clients yet. `session_id` is drawn anew for each session; `seed` is
    /// anything others do not know.
    ///
    /// # Errors
    /// The first option that is out of range or contradicts another.
    pub fn new(
        config: &LbtruSourceConfig,
        session_id: u32,
        seed: u64,
        now: Nanos,
        counters: Arc<LbtruSource>,
    ) -> Result<Source, ConfigError> {
        Source::starting_at(config, session_id, seed, Sqn(0), now, counters)
    }

    /// The same with another number for the first datagram. Sessions begin at 0; a test of the wrap does not.
    ///
    /// # Errors
    /// As [`Source::new`].
    pub fn starting_at(
        config: &LbtruSourceConfig,
        session_id: u32,
        seed: u64,
        first: Sqn,
        now: Nanos,
        counters: Arc<LbtruSource>,
    ) -> Result<Source, ConfigError> {
        config.check()?;
        let timeout = config.client_activity_timeout;
        let datagram_max = config.session.datagram_max_size as usize;
        let transport = Unicast {
            session_id,
            clients: Clients::new(config.maximum_clients as usize, timeout),
            greeter: Greeter::new(seed, timeout),
            fan: Fan::IDLE,
            ending: DatagramEnd::default(),
            lent: Lent::Nothing,
            to: [SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)],
            control: Vec::with_capacity(datagram_max),
            session_message: Vec::with_capacity(64),
            config: config.session.clone(),
            counters: counters.clone(),
        };
        Source::with_transport(&config.session, transport, first, now, counters.session.clone())
    }

    /// Signs all datagrams from now on, and takes only those of receivers that are signed. `address` is the
    /// one that receivers see these datagrams come from.
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

    /// Encrypts all messages, from the first one on. `address` is the one that receivers see these datagrams come from;
    /// `salt` is drawn anew for each source, as [`Salt`] says.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn encrypt(&mut self, keys: &PayloadKeys, address: SocketAddrV4, salt: Salt) {
        self.encrypt_as(SessionName::ru(address, self.transport.session_id), keys, salt);
    }

    /// Writes the whole window once, so that no page of it is first touched while sending.
    pub fn prefault(&mut self) {
        if self.is_untouched() {
            self.window.prefault();
        }
    }

    /// The session's id, as it stands in every datagram and in advertisements.
    #[must_use]
    pub fn session_id(&self) -> u32 {
        self.transport.session_id
    }

    /// The clients, in the order in which they connected.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.transport.clients.iter()
    }

    /// How many clients have not said yet that they have heard of the last datagram that was sent.
    #[must_use]
    pub fn clients_behind(&self) -> usize {
        let last = self.window.unsent().prev();
        self.clients().filter(|client| client.acked.precedes(last)).count()
    }

    /// What happened to clients, oldest first; to be called until there is nothing. Two events for each
    /// client that is allowed are kept; further ones push out the oldest.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.transport.clients.poll_event()
    }

    /// What to send now: answers to requests first, then NAK confirmations, a session message that congestion
    /// control wants, retransmissions, new data, a session message after silence. While there is no client,
    /// new data goes nowhere; it can still be retransmitted.
    ///
    /// After sending, in whole or in part, and before anything else, [`Source::sent`] says so; without it
    /// the same is handed out again. `None` until [`Source::next_wakeup`], a datagram, or a flush.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        self.transport.lent = Lent::Nothing;
        if let Some((to, reply)) = self.transport.greeter.first() {
            return Some(self.lend_reply(to, reply));
        }
        let ncfs = self.transport.clients.busy().find(|(_, r)| r.has_ncfs()).map(|(at, _)| at);
        if let Some(at) = ncfs {
            return Some(self.lend_ncfs(at));
        }
        if self.transport.fan.what == What::Nothing && self.pulse_due() <= now {
            self.begin_session_message(now);
        }
        if self.transport.fan.what == What::SessionMessage {
            return self.fan_out(now);
        }
        if let Some((client, first, run)) = self.next_repeats(now) {
            self.mark_retransmissions(first, run.count);
            self.transport.lent = Lent::Repeats { client, count: run.count };
            self.transport.to = [self.transport.clients.addresses()[client]];
            return Some(Transmit { to: &self.transport.to, run: self.lend(run) });
        }
        self.fan_out(now)
    }

    /// Takes the first `count` datagrams of what was handed out last as sent, address by address.
    ///
    /// # Panics
    /// If more are named than were handed out.
    pub fn sent(&mut self, now: Nanos, count: u32) {
        match std::mem::replace(&mut self.transport.lent, Lent::Nothing) {
            _ if count == 0 => {}
            Lent::Reply => self.reply_sent(),
            Lent::Ncfs { client, count: numbers } => {
                if let Some(repeats) = self.transport.clients.repeats(client) {
                    repeats.drop_ncfs(numbers);
                }
                self.transport.clients.refresh(client);
                self.counters.ncfs_sent.add(numbers as u64);
            }
            Lent::Repeats { client, count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                self.repeats_sent(now, client, count);
            }
            Lent::Fan { count: lent, bytes, clients } => {
                assert!(count <= lent * clients, "{count} of {lent} datagrams to {clients} clients");
                let is_whole = count == lent * clients;
                let bytes = if is_whole { bytes * u64::from(clients) } else { self.fan_bytes(count) };
                debug_assert_eq!(bytes, self.fan_bytes(count));
                self.fan_sent(now, count, bytes);
            }
            Lent::Nothing => panic!("{count} datagrams were sent and none were handed out"),
        }
    }

    /// Does what is due: closes a datagram whose oldest message has waited long enough, announces silent
    /// topics, goes on with ending the session, drops clients that gave no sign of life.
    pub fn on_wakeup(&mut self, now: Nanos) {
        self.wake(now);
        while let Some(at) = self.transport.clients.overdue(now) {
            self.transport.counters.clients.clients_timed_out.inc();
            self.drop_client(at);
            self.share_rate(now);
        }
        self.end_fan(now);
    }

    /// Whoever drives this was stopped, and has taken what arrived meanwhile: clients that were stopped as well
    /// get a quarter of their time-out to give a sign of life.
    pub fn after_pause(&mut self, now: Nanos) {
        self.transport.clients.after_pause(now);
    }

    /// When [`Source::on_wakeup`] and [`Source::poll_transmit`] are to be called at the latest; in the past
    /// if there is something to transmit now.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        let transmit = if self.transport.greeter.first().is_some() {
            Nanos::ZERO
        } else {
            self.repeats_due().min(self.fan_due())
        };
        transmit.min(self.wakeup_due()).min(self.transport.clients.expiry())
    }

    /// Whether a retransmission or a NAK confirmation waits to be sent.
    #[must_use]
    pub fn owes_answers(&self) -> bool {
        self.transport.clients.queued() > 0 || self.transport.clients.busy().next().is_some()
    }

    /// Memory held: window, queues, topics, clients.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let own = self.transport.clients.memory_bytes() + self.transport.greeter.memory_bytes();
        let scratch = self.transport.control.capacity() + self.transport.session_message.capacity();
        self.parts_memory_bytes() + own + scratch
    }

    /// When a confirmation or a retransmission is to go to a client.
    fn repeats_due(&self) -> Nanos {
        if self.transport.clients.busy().any(|(_, r)| r.has_ncfs()) {
            return Nanos::ZERO;
        }
        // nobody overtakes the client whose turn it is, even if his datagram is shorter
        let first = self.transport.clients.busy().find_map(|(_, r)| r.front_len());
        first.map_or(Nanos::NEVER, |len| self.repeat_due(len))
    }

    /// When something is to go to all clients.
    fn fan_due(&self) -> Nanos {
        match self.transport.fan.what {
            _ if self.transport.clients.len() == 0 => self.data_due(),
            What::SessionMessage => Nanos::ZERO,
            What::Data(first) => {
                self.data_limit.ready_at(self.window.len_of(first.plus(self.transport.fan.done)))
            }
            What::Nothing => self.data_due().min(self.schedule.due()).min(self.pulse_due()),
        }
    }

    fn fan_out(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        if self.transport.clients.len() == 0 {
            self.pass_unheard(now);
            return None;
        }
        let mut fresh = None;
        if self.transport.fan.what == What::Nothing {
            let first = self.window.unsent();
            fresh = self.next_data(now);
            if let Some(run) = fresh {
                self.transport.fan = Fan::new(What::Data(first), run.count);
            } else if self.schedule.due() <= now {
                self.begin_session_message(now);
            }
        }
        let Fan { what, count, client, done } = self.transport.fan;
        let left = self.transport.clients.len() - client;
        let (run, clients) = match what {
            What::Nothing => return None,
            What::SessionMessage => (None, left),
            What::Data(first) => {
                let run = match fresh {
                    Some(run) => run,
                    None => {
                        let bytes_max = self.data_bytes_max(now);
                        self.window.run(first.plus(done), count - done, bytes_max)?
                    }
                };
                let whole = left > 1 && done == 0 && run.count == count;
                let mut affordable = || self.data_limit.available(now) / run.bytes as u64;
                let clients = if whole { left.min(usize::try_from(affordable()).unwrap_or(left)) } else { 1 };
                (Some(run), clients.max(1))
            }
        };
        let (count, bytes) = run.map_or((1, 0), |run| (run.count, run.bytes as u64));
        self.transport.lent = Lent::Fan { count, bytes, clients: clients as u32 };
        let to = &self.transport.clients.addresses()[client..client + clients];
        let message = || session::Transmit::one(&self.transport.session_message);
        Some(Transmit { to, run: run.map_or_else(message, |run| self.lend(run)) })
    }

    /// Bytes of the next `count` datagrams of data, client by client.
    #[cold]
    fn fan_bytes(&self, count: u32) -> u64 {
        let fan = self.transport.fan;
        let What::Data(first) = fan.what else { return 0 };
        (0..count).map(|i| self.window.len_of(first.plus((fan.done + i) % fan.count))).sum()
    }

    fn fan_sent(&mut self, now: Nanos, count: u32, bytes: u64) {
        if let What::Data(_) = self.transport.fan.what {
            self.data_went_out(now, count, bytes);
        } else {
            self.counters.sms_sent.add(u64::from(count));
        }
        self.transport.fan.advance(count);
        self.end_fan(now);
    }

    /// Goes on to the next datagrams if all clients have these.
    fn end_fan(&mut self, now: Nanos) {
        let fan = self.transport.fan;
        if fan.client < self.transport.clients.len() {
            return;
        }
        match fan.what {
            What::Nothing => {}
            What::SessionMessage => {
                self.schedule.on_session_message(now);
                self.pulse_sent(now, self.copies * self.transport.session_message.len() as u64);
            }
            What::Data(_) => {
                let bytes = self.mark_sent(now, fan.count);
                self.note_sent(bytes, fan.count);
                self.show_window();
            }
        }
        self.transport.fan = Fan::IDLE;
    }

    /// Nobody is there to hear what is new. It passes no faster than to a client, so that the window still
    /// holds the number that a receiver is told when its acknowledgement of it arrives.
    fn pass_unheard(&mut self, now: Nanos) {
        self.transport.fan = Fan::IDLE;
        while let Some(run) = self.next_data(now) {
            let bytes = self.mark_sent(now, run.count);
            self.data_limit.take(bytes);
            self.transport.counters.clients.unheard.add(u64::from(run.count));
            self.show_window();
        }
    }

    fn next_repeats(&mut self, now: Nanos) -> Option<(usize, Sqn, session::Run)> {
        loop {
            let (at, _) = self.transport.clients.busy().find(|(_, r)| r.queued() > 0)?;
            let (bytes_max, count_max) = (self.repeat_bytes_max(now), self.run_count_max);
            let repeats = self.transport.clients.repeats(at)?;
            if let Some((first, run)) = repeats.next_run(&self.window, count_max, bytes_max) {
                return Some((at, first, run));
            }
            if repeats.queued() > 0 {
                // the rate limit: the turn is kept
                return None;
            }
            self.transport.clients.refresh(at);
        }
    }

    fn repeats_sent(&mut self, now: Nanos, at: usize, count: u32) {
        let Some(repeats) = self.transport.clients.repeats(at) else { return };
        let bytes = (0..count).map(|_| repeats.mark_sent(now, &self.window)).sum();
        self.transport.clients.client_mut(at).rxs_sent += u64::from(count);
        self.transport.clients.refresh(at);
        self.transport.clients.pass_turn(at);
        self.note_sent(bytes / self.copies, count / self.copies as u32);
        self.repeats_went_out(now, count, bytes);
        self.counters.rctlr_rx_msgs.set(self.transport.clients.queued());
    }

    fn options(&self) -> Options {
        Options::session(Some(self.transport.session_id))
    }

    fn lend_ncfs(&mut self, at: usize) -> Transmit<'_> {
        let (options, trail) = (self.options(), self.window.trail());
        let count_max = (self.datagram_max - NCF_LEN - self.transport.seal_len()) / 4;
        let Unicast { clients, control, lent, to, ending, .. } = &mut self.transport;
        *to = [clients.addresses()[at]];
        let ncfs = clients.repeats(at).and_then(|r| r.first_ncfs(count_max));
        let (reason, numbers) = ncfs.expect("the caller found one");
        control.clear();
        lbtru::emit_ncf(options, trail, reason, numbers, control);
        ending.append(control);
        *lent = Lent::Ncfs { client: at, count: numbers.len() };
        Transmit { to, run: session::Transmit::one(control) }
    }

    fn lend_reply(&mut self, to: SocketAddrV4, reply: Reply) -> Transmit<'_> {
        let packet = match reply {
            Reply::Reset => Packet::new(Body::Reset, Options::default()),
            Reply::Syn { client_id } => {
                let body = self.session_message(self.schedule.sm_sqn());
                let options = Options { client_id, ..self.options() };
                Packet { flags: FLAG_SYN, ..Packet::new(body, options) }
            }
        };
        let Unicast { control, ending, .. } = &mut self.transport;
        control.clear();
        packet.emit(control);
        ending.append(control);
        self.transport.to = [to];
        self.transport.lent = Lent::Reply;
        Transmit { to: &self.transport.to, run: session::Transmit::one(&self.transport.control) }
    }

    fn reply_sent(&mut self) {
        let counters = &self.transport.counters.clients;
        match self.transport.greeter.drop_first() {
            Some((_, Reply::Syn { .. })) => counters.syns_sent.inc(),
            Some((_, Reply::Reset)) => counters.rsts_sent.inc(),
            None => {}
        }
    }

    /// Answers to requests bear the number of the last session message, so that no client sees a hole.
    fn begin_session_message(&mut self, now: Nanos) {
        let sm_sqn = self.schedule.sm_sqn().wrapping_add(1);
        let packet = Packet::new(self.session_message(sm_sqn), self.options());
        let mut out = std::mem::take(&mut self.transport.session_message);
        out.clear();
        packet.emit(&mut out);
        self.emit_pulse(now, sm_sqn, &mut out);
        self.transport.ending.append(&mut out);
        self.transport.session_message = out;
        self.transport.fan = Fan::new(What::SessionMessage, 1);
    }

    /// Clients came or went: what congestion control allows to one is allowed to each.
    fn share_rate(&mut self, now: Nanos) {
        self.copies = self.transport.clients.len().max(1) as u64;
        self.apply_rate(now);
    }

    fn session_message(&self, sm_sqn: u32) -> Body<'static> {
        let (lead_sqn, trail_sqn) = (self.window.unsent().prev(), self.window.trail());
        Body::SessionMessage { sm_sqn, lead_sqn, trail_sqn }
    }

    fn drop_client(&mut self, at: usize) {
        let (address, forgotten) = self.transport.clients.remove(at);
        self.transport.fan.removed(at);
        self.transport.lent = Lent::Nothing;
        let counters = self.transport.counters.clone();
        counters.clients.events_dropped.add(u64::from(forgotten));
        counters.clients.num_clients.set(self.transport.clients.len() as u64);
        self.reply(address, Reply::Reset);
    }

    fn reply(&mut self, to: SocketAddrV4, reply: Reply) {
        if !self.transport.greeter.reply(to, reply) {
            self.transport.counters.clients.replies_dropped.inc();
        }
    }

    fn new_repeats(config: &SourceConfig) -> Retransmitter {
        Retransmitter::new(config, config.retransmit_queue_maximum as usize)
    }
}

mod fan_out;
mod packets;

use super::clients::{Client, ClientEvent, Clients};
use super::fan::{Fan, What};
use super::greeter::Greeter;
use crate::config::{ConfigError, LbtruSourceConfig, SourceConfig};
use crate::encryption::{PayloadKeys, Salt, SessionName};
use crate::error::WireError;
use crate::session::{self, Packer, SourceTransport, Transmitter};
use crate::wire::lbtru::{self, DATA_HEADER_LEN, DATA_TRAIL_AT, FLAG_RETRANSMISSION, FLAGS_AT};
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

impl SourceTransport for Unicast {
    const DATA_HEADER_LEN: usize = DATA_HEADER_LEN;

    #[inline]
    fn emit_data_header(&self, sqn: Sqn, trail: Sqn, out: &mut [u8]) {
        let out = out.first_chunk_mut().expect("as long as the header");
        lbtru::emit_data_header(self.session_id, sqn, trail, out);
    }

    fn mark_retransmission(trail: Sqn, datagram: &mut [u8]) {
        datagram[DATA_TRAIL_AT..DATA_TRAIL_AT + 4].copy_from_slice(&trail.0.to_be_bytes());
        datagram[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&FLAG_RETRANSMISSION.to_be_bytes());
    }

    fn forget_lent(&mut self) {
        (self.lent, self.fan) = (Lent::Nothing, Fan::IDLE);
    }

    fn on_datagram(
        &mut self,
        packer: &mut Packer,
        transmitter: &mut Transmitter,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        is_ending: bool,
    ) -> Result<(), WireError> {
        self.take_packet(packer, transmitter, now, from, datagram, is_ending)
    }

    fn sent(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos, count: u32) {
        match std::mem::replace(&mut self.lent, Lent::Nothing) {
            _ if count == 0 => {}
            Lent::Reply => self.reply_sent(),
            Lent::Ncfs { client, count: numbers } => {
                if let Some(repeats) = self.clients.repeats(client) {
                    repeats.drop_ncfs(numbers);
                }
                self.clients.refresh(client);
                transmitter.counters().ncfs_sent.add(numbers as u64);
            }
            Lent::Repeats { client, count: lent } => {
                assert!(count <= lent, "{count} of {lent} datagrams");
                self.repeats_sent(packer, transmitter, now, client, count);
            }
            Lent::Fan { count: lent, bytes, clients } => {
                assert!(count <= lent * clients, "{count} of {lent} datagrams to {clients} clients");
                let is_whole = count == lent * clients;
                let bytes = if is_whole { bytes * u64::from(clients) } else { self.fan_bytes(packer, count) };
                debug_assert_eq!(bytes, self.fan_bytes(packer, count));
                self.fan_sent(packer, transmitter, now, count, bytes);
            }
            Lent::Nothing => panic!("{count} datagrams were sent and none were handed out"),
        }
    }

    /// Drops clients that gave no sign of life.
    fn on_wakeup(&mut self, packer: &mut Packer, transmitter: &mut Transmitter, now: Nanos) {
        while let Some(at) = self.clients.overdue(now) {
            self.counters.clients.clients_timed_out.inc();
            self.drop_client(at);
            self.share_rate(transmitter, now);
        }
        self.end_fan(packer, transmitter, now);
    }

    fn after_pause(&mut self, now: Nanos) {
        self.clients.after_pause(now);
    }

    fn next_due(&self, packer: &Packer, transmitter: &Transmitter) -> Nanos {
        let transmit = if self.greeter.first().is_some() {
            Nanos::ZERO
        } else {
            self.repeats_due(transmitter).min(self.fan_due(packer, transmitter))
        };
        transmit.min(self.clients.expiry())
    }

    fn owes_answers(&self) -> bool {
        self.clients.queued() > 0 || self.clients.busy().next().is_some()
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.fan.what == What::Nothing && self.greeter.first().is_none() && !self.owes_answers()
    }

    fn memory_bytes(&self) -> usize {
        let scratch = self.control.capacity() + self.session_message.capacity();
        self.clients.memory_bytes() + self.greeter.memory_bytes() + scratch
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
            lent: Lent::Nothing,
            to: [SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)],
            control: Vec::with_capacity(datagram_max),
            session_message: Vec::with_capacity(64),
            config: config.session.clone(),
            counters: counters.clone(),
        };
        Source::with_transport(&config.session, transport, first, now, counters.session.clone())
    }

    /// Encrypts all messages, from the first one on. `address` is the one that receivers see these datagrams come from;
    /// `salt` is drawn anew for each source, as [`Salt`] says.
    ///
    /// # Panics
    /// If a message was sent before.
    pub fn encrypt(&mut self, keys: &PayloadKeys, address: SocketAddrV4, salt: Salt) {
        self.encrypt_as(SessionName::ru(address, self.transport().session_id), keys, salt);
    }

    /// The session's id, as it stands in every datagram and in advertisements.
    #[must_use]
    pub fn session_id(&self) -> u32 {
        self.transport().session_id
    }

    /// The clients, in the order in which they connected.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.transport().clients.iter()
    }

    /// How many clients have not said yet that they have heard of the last datagram that was sent.
    #[must_use]
    pub fn clients_behind(&self) -> usize {
        let last = self.packer().window().unsent().prev();
        self.clients().filter(|client| client.acked.precedes(last)).count()
    }

    /// What happened to clients, oldest first; to be called until there is nothing. Two events for each
    /// client that is allowed are kept; further ones push out the oldest.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.parts().0.clients.poll_event()
    }

    /// What to send now: answers to requests first, then NAK confirmations, a session message that congestion
    /// control wants, retransmissions, new data, a session message after silence. While there is no client,
    /// new data goes nowhere; it can still be retransmitted.
    ///
    /// After sending, in whole or in part, and before anything else, [`Source::sent`] says so; without it
    /// the same is handed out again. `None` until [`Source::next_wakeup`], a datagram, or a flush.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (transport, packer, transmitter) = self.parts();
        transport.lent = Lent::Nothing;
        if let Some((to, reply)) = transport.greeter.first() {
            return Some(transport.lend_reply(packer, transmitter, to, reply));
        }
        let ncfs = transport.clients.busy().find(|(_, r)| r.has_ncfs()).map(|(at, _)| at);
        if let Some(at) = ncfs {
            return Some(transport.lend_ncfs(packer, at));
        }
        if transport.fan.what == What::Nothing && transmitter.pulse_due() <= now {
            transport.begin_session_message(packer, transmitter, now);
        }
        if transport.fan.what == What::SessionMessage {
            return transport.fan_out(packer, transmitter, now);
        }
        if let Some((client, first, run)) = transport.next_repeats(packer, transmitter, now) {
            packer.mark_retransmissions::<Unicast>(first, run.count);
            transport.lent = Lent::Repeats { client, count: run.count };
            transport.to = [transport.clients.addresses()[client]];
            return Some(Transmit { to: &transport.to, run: packer.lend(run) });
        }
        transport.fan_out(packer, transmitter, now)
    }
}
